//! Flags of `generate`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use candle_graph::datasets::synthetic::{Distances, Monochromatic, ShortestPath};
use clap::{Args, Subcommand, ValueEnum};

/// Make the graphs of a synthetic task, one JSON record a line
#[derive(Debug, Args)]
#[command(after_help = "\
A record has `edge_index`, the answer `y`, an `id` and mostly node features `x`. The same seed gives
the same graphs on every machine, and a larger count the same first ones.

Examples:
  candle-graph generate monochromatic --deleted-edges 10 --count 1000 --seed 1 --output grids.jsonl
  candle-graph generate shortest-path --count 1000 --seed 1 --output paths.jsonl
  candle-graph generate shortest-path --count 8 | candle-graph predict --model wire-spd
  candle-graph generate sorting-networks --wires 7-9 --kinds correct,last-removed,reversed
  candle-graph generate distances --target distance --nodes 16-63 --acyclic --output pairs.jsonl")]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    pub(crate) task: SyntheticTask,
}

/// The tasks of the WIRE paper and of "Transformers Meet Directed Graphs".
#[derive(Debug, Subcommand)]
pub(crate) enum SyntheticTask {
    Monochromatic(MonochromaticArgs),
    ShortestPath(ShortestPathArgs),
    SortingNetworks(SortingNetworksArgs),
    Distances(DistancesArgs),
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

/// A list of comparators as a directed graph; the answer is 1 if it sorts every input, else 0
///
/// A node is a comparator, its features are its place in the list and its two wires, and an edge
/// leads from the last comparator before it on each wire. Networks are random but for the last
/// comparator, after which they sort, as in "Transformers Meet Directed Graphs". The id is the
/// number of the network and its kind, as 0-correct.
#[derive(Debug, Args)]
pub(crate) struct SortingNetworksArgs {
    /// Number of wires, or the smallest and the largest one, all equally likely; from 3 to 20
    #[arg(long, value_name = "P[-P]", default_value = "7-11", value_parser = parse_range)]
    pub(crate) wires: RangeInclusive<usize>,

    /// Variants of every network, each a graph of its own, in this order
    #[arg(
        long,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "correct,last-removed"
    )]
    pub(crate) kinds: Vec<NetworkKindName>,

    #[command(flatten)]
    pub(crate) output: GraphsArgs,
}

/// A variant of a sorting network.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum NetworkKindName {
    /// As drawn; it sorts
    Correct,
    /// Without its last comparator; it does not sort
    LastRemoved,
    /// In the opposite order; it is tested whether it sorts
    Reversed,
}

/// A random directed graph; the answers are edges, paths or distances between all pairs of its nodes
///
/// The graphs of "Transformers Meet Directed Graphs", without node features. All ordered pairs are
/// in `edge_label_index`, with an answer each in `y`: null for a node and itself, and for a distance
/// where no path leads. Ids are numbers from 0 on.
#[derive(Debug, Args)]
pub(crate) struct DistancesArgs {
    /// What is asked of every pair of nodes
    #[arg(long, value_name = "TARGET", default_value = "adjacency")]
    pub(crate) target: PairTargetName,

    /// Number of nodes, or the smallest and the largest one, all equally likely, before the largest
    /// component is chosen
    #[arg(long, value_name = "N[-N]", default_value = "16-17", value_parser = parse_range)]
    pub(crate) nodes: RangeInclusive<usize>,

    /// Average numbers of edges from a node, all equally likely; an acyclic graph keeps half of
    /// them [default: 1,1.5,2, and 1,1.5,2,2.5,3 with --acyclic]
    #[arg(long, value_name = "DEGREE", value_delimiter = ',')]
    pub(crate) average_degrees: Option<Vec<f64>>,

    /// Keep only edges along a random order of the nodes, so that there is no cycle
    #[arg(long)]
    pub(crate) acyclic: bool,

    /// Keep all components of a graph, not only the largest one
    #[arg(long)]
    pub(crate) allow_disconnected: bool,

    #[command(flatten)]
    pub(crate) output: GraphsArgs,
}

impl DistancesArgs {
    /// The average degrees, those of the paper where none are given.
    pub(crate) fn degrees(&self) -> Vec<f64> {
        match (&self.average_degrees, self.acyclic) {
            (Some(degrees), _) => degrees.clone(),
            (None, true) => Distances::ACYCLIC_DEGREES.to_vec(),
            (None, false) => Distances::REGULAR_DEGREES.to_vec(),
        }
    }
}

/// What is asked of a pair of nodes.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PairTargetName {
    /// Whether there is an edge
    Adjacency,
    /// Whether a directed path leads from the first to the second
    Reachability,
    /// The number of edges of the shortest directed path
    Distance,
    /// The number of edges of the shortest path that may take edges in either direction
    UndirectedDistance,
}

/// A number, or two with a hyphen between them, which stand for all from one to the other.
fn parse_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (smallest, largest) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.trim().parse::<usize>().ok();
    match (number(smallest), number(largest)) {
        (Some(smallest), Some(largest)) if smallest <= largest => Ok(smallest..=largest),
        _ => {
            Err("a number is expected, or the smallest and the largest one as in 7-11".to_string())
        }
    }
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
