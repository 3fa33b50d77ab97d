//! Positions from Laplacian eigenvectors (EquivStableLapPE).

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use crate::encodings::{LAP_PE_EIGENVECTORS, LapPe};
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::nn::linear::ExactLinear;
use crate::nn::{NORM_EPS, linear, norm::ExactBatchNorm};
use crate::ops::{self, Activation, LinearWeights};

/// An affine map of the eigenvectors of a node.
#[derive(Debug, Clone)]
pub(super) struct EquivStable {
    linear: LinearWeights,
}

impl EquivStable {
    /// Loads `linear.{weight,bias}` and, where there is one,
    /// `raw_norm.{weight,bias,running_mean,running_var}` `[frequencies]`.
    pub(super) fn new(
        recipe: &LapPe,
        width: usize,
        raw_norm: bool,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let frequencies = recipe.frequencies;
        let linear = match raw_norm {
            false => linear(frequencies, width, vb.pp("linear"))?,
            true => {
                let norm =
                    ExactBatchNorm::new(frequencies, NORM_EPS, &vb.pp("raw_norm"))?.affine()?;
                let map = ExactLinear::new(frequencies, width, &vb.pp("linear"))?;
                map.after(&norm)?.finish()?
            }
        };
        Ok(Self { linear })
    }

    /// Positions, `[nodes, width]`.
    pub(super) fn forward(&self, batch: &GraphBatch) -> EngineResult<Tensor> {
        let vectors = batch.encoding(LAP_PE_EIGENVECTORS)?;
        let vectors = vectors.to_dtype(self.linear.weight().dtype())?;
        Ok(ops::linear(&vectors, &self.linear, Activation::Identity)?)
    }
}
