//! Mean, largest value and sum of what the neighbours of every node send.

mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{neighbourhood, work};
use crate::graph::Adjacency;

/// Mean, largest value and sum, side by side, of the messages `target_i + source_j + edge_ij` over
/// the incoming edges of every node: `[N, 3·W]` from `targets` and `sources` `[N, W]` and
/// `edge_states` `[E, W]`. A node without incoming edges receives zeros.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn neighbour_statistics(
    targets: &Tensor,
    sources: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    const OPERATION: &str = "neighbour statistics";
    let width = neighbourhood::check_nodes(OPERATION, targets, adjacency)?;
    neighbourhood::check_edges(OPERATION, edge_states, width, adjacency)?;
    if sources.dims() != targets.dims() {
        bail!(
            "{OPERATION}: sources of shape {:?} for targets of {:?}",
            sources.dims(),
            targets.dims()
        );
    }
    let _work = work::record(|| work::neighbour_statistics(targets, sources, edge_states));
    if fused_on_cpu([targets, sources, edge_states]) {
        cpu::forward(targets, sources, edge_states, adjacency)
    } else if fused_on_gpu([targets, sources, edge_states]) {
        gpu::forward(targets, sources, edge_states, adjacency)
    } else {
        reference::forward(targets, sources, edge_states, adjacency)
    }
}
