//! Squared distances in plain candle tensors.

use candle_core::{Result, Tensor};

use crate::graph::Adjacency;
use crate::ops::neighbourhood::{of_sources, of_targets};

pub(super) fn forward(positions: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let differences = of_targets(positions, adjacency)? - of_sources(positions, adjacency)?;
    differences?.sqr()?.sum_keepdim(1)
}
