//! Flags of `generate`.

use std::path::PathBuf;

use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath};
use clap::{Args, Subcommand};

/// Make the graphs of a synthetic task, one JSON record a line
#[derive(Debug, Args)]
#[command(after_help = "\
A record has node features `x`, `edge_index`, the answer `y` and an `id` from 0 on. The same seed
gives the same graphs on every machine, and a larger count the same first ones.

Examples:
  candle-graph generate monochromatic --deleted-edges 10 --count 1000 --seed 1 --output grids.jsonl
  candle-graph generate shortest-path --count 1000 --seed 1 --output paths.jsonl
  candle-graph generate shortest-path --count 8 | candle-graph predict --model wire-spd")]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) task: SyntheticTask,
}

/// The tasks of the WIRE paper.
#[derive(Debug, Subcommand)]
pub(crate) enum SyntheticTask {
    Monochromatic(MonochromaticArgs),
    ShortestPath(ShortestPathArgs),
}

/// A grid with deleted edges and coloured nodes; the answer is the number of nodes of the largest
/// connected subgraph of one colour
///
/// Node features are the colours, one-hot.
#[derive(Debug, Args)]
pub(crate) struct MonochromaticArgs {
    /// Rows of the grid
    #[arg(long, value_name = "N", default_value_t = Monochromatic::default().rows)]
    pub(crate) rows: usize,

    /// Columns of the grid
    #[arg(long, value_name = "N", default_value_t = Monochromatic::default().columns)]
    pub(crate) columns: usize,

    /// Edges that are deleted at random; the paper has 0, 5, 10 and 15
    #[arg(long, value_name = "N", default_value_t = Monochromatic::default().deleted_edges)]
    pub(crate) deleted_edges: usize,

    /// Colours, all equally likely; the model wire-mono knows 3, the paper probably has 2
    #[arg(long, value_name = "N", default_value_t = Monochromatic::default().colours)]
    pub(crate) colours: usize,

    #[command(flatten)]
    pub(crate) output: GraphsArgs,
}

/// A Watts-Strogatz graph with two marked nodes; the answer is the number of hops between them
///
/// Node features are the marks of the source and of the target.
#[derive(Debug, Args)]
pub(crate) struct ShortestPathArgs {
    /// Nodes of a graph
    #[arg(long, value_name = "N", default_value_t = ShortestPath::default().nodes)]
    pub(crate) nodes: usize,

    /// Neighbours of a node in the ring, before edges are rewired
    #[arg(long, value_name = "K", default_value_t = ShortestPath::default().neighbours)]
    pub(crate) neighbours: usize,

    /// Probability that an edge gets another end
    #[arg(long, value_name = "P", default_value_t = ShortestPath::default().rewiring)]
    pub(crate) rewiring: f64,

    /// Keep graphs that are not connected, with two nodes that a path joins; otherwise graphs are
    /// drawn until one is connected
    #[arg(long)]
    pub(crate) allow_disconnected: bool,

    #[command(flatten)]
    pub(crate) output: GraphsArgs,
}

/// How many graphs are made, and where they go.
#[derive(Debug, Args)]
pub(crate) struct GraphsArgs {
    /// Number of graphs
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) count: usize,

    /// What the graphs are drawn from
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(crate) seed: u64,

    /// File for the graphs, ending in .jsonl [default: standard output]
    #[arg(long, short, visible_alias = "out", value_name = "FILE",
          value_parser = crate::output::parse_graphs_path)]
    pub(crate) output: Option<PathBuf>,
}
