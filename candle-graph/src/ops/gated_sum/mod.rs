//! Gated sums over the neighbours of every node, with edge states that change too.

mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{Activation, Affine, LinearWeights};
use super::{neighbourhood, work};
use crate::graph::Adjacency;

/// Added to the sum of the gates.
const GATE_EPS: f32 = 1e-6;

/// What goes into [`gated_sum`]; N nodes, E edges, states of width W. The four maps of the nodes
/// may be columns of one packed tensor.
#[derive(Debug, Clone, Copy)]
pub struct GatedSumInput<'a> {
    /// What every node keeps, `[N, W]`.
    pub own: &'a Tensor,
    /// What every node sends, `[N, W]`.
    pub sent: &'a Tensor,
    /// Share of the target in the gate, `[N, W]`.
    pub gate_target: &'a Tensor,
    /// Share of the source in the gate, `[N, W]`.
    pub gate_source: &'a Tensor,
    /// Edge states, `[E, W]`.
    pub edge_states: &'a Tensor,
    /// Map of the edge states to their share in the gate, W to W.
    pub gate_edge: &'a LinearWeights,
    /// Factors of the gates, `[E, 1]`.
    pub weights: Option<&'a Tensor>,
    /// The edges.
    pub adjacency: &'a Adjacency,
    /// Norm of the node states.
    pub norm_node: &'a Affine,
    /// Norm of the edge states.
    pub norm_edge: &'a Affine,
    /// After both norms.
    pub activation: Activation,
    /// Node states that are added to the new ones, `[N, W]`; the edge states are then added to the
    /// new edge states, too.
    pub residual: Option<&'a Tensor>,
}

/// What comes out of [`gated_sum`].
#[derive(Debug, Clone)]
pub struct GatedSumOutput {
    /// Node states, `[N, W]`.
    pub nodes: Tensor,
    /// Edge states, `[E, W]`.
    pub edge_states: Tensor,
}

/// With `e_ij = gate_target_i + gate_source_j + gate_edge(edge_ij)` and the gate
/// `g = weight_ij · sigmoid(e_ij)`, node i becomes `own_i + Σ g·sent_j / (Σ g + 1e-6)` over its
/// incoming edges and edge (i, j) becomes `e_ij`; both pass through their norm, the activation and
/// the residual sum.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn gated_sum(input: GatedSumInput<'_>) -> Result<GatedSumOutput> {
    check(&input)?;
    let tensors = [
        input.own,
        input.sent,
        input.gate_target,
        input.gate_source,
        input.edge_states,
    ];
    let norms = [input.norm_node, input.norm_edge].map(|norm| [&norm.scale, &norm.shift]);
    let options = [input.weights, input.residual];
    let all = || {
        (tensors.into_iter())
            .chain(norms.into_iter().flatten())
            .chain(options.into_iter().flatten())
            .chain(input.gate_edge.tensors())
    };
    let _work = work::record(|| work::gated_sum(&input, all()));
    if fused_on_cpu(all()) {
        cpu::forward(&input)
    } else if fused_on_gpu(all()) {
        gpu::forward(&input)
    } else {
        reference::forward(&input)
    }
}

fn check(input: &GatedSumInput<'_>) -> Result<()> {
    const OPERATION: &str = "gated sum";
    let adjacency = input.adjacency;
    let width = neighbourhood::check_nodes(OPERATION, input.own, adjacency)?;
    let more = [input.sent, input.gate_target, input.gate_source];
    for nodes in more.into_iter().chain(input.residual) {
        if neighbourhood::check_nodes(OPERATION, nodes, adjacency)? != width {
            bail!(
                "{OPERATION}: node states of shape {:?} beside others of width {width}",
                nodes.dims()
            );
        }
    }
    neighbourhood::check_edges(OPERATION, input.edge_states, width, adjacency)?;
    if let Some(weights) = input.weights {
        neighbourhood::check_edges(OPERATION, weights, 1, adjacency)?;
    }
    let map = [input.gate_edge.in_dim(), input.gate_edge.out_dim()];
    if map != [width; 2] {
        bail!(
            "{OPERATION}: a map from {} to {} for edge states of width {width}",
            map[0],
            map[1]
        );
    }
    for norm in [input.norm_node, input.norm_edge] {
        if norm.scale.dims() != [width] || norm.shift.dims() != [width] {
            bail!(
                "{OPERATION}: a norm of shapes {:?} and {:?} for a width of {width}",
                norm.scale.dims(),
                norm.shift.dims()
            );
        }
    }
    Ok(())
}
