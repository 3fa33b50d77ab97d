//! The affine map in plain candle tensors.

use candle_core::{Result, Tensor};

use super::LinearWeights;
use crate::ops::Activation;

pub(super) fn linear(
    x: &Tensor,
    weights: &LinearWeights,
    activation: Activation,
) -> Result<Tensor> {
    let product = x.matmul(&weights.weight().t()?)?;
    let sum = match weights.bias() {
        Some(bias) => product.broadcast_add(bias)?,
        None => product,
    };
    activation.forward(&sum)
}
