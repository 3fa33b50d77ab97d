//! `generate`: the graphs of synthetic tasks.

use candle_graph::datasets::synthetic::{
    Distances, Monochromatic, NetworkKind, PairTarget, ShortestPath, SortingNetworks, Unreachable,
};
use candle_graph::graph::Graph;

use crate::args::{
    DistancesArgs, GenerateArgs, GraphsArgs, MonochromaticArgs, NetworkKindName, PairTargetName,
    ShortestPathArgs, SortingNetworksArgs, SyntheticTask,
};
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
        SyntheticTask::SortingNetworks(args) => {
            let graphs = sorting_networks(args).graphs(args.output.seed);
            write(graphs, &args.output, quiet)
        }
        SyntheticTask::Distances(args) => {
            let graphs = distances(args).graphs(args.output.seed);
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

fn sorting_networks(args: &SortingNetworksArgs) -> SortingNetworks {
    let kinds = args.kinds.iter().map(|kind| match kind {
        NetworkKindName::Correct => NetworkKind::Correct,
        NetworkKindName::LastRemoved => NetworkKind::LastRemoved,
        NetworkKindName::Reversed => NetworkKind::Reversed,
    });
    SortingNetworks {
        wires: args.wires.clone(),
        kinds: kinds.collect(),
    }
}

fn distances(args: &DistancesArgs) -> Distances {
    Distances {
        nodes: args.nodes.clone(),
        average_degrees: args.degrees(),
        acyclic: args.acyclic,
        connected: !args.allow_disconnected,
        target: match args.target {
            PairTargetName::Adjacency => PairTarget::Adjacency,
            PairTargetName::Reachability => PairTarget::Reachability,
            PairTargetName::Distance => PairTarget::Distance,
            PairTargetName::UndirectedDistance => PairTarget::UndirectedDistance,
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
