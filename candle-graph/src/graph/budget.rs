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

    /// Cuts `graphs` into consecutive ranges, each within the budget. `first` is the position of
    /// `graphs[0]` in the whole input, for messages.
    ///
    /// # Errors
    /// As [`admit`](Self::admit), before any batch is given out.
    pub fn cut<G: AsRef<Graph>>(&self, graphs: &[G], first: usize) -> Result<Vec<Range<usize>>> {
        let mut ranges = Vec::new();
        let (mut start, mut nodes, mut pairs) = (0, 0u64, 0u64);
        for (at, graph) in graphs.iter().enumerate() {
            let graph = graph.as_ref();
            self.admit(graph, first + at)?;
            let (n, p) = (graph.num_nodes() as u64, graph.num_pairs());
            let full = at - start >= self.max_graphs.max(1)
                || nodes.saturating_add(n) > self.max_nodes
                || pairs.saturating_add(p) > self.max_pairs;
            if full && at > start {
                ranges.push(start..at);
                (start, nodes, pairs) = (at, 0, 0);
            }
            nodes = nodes.saturating_add(n);
            pairs = pairs.saturating_add(p);
        }
        if start < graphs.len() {
            ranges.push(start..graphs.len());
        }
        Ok(ranges)
    }
}
