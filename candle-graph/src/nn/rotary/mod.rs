//! Rotary encodings of graphs (WIRE): frequencies, and the coordinates that they turn into angles.

mod config;
#[cfg(test)]
mod tests;

use std::ops::Range;

use candle_core::{DType, Result, Tensor};
use candle_nn::VarBuilder;

use super::AttentionConfig;
use super::positional_encoder::LapPeEncoder;
use crate::encodings::ROTATIONAL;
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::ops::{
    Activation, ColumnRotation, FeatureRotation, LinearWeights, RotaryPairs, RotationTable, linear,
    rotated_linear, rotation_table,
};

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

impl Rotation {
    /// The rotation of the queries, which are `columns` of a matrix, of `heads` heads.
    pub fn of_queries(&self, columns: Range<usize>, heads: usize) -> ColumnRotation<'_> {
        ColumnRotation {
            columns,
            heads,
            pairs: self.pairs,
            table: &self.query,
        }
    }

    /// The rotation of the keys, which are `columns` of a matrix, of `heads` heads.
    pub fn of_keys(&self, columns: Range<usize>, heads: usize) -> ColumnRotation<'_> {
        ColumnRotation {
            table: self.key_table(),
            ..self.of_queries(columns, heads)
        }
    }

    /// The rotation of features, where linear attention rotates these.
    pub fn of_features(&self) -> Option<FeatureRotation<'_>> {
        match self.modulation {
            RotaryModulation::BeforeFeatures => None,
            RotaryModulation::AfterFeatures => Some(FeatureRotation {
                query: &self.query,
                key: self.key_table(),
                pairs: self.pairs,
            }),
        }
    }

    fn key_table(&self) -> &RotationTable {
        self.key.as_ref().unwrap_or(&self.query)
    }
}

/// An affine map of node states `[nodes, in]` to the queries, keys and whatever else an attention
/// layer makes of them, side by side: the first `inner` columns are queries of `heads` heads, the
/// next `inner` columns keys. `rotation` turns both where they are made, unless it is one of
/// features ([`Rotation::of_features`]).
///
/// # Errors
/// Shapes that do not fit.
pub fn attention_projection(
    nodes: &Tensor,
    weights: &LinearWeights,
    (heads, inner): (usize, usize),
    rotation: Option<&Rotation>,
) -> Result<Tensor> {
    match rotation {
        Some(rotation) if rotation.modulation == RotaryModulation::BeforeFeatures => {
            let rotations = [
                rotation.of_queries(0..inner, heads),
                rotation.of_keys(inner..2 * inner, heads),
            ];
            rotated_linear(nodes, weights, &rotations)
        }
        _ => linear(nodes, weights, Activation::Identity),
    }
}

/// The frequencies Ω of one layer, or of all layers that share them.
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

    /// The rotation by the angles `t·Ωᵀ` (radians), for the coordinates `t` `[nodes, m]`. Angles are
    /// f32 at least, as those of half precision would be off by more than they tell nodes apart;
    /// cosines and sines are of the type of the frequencies.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn rotation(&self, t: &Tensor) -> Result<Rotation> {
        Ok(Rotation {
            query: table(t, &self.query)?,
            key: match &self.key {
                Some(key) => Some(table(t, key)?),
                None => None,
            },
            pairs: self.pairs,
            modulation: self.modulation,
        })
    }
}

/// The table of `t·Ωᵀ` in the type of the frequencies.
fn table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let dtype = frequencies.dtype();
    let exact = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let table = rotation_table(&t.to_dtype(exact)?, &frequencies.to_dtype(exact)?)?;
    Ok(RotationTable {
        cos: table.cos.to_dtype(dtype)?,
        sin: table.sin.to_dtype(dtype)?,
    })
}

/// Makes the coordinates of the nodes of a batch: those of the recipe as they are, or what LapPE's
/// encoder learned to make of eigenvectors (LapRoPE).
#[derive(Debug, Clone)]
pub struct RotationalEncoder(Source);

#[derive(Debug, Clone)]
enum Source {
    Raw,
    LapPe(LapPeEncoder),
}

impl RotationalEncoder {
    /// Loads nothing for coordinates as they are. For LapPE's encoder, it loads what
    /// [`NodeEncoder::new`](super::NodeEncoder::new) lists for LapPE, without a prefix of its own.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape.
    pub fn new(config: &RotationalFeaturesConfig, vb: VarBuilder<'_>) -> Result<Self> {
        match config {
            RotationalFeaturesConfig::Raw { .. } => Ok(Self(Source::Raw)),
            RotationalFeaturesConfig::LapPe(config) => {
                LapPeEncoder::new(config, &vb).map(|encoder| Self(Source::LapPe(encoder)))
            }
        }
    }

    /// The coordinates `[nodes, m]`, m = [`RotationalFeaturesConfig::dim`].
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
