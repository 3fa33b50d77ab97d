//! Loading of affine maps.

use candle_core::Result;
use candle_nn::VarBuilder;

use crate::ops::LinearWeights;

/// `weight` `[out, in]` and `bias` `[out]`.
pub fn linear(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<LinearWeights> {
    let weight = vb.get((out_dim, in_dim), "weight")?;
    LinearWeights::new(weight, Some(vb.get(out_dim, "bias")?))
}

/// `weight` `[out, in]` alone.
pub fn linear_no_bias(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<LinearWeights> {
    LinearWeights::new(vb.get((out_dim, in_dim), "weight")?, None)
}
