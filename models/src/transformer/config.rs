//! The configuration of the plain graph transformer.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::{AttentionConfig, RotaryConfig};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::sections::{InputConfig, OutputConfig, check_sizes};
use crate::{ConfigError, rotations};

/// Everything that shapes a plain graph transformer (`GT` of the WIRE authors' code). The official
/// option stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerConfig {
    /// Width D of the node states (`gt.dim_hidden`).
    pub hidden_dim: usize,
    /// Number of layers (`gt.layers`).
    pub layers: usize,
    /// What stands before the layers.
    pub input: InputConfig,
    /// Attention among all nodes of a graph (`gt.graphrope.attn_type`).
    pub attention: AttentionConfig,
    /// Rotation of queries and keys (WIRE, `gt.graphrope`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<RotaryConfig>,
    /// Whether a second affine map follows the attention's own (`O_h` of the official layer).
    #[serde(default)]
    pub second_output: bool,
    /// Width of the feed-forward block: 2·D in the official code.
    pub feed_forward_dim: usize,
    /// Between the two maps of the feed-forward block; ReLU in the official code.
    #[serde(default)]
    pub activation: Activation,
    /// Whether every block adds the states it started from (`gt.residual`).
    pub residual: bool,
    /// Where the norms stand.
    #[serde(default)]
    pub norm_place: NormPlace,
    /// LayerNorm (`gt.layer_norm`).
    pub layer_norm: bool,
    /// BatchNorm, behind it where there are both (`gt.batch_norm`).
    pub batch_norm: bool,
    /// What stands after the layers.
    pub output: OutputConfig,
}

/// Where the norms of a block stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NormPlace {
    /// After the residual sum, as in the official code.
    #[default]
    After,
    /// Before the block; after the last layer there is one more, `norm`.
    Before,
}

impl TransformerConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (width, layers) = (self.hidden_dim, self.layers);
        check_sizes(&[
            ("hidden_dim", width),
            ("layers", layers),
            ("feed_forward_dim", self.feed_forward_dim),
        ])?;
        self.input.check(width)?;
        self.output.check(width, &self.input)?;
        let attention = self.attention.check(width);
        attention.map_err(|invalid| ConfigError::within("attention", invalid))?;
        self.input.check_no_positions("a transformer passes none")?;
        if self.input.edge_encoder.is_some() {
            return Err(ConfigError::new(
                "input.edge_encoder",
                "no layer of a plain transformer reads edge states; leave the option out",
            ));
        }
        if let Some(rotary) = &self.rotary {
            rotations::check(rotary, Some(&self.attention), width, layers, &self.input)?;
        }
        self.input.check_bias(Some(&self.attention))
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
}
