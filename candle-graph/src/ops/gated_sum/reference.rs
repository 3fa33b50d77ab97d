//! Gated sums in plain candle tensors.

use candle_core::{Result, Tensor};
use candle_nn::ops::sigmoid;

use super::{GATE_EPS, GatedSumInput, GatedSumOutput};
use crate::ops::neighbourhood::{of_sources, of_targets};
use crate::ops::{Activation, Reduction, linear, segment_reduce};

pub(super) fn forward(input: &GatedSumInput<'_>) -> Result<GatedSumOutput> {
    let adjacency = input.adjacency;
    let ends =
        (of_targets(input.gate_target, adjacency)? + of_sources(input.gate_source, adjacency)?)?;
    let edges = (ends + linear(input.edge_states, input.gate_edge, Activation::Identity)?)?;
    // Gates of 1e-7 count beside GATE_EPS; by way of tanh they would have no correct digit.
    let gates = sigmoid(&edges)?;
    let gates = match input.weights {
        Some(weights) => gates.broadcast_mul(weights)?,
        None => gates,
    };
    let sum = |values: &Tensor| segment_reduce(values, adjacency.ptr(), Reduction::Sum);
    let sums = sum(&(&gates * of_sources(input.sent, adjacency)?)?)?;
    let nodes = (input.own + sums.div(&(sum(&gates)? + f64::from(GATE_EPS))?)?)?;
    let nodes = input
        .activation
        .forward(&input.norm_node.forward(&nodes)?)?;
    let edges = input
        .activation
        .forward(&input.norm_edge.forward(&edges)?)?;
    Ok(match input.residual {
        Some(residual) => GatedSumOutput {
            nodes: (nodes + residual)?,
            edge_states: (edges + input.edge_states)?,
        },
        None => GatedSumOutput {
            nodes,
            edge_states: edges,
        },
    })
}
