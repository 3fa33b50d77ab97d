//! Neighbour statistics in plain candle tensors.

use candle_core::{Result, Tensor};

use crate::graph::Adjacency;
use crate::ops::neighbourhood::{of_sources, of_targets};
use crate::ops::{Reduction, segment_reduce};

pub(super) fn forward(
    targets: &Tensor,
    sources: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let ends = (of_targets(targets, adjacency)? + of_sources(sources, adjacency)?)?;
    let messages = (ends + edge_states)?;
    let reduce = |reduction| segment_reduce(&messages, adjacency.ptr(), reduction);
    let parts = [Reduction::Mean, Reduction::Max, Reduction::Sum].map(reduce);
    let [mean, max, sum] = parts;
    Tensor::cat(&[mean?, max?, sum?], 1)
}
