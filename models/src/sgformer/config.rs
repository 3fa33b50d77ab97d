//! The configuration of SGFormer.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::{AttentionConfig, FeatureMapConfig, RotaryConfig};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::sections::{InputConfig, OutputConfig, check_sizes};
use crate::{ConfigError, rotations};

/// Everything that shapes an SGFormer. The official option stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SgFormerConfig {
    /// Width D of the node states, of what the input section makes too (`hidden_channels`).
    pub hidden_dim: usize,
    /// What stands before both branches.
    pub input: InputConfig,
    /// The attention branch.
    pub attention: AttentionBranchConfig,
    /// Rotation of its queries and keys (WIRE), which are heads of width D each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<RotaryConfig>,
    /// The message passing branch; none leaves the attention branch alone (`use_graph`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_passing: Option<GraphBranchConfig>,
    /// How the two branches become one (`aggregate`).
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Of both branches; ReLU in the official code.
    #[serde(default)]
    pub activation: Activation,
    /// What stands after both branches.
    pub output: OutputConfig,
}

/// The attention branch (`TransConv`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionBranchConfig {
    /// Number of layers (`trans_num_layers`).
    pub layers: usize,
    /// Heads of width D each, over which a layer takes the mean (`trans_num_heads`).
    pub heads: usize,
    /// Whether there is a map to values; without it they are the node states
    /// (`trans_use_weight`).
    #[serde(default = "on")]
    pub value_map: bool,
    /// Whether a layer is mixed with the states it started from (`trans_use_residual`).
    #[serde(default = "on")]
    pub residual: bool,
    /// The layer's share α in that mixture, from 0 to 1; the states it started from get 1 − α
    /// (`alpha`; ½ where there is no such option).
    #[serde(default = "half")]
    pub alpha: f64,
    /// LayerNorm after the first map and after every layer (`trans_use_bn`).
    #[serde(default = "on")]
    pub layer_norm: bool,
    /// Whether the activation follows every layer, and not the first map alone
    /// (`trans_use_act`).
    #[serde(default = "on")]
    pub layer_activation: bool,
}

/// The message passing branch (`GraphConv`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphBranchConfig {
    /// Number of graph convolutions (`gnn_num_layers`).
    pub layers: usize,
    /// Whether an affine map follows the sums over neighbours (`gnn_use_weight`).
    #[serde(default = "on")]
    pub map: bool,
    /// Whether that map takes the branch's first states beside the sums (`gnn_use_init`); then it
    /// is there in any case.
    #[serde(default)]
    pub initial_states: bool,
    /// BatchNorm after the first map and after every convolution (`gnn_use_bn`).
    #[serde(default = "on")]
    pub batch_norm: bool,
    /// Whether the branch's first states are added after every convolution
    /// (`gnn_use_residual`).
    #[serde(default = "on")]
    pub residual: bool,
    /// Whether the activation follows every convolution, and not the first map alone
    /// (`gnn_use_act`).
    #[serde(default = "on")]
    pub layer_activation: bool,
}

/// How the results of the two branches become one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Aggregation {
    /// Their weighted mean (`add`).
    Mean {
        /// The share of message passing, from 0 to 1; attention gets the rest (`graph_weight`).
        graph_weight: f64,
    },
    /// Side by side, attention first: embeddings are 2·D wide (`cat`).
    Concatenate,
}

impl Default for Aggregation {
    fn default() -> Self {
        Self::Mean { graph_weight: 0.8 }
    }
}

fn on() -> bool {
    true
}

fn half() -> f64 {
    0.5
}

/// Checks a number that shares something out.
fn check_share(option: &str, value: f64) -> Result<(), ConfigError> {
    match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => Err(ConfigError::new(
            option,
            format!("{value} is out of range, which is 0 to 1"),
        )),
    }
}

impl SgFormerConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (width, attention) = (self.hidden_dim, &self.attention);
        check_sizes(&[
            ("hidden_dim", width),
            ("attention.layers", attention.layers),
            ("attention.heads", attention.heads),
            ("attention.heads", attention.heads.saturating_mul(width)),
        ])?;
        check_share("attention.alpha", attention.alpha)?;
        self.input.check(width)?;
        if let Some(graph) = &self.message_passing {
            check_sizes(&[("message_passing.layers", graph.layers)])?;
            if let Aggregation::Mean { graph_weight } = self.aggregation {
                check_share("aggregation.graph_weight", graph_weight)?;
            }
        }
        self.output.check(self.embedding_dim(), &self.input)?;
        self.input
            .check_no_positions("those of SGFormer take no factor")?;
        if self.input.edge_encoder.is_some() {
            return Err(ConfigError::new(
                "input.edge_encoder",
                "no layer of SGFormer reads edge states; leave the option out",
            ));
        }
        if let Some(rotary) = &self.rotary {
            let (heads, layers) = (self.heads(), attention.layers);
            let rotated = self.rotated_width();
            rotations::check(rotary, Some(&heads), rotated, layers, &self.input)?;
        }
        self.input.check_no_attention("SGFormer")
    }

    /// Width of node and graph embeddings.
    pub fn embedding_dim(&self) -> usize {
        match (&self.message_passing, self.aggregation) {
            (Some(_), Aggregation::Concatenate) => self.hidden_dim.saturating_mul(2),
            _ => self.hidden_dim,
        }
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        self.input.schema(self.hidden_dim, self.hidden_dim)
    }

    /// The encodings that the model needs.
    ///
    /// # Errors
    /// A recipe with impossible parameters.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        rotations::plan(&self.input, self.rotary.as_ref())
    }

    /// The attention as what is rotated, of [`rotated_width`](Self::rotated_width) columns.
    pub(super) fn heads(&self) -> AttentionConfig {
        AttentionConfig::Linear {
            heads: self.attention.heads,
            feature_map: FeatureMapConfig::Simple,
        }
    }

    /// Columns of queries and of keys.
    pub(super) fn rotated_width(&self) -> usize {
        self.attention.heads.saturating_mul(self.hidden_dim)
    }
}
