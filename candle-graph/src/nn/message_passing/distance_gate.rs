//! Factors of messages from the distance of two nodes (EquivStableLapPE).

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;
use candle_nn::ops::sigmoid;

use crate::graph::Adjacency;
use crate::nn::linear;
use crate::ops::{self, Activation, LinearWeights, squared_distances};

/// `sigmoid(mlp(‖p_i − p_j‖²))` for every edge, with a perceptron from 1 over the width of the
/// model to 1 (`mlp_r_ij`; Wang et al., ICLR 2022).
#[derive(Debug, Clone)]
pub(super) struct DistanceGate {
    mlp: [LinearWeights; 2],
    activation: Activation,
}

impl DistanceGate {
    /// Loads `0.weight` `[width, 1]`, `0.bias` `[width]`, `1.weight` `[1, width]` and `1.bias` `[1]`
    /// (`mlp_r_ij.0` and `mlp_r_ij.2` in the official code).
    pub(super) fn new(width: usize, activation: Activation, vb: VarBuilder<'_>) -> Result<Self> {
        Ok(Self {
            mlp: [linear(1, width, vb.pp(0))?, linear(width, 1, vb.pp(1))?],
            activation,
        })
    }

    /// The factor of every edge, `[edges, 1]`, from `positions` `[nodes, any width]`.
    pub(super) fn forward(
        &self,
        positions: Option<&Tensor>,
        adjacency: &Adjacency,
    ) -> Result<Tensor> {
        let Some(positions) = positions else {
            bail!(
                "message passing with a distance gate needs the positions of the nodes: \
                 encode EquivStableLapPE and hand them in"
            );
        };
        let distances = squared_distances(positions, adjacency)?;
        let hidden = ops::linear(&distances, &self.mlp[0], self.activation)?;
        let logits = ops::linear(&hidden, &self.mlp[1], Activation::Identity)?;
        // GatedGCN divides by the sum of gates and 1e-6: small gates need all their digits, which
        // the logistic function by way of tanh would not have.
        sigmoid(&logits)
    }
}
