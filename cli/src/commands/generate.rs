//! `generate`: the graphs of synthetic tasks.

use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath, Unreachable};
use candle_graph::graph::Graph;

use crate::args::{GenerateArgs, GraphsArgs, MonochromaticArgs, ShortestPathArgs, SyntheticTask};
use crate::failure::Usage;
use crate::output::Lines;
use crate::progress::Progress;

pub(crate) fn run(args: &GenerateArgs, quiet: bool) -> anyhow::Result<()> {
    match &args.task {
        SyntheticTask::Monochromatic(args) => {
            let graphs = monochromatic(args).graphs(args.output.seed);
            write(graphs, &args.output, quiet)
        }
        SyntheticTask::ShortestPath(args) => {
            let graphs = shortest_path(args).graphs(args.output.seed);
            write(graphs, &args.output, quiet)
        }
    }
}

fn monochromatic(args: &MonochromaticArgs) -> Monochromatic {
    Monochromatic {
        rows: args.rows,
        columns: args.columns,
        deleted_edges: args.deleted_edges,
        colours: args.colours,
    }
}

fn shortest_path(args: &ShortestPathArgs) -> ShortestPath {
    ShortestPath {
        nodes: args.nodes,
        neighbours: args.neighbours,
        rewiring: args.rewiring,
        unreachable: match args.allow_disconnected {
            true => Unreachable::RedrawPair,
            false => Unreachable::RedrawGraph,
        },
    }
}

/// Writes the first graphs; options that make none are wrong usage.
fn write(
    graphs: candle_graph::Result<impl Iterator<Item = candle_graph::Result<Graph>>>,
    args: &GraphsArgs,
    quiet: bool,
) -> anyhow::Result<()> {
    let graphs = graphs.map_err(|error| Usage::error(error.to_string()))?;
    let mut progress = Progress::start(quiet, args.output.is_none());
    let mut lines = match &args.output {
        Some(path) => Lines::file(path)?,
        None => Lines::stdout(),
    };
    for graph in graphs.take(args.count) {
        lines.write(&graph?)?;
        progress.add(1);
    }
    lines.finish()?;
    progress.finish("made");
    Ok(())
}
