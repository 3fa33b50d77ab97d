//! The configuration of GRIT.

use candle_graph::encodings::{EncodingPlan, EncodingRecipe, Rrwp};
use candle_graph::graph::InputSchema;
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::sections::{check_sizes, norm_eps};

/// Everything that shapes a GRIT model. The official option stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GritConfig {
    /// Width D of node and pair states (`gt.dim_hidden`).
    pub hidden_dim: usize,
    /// Number of layers (`gt.layers`).
    pub layers: usize,
    /// Number of attention heads, a divisor of D (`gt.n_heads`).
    pub heads: usize,
    /// Values of one prediction (`share.dim_out`).
    pub output_dim: usize,
    /// Random walk encoding (`posenc_RRWP`).
    pub rrwp: Rrwp,
    /// Encoder of node features (`dataset.node_encoder_name`).
    pub node_encoder: FeatureEncoderConfig,
    /// Encoder of edge features; without one, edges count only through the walks
    /// (`dataset.edge_encoder_name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_encoder: Option<FeatureEncoderConfig>,
    /// BatchNorm on the encoded node features (`dataset.node_encoder_bn`).
    #[serde(default)]
    pub node_encoder_norm: bool,
    /// A second BatchNorm, which the official code applies to the *nodes* as well
    /// (`dataset.edge_encoder_bn`).
    #[serde(default)]
    pub edge_encoder_norm: bool,
    /// The eps of these two norms (`bn.eps`); the norms of the layers have a fixed one.
    #[serde(default = "norm_eps")]
    pub encoder_norm_eps: f64,
    /// The attention.
    pub attention: GritAttentionConfig,
    /// Activation of the nodes' feed-forward block (`gnn.act`).
    #[serde(default)]
    pub activation: Activation,
    /// Scale the attention's result by learned functions of the degree (`gt.attn.deg_scaler`).
    #[serde(default = "yes")]
    pub degree_scaler: bool,
    /// Whether pair states change from layer to layer (`gt.update_e`).
    #[serde(default = "yes")]
    pub update_pairs: bool,
    /// Linear map after the pair state's activation (`gt.attn.O_e`).
    #[serde(default = "yes")]
    pub pair_output: bool,
    /// Norms on the pair states too (`gt.attn.norm_e`).
    #[serde(default = "yes")]
    pub pair_norm: bool,
    /// LayerNorm after every residual sum, before the BatchNorm if both are on (`gt.layer_norm`).
    #[serde(default)]
    pub layer_norm: bool,
    /// BatchNorm after every residual sum (`gt.batch_norm`).
    #[serde(default = "yes")]
    pub batch_norm: bool,
    /// Learned factors on the residual branches (`gt.rezero`).
    #[serde(default)]
    pub rezero: bool,
    /// How nodes become a graph (`model.graph_pooling`).
    #[serde(default)]
    pub pooling: Pooling,
    /// The head (`gnn.head`).
    pub head: HeadConfig,
}

/// Options of GRIT's attention (`gt.attn`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GritAttentionConfig {
    /// Bound of the logits' magnitude; none if absent (`clamp`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamp: Option<f32>,
    /// Activation of the pair state (`act`).
    #[serde(default)]
    pub activation: Activation,
    /// Bring the aggregated pair states to the nodes (`edge_enhance`).
    #[serde(default = "yes")]
    pub edge_enhance: bool,
    /// Give keys and values a bias (`use_bias`).
    #[serde(default)]
    pub use_bias: bool,
    /// Attend to all pairs of a graph; otherwise to edges, to pairs that some walk of the encoding
    /// connects, and to the node itself (`full_attn`).
    #[serde(default = "yes")]
    pub full: bool,
}

fn yes() -> bool {
    true
}

impl GritConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> std::result::Result<(), ConfigError> {
        check_sizes(&[
            ("hidden_dim", self.hidden_dim),
            ("layers", self.layers),
            ("heads", self.heads),
            ("output_dim", self.output_dim),
        ])?;
        if let Err(error) = self.encoding_plan() {
            return Err(ConfigError::new("rrwp.steps", error.to_string()));
        }
        if !self.hidden_dim.is_multiple_of(self.heads) {
            return Err(ConfigError::new(
                "heads",
                format!(
                    "{} does not divide hidden_dim {}",
                    self.heads, self.hidden_dim
                ),
            ));
        }
        if self.attention.clamp.is_some_and(|c| !c.is_finite()) {
            return Err(ConfigError::new("attention.clamp", "it must be finite"));
        }
        if !(self.encoder_norm_eps.is_finite() && self.encoder_norm_eps >= 0.0) {
            return Err(ConfigError::new(
                "encoder_norm_eps",
                "it must be finite and not negative",
            ));
        }
        if self.pooling == Pooling::GraphToken {
            return Err(ConfigError::new("pooling", "GRIT has no graph token"));
        }
        let head = self.head.check(self.hidden_dim, self.output_dim);
        head.map_err(|invalid| ConfigError::within("head", invalid))?;
        let node = self.node_encoder.check();
        node.map_err(|invalid| ConfigError::within("node_encoder", invalid))?;
        if let Some(edge_encoder) = &self.edge_encoder {
            let edge = edge_encoder.check();
            edge.map_err(|invalid| ConfigError::within("edge_encoder", invalid))?;
        }
        Ok(())
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        InputSchema {
            node: self.node_encoder.schema(self.hidden_dim),
            edge: self
                .edge_encoder
                .as_ref()
                .map(|e| e.schema(self.hidden_dim))
                .unwrap_or_default(),
        }
    }

    /// The encodings that the model needs: RRWP.
    ///
    /// # Errors
    /// A number of walk steps out of range.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        EncodingPlan::new(vec![EncodingRecipe::Rrwp(self.rrwp.clone())])
    }
}
