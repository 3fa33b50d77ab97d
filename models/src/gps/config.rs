//! The configuration of GraphGPS.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::{AttentionConfig, MessagePassingConfig, RotaryConfig};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::sections::{InputConfig, OutputConfig, check_message_passing, check_sizes};
use crate::{ConfigError, rotations};

/// Everything that shapes a GraphGPS model (`GPSModel`). The official option stands behind every
/// field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpsConfig {
    /// Width D of the node states (`gt.dim_hidden`).
    pub hidden_dim: usize,
    /// Number of layers (`gt.layers`).
    pub layers: usize,
    /// What stands before the layers.
    pub input: InputConfig,
    /// Message passing along edges (the first half of `gt.layer_type`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<MessagePassingConfig>,
    /// Attention among all nodes of a graph (the second half of `gt.layer_type`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionConfig>,
    /// Rotation of queries and keys (WIRE, `gt.graphrope`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<RotaryConfig>,
    /// After every residual sum.
    pub norm: GpsNorm,
    /// Between the two maps of the feed-forward block (`gnn.act`).
    #[serde(default)]
    pub activation: Activation,
    /// What stands after the layers.
    pub output: OutputConfig,
}

/// The norm after a residual sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GpsNorm {
    /// None.
    None,
    /// BatchNorm with running statistics (`gt.batch_norm`).
    Batch,
    /// One mean and variance over all nodes and channels of a graph (`gt.layer_norm`, PyG's
    /// `LayerNorm` in its graph mode).
    GraphLayer,
}

impl GpsConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_sizes(&[("hidden_dim", self.hidden_dim), ("layers", self.layers)])?;
        self.input.check(self.hidden_dim)?;
        self.output.check(self.hidden_dim, &self.input)?;
        if self.local.is_none() && self.attention.is_none() {
            return Err(ConfigError::new(
                "local",
                "a layer needs message passing or attention",
            ));
        }
        if let Some(local) = &self.local {
            check_message_passing("local", local, self.hidden_dim, &self.input)?;
        }
        if self.local.is_none() && self.input.node_encoder.has_positions() {
            return Err(ConfigError::new(
                "local",
                "EquivStable positions scale messages, and there is no message passing",
            ));
        }
        if let Some(attention) = &self.attention {
            let checked = attention.check(self.hidden_dim);
            checked.map_err(|invalid| ConfigError::within("attention", invalid))?;
        }
        if let Some(rotary) = &self.rotary {
            let (width, layers) = (self.hidden_dim, self.layers);
            rotations::check(rotary, self.attention.as_ref(), width, layers, &self.input)?;
        }
        self.input.check_bias(self.attention.as_ref())
    }

    /// Width of the edge states.
    pub(super) fn edge_width(&self) -> usize {
        match &self.local {
            Some(local) => local.edge_width(self.hidden_dim),
            None => self.hidden_dim,
        }
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        self.input.schema(self.hidden_dim, self.edge_width())
    }

    /// The encodings that the model needs.
    ///
    /// # Errors
    /// A recipe with impossible parameters.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        rotations::plan(&self.input, self.rotary.as_ref())
    }
}
