//! `bench`: how long models take on this machine, and how near that is to what it can do.

mod cases;
mod figures;
mod memory;
mod peaks;
mod peer;
mod random;
mod roofline;
mod table;
mod target;
mod timing;
mod workload;

use anyhow::{Context, Result, bail};
use candle_graph::ops::force_reference;

use crate::args::BenchArgs;
use crate::console;
use crate::interrupt;

use cases::{Case, Work};
use figures::{Achieved, Figures, Memory, ReferenceFigures};
use peaks::Peaks;
use target::Target;
use timing::Effort;
use workload::Workload;

/// Runs the benchmark.
///
/// # Errors
/// No case has the wanted name, the device cannot do what is asked, a model fails, or the peer does.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let target = Target::open(args)?;
    let cases = wanted(args, &target)?;
    // A place that cannot be written shows before the work.
    let plot = args
        .roofline
        .as_deref()
        .map(interrupt::create)
        .transpose()?;
    let peaks = Peaks::measure(&target)?;
    // With threads and their buffers, which are no model's.
    let before = memory::resident();
    let all = (cases.iter())
        .map(|case| measure(case, args, &target, &peaks, before))
        .collect::<Result<Vec<_>>>()?;
    if let Some(plot) = plot {
        roofline::write(plot, &all, &peaks)?;
    }
    console::print(&match args.json {
        true => table::json(&all)?,
        false => table::table(&all, &peaks)?,
    })
}

/// The cases of the wanted name.
fn wanted(args: &BenchArgs, target: &Target) -> Result<Vec<Case>> {
    let named = |case: &Case| (args.case.as_ref()).is_none_or(|part| case.name.contains(part));
    let mut cases: Vec<Case> = cases::all().into_iter().filter(named).collect();
    if cases.is_empty() {
        bail!(
            "no case has {:?} in its name",
            args.case.as_deref().unwrap_or("")
        );
    }
    if !target.is_plain() {
        cases.retain(|case| matches!(case.work, Work::Forward(_)));
        if cases.is_empty() {
            bail!(
                "encodings are computed on the CPU in precisions of their own: time them with --device \
                 cpu --dtype f32"
            );
        }
    }
    Ok(cases)
}

/// Measures one case; the process held `before` bytes before the first.
fn measure(
    case: &Case,
    args: &BenchArgs,
    target: &Target,
    peaks: &Peaks,
    before: Option<u64>,
) -> Result<Figures> {
    let effort = Effort {
        runs: args.runs,
        seconds: args.seconds,
    };
    memory::reset_peak();
    let workload = Workload::prepare(case, args.batch, target)?;
    let reference = || force_reference(|| workload.run());
    let times = match args.reference {
        true => timing::time(effort, reference)?,
        false => timing::time(effort, || workload.run())?,
    };
    // Before anything else runs.
    let peak = memory::peak();
    let mut figures = Figures::new(workload.name.clone(), &workload.graphs, times, peaks);
    if args.reference || !target.has_fused_path() {
        figures.path = "reference";
    }
    figures.peak_memory_mb = peak.map(|bytes| bytes as f64 / 1e6);
    if let (Some(peak), Some(before), Some(least)) = (peak, before, workload.least_bytes())
        && target.device.is_cpu()
    {
        figures.memory = Some(Memory::new(peak, before, least));
    }
    if let Some(work) = workload.work()? {
        figures.achieved = Achieved::new(work, times.median, peaks);
    }
    if args.compare {
        let of_reference = timing::time(effort, reference)?;
        figures.reference = Some(ReferenceFigures::new(of_reference, times));
    }
    if let Some(command) = &args.peer {
        figures.peer = peer::time(command, &case.work, &workload.graphs, effort)
            .with_context(|| format!("the peer, on {}", case.name))?
            .map(|of_peer| of_peer.against(times.median));
    }
    Ok(figures)
}
