//! Random walks over a batch of graphs, on the device that the batch is on.

mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{DType, Result, Tensor, bail};

use super::dispatch::fused_on_gpu;
use super::work;
use crate::graph::{Adjacency, Offsets, PairLayout};

/// The walk's steps: edges by target, each with the probability M that it is taken from its source.
#[derive(Debug, Clone, Copy)]
pub struct WalkInput<'a> {
    /// The edges, none of them between two graphs.
    pub adjacency: &'a Adjacency,
    /// Probability of every edge, f32 `[edges]`.
    pub probabilities: &'a Tensor,
    /// Nodes of every graph.
    pub node_ptr: &'a Offsets,
}

impl WalkInput<'_> {
    fn check(&self) -> Result<()> {
        let (edges, nodes) = (self.adjacency.len(), self.adjacency.num_nodes());
        if self.probabilities.dims() != [edges] || self.probabilities.dtype() != DType::F32 {
            bail!(
                "random walk: probabilities of {:?} {:?} for {edges} edges",
                self.probabilities.dtype(),
                self.probabilities.dims()
            );
        }
        if self.node_ptr.total() != nodes {
            bail!(
                "random walk: edges among {nodes} nodes for graphs of {}",
                self.node_ptr.total()
            );
        }
        Ok(())
    }
}

/// `M^k` for k from 0 to `times` − 1, of all pairs of nodes of a graph: f32 `[pairs, times]`, where
/// the row of the pair (source s, target t) holds the walks from t to s, `M^k[t, s]`, as GRIT's RRWP
/// has it.
///
/// # Errors
/// Shapes that do not fit each other, no times.
pub fn pair_walks(input: WalkInput<'_>, times: usize) -> Result<Tensor> {
    input.check()?;
    if times == 0 {
        bail!("random walk: no times");
    }
    let _work = work::record(|| work::pair_walks(&input, times));
    let layout = PairLayout::new(input.node_ptr);
    match fused_on_gpu([input.probabilities]) {
        true => gpu::pair_walks(&input, &layout, times),
        false => reference::pair_walks(&input, times),
    }
}

/// The probabilities that a walk is back at its start after each number of steps of `times`, the
/// diagonal of `M^k`: f32 `[nodes, times]`, as RWSE has it.
///
/// # Errors
/// Shapes that do not fit each other, times of 0.
pub fn return_probabilities(input: WalkInput<'_>, times: &[usize]) -> Result<Tensor> {
    input.check()?;
    if times.is_empty() || times.contains(&0) {
        bail!("random walk: returns after {times:?} steps");
    }
    let _work = work::record(|| work::return_probabilities(&input, times));
    match fused_on_gpu([input.probabilities]) && input.node_ptr.max_length() <= gpu::MOST_NODES {
        true => gpu::return_probabilities(&input, times),
        false => reference::return_probabilities(&input, times),
    }
}
