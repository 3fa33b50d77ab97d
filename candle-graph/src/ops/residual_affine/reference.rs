//! Residual sums in plain candle tensors.

use candle_core::{Result, Tensor};

use crate::ops::Affine;

pub(super) fn forward(
    residual: &Tensor,
    x: &Tensor,
    affine: Option<&Affine>,
    add: Option<&Tensor>,
) -> Result<Tensor> {
    let sum = (residual + x)?;
    let sum = match affine {
        Some(affine) => affine.forward(&sum)?,
        None => sum,
    };
    match add {
        Some(add) => sum + add,
        None => Ok(sum),
    }
}
