//! The configuration of Graphormer.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::AttentionConfig;
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::sections::{InputConfig, OutputConfig, check_sizes};

/// Everything that shapes a Graphormer as GraphGPS ports it (`Graphormer`). The official option
/// stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphormerConfig {
    /// Width D of the node states (`graphormer.embed_dim`).
    pub hidden_dim: usize,
    /// Number of layers (`graphormer.num_layers`).
    pub layers: usize,
    /// Number of attention heads, a divisor of D (`graphormer.num_heads`).
    pub heads: usize,
    /// What stands before the layers. Without a Graphormer encoder that makes a bias, attention has
    /// none.
    pub input: InputConfig,
    /// What stands after the layers.
    pub output: OutputConfig,
}

impl GraphormerConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_sizes(&[("hidden_dim", self.hidden_dim), ("layers", self.layers)])?;
        let attention = AttentionConfig::softmax(self.heads);
        let checked = attention.check(self.hidden_dim);
        checked.map_err(|invalid| ConfigError::new("heads", invalid.problem))?;
        self.input.check(self.hidden_dim)?;
        self.output.check(self.hidden_dim, &self.input)?;
        let bias = self.input.check_bias(Some(&attention));
        bias.map_err(|error| ConfigError::new("heads", error.problem))?;
        self.input.check_no_positions("Graphormer passes none")?;
        Ok(())
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
