//! The figures as a table, and as JSON lines.

use std::fmt::Write;

use anyhow::Result;

use super::figures::Figures;
use super::peaks::Peaks;

/// One JSON object a case.
///
/// # Errors
/// None in practice: the figures are plain numbers.
pub(super) fn json(all: &[Figures]) -> Result<String> {
    let mut text = String::new();
    for figures in all {
        text += &serde_json::to_string(figures)?;
        text.push('\n');
    }
    Ok(text)
}

/// One line a case, and what the columns are measured against.
///
/// # Errors
/// None in practice: writing to a string does not fail.
pub(super) fn table(all: &[Figures], peaks: &Peaks) -> Result<String> {
    let with_reference = all.iter().any(|f| f.reference.is_some());
    let with_peer = all.iter().any(|f| f.peer.is_some());
    let name = all.iter().map(|f| f.case.len()).max().unwrap_or(0);
    let mut text = String::new();
    write!(
        text,
        "{:name$} {:>9} {:>8} {:>10} {:>10} {:>8} {:>11} {:>8} {:>6} {:>9} {:>8} {:>7} {:>10} {:>7} {:>6}",
        "case",
        "path",
        "nodes",
        "ms min",
        "ms median",
        "us/node",
        "graphs/s",
        "peak MB",
        "memory",
        "GFLOP",
        "GFLOP/s",
        "GB/s",
        "limit ms",
        "x limit",
        "bound"
    )?;
    if with_reference {
        write!(text, " {:>12} {:>8}", "reference ms", "ratio")?;
    }
    if with_peer {
        write!(text, " {:>10} {:>8}", "peer ms", "ratio")?;
    }
    text.push('\n');
    for f in all {
        let peak = or_dash(f.peak_memory_mb, |mb| format!("{mb:.0}"));
        let memory = or_dash(f.memory.as_ref(), |m| format!("{:.2}x", m.ratio));
        write!(
            text,
            "{:name$} {:>9} {:>8} {:>10.3} {:>10.3} {:>8.3} {:>11.1} {peak:>8} {memory:>6}",
            f.case,
            f.path,
            f.nodes,
            f.milliseconds_min,
            f.milliseconds_median,
            f.microseconds_per_node,
            f.graphs_per_second,
        )?;
        match &f.achieved {
            Some(a) => write!(
                text,
                " {:>9.4} {:>8.1} {:>7.1} {:>10.3} {:>7.2} {:>6}",
                a.gflop,
                a.gflop_per_second,
                a.gigabytes_per_second,
                a.limit_milliseconds,
                a.times_limit,
                a.bound.name(),
            )?,
            None => write!(
                text,
                " {:>9} {:>8} {:>7} {:>10} {:>7} {:>6}",
                "-", "-", "-", "-", "-", "-"
            )?,
        }
        if with_reference {
            match &f.reference {
                Some(r) => write!(text, " {:>12.3} {:>7.1}x", r.milliseconds_median, r.ratio)?,
                None => write!(text, " {:>12} {:>8}", "-", "-")?,
            }
        }
        if with_peer {
            match &f.peer {
                Some(p) => write!(text, " {:>10.3} {:>7.1}x", p.milliseconds_median, p.ratio)?,
                None => write!(text, " {:>10} {:>8}", "-", "-")?,
            }
        }
        text.push('\n');
    }
    footer(&mut text, all, peaks)?;
    Ok(text)
}

fn footer(text: &mut String, all: &[Figures], peaks: &Peaks) -> Result<()> {
    writeln!(
        text,
        "peaks of {} ({} threads), measured now: {:.1} GFLOP/s in a {} product of {n} x {n} matrices, \
         {:.1} GB/s read and written in a copy of {} MiB",
        peaks.device,
        peaks.threads,
        peaks.gflop_per_second,
        peaks.dtype,
        peaks.gigabytes_per_second,
        peaks.copied_bytes >> 20,
        n = peaks.product_size,
    )?;
    if all.iter().any(|f| f.achieved.is_some()) {
        writeln!(
            text,
            "limit: the time of the case's FLOP at that peak; bound by memory where the bytes that its \
             operations take and give last longer at the rate of the copy"
        )?;
    }
    if all.iter().any(|f| f.memory.is_some()) {
        writeln!(
            text,
            "memory: the peak, less what the process held before, over inputs, weights and two states \
             of all node pairs"
        )?;
    }
    if let Some(peer) = all.iter().find_map(|f| f.peer.as_ref()) {
        writeln!(text, "peer: {}", peer.name)?;
    }
    Ok(())
}

fn or_dash<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_string(), text)
}
