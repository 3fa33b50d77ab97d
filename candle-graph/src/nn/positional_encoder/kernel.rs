//! Encoders of kernel values: RWSE, HKdiagSE, ElstaticSE.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::KernelEncoder;
use super::perceptron::widths;
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::nn::linear::ExactLinear;
use crate::nn::{NORM_EPS, linear, norm::ExactBatchNorm};
use crate::ops::{self, Activation, LinearWeights};

/// Maps rows of kernel values to columns of the node states.
#[derive(Debug, Clone)]
pub(super) struct KernelValues {
    array: &'static str,
    layers: Vec<LinearWeights>,
    activation: Activation,
}

impl KernelValues {
    /// Loads `raw_norm.{weight,bias,running_mean,running_var}` `[values]`, where there is one, and
    /// `layers.{j}.{weight,bias}`, j from 0. `array` names the encoding with rows of `values`.
    pub(super) fn new(
        array: &'static str,
        values: usize,
        dim: usize,
        encoder: &KernelEncoder,
        raw_norm: bool,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let (layers, activation) = match encoder {
            KernelEncoder::Linear => (1, Activation::Identity),
            KernelEncoder::Mlp { layers } => (*layers, Activation::Relu),
        };
        let widths = widths(values, dim, layers);
        let layer = |(j, pair): (usize, &[usize])| {
            let vb_layer = vb.pp("layers").pp(j);
            if j > 0 || !raw_norm {
                return linear(pair[0], pair[1], vb_layer);
            }
            let norm = ExactBatchNorm::new(values, NORM_EPS, &vb.pp("raw_norm"))?.affine()?;
            let first = ExactLinear::new(pair[0], pair[1], &vb_layer)?;
            first.after(&norm)?.finish()
        };
        let layers = widths.windows(2).enumerate().map(layer);
        Ok(Self {
            array,
            layers: layers.collect::<Result<_>>()?,
            activation,
        })
    }

    /// `[nodes, dim]`.
    pub(super) fn forward(&self, batch: &GraphBatch) -> EngineResult<Tensor> {
        let mut x = batch.encoding(self.array)?.clone();
        for layer in &self.layers {
            let x_in = x.to_dtype(layer.weight().dtype())?;
            x = ops::linear(&x_in, layer, self.activation)?;
        }
        Ok(x)
    }
}
