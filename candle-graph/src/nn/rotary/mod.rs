//! Rotary encodings of graphs (WIRE): frequencies, and the coordinates that they turn into angles.

mod config;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::AttentionConfig;
use super::positional_encoder::LapPeEncoder;
use crate::encodings::ROTATIONAL;
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::ops::{RotaryPairs, RotationTable, rotation_table};

pub use config::{RotaryConfig, RotaryModulation, RotationalFeaturesConfig};

/// Rotation of the queries and keys of one layer, for the nodes of a batch.
#[derive(Debug, Clone)]
pub struct Rotation {
    /// Of the queries.
    pub query: RotationTable,
    /// Of the keys; those of the queries where there are none.
    pub key: Option<RotationTable>,
    /// Which columns are rotated.
    pub pairs: RotaryPairs,
    /// Where linear attention rotates.
    pub modulation: RotaryModulation,
}

/// The frequencies Ω of one layer.
#[derive(Debug, Clone)]
pub struct Rotary {
    query: Tensor,
    key: Option<Tensor>,
    pairs: RotaryPairs,
    modulation: RotaryModulation,
}

impl Rotary {
    /// Loads `query.weight` `[pairs, m]` (`OmegaQ.weight`) and, with separate frequencies for the
    /// keys, `key.weight` of the same shape (`OmegaK.weight`), for `attention` of `width` columns.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape.
    pub fn new(
        config: &RotaryConfig,
        attention: &AttentionConfig,
        width: usize,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let (heads, head_dim) = config.rotated_heads(attention, width);
        let shape = (config.pairs.count(heads, head_dim), config.features.dim());
        Ok(Self {
            query: vb.get(shape, "query.weight")?,
            key: match config.separate_keys {
                true => Some(vb.get(shape, "key.weight")?),
                false => None,
            },
            pairs: config.pairs,
            modulation: config.modulation,
        })
    }

    /// The rotation for the coordinates `t` `[nodes, m]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn rotation(&self, t: &Tensor) -> Result<Rotation> {
        Ok(Rotation {
            query: rotation_table(t, &self.query)?,
            key: match &self.key {
                Some(key) => Some(rotation_table(t, key)?),
                None => None,
            },
            pairs: self.pairs,
            modulation: self.modulation,
        })
    }
}

/// Makes the coordinates of the nodes of a batch.
#[derive(Debug, Clone)]
pub struct RotationalEncoder(Source);

#[derive(Debug, Clone)]
enum Source {
    Raw,
    LapPe(LapPeEncoder),
}

impl RotationalEncoder {
    /// Loads nothing for coordinates as they are, and for `lap_pe` what
    /// [`NodeEncoder::new`](super::NodeEncoder::new) lists for LapPE.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape.
    pub fn new(config: &RotationalFeaturesConfig, vb: VarBuilder<'_>) -> Result<Self> {
        match config {
            RotationalFeaturesConfig::Raw { .. } => Ok(Self(Source::Raw)),
            RotationalFeaturesConfig::LapPe {
                recipe,
                dim,
                set,
                post_layers,
                raw_norm,
            } => LapPeEncoder::new(recipe, *dim, set, *post_layers, *raw_norm, &vb)
                .map(|encoder| Self(Source::LapPe(encoder))),
        }
    }

    /// The coordinates `[nodes, m]`.
    ///
    /// # Errors
    /// The batch carries no encoding of the recipe.
    pub fn forward(&self, batch: &GraphBatch) -> EngineResult<Tensor> {
        match &self.0 {
            Source::Raw => batch.encoding(ROTATIONAL).cloned(),
            Source::LapPe(encoder) => encoder.forward(batch),
        }
    }
}
