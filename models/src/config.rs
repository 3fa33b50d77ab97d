//! Configurations of all families under one roof.

use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph::nn::InvalidOption;
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use crate::digraph::{Digraph, DigraphConfig};
use crate::gps::{Gps, GpsConfig};
use crate::graphormer::{Graphormer, GraphormerConfig};
use crate::grit::{Grit, GritConfig};
use crate::mpnn::{Mpnn, MpnnConfig};
use crate::san::{San, SanConfig};
use crate::sgformer::{SgFormer, SgFormerConfig};
use crate::transformer::{Transformer, TransformerConfig};
use crate::{GraphModel, PredictionLevel};

/// A configuration that no model can be built from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The option, as the configuration spells it.
    pub option: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl ConfigError {
    /// A problem of `option`.
    pub fn new(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            option: option.into(),
            problem: problem.into(),
        }
    }

    /// An invalid option of the part of the configuration that is called `section`.
    pub(crate) fn within(section: &str, invalid: InvalidOption) -> Self {
        let InvalidOption { option, problem } = invalid;
        match option.is_empty() {
            true => Self::new(section, problem),
            false => Self::new(format!("{section}.{option}"), problem),
        }
    }
}

/// The configuration of any model; `model_type` says of which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model_type", content = "model", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelConfig {
    /// GRIT.
    Grit(GritConfig),
    /// GraphGPS.
    Gps(GpsConfig),
    /// Plain message passing networks.
    Mpnn(MpnnConfig),
    /// Graphormer.
    Graphormer(GraphormerConfig),
    /// Spectral attention networks.
    San(SanConfig),
    /// Plain graph transformers.
    Transformer(TransformerConfig),
    /// SGFormer.
    #[serde(rename = "sgformer")]
    SgFormer(SgFormerConfig),
    /// Models of directed graphs.
    Digraph(DigraphConfig),
}

impl ModelConfig {
    /// The values that `model_type` may have.
    pub const MODEL_TYPES: &'static [&'static str] = &[
        "grit",
        "gps",
        "mpnn",
        "graphormer",
        "san",
        "transformer",
        "sgformer",
        "digraph",
    ];

    /// The value of `model_type`.
    pub fn model_type(&self) -> &'static str {
        match self {
            Self::Grit(_) => "grit",
            Self::Gps(_) => "gps",
            Self::Mpnn(_) => "mpnn",
            Self::Graphormer(_) => "graphormer",
            Self::San(_) => "san",
            Self::Transformer(_) => "transformer",
            Self::SgFormer(_) => "sgformer",
            Self::Digraph(_) => "digraph",
        }
    }

    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Grit(config) => config.check(),
            Self::Gps(config) => config.check(),
            Self::Mpnn(config) => config.check(),
            Self::Graphormer(config) => config.check(),
            Self::San(config) => config.check(),
            Self::Transformer(config) => config.check(),
            Self::SgFormer(config) => config.check(),
            Self::Digraph(config) => config.check(),
        }
    }

    /// The features that the model will read.
    pub fn input_schema(&self) -> InputSchema {
        match self {
            Self::Grit(config) => config.input_schema(),
            Self::Gps(config) => config.input_schema(),
            Self::Mpnn(config) => config.input_schema(),
            Self::Graphormer(config) => config.input_schema(),
            Self::San(config) => config.input_schema(),
            Self::Transformer(config) => config.input_schema(),
            Self::SgFormer(config) => config.input_schema(),
            Self::Digraph(config) => config.input_schema(),
        }
    }

    /// The encodings that the model will need.
    ///
    /// # Errors
    /// A recipe with impossible parameters.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        match self {
            Self::Grit(config) => config.encoding_plan(),
            Self::Gps(config) => config.encoding_plan(),
            Self::Mpnn(config) => config.encoding_plan(),
            Self::Graphormer(config) => config.encoding_plan(),
            Self::San(config) => config.encoding_plan(),
            Self::Transformer(config) => config.encoding_plan(),
            Self::SgFormer(config) => config.encoding_plan(),
            Self::Digraph(config) => config.encoding_plan(),
        }
    }

    /// What the model will predict for.
    pub fn prediction_level(&self) -> PredictionLevel {
        self.ends().0
    }

    /// Values of one prediction.
    pub fn output_dim(&self) -> usize {
        self.ends().1
    }

    /// Width of node and graph embeddings.
    pub fn embedding_dim(&self) -> usize {
        self.ends().2
    }

    /// What predictions are for, the values of one, and the width of the states before the head.
    fn ends(&self) -> (PredictionLevel, usize, usize) {
        let (output, width) = match self {
            Self::Grit(config) => {
                return (config.head.level(), config.output_dim, config.hidden_dim);
            }
            Self::Digraph(config) => {
                let level = config.prediction_level();
                return (level, config.output_dim, config.embedding_dim());
            }
            Self::Gps(config) => (&config.output, config.hidden_dim),
            Self::Mpnn(config) => (&config.output, config.hidden_dim),
            Self::Graphormer(config) => (&config.output, config.hidden_dim),
            Self::San(config) => (&config.output, config.hidden_dim),
            Self::Transformer(config) => (&config.output, config.hidden_dim),
            Self::SgFormer(config) => (&config.output, config.embedding_dim()),
        };
        (output.head.level(), output.dim, width)
    }

    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn build(&self, vb: VarBuilder<'_>) -> candle_graph::Result<Box<dyn GraphModel>> {
        match self {
            Self::Grit(config) => Ok(Box::new(Grit::new(config, vb)?)),
            Self::Gps(config) => Ok(Box::new(Gps::new(config, vb)?)),
            Self::Mpnn(config) => Ok(Box::new(Mpnn::new(config, vb)?)),
            Self::Graphormer(config) => Ok(Box::new(Graphormer::new(config, vb)?)),
            Self::San(config) => Ok(Box::new(San::new(config, vb)?)),
            Self::Transformer(config) => Ok(Box::new(Transformer::new(config, vb)?)),
            Self::SgFormer(config) => Ok(Box::new(SgFormer::new(config, vb)?)),
            Self::Digraph(config) => Ok(Box::new(Digraph::new(config, vb)?)),
        }
    }
}
