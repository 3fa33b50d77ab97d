//! A checkpoint: `config.json` and `model.safetensors` (or its shards) in one folder.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::InputSchema;
use candle_graph_models::{GraphModel, ModelConfig};
use serde::{Deserialize, Serialize};

use crate::atomic_file::write_atomically;
use crate::bounded_read::read_small_file;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::safetensors_file::write_safetensors;
use crate::sharded::read_weights;
use crate::state_dict::StateDict;
use crate::strict::load_strict;

/// File name of the configuration.
pub const CONFIG_FILE: &str = "config.json";
/// File name of the weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// The version of the configuration's layout that this code writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// The largest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// What the model was trained on, for people and programs that choose a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Training {
    /// Data set, as the papers call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Kind of task (`regression`, `classification`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// `config.json`: which model, which features it reads, which encodings it needs.
///
/// `features` and `encodings` follow from `model`; they stand in the file so that any program can
/// prepare input without knowing the model, and are checked against it on reading.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointConfig {
    /// Layout version.
    pub format_version: u32,
    /// `model_type` and `model`.
    #[serde(flatten)]
    pub model: ModelConfig,
    /// Node and edge features that the model reads, with vocabulary sizes.
    pub features: InputSchema,
    /// Encodings that the model needs, with every parameter of their computation.
    pub encodings: EncodingPlan,
    /// What it was trained on.
    #[serde(default)]
    pub training: Training,
}

impl CheckpointConfig {
    /// The configuration file of `model`.
    ///
    /// # Errors
    /// A model that cannot be built.
    pub fn new(model: ModelConfig, training: Training) -> Result<Self> {
        let invalid = |error: &dyn std::fmt::Display| Error::Build(error.to_string().into());
        model.check().map_err(|error| invalid(&error))?;
        Ok(Self {
            format_version: FORMAT_VERSION,
            features: model.input_schema(),
            encodings: model.encoding_plan().map_err(|error| invalid(&error))?,
            model,
            training,
        })
    }

    /// Writes [`CONFIG_FILE`] into `folder`, which is made if need be.
    ///
    /// # Errors
    /// A folder that cannot be made or written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let path = folder.join(CONFIG_FILE);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::format(&path, error.to_string()))?;
        write_atomically(&path, |file| writeln!(file, "{text}"))?;
        Ok(path)
    }

    /// Reads and checks `path`.
    ///
    /// # Errors
    /// A file that cannot be read, is no JSON, names an unknown model or version, lacks or
    /// misspells an option, or contradicts itself. Messages name file and option.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_small_file(path, MAX_CONFIG_BYTES)?;
        let refuse = |problem: String| Error::format(path, problem);
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| refuse(format!("malformed JSON: {error}")))?;
        match value.get("format_version").and_then(|v| v.as_u64()) {
            Some(version) if version == u64::from(FORMAT_VERSION) => {}
            Some(version) => {
                return Err(refuse(format!(
                    "format_version {version} is not supported (this build reads {FORMAT_VERSION})"
                )));
            }
            None => {
                return Err(refuse(
                    "no format_version: this is not a candle-graph configuration; official \
                     options need `candle-graph convert` first"
                        .to_string(),
                ));
            }
        }
        let known = ModelConfig::MODEL_TYPES.join(", ");
        match value.get("model_type") {
            Some(serde_json::Value::String(name))
                if ModelConfig::MODEL_TYPES.contains(&name.as_str()) => {}
            Some(other) => {
                return Err(refuse(format!(
                    "unknown model_type {other}; known: {known}"
                )));
            }
            None => return Err(refuse(format!("model_type is missing; known: {known}"))),
        }
        let config: Self =
            serde_json::from_value(value).map_err(|error| refuse(error.to_string()))?;
        config
            .model
            .check()
            .map_err(|error| refuse(format!("model.{error}")))?;
        let plan = config
            .model
            .encoding_plan()
            .map_err(|error| refuse(error.to_string()))?;
        if config.features != config.model.input_schema() {
            return Err(refuse(
                "features: they contradict the encoders of `model`".to_string(),
            ));
        }
        if config.encodings != plan {
            return Err(refuse(
                "encodings: they contradict the encodings of `model`".to_string(),
            ));
        }
        Ok(config)
    }
}

/// A configuration with its weights, in host memory.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    config: CheckpointConfig,
    weights: StateDict,
}

impl Checkpoint {
    /// Puts configuration and weights together; whether they fit shows in [`build`](Self::build).
    pub fn new(config: CheckpointConfig, weights: StateDict) -> Self {
        Self { config, weights }
    }

    /// Reads the checkpoint in `folder`.
    ///
    /// # Errors
    /// As [`CheckpointConfig::read`] and [`read_weights`].
    pub fn read(folder: &Path, limits: &Limits) -> Result<Self> {
        if !folder.is_dir() {
            return Err(Error::format(
                folder,
                "there is no folder of this name; a checkpoint is a folder with config.json and \
                 model.safetensors",
            ));
        }
        Ok(Self {
            config: CheckpointConfig::read(&folder.join(CONFIG_FILE))?,
            weights: read_weights(folder, limits)?,
        })
    }

    /// Writes the checkpoint into `folder`, which is made if need be: first the weights, then the
    /// configuration, so that a folder with a configuration is complete.
    ///
    /// # Errors
    /// A folder that cannot be made or written.
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2]> {
        std::fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
        let weights = folder.join(WEIGHTS_FILE);
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        write_safetensors(&weights, &self.weights, &metadata)?;
        Ok([weights, self.config.write(folder)?])
    }

    /// The configuration.
    pub fn config(&self) -> &CheckpointConfig {
        &self.config
    }

    /// The weights under this project's names.
    pub fn weights(&self) -> &StateDict {
        &self.weights
    }

    /// Number of values in all tensors that training changes; running statistics do not count.
    pub fn num_parameters(&self) -> u64 {
        self.weights
            .iter()
            .filter(|(name, _)| !name.ends_with(".running_mean") && !name.ends_with(".running_var"))
            .map(|(_, tensor)| tensor.shape().iter().map(|&d| d as u64).product::<u64>())
            .sum()
    }

    /// Builds the model, strictly: every tensor must be there, fit and be used.
    ///
    /// # Errors
    /// All missing, unexpected and mis-shaped tensors at once.
    pub fn build(
        &self,
        device: &Device,
        dtype: DType,
        limits: &Limits,
    ) -> Result<Box<dyn GraphModel>> {
        let model = &self.config.model;
        load_strict(self.weights.clone(), dtype, device, limits, |vb| {
            model.build(vb)
        })
    }
}

/// Reads the checkpoint in `folder` and builds its model in f32 on `device`.
///
/// # Errors
/// As [`Checkpoint::read`] and [`Checkpoint::build`].
pub fn load_model(folder: &Path, device: &Device) -> Result<Box<dyn GraphModel>> {
    let limits = Limits::default();
    Checkpoint::read(folder, &limits)?.build(device, DType::F32, &limits)
}
