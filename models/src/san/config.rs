//! The configuration of SAN.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::{AttentionConfig, SanWeighting};
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::sections::{InputConfig, OutputConfig, check_sizes};

/// Everything that shapes a Spectral Attention Network as GraphGPS ports it (`SANTransformer`). The
/// official option stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SanConfig {
    /// Width D of the node states (`gt.dim_hidden`).
    pub hidden_dim: usize,
    /// Number of layers (`gt.layers`).
    pub layers: usize,
    /// Number of attention heads, a divisor of D (`gt.n_heads`).
    pub heads: usize,
    /// What stands before the layers.
    pub input: InputConfig,
    /// Whether pairs without an edge take part in attention (`gt.full_graph`).
    pub full_graph: bool,
    /// How logits become weights (`gt.layer_type`).
    pub weighting: SanWeighting,
    /// Whether every block adds the states it started from (`gt.residual`).
    pub residual: bool,
    /// LayerNorm after every residual sum (`gt.layer_norm`).
    pub layer_norm: bool,
    /// BatchNorm after it (`gt.batch_norm`).
    pub batch_norm: bool,
    /// What stands after the layers.
    pub output: OutputConfig,
}

impl SanConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_sizes(&[("hidden_dim", self.hidden_dim), ("layers", self.layers)])?;
        let heads = AttentionConfig::softmax(self.heads);
        let checked = heads.check(self.hidden_dim);
        checked.map_err(|invalid| ConfigError::new("heads", invalid.problem))?;
        self.input.check(self.hidden_dim)?;
        self.output.check(self.hidden_dim, &self.input)?;
        self.input.check_no_attention("SAN")?;
        if self.input.edge_encoder.is_none() {
            return Err(ConfigError::new(
                "input.edge_encoder",
                "attention reads edge states, so the model needs an edge encoder",
            ));
        }
        self.input.check_no_positions("SAN passes none")?;
        match self.weighting {
            SanWeighting::Shared { gamma } if !(gamma.is_finite() && gamma > -1.0) => Err(
                ConfigError::new("weighting.gamma", "it must be finite and above -1"),
            ),
            _ => Ok(()),
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
        self.input.encoding_plan()
    }
}
