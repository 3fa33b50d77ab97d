//! Graph convolution.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::MessageInput;
use crate::nn::linear_no_bias;
use crate::ops::{self, Activation, LinearWeights, NeighbourSumInput, neighbour_sum};

/// `Σ_j W·x_j / √(d_i·d_j) + b` over the incoming edges and one self loop a node, with the
/// in-degrees d of these edges (PyG's `GCNConv`). A self loop of the graph is replaced by that one.
#[derive(Debug, Clone)]
pub struct Gcn {
    map: LinearWeights,
    bias: Tensor,
}

impl Gcn {
    /// Loads `weight` `[width, width]` (`lin.weight` in PyG) and `bias` `[width]`.
    pub(super) fn new(width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        Ok(Self {
            bias: vb.get(width, "bias")?,
            map: linear_no_bias(width, width, vb)?,
        })
    }

    /// New node states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<Tensor> {
        let looped = input.edges.self_looped()?;
        let weights = looped.symmetric_weights().to_dtype(input.nodes.dtype())?;
        let mapped = ops::linear(input.nodes, &self.map, Activation::Identity)?;
        let sums = neighbour_sum(NeighbourSumInput {
            nodes: &mapped,
            adjacency: looped.adjacency(),
            edge_states: None,
            weights: Some(&weights),
            self_weight: None,
        })?;
        sums.broadcast_add(&self.bias)
    }
}
