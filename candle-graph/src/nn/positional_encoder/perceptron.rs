//! Chains of affine maps that all end with ReLU.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use crate::nn::linear;
use crate::ops::{self, Activation, LinearWeights};

/// Affine maps, each followed by ReLU.
#[derive(Debug, Clone)]
pub(super) struct Perceptron {
    pub(super) layers: Vec<LinearWeights>,
}

/// Widths of the official perceptrons of `layers` maps from `input` to `output`: twice `output`
/// in between.
pub(super) fn widths(input: usize, output: usize, layers: usize) -> Vec<usize> {
    let mut widths = vec![input];
    widths.extend(vec![output.saturating_mul(2); layers.saturating_sub(1)]);
    widths.push(output);
    widths
}

impl Perceptron {
    /// Loads `{j}.{weight,bias}` for maps between consecutive `widths`.
    pub(super) fn new(widths: &[usize], vb: &VarBuilder<'_>) -> Result<Self> {
        let layer = |(j, pair): (usize, &[usize])| linear(pair[0], pair[1], vb.pp(j));
        let layers = widths.windows(2).enumerate().map(layer);
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
        })
    }

    /// `[rows, first width]` to `[rows, last width]`.
    pub(super) fn forward(&self, x: Tensor) -> Result<Tensor> {
        let step = |x: Tensor, layer: &LinearWeights| ops::linear(&x, layer, Activation::Relu);
        self.layers.iter().try_fold(x, step)
    }
}
