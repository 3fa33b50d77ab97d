//! The configuration of plain message passing networks.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::MessagePassingConfig;
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::sections::{InputConfig, OutputConfig, check_message_passing, check_sizes};

/// Everything that shapes a message passing network (`custom_gnn`). The official option stands
/// behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MpnnConfig {
    /// Width D of the node states (`gnn.dim_inner`).
    pub hidden_dim: usize,
    /// Number of layers (`gnn.layers_mp`).
    pub layers: usize,
    /// What stands before the layers.
    pub input: InputConfig,
    /// The layer (`gnn.layer_type`).
    pub layer: MessagePassingConfig,
    /// Whether every layer adds the states it started from (`gnn.residual`). GatedGCN decides for
    /// itself and must agree.
    #[serde(default)]
    pub residual: bool,
    /// What stands after the layers.
    pub output: OutputConfig,
}

impl MpnnConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_sizes(&[("hidden_dim", self.hidden_dim), ("layers", self.layers)])?;
        self.input.check(self.hidden_dim)?;
        self.output.check(self.hidden_dim, &self.input)?;
        check_message_passing("layer", &self.layer, self.hidden_dim, &self.input)?;
        if let MessagePassingConfig::GatedGcn { residual, .. } = self.layer
            && residual != self.residual
        {
            return Err(ConfigError::new(
                "layer.residual",
                format!("{residual}, but `residual` is {}", self.residual),
            ));
        }
        self.input.check_no_attention("a message passing network")
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        let edge_width = self.layer.edge_width(self.hidden_dim);
        self.input.schema(self.hidden_dim, edge_width)
    }

    /// The encodings that the model needs.
    ///
    /// # Errors
    /// A recipe with impossible parameters.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        self.input.encoding_plan()
    }
}
