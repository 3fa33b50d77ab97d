//! Softmax aggregation in plain candle tensors.

use candle_core::{Result, Tensor};

use super::MESSAGE_EPS;
use crate::graph::Adjacency;
use crate::ops::neighbourhood::of_sources;
use crate::ops::{Reduction, segment_reduce, segment_softmax};

pub(super) fn forward(
    nodes: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let sums = (of_sources(nodes, adjacency)? + edge_states)?;
    let messages = (sums.relu()? + f64::from(MESSAGE_EPS))?;
    let shares = segment_softmax(&messages, adjacency.ptr())?;
    segment_reduce(&(messages * shares)?, adjacency.ptr(), Reduction::Sum)
}
