//! Sorting networks: lists of comparators, and the graphs that the transformer of "Transformers Meet
//! Directed Graphs" (Geisler et al., ICML 2023, section 6) tells apart.

mod columns;
mod merge_exchange;
mod task;

pub use columns::MAX_TESTED_WIRES;
pub use task::{LabelledNetwork, MAX_COMPARATORS, MAX_DRAWN_WIRES, NetworkKind, SortingNetworks};

use super::{MAX_SIZE, SyntheticError, in_range};
use crate::error::Result;
use crate::graph::{Features, Graph, GraphBuilder};

/// The most wires of a network.
pub const MAX_WIRES: usize = 1 << 14;

/// A list of comparators on `wires` wires, numbered from 0. A comparator `[i, j]`, i < j, puts the
/// smaller of the two values on wire i and the larger one on wire j.
///
/// ```
/// use candle_graph::datasets::synthetic::SortingNetwork;
///
/// let network = SortingNetwork::new(3, [[0, 1], [1, 2], [0, 1]])?;
/// assert!(network.sorts()?);
/// assert!(!network.without_last().sorts()?);
/// assert_eq!(network.graph()?.edges(), [[0, 1], [0, 2], [1, 2]]);
/// # Ok::<(), candle_graph::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortingNetwork {
    wires: usize,
    comparators: Vec<[u32; 2]>,
}

impl SortingNetwork {
    /// The network of `comparators`, which work in this order. It need not sort.
    ///
    /// # Errors
    /// No wire or more than [`MAX_WIRES`], more than 2²⁰ comparators, a comparator that does not
    /// join two of the wires, the lower one first.
    pub fn new(wires: usize, comparators: impl IntoIterator<Item = [u32; 2]>) -> Result<Self> {
        in_range("wires", wires, (1, MAX_WIRES))?;
        let comparators: Vec<_> = comparators.into_iter().take(MAX_SIZE + 1).collect();
        in_range("comparators", comparators.len(), (0, MAX_SIZE))?;
        for (position, &comparator) in comparators.iter().enumerate() {
            let [i, j] = comparator;
            if i >= j || j as usize >= wires {
                return Err(SyntheticError::Comparator {
                    position,
                    comparator,
                    wires,
                }
                .into());
            }
        }
        Ok(Self { wires, comparators })
    }

    /// The network behind a [`graph`](Self::graph): the comparators of its node features in their
    /// order, on as many wires as these name.
    ///
    /// # Errors
    /// Node features other than a permutation of the order numbers and comparators.
    pub fn from_graph(graph: &Graph) -> Result<Self> {
        let nodes = graph.num_nodes();
        let features = graph.node_features().filter(|x| x.width() == 3);
        let features = features.ok_or(SyntheticError::NoComparator { node: 0 })?;
        let mut comparators = vec![None; nodes];
        for node in 0..nodes {
            let whole = |value: f32| {
                let fits = value.fract() == 0.0 && (0.0..MAX_SIZE as f32).contains(&value);
                fits.then_some(value as u32)
            };
            let row: Option<Vec<u32>> = features.row(node).into_iter().map(whole).collect();
            let slot = row.and_then(|row| {
                let slot = comparators.get_mut(*row.first()? as usize)?;
                slot.is_none()
                    .then_some((slot, [*row.get(1)?, *row.get(2)?]))
            });
            let (slot, comparator) = slot.ok_or(SyntheticError::NoComparator { node })?;
            *slot = Some(comparator);
        }
        let comparators: Vec<[u32; 2]> = comparators.into_iter().flatten().collect();
        let last = comparators.iter().flatten().max().copied();
        Self::new(last.unwrap_or(0) as usize + 1, comparators)
    }

    /// Number of wires.
    pub fn wires(&self) -> usize {
        self.wires
    }

    /// The comparators in their order.
    pub fn comparators(&self) -> &[[u32; 2]] {
        &self.comparators
    }

    /// The network without its last comparator.
    pub fn without_last(&self) -> Self {
        let kept = self.comparators.len().saturating_sub(1);
        Self {
            wires: self.wires,
            comparators: self.comparators[..kept].to_vec(),
        }
    }

    /// The same comparators in the opposite order; the smaller value still goes to the lower wire.
    pub fn reversed(&self) -> Self {
        Self {
            wires: self.wires,
            comparators: self.comparators.iter().rev().copied().collect(),
        }
    }

    /// The graph of the network as the official code makes it: a node for every comparator, with
    /// the real features (position in the list, i, j), and an edge to it from the last comparator
    /// before it on each of its two wires. The edge of wire i stands before that of wire j; both
    /// come from one node where the same two wires were joined before. Wires that no comparator
    /// touches leave no trace.
    ///
    /// # Errors
    /// A network without comparators: a graph has a node at least.
    pub fn graph(&self) -> Result<Graph> {
        self.graph_builder().build()
    }

    fn graph_builder(&self) -> GraphBuilder {
        let mut last_on_wire = vec![None; self.wires];
        let mut edges = Vec::with_capacity(2 * self.comparators.len());
        let mut features = Vec::with_capacity(3 * self.comparators.len());
        for (node, &[i, j]) in self.comparators.iter().enumerate() {
            for wire in [i, j] {
                let last = last_on_wire[wire as usize].replace(node as u32);
                edges.extend(last.map(|last| [last, node as u32]));
            }
            features.extend([node as f32, i as f32, j as f32]);
        }
        Graph::builder(self.comparators.len())
            .edges(edges)
            .node_features(Features::float(3, features))
    }
}
