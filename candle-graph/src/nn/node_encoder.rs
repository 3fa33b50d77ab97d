//! Node states from node features and positional encodings.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::{FeatureEncoderConfig, PositionalEncoderConfig};
use crate::encodings::EncodingRecipe;
use crate::error::{Error, Result};
use crate::graph::{FeatureSchema, GraphBatch};

/// The node encoder of GraphGPS (`dataset.node_encoder_name`, such as `TypeDictNode+LapPE+RWSE`):
/// encoded features, narrower than the model, and what the positional encoders append to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEncoderConfig {
    /// The features. A bare positional encoder of GraphGPS (`LapPE`, `RWSE`, `SignNet`) has a
    /// linear map of its own for them (`linear_x`), which is the same thing.
    pub features: FeatureEncoderConfig,
    /// Positional encoders in order.
    #[serde(default)]
    pub positional: Vec<PositionalEncoderConfig>,
}

impl NodeEncoderConfig {
    /// Columns of the encoded features in a model of width `width`: what the positional encoders
    /// leave; `None` when they take more than there is.
    pub fn features_dim(&self, width: usize) -> Option<usize> {
        let dims = self.positional.iter().map(PositionalEncoderConfig::dim);
        width.checked_sub(dims.fold(0, usize::saturating_add))
    }

    /// What the encoder expects of the nodes of a graph, in a model of width `width`.
    pub fn schema(&self, width: usize) -> FeatureSchema {
        self.features.schema(self.features_dim(width).unwrap_or(0))
    }

    /// What the encoder itself expects of the edges of a graph: the categories along shortest
    /// paths (`GraphormerBias`), whether or not the model has an edge encoder.
    pub fn edge_schema(&self) -> Option<FeatureSchema> {
        None
    }

    /// Whether the encoder makes positions whose distances scale messages (`EquivStableLapPE`).
    pub fn has_positions(&self) -> bool {
        let mut positional = self.positional.iter();
        positional.any(|encoder| matches!(encoder, PositionalEncoderConfig::EquivStable { .. }))
    }

    /// Heads of the attention bias that the encoder makes, if it makes one (`GraphormerBias`).
    pub fn bias_heads(&self) -> Option<usize> {
        self.positional.iter().find_map(|encoder| match encoder {
            PositionalEncoderConfig::Graphormer { recipe, heads, .. } if !recipe.degrees_only => {
                Some(*heads)
            }
            _ => None,
        })
    }

    /// The encodings that the encoder reads.
    pub fn recipes(&self) -> Vec<EncodingRecipe> {
        Vec::new()
    }

    /// Checks that an encoder of width `width` can be built.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, width: usize) -> Result<()> {
        match self.features_dim(width) {
            Some(_) => Ok(()),
            None => Err(Error::Encoding(format!(
                "the positional encoders take more than the {width} columns of a node state"
            ))),
        }
    }
}

/// What a [`NodeEncoder`] makes of a batch.
#[derive(Debug, Clone)]
pub struct NodeEncoding {
    /// Node states, `[nodes, D]`; with graph tokens, the nodes are those of
    /// [`token_batch`](Self::token_batch).
    pub nodes: Tensor,
    /// Positions whose distances scale messages (`EquivStableLapPE`), `[nodes, D]`.
    pub positions: Option<Tensor>,
    /// Bias of the attention logits (`GraphormerBias`), `[pairs, heads]` in the order of
    /// [`PairLayout`](crate::graph::PairLayout); with graph tokens, the pairs are those of
    /// [`token_batch`](Self::token_batch).
    pub bias: Option<Tensor>,
    /// The batch with graph tokens, where there are any: all later layers use it.
    pub token_batch: Option<GraphBatch>,
}

/// Encodes node features and appends positional encodings.
#[derive(Debug, Clone)]
pub struct NodeEncoder {}

impl NodeEncoder {
    /// Loads `features.…` as [`FeatureEncoder`](super::FeatureEncoder) does, and
    /// `positional.{i}.…`, the positional encoder at position `i`. `width` is D.
    ///
    /// # Errors
    /// An impossible configuration, tensors that are missing or of another shape.
    pub fn new(config: &NodeEncoderConfig, width: usize, _vb: VarBuilder<'_>) -> Result<Self> {
        config.check(width)?;
        Ok(Self {})
    }

    /// Encodes the nodes of `batch`.
    ///
    /// # Errors
    /// The batch was made with another schema, or carries no encoding of one of the recipes.
    pub fn forward(&self, _batch: &GraphBatch) -> Result<NodeEncoding> {
        Err(Error::Encoding("node encoder".to_string()))
    }
}
