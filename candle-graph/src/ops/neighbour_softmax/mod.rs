//! Softmax aggregation of what the neighbours of every node send.

mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{neighbourhood, work};
use crate::graph::Adjacency;

/// Added to every message, so that none is exactly 0 (`eps` of PyG's `GENConv`).
const MESSAGE_EPS: f32 = 1e-7;

/// For every node and column `Σ_j α_j·m_j` over the incoming edges, with messages
/// `m_j = relu(x_j + e_ij) + 1e-7` and α their softmax: `[N, W]` from `nodes` `[N, W]` and
/// `edge_states` `[E, W]`. A node without incoming edges receives zeros.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn neighbour_softmax(
    nodes: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    const OPERATION: &str = "neighbour softmax";
    let width = neighbourhood::check_nodes(OPERATION, nodes, adjacency)?;
    neighbourhood::check_edges(OPERATION, edge_states, width, adjacency)?;
    let _work = work::record(|| work::neighbour_softmax(nodes, edge_states));
    if fused_on_cpu([nodes, edge_states]) {
        cpu::forward(nodes, edge_states, adjacency)
    } else if fused_on_gpu([nodes, edge_states]) {
        gpu::forward(nodes, edge_states, adjacency)
    } else {
        reference::forward(nodes, edge_states, adjacency)
    }
}
