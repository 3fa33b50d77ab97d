//! Node states from node features and positional encodings.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::positional_encoder::{Contribution, PositionalEncoder};
use super::{FeatureEncoder, FeatureEncoderConfig, PositionalEncoderConfig};
use crate::encodings::{EncodingPlan, EncodingRecipe, ROTATIONAL, Rotational};
use crate::error::{Error, Result};
use crate::graph::{BatchFeatures, FeatureSchema, GraphBatch};

/// The node encoder of GraphGPS (`dataset.node_encoder_name`, such as `TypeDictNode+LapPE+RWSE`):
/// encoded features, narrower than the model, and what the positional encoders append to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEncoderConfig {
    /// The features. A bare positional encoder of GraphGPS (`LapPE`, `RWSE`, `SignNet`) has a
    /// linear map of its own for them (`linear_x`), which is the same thing.
    pub features: FeatureEncoderConfig,
    /// Coordinates of the nodes whose columns stand before those of the features, in front of the
    /// linear map of both: the eigenvectors that WIRE's models of synthetic tasks also read as
    /// input. Only a linear encoder has such a map; its `width` does not count them. They may be
    /// those that rotate queries and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepend: Option<Rotational>,
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

    /// What the encoder itself expects of the edges of a graph, whether or not the model has an
    /// edge encoder: one column of categories for the bias from shortest paths (`GraphormerBias`
    /// with edge types).
    pub fn edge_schema(&self) -> Option<FeatureSchema> {
        self.positional.iter().find_map(|encoder| match encoder {
            PositionalEncoderConfig::Graphormer {
                recipe, edge_types, ..
            } if recipe.edge_types && !recipe.degrees_only => Some(FeatureSchema::Categorical {
                tables: vec![*edge_types],
            }),
            _ => None,
        })
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

    /// The encodings that the encoder reads, each once.
    pub fn recipes(&self) -> Vec<EncodingRecipe> {
        let prepend = self.prepend.clone().map(EncodingRecipe::Rotational);
        let mut recipes: Vec<EncodingRecipe> = prepend.into_iter().collect();
        for encoder in &self.positional {
            let recipe = encoder.recipe();
            if !recipes.contains(&recipe) {
                recipes.push(recipe);
            }
        }
        recipes
    }

    /// Width of the node states before each positional encoder, and after the last: 0 where there
    /// are no states yet. A Graphormer that finds none makes them as wide as later ones leave.
    fn state_dims(&self, width: usize) -> Vec<usize> {
        let mut state = match self.features {
            FeatureEncoderConfig::None => 0,
            _ => self.features_dim(width).unwrap_or(0),
        };
        let mut left: usize = self
            .positional
            .iter()
            .map(PositionalEncoderConfig::dim)
            .sum();
        let mut states = vec![state];
        for encoder in &self.positional {
            left -= encoder.dim();
            match encoder {
                PositionalEncoderConfig::Graphormer { .. } if state == 0 => {
                    state = width.saturating_sub(left);
                }
                _ => state += encoder.dim(),
            }
            states.push(state);
        }
        states
    }

    /// Checks that an encoder of width `width` can be built.
    ///
    /// # Errors
    /// What rules it out: positional encoders that take more columns than there are, or leave some
    /// although there are no features; coordinates without a linear map to read them; LapPE and EquivStableLapPE with different eigenvectors;
    /// an encoder behind a Graphormer with a graph token (the official code has none either);
    /// a count of 0.
    pub fn check(&self, width: usize) -> Result<()> {
        let refuse = |problem: String| Err(Error::Encoding(format!("node encoder: {problem}")));
        let Some(features) = self.features_dim(width) else {
            return refuse(format!(
                "the positional encoders take more than the {width} columns of a node state"
            ));
        };
        if let Some(problem) = self.positional.iter().find_map(|encoder| encoder.problem()) {
            return refuse(problem);
        }
        let made = self.state_dims(width).last().copied().unwrap_or(0);
        if made != width {
            return refuse(format!(
                "it makes {made} of the {width} columns of a node state"
            ));
        }
        if features == 0 && self.features != FeatureEncoderConfig::None {
            return refuse(
                "the positional encoders leave no column for the features; their encoder must be \
                 `none`"
                    .to_string(),
            );
        }
        if self.prepend.is_some() && !matches!(self.features, FeatureEncoderConfig::Linear { .. }) {
            return refuse(
                "coordinates stand before features that go through a linear map; the encoder of \
                 the features must be `linear`"
                    .to_string(),
            );
        }
        let takes_no_more = |encoder: &PositionalEncoderConfig| {
            matches!(
                encoder,
                PositionalEncoderConfig::Graphormer {
                    graph_token: true,
                    ..
                }
            )
        };
        if let Some((_, before)) = self.positional.split_last()
            && before.iter().any(takes_no_more)
        {
            return refuse("behind GraphormerBias with a graph token there is another".to_string());
        }
        let kinds = |kind: fn(&PositionalEncoderConfig) -> bool| {
            self.positional
                .iter()
                .filter(|encoder| kind(encoder))
                .count()
        };
        let biased = kinds(|e| matches!(e, PositionalEncoderConfig::Graphormer { .. }));
        let positions = kinds(|e| matches!(e, PositionalEncoderConfig::EquivStable { .. }));
        if biased > 1 || positions > 1 {
            return refuse("GraphormerBias and EquivStableLapPE may stand once".to_string());
        }
        if positions > 0 && self.positional.iter().any(takes_no_more) {
            return refuse("EquivStableLapPE has no position for a graph token".to_string());
        }
        EncodingPlan::new(self.recipes()).map(|_| ())
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
pub struct NodeEncoder {
    features: FeatureEncoder,
    prepend: bool,
    positional: Vec<PositionalEncoder>,
}

impl NodeEncoder {
    /// Loads `features.…` as [`FeatureEncoder`] does, for as many more columns as there are
    /// coordinates before them (`features.linear.weight` `[D, m + width]`), and `positional.{i}.…`, the positional
    /// encoder at position `i`; `width` is D. With BatchNorm standing for `weight`, `bias`,
    /// `running_mean` and `running_var`, and maps for `weight` and `bias`:
    ///
    /// - LapPE: BatchNorm `raw_norm` `[frequencies]` where there is one; map `input` from 2; of a
    ///   deep set the further maps `layers.{j}`, of a transformer the maps
    ///   `layers.{l}.attention.{in_proj,out_proj}` and `layers.{l}.feed_forward.{input,output}` and
    ///   the LayerNorms `layers.{l}.{norm_attention,norm_feed_forward}`; maps `post.{j}`.
    /// - RWSE, HKdiagSE, ElstaticSE: BatchNorm `raw_norm` `[values]` where there is one; maps
    ///   `layers.{j}`.
    /// - SignNet: `layers.{l}.eps` `[1]`, maps `layers.{l}.{input,output}`, BatchNorm
    ///   `layers.{l}.norm` between them; BatchNorm `norms.{l}` between the layers; maps `post.{j}`
    ///   with BatchNorm `post_norms.{j}` between them.
    /// - EquivStableLapPE: BatchNorm `raw_norm` `[frequencies]` where there is one; map `linear`.
    /// - GraphormerBias: `in_degrees.weight` and `out_degrees.weight`; `spatial.weight`
    ///   `[spatial types + 1, heads]`; with edge types `edges.weight` `[edge types, heads]` and
    ///   `edge_distances.weight` `[spatial types · heads², 1]`; with a graph token `graph_token`
    ///   and `bias_token` `[1, heads, 1]`.
    ///
    /// # Errors
    /// An impossible configuration, tensors that are missing or of another shape.
    pub fn new(config: &NodeEncoderConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        config.check(width)?;
        let features_dim = config.features_dim(width).unwrap_or(0);
        let features = match (&config.features, &config.prepend) {
            (FeatureEncoderConfig::Linear { width }, Some(prepend)) => {
                &FeatureEncoderConfig::Linear {
                    width: width.saturating_add(prepend.dim()),
                }
            }
            (features, _) => features,
        };
        let features = FeatureEncoder::new(features, features_dim, vb.pp("features"))?;
        let states = config.state_dims(width);
        let mut positional = Vec::with_capacity(config.positional.len());
        for (i, (encoder, after)) in config
            .positional
            .iter()
            .zip(states.iter().skip(1))
            .enumerate()
        {
            let vb = vb.pp("positional").pp(i);
            positional.push(PositionalEncoder::new(encoder, *after, vb)?);
        }
        Ok(Self {
            features,
            prepend: config.prepend.is_some(),
            positional,
        })
    }

    /// Encodes the nodes of `batch`.
    ///
    /// # Errors
    /// The batch was made with another schema, or carries no encoding of one of the recipes.
    pub fn forward(&self, batch: &GraphBatch) -> Result<NodeEncoding> {
        let mut nodes = match &self.features {
            FeatureEncoder::None => None,
            encoder => {
                let rows = batch.num_nodes();
                Some(match (self.prepend, batch.node_features()) {
                    (true, Some(BatchFeatures::Float(x))) => {
                        let both = Tensor::cat(&[batch.encoding(ROTATIONAL)?, x], 1)?;
                        encoder.forward(Some(&BatchFeatures::Float(both)), rows)?
                    }
                    (_, features) => encoder.forward(features, rows)?,
                })
            }
        };
        let (mut positions, mut bias, mut token_batch) = (None, None, None);
        for encoder in &self.positional {
            match encoder.forward(nodes.as_ref(), batch)? {
                Contribution::Nodes(states) => nodes = Some(states),
                Contribution::Positions(found) => positions = Some(found),
                Contribution::Biased {
                    nodes: states,
                    bias: found,
                    tokens,
                } => {
                    nodes = Some(states);
                    bias = found;
                    token_batch = tokens.map(|tokens| *tokens);
                }
            }
        }
        Ok(NodeEncoding {
            nodes: nodes.ok_or_else(|| Error::Encoding("node encoder: it makes nothing".into()))?,
            positions,
            bias,
            token_batch,
        })
    }
}

#[cfg(test)]
mod tests;
