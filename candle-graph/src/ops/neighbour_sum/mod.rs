//! Weighted sums of what the neighbours of every node send.

mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

pub(super) use gpu::gathered_sum;

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{neighbourhood, work};
use crate::graph::Adjacency;

/// What goes into [`neighbour_sum`]; N nodes, E edges, states of width W.
#[derive(Debug, Clone, Copy)]
pub struct NeighbourSumInput<'a> {
    /// Node states, `[N, W]`.
    pub nodes: &'a Tensor,
    /// The edges.
    pub adjacency: &'a Adjacency,
    /// Edge states, `[E, W]`: with them a message is `relu(x_j + e_ij)`, without them `x_j`.
    pub edge_states: Option<&'a Tensor>,
    /// Factors of the messages, `[E, H]` with H a divisor of W: the columns are H groups of equal
    /// width, each with its own factor.
    pub weights: Option<&'a Tensor>,
    /// Factor of the node's own state, `[1]`; without it the own state is left out.
    pub self_weight: Option<&'a Tensor>,
}

/// For every node i `self_weight · x_i + Σ_j weight_ij · m_ij` over its incoming edges, `[N, W]`. A
/// node without any receives its own share alone.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn neighbour_sum(input: NeighbourSumInput<'_>) -> Result<Tensor> {
    let groups = check(&input)?;
    let _work = work::record(|| work::neighbour_sum(&input));
    let options = [input.edge_states, input.weights, input.self_weight];
    let tensors = options.into_iter().flatten().chain([input.nodes]);
    if fused_on_cpu(tensors.clone()) {
        cpu::forward(&input, groups)
    } else if fused_on_gpu(tensors) {
        gpu::forward(&input, groups)
    } else {
        reference::forward(&input, groups)
    }
}

/// Checks the shapes and gives the number of column groups.
fn check(input: &NeighbourSumInput<'_>) -> Result<usize> {
    const OPERATION: &str = "neighbour sum";
    let width = neighbourhood::check_nodes(OPERATION, input.nodes, input.adjacency)?;
    if let Some(states) = input.edge_states {
        neighbourhood::check_edges(OPERATION, states, width, input.adjacency)?;
    }
    if let Some(own) = input.self_weight
        && own.dims() != [1]
    {
        bail!(
            "{OPERATION}: self weight of shape {:?}, expected [1]",
            own.dims()
        );
    }
    let Some(weights) = input.weights else {
        return Ok(1);
    };
    match *weights.dims() {
        [edges, groups]
            if edges == input.adjacency.len() && width.checked_rem(groups) == Some(0) =>
        {
            Ok(groups)
        }
        _ => bail!(
            "{OPERATION}: weights of shape {:?} for {} edges and a width of {width}",
            weights.dims(),
            input.adjacency.len()
        ),
    }
}
