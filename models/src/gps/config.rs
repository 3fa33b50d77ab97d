//! The configuration of GraphGPS.

use candle_graph::nn::{AttentionConfig, MessagePassingConfig};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::sections::{InputConfig, OutputConfig};

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
