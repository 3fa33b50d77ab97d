//! The norms after a residual sum.

use candle_core::{Result, Tensor};
use candle_graph::nn::{batch_norm, layer_norm};
use candle_graph::ops::{Affine, LayerNorm};
use candle_nn::VarBuilder;

use crate::sections::NORM_EPS;

/// The norms after a residual sum: LayerNorm, then BatchNorm, each optional.
#[derive(Debug, Clone)]
pub(crate) struct PostNorm {
    pub(crate) layer: Option<LayerNorm>,
    pub(crate) batch: Option<Affine>,
}

impl PostNorm {
    /// Loads `layer_norm_{place}` and `batch_norm_{place}`, those that are wanted.
    pub(crate) fn new(
        width: usize,
        (layer, batch): (bool, bool),
        place: &str,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let at = |kind: &str| vb.pp(format!("{kind}_norm_{place}"));
        Ok(Self {
            layer: match layer {
                true => Some(layer_norm(width, NORM_EPS, at("layer"))?),
                false => None,
            },
            batch: match batch {
                true => Some(batch_norm(width, NORM_EPS, at("batch"))?),
                false => None,
            },
        })
    }

    /// Normalises `[rows, width]`.
    pub(crate) fn forward(&self, x: Tensor) -> Result<Tensor> {
        let x = match &self.layer {
            Some(norm) => norm.forward(&x)?,
            None => x,
        };
        match &self.batch {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}
