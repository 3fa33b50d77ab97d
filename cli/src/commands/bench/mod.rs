//! `bench`: how long models take on this machine.

mod cases;
mod peer;
mod random;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use candle_graph::encodings::{EncodingPlan, EncodingRecipe, GraphEncoding, Rotational};
use candle_graph::graph::{Graph, InputSchema};
use candle_graph::ops::force_reference;
use candle_graph_models::{ModelConfig, Predictor, Want};
use serde::Serialize;

use crate::args::BenchArgs;
use crate::console;

use cases::{Case, Work};
use peer::PeerFigures;

/// A case that has taken so long is not run again.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs before the timed ones, of cases that take less than a second.
const WARM_UPS: usize = 3;

/// What one case took.
#[derive(Debug, Serialize)]
struct Figures {
    case: String,
    graphs: usize,
    nodes: usize,
    pairs: u64,
    path: &'static str,
    milliseconds_min: f64,
    milliseconds_median: f64,
    microseconds_per_node: f64,
    graphs_per_second: f64,
    peak_memory_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<PeerFigures>,
}

/// Runs the benchmark.
///
/// # Errors
/// No case has the wanted name, a model fails, or the peer does.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let wanted = |case: &Case| {
        args.case
            .as_ref()
            .is_none_or(|part| case.name.contains(part))
    };
    let mut all = Vec::new();
    for case in cases::all().into_iter().filter(wanted) {
        let (graphs, mut figures) = time(&case, args)?;
        if let Some(command) = &args.peer {
            figures.peer = peer::time(command, &case.work, &graphs, (args.runs, args.seconds))
                .with_context(|| format!("the peer, on {}", case.name))?
                .map(|times| times.against(figures.milliseconds_median));
        }
        all.push(figures);
    }
    if all.is_empty() {
        bail!(
            "no case has {:?} in its name",
            args.case.as_deref().unwrap_or("")
        );
    }
    console::print(&match args.json {
        true => json(&all)?,
        false => table(&all, args.peer.is_some()),
    })
}

fn json(all: &[Figures]) -> Result<String> {
    let mut text = String::new();
    for figures in all {
        text += &serde_json::to_string(figures)?;
        text.push('\n');
    }
    Ok(text)
}

fn table(all: &[Figures], with_peer: bool) -> String {
    let mut text = format!(
        "{:32} {:>9} {:>8} {:>10} {:>10} {:>8} {:>12} {:>9}",
        "case", "path", "nodes", "ms min", "ms median", "us/node", "graphs/s", "peak MB"
    );
    if with_peer {
        text += &format!(" {:>10} {:>8}", "peer ms", "ratio");
    }
    text.push('\n');
    for f in all {
        let peak = f
            .peak_memory_mb
            .map_or("-".to_string(), |mb| format!("{mb:.0}"));
        text += &format!(
            "{:32} {:>9} {:>8} {:>10.3} {:>10.3} {:>8.3} {:>12.1} {peak:>9}",
            f.case,
            f.path,
            f.nodes,
            f.milliseconds_min,
            f.milliseconds_median,
            f.microseconds_per_node,
            f.graphs_per_second,
        );
        if let Some(peer) = &f.peer {
            text += &format!(" {:>10.3} {:>7.1}x", peer.milliseconds_median, peer.ratio);
        }
        text.push('\n');
    }
    if let Some(peer) = all.iter().find_map(|f| f.peer.as_ref()) {
        text += &format!("peer: {}\n", peer.name);
    }
    text
}

/// Edges that leave a node: a comparator has two wires.
const COMPARATOR_DEGREE: usize = 2;
/// The same of the random graphs that encodings are timed on.
const DIGRAPH_DEGREE: usize = 5;

/// Times one case; gives its graphs too.
fn time(case: &Case, args: &BenchArgs) -> Result<(Vec<Graph>, Figures)> {
    match &case.work {
        Work::Forward(config) => {
            let predictor = random::model(config)?;
            let schema = config.input_schema();
            let mut graphs = match config.as_ref() {
                ModelConfig::Digraph(_) => {
                    random::digraphs(&schema, &case.sizes, COMPARATOR_DEGREE)?
                }
                _ => random::graphs(&schema, &case.sizes)?,
            };
            let plan = predictor.model().encoding_plan();
            for recipe in plan.recipes() {
                if let EncodingRecipe::Rotational(Rotational::Given { dim }) = recipe {
                    graphs = random::with_coordinates(graphs, *dim)?;
                }
            }
            let encodings = plan.compute_all(&graphs, 0)?;
            let figures = measure(case.name, &graphs, args, || {
                forward_once(&predictor, &graphs, &encodings)
            })?;
            Ok((graphs, figures))
        }
        Work::Encode(recipe) => {
            let plan = EncodingPlan::new(vec![recipe.clone()])?;
            let schema = InputSchema::default();
            let graphs = match recipe {
                EncodingRecipe::Magnetic(_) | EncodingRecipe::DirectedWalk(_) => {
                    random::digraphs(&schema, &case.sizes, DIGRAPH_DEGREE)?
                }
                _ => random::graphs(&schema, &case.sizes)?,
            };
            let figures = measure(case.name, &graphs, args, || {
                plan.compute_all(&graphs, 0)?;
                Ok(())
            })?;
            Ok((graphs, figures))
        }
    }
}

fn forward_once(
    predictor: &Predictor,
    graphs: &[Graph],
    encodings: &[GraphEncoding],
) -> Result<()> {
    predictor.run_batch(graphs, encodings, 0, Want::Prediction)?;
    Ok(())
}

fn measure(
    name: &str,
    graphs: &[Graph],
    args: &BenchArgs,
    mut step: impl FnMut() -> Result<()>,
) -> Result<Figures> {
    reset_peak_memory();
    let mut milliseconds = Vec::new();
    let once = |step: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let start = Instant::now();
        match args.reference {
            true => force_reference(step)?,
            false => step()?,
        }
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let begin = Instant::now();
    for _ in 0..WARM_UPS {
        once(&mut step)?;
        if begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    let begin = Instant::now();
    let enough = |runs: usize| {
        let elapsed = begin.elapsed();
        runs > 0
            && (elapsed > LONGEST || (runs >= args.runs && elapsed.as_secs_f64() >= args.seconds))
    };
    while !enough(milliseconds.len()) {
        milliseconds.push(once(&mut step)?);
    }
    milliseconds.sort_by(f64::total_cmp);
    let median = *milliseconds
        .get(milliseconds.len() / 2)
        .context("no run was timed")?;
    let minimum = *milliseconds.first().context("no run was timed")?;
    let nodes: usize = graphs.iter().map(Graph::num_nodes).sum();
    Ok(Figures {
        case: name.to_string(),
        graphs: graphs.len(),
        nodes,
        pairs: graphs.iter().map(Graph::num_pairs).sum(),
        path: if args.reference { "reference" } else { "fused" },
        milliseconds_min: minimum,
        milliseconds_median: median,
        microseconds_per_node: median * 1e3 / nodes as f64,
        graphs_per_second: graphs.len() as f64 * 1e3 / median,
        peak_memory_mb: peak_memory_mb(),
        peer: None,
    })
}

/// Starts a new measurement of the peak; only Linux can.
fn reset_peak_memory() {
    // Where it cannot be reset the figure is the peak since the start, still an upper bound.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The process's largest resident memory since the last reset, in MB; only Linux tells.
fn peak_memory_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e6)
}
