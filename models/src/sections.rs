//! What the families of GraphGPS share: the sections of their configurations before and after the
//! layers.

use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, NodeEncoderConfig, Pooling};
use serde::{Deserialize, Serialize};

/// What stands before the layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputConfig {
    /// Node features and positional encodings (`dataset.node_encoder_name`).
    pub node_encoder: NodeEncoderConfig,
    /// Edge features (`dataset.edge_encoder_name`); none when no layer reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_encoder: Option<FeatureEncoderConfig>,
    /// BatchNorm after the node encoder (`dataset.node_encoder_bn`).
    #[serde(default)]
    pub node_norm: bool,
    /// BatchNorm after the edge encoder (`dataset.edge_encoder_bn`).
    #[serde(default)]
    pub edge_norm: bool,
    /// The eps of these norms (`bn.eps`).
    #[serde(default = "norm_eps")]
    pub norm_eps: f64,
    /// A perceptron on the node states before the first layer (`gnn.layers_pre_mp`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_layers: Option<PreLayersConfig>,
}

/// A perceptron on node states: every affine map is followed by BatchNorm (optional), the
/// activation, and the normalisation of every row to length 1 (optional).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreLayersConfig {
    /// Width of the node encoder's result (`share.dim_in` without a node encoder).
    pub input_dim: usize,
    /// Number of affine maps (`gnn.layers_pre_mp`); their bias is left out where BatchNorm follows.
    pub layers: usize,
    /// `gnn.batchnorm`.
    pub batch_norm: bool,
    /// `gnn.act`.
    pub activation: candle_graph::ops::Activation,
    /// `gnn.l2norm`.
    pub normalise_rows: bool,
}

/// What stands after the layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Values of one prediction (`share.dim_out`).
    pub dim: usize,
    /// From nodes to a graph (`model.graph_pooling`).
    #[serde(default)]
    pub pooling: Pooling,
    /// The head (`gnn.head`).
    pub head: HeadConfig,
}

/// The eps of the norms in the official layers.
pub(crate) const NORM_EPS: f64 = 1e-5;

fn norm_eps() -> f64 {
    NORM_EPS
}
