//! Neighbour sums in plain candle tensors.

use candle_core::{Result, Tensor};

use super::NeighbourSumInput;
use crate::ops::neighbourhood::of_sources;
use crate::ops::{Reduction, segment_reduce};

pub(super) fn forward(input: &NeighbourSumInput<'_>, groups: usize) -> Result<Tensor> {
    let (_, width) = input.nodes.dims2()?;
    let edges = input.adjacency.len();
    let mut messages = of_sources(input.nodes, input.adjacency)?;
    if let Some(states) = input.edge_states {
        messages = (messages + states)?.relu()?;
    }
    if let Some(weights) = input.weights {
        messages = messages
            .reshape((edges, groups, width / groups))?
            .broadcast_mul(&weights.unsqueeze(2)?)?
            .reshape((edges, width))?;
    }
    let sums = segment_reduce(&messages, input.adjacency.ptr(), Reduction::Sum)?;
    match input.self_weight {
        Some(own) => sums + input.nodes.broadcast_mul(own)?,
        None => Ok(sums),
    }
}
