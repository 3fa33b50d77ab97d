//! Made-up graphs with known answers.
//!
//! Two tasks of "Rotary Position Encodings for Graphs" (Reid et al., ICML 2026, section 4.1 and
//! appendix B.1): [`Monochromatic`] asks for the size of the largest connected one-coloured part of
//! a damaged grid, [`ShortestPath`] for the number of hops between two marked nodes of a
//! Watts–Strogatz graph.
//!
//! Two of "Transformers Meet Directed Graphs" (Geisler et al., ICML 2023): [`SortingNetworks`] asks
//! whether a list of comparators sorts every input (section 6), [`Distances`] for edges, paths or
//! distances between all pairs of nodes of a random directed graph (section 5). Their draws are
//! those of the official code.
//!
//! All give an endless iterator over graphs that are made when they are asked for. A seed fixes all
//! of them, on every machine; more of them never changes the first ones.
//!
//! ```
//! use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath};
//!
//! let grids = Monochromatic { deleted_edges: 10, ..Monochromatic::default() };
//! let grids = grids.graphs(1)?.take(100).collect::<candle_graph::Result<Vec<_>>>()?;
//! assert!(grids.iter().all(|grid| grid.num_edges() == 2 * 30));
//!
//! let paths = ShortestPath::default().graphs(1)?.take(100);
//! assert_eq!(paths.collect::<candle_graph::Result<Vec<_>>>()?.len(), 100);
//! # Ok::<(), candle_graph::Error>(())
//! ```
//!
//! The graphs of the first two tasks are undirected (both directions of an edge stand side by side),
//! with real node features and one target, and numbered from 0 by their ids. What is computed from
//! the edges, such as coordinates, is not part of any: a model's encodings do that.

mod distances;
mod hops;
mod monochromatic;
mod numpy_random;
mod random;
mod shortest_path;
mod sorting_network;
mod watts_strogatz;

pub use distances::{Distances, PairTarget};
pub use monochromatic::Monochromatic;
pub use shortest_path::{ShortestPath, Unreachable};
pub use sorting_network::{
    LabelledNetwork, MAX_COMPARATORS, MAX_DRAWN_WIRES, MAX_TESTED_WIRES, MAX_WIRES, NetworkKind,
    SortingNetwork, SortingNetworks,
};

use crate::error::Result;
use crate::graph::{Features, Graph, GraphBuilder, Targets};
use random::Random;

/// Options that no graph of a synthetic task can be made with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntheticError {
    /// A number is too small or too large.
    #[error("{option}: {value} is out of range, which is {smallest} to {largest}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// Its value.
        value: usize,
        /// The smallest value that is taken.
        smallest: usize,
        /// The largest one, as the other options leave it.
        largest: usize,
    },
    /// The graph would have more nodes or edges than are made.
    #[error(
        "a graph of {nodes} nodes and {edges} edges is larger than the {limit} of each that are made"
    )]
    TooLarge {
        /// Nodes it would have.
        nodes: usize,
        /// Undirected edges it would have.
        edges: usize,
        /// The limit.
        limit: usize,
    },
    /// A probability that is none.
    #[error("{option}: {value} is no probability, which is 0 to 1")]
    Probability {
        /// The option.
        option: &'static str,
        /// Its value.
        value: f64,
    },
    /// A list of options without one.
    #[error("{option}: none is given, at least one is needed")]
    NoneGiven {
        /// The option.
        option: &'static str,
    },
    /// An average degree that no graph of so many nodes has.
    #[error(
        "average_degrees: {value} is out of range, which is 0 to {largest}, one less than the \
         smallest number of nodes"
    )]
    AverageDegree {
        /// The degree.
        value: f64,
        /// The largest one.
        largest: usize,
    },
    /// A comparator that does not belong to the network.
    #[error(
        "comparator {position} is [{}, {}], which does not join two of the {wires} wires (from 0), \
         the lower one first", comparator[0], comparator[1]
    )]
    Comparator {
        /// Its place in the list, from 0.
        position: usize,
        /// Its wires.
        comparator: [u32; 2],
        /// Wires of the network.
        wires: usize,
    },
    /// A network too large for the 0/1 principle.
    #[error(
        "a network of {wires} wires has 2^{wires} inputs of zeros and ones to test; {limit} wires \
         are the most that are tested"
    )]
    TooManyWires {
        /// Its wires.
        wires: usize,
        /// The largest number.
        limit: usize,
    },
    /// A node of a graph that is no comparator.
    #[error(
        "node {node} is no comparator: its features `x` should be its place in the list (each place \
         once) and two wires"
    )]
    NoComparator {
        /// The node.
        node: usize,
    },
}

/// The most nodes and the most undirected edges of a graph.
const MAX_SIZE: usize = 1 << 20;

/// Checks an option that counts something.
fn in_range(
    option: &'static str,
    value: usize,
    (smallest, largest): (usize, usize),
) -> Result<(), SyntheticError> {
    match (smallest..=largest).contains(&value) {
        true => Ok(()),
        false => Err(SyntheticError::OutOfRange {
            option,
            value,
            smallest,
            largest,
        }),
    }
}

/// Checks the numbers of nodes and of undirected edges; products must be saturated.
fn in_size(nodes: usize, edges: usize) -> Result<(), SyntheticError> {
    match nodes.max(edges) > MAX_SIZE {
        false => Ok(()),
        true => Err(SyntheticError::TooLarge {
            nodes,
            edges,
            limit: MAX_SIZE,
        }),
    }
}

/// A graph of `nodes` nodes with undirected `edges`, node `i` in column `marked[..]` of its features
/// for every `(i, column)`, and one target.
fn labelled(
    nodes: usize,
    edges: &[[u32; 2]],
    marks: impl IntoIterator<Item = (usize, usize)>,
    width: usize,
    target: usize,
) -> GraphBuilder {
    let mut features = vec![0.0; nodes.saturating_mul(width)];
    for (node, column) in marks {
        if let Some(value) = features.get_mut(node * width + column) {
            *value = 1.0;
        }
    }
    Graph::builder(nodes)
        .edges(edges.iter().copied())
        .undirected(true)
        .node_features(Features::float(width, features))
        .targets(Targets {
            width: 1,
            data: vec![target as f32],
        })
}

/// The graphs that `draw` makes of the random numbers of `seed`, numbered from 0.
fn numbered(
    seed: u64,
    mut draw: impl FnMut(&mut Random) -> GraphBuilder,
) -> impl Iterator<Item = Result<Graph>> {
    let mut random = Random::new(seed);
    (0i64..).map(move |id| draw(&mut random).id(id).build())
}
