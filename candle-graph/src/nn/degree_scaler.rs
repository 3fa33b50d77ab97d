//! Degree scaler of GRIT.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use crate::graph::GraphBatch;

/// `x ⊙ θ₁ + ln(1 + degree) · x ⊙ θ₂` with the out-degree (equation 5 of the GRIT paper,
/// `gt.attn.deg_scaler`).
#[derive(Debug, Clone)]
pub struct DegreeScaler {
    constant: Tensor,
    slope: Tensor,
}

impl DegreeScaler {
    /// Loads the coefficients, `[1, width, 2]`.
    pub fn new(width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let coefficients = vb.get((1, width, 2), "degree_scaler")?;
        let part = |i| {
            coefficients
                .narrow(2, i, 1)?
                .reshape((1, width))?
                .contiguous()
        };
        Ok(Self {
            constant: part(0)?,
            slope: part(1)?,
        })
    }

    /// `ln(1 + out-degree)` of every node of the batch, `[nodes, 1]`.
    pub fn log_degrees(batch: &GraphBatch) -> Result<Tensor> {
        let logs: Vec<f32> = batch
            .out_degrees()
            .iter()
            .map(|&d| (d as f32 + 1.0).ln())
            .collect();
        Tensor::from_vec(logs, (batch.num_nodes(), 1), batch.device())
    }

    /// Scales node states `[nodes, width]` by the degrees of [`log_degrees`](Self::log_degrees).
    pub fn forward(&self, nodes: &Tensor, log_degrees: &Tensor) -> Result<Tensor> {
        let log_degrees = log_degrees.to_dtype(nodes.dtype())?;
        let factor = log_degrees
            .broadcast_mul(&self.slope)?
            .broadcast_add(&self.constant)?;
        nodes * factor
    }
}
