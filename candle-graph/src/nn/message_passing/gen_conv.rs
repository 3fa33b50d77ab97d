//! Generalised aggregation (DeeperGCN).

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::{MessageInput, NORM_EPS};
use crate::nn::{batch_norm, linear_no_bias};
use crate::ops::{self, Activation, LinearWeights, neighbour_softmax, residual_affine};

/// `mlp(x_i + Σ_j α_j·m_j)` with messages `m_j = relu(x_j + e_ij) + 1e-7` and α their softmax
/// column by column (PyG's `GENConv` with its defaults: temperature 1, a perceptron over twice the
/// width with BatchNorm and ReLU, no biases).
#[derive(Debug, Clone)]
pub struct GenConv {
    mlp: [LinearWeights; 2],
}

impl GenConv {
    /// Loads `mlp.0.weight` `[2·width, width]`, `mlp.norm` (`weight`, `bias`, `running_mean`,
    /// `running_var`, each `[2·width]`; folded into the map before it) and `mlp.1.weight`
    /// `[width, 2·width]`: `mlp.0`, `mlp.1` and `mlp.4` in PyG.
    pub(super) fn new(width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let Some(hidden) = width.checked_mul(2) else {
            candle_core::bail!("GENConv: a width of {width}");
        };
        let mlp = vb.pp("mlp");
        let first = linear_no_bias(width, hidden, mlp.pp(0))?;
        let norm = batch_norm(hidden, NORM_EPS, mlp.pp("norm"))?;
        let weight = first.weight().broadcast_mul(&norm.scale.unsqueeze(1)?)?;
        Ok(Self {
            mlp: [
                LinearWeights::new(weight, Some(norm.shift))?,
                linear_no_bias(hidden, width, mlp.pp(1))?,
            ],
        })
    }

    /// New node states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<Tensor> {
        let edge_states = input.edge_states("GENConv")?;
        let heard = neighbour_softmax(input.nodes, edge_states, input.edges.adjacency())?;
        let sums = residual_affine(input.nodes, &heard, None, None)?;
        let hidden = ops::linear(&sums, &self.mlp[0], Activation::Relu)?;
        ops::linear(&hidden, &self.mlp[1], Activation::Identity)
    }
}
