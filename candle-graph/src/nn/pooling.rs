//! Pooling of node states into graph states.

use candle_core::{Result, Tensor};
use serde::{Deserialize, Serialize};

use crate::graph::GraphBatch;
use crate::ops::{Reduction, segment_reduce};

/// How the nodes of a graph become one vector (`model.graph_pooling`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Sum over nodes.
    Add,
    /// Mean over nodes.
    #[default]
    Mean,
    /// Largest value over nodes, column by column.
    Max,
}

/// Pools node states `[nodes, width]` into graph states `[graphs, width]`.
pub fn pool(nodes: &Tensor, batch: &GraphBatch, pooling: Pooling) -> Result<Tensor> {
    let reduction = match pooling {
        Pooling::Add => Reduction::Sum,
        Pooling::Mean => Reduction::Mean,
        Pooling::Max => Reduction::Max,
    };
    segment_reduce(nodes, batch.node_ptr(), reduction)
}
