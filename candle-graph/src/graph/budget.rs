//! Cutting a stream of graphs into batches that fit memory.

use std::ops::Range;

use super::Graph;
use crate::error::{Error, Result};

/// How much one batch may hold. A batch is closed when the next graph would exceed any limit; a
/// graph that alone exceeds `max_nodes` or `max_pairs` is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBudget {
    /// Most graphs of one batch.
    pub max_graphs: usize,
    /// Most nodes of one batch.
    pub max_nodes: u64,
    /// Most ordered node pairs (sum of n²) of one batch; only models that keep a state per pair
    /// need it.
    pub max_pairs: u64,
}

/// What a batch under construction holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchFill {
    graphs: usize,
    nodes: u64,
    pairs: u64,
}

impl BatchFill {
    /// Counts `graph` in.
    pub fn add(&mut self, graph: &Graph) {
        self.graphs += 1;
        self.nodes = self.nodes.saturating_add(graph.num_nodes() as u64);
        self.pairs = self.pairs.saturating_add(graph.num_pairs());
    }
}

impl Default for BatchBudget {
    /// 256 graphs, 100,000 nodes, 250,000 pairs (64 MB a pair tensor of width 64).
    fn default() -> Self {
        Self {
            max_graphs: 256,
            max_nodes: 100_000,
            max_pairs: 250_000,
        }
    }
}

impl BatchBudget {
    /// A budget without limits.
    pub const UNLIMITED: Self = Self {
        max_graphs: usize::MAX,
        max_nodes: u64::MAX,
        max_pairs: u64::MAX,
    };

    /// Checks that `graph` fits a batch of its own.
    ///
    /// # Errors
    /// [`Error::OverBudget`] with the graph's name and the numbers.
    pub fn admit(&self, graph: &Graph, position: usize) -> Result<()> {
        let nodes = graph.num_nodes() as u64;
        for (what, found, budget) in [
            ("nodes", nodes, self.max_nodes),
            ("node pairs", graph.num_pairs(), self.max_pairs),
        ] {
            if found > budget {
                return Err(Error::OverBudget {
                    graph: graph.label(position),
                    what,
                    found,
                    budget,
                });
            }
        }
        Ok(())
    }

    /// Whether a batch that holds `fill` may take `graph` too; an empty one takes every graph that
    /// [`admit`](Self::admit) lets in.
    pub fn has_room(&self, fill: &BatchFill, graph: &Graph) -> bool {
        fill.graphs == 0
            || (fill.graphs < self.max_graphs
                && fill.nodes.saturating_add(graph.num_nodes() as u64) <= self.max_nodes
                && fill.pairs.saturating_add(graph.num_pairs()) <= self.max_pairs)
    }

    /// Cuts `graphs` into consecutive ranges, each within the budget. `first` is the position of
    /// `graphs[0]` in the whole input, for messages.
    ///
    /// # Errors
    /// As [`admit`](Self::admit), before any batch is given out.
    pub fn cut<G: AsRef<Graph>>(&self, graphs: &[G], first: usize) -> Result<Vec<Range<usize>>> {
        let mut ranges = Vec::new();
        let (mut start, mut fill) = (0, BatchFill::default());
        for (at, graph) in graphs.iter().enumerate() {
            let graph = graph.as_ref();
            self.admit(graph, first.saturating_add(at))?;
            if !self.has_room(&fill, graph) {
                ranges.push(start..at);
                (start, fill) = (at, BatchFill::default());
            }
            fill.add(graph);
        }
        if start < graphs.len() {
            ranges.push(start..graphs.len());
        }
        Ok(ranges)
    }
}
