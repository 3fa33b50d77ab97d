//! Official options with the names and shapes of their parameters.

use std::collections::BTreeMap;

use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{DigraphConfig, DigraphEncoderConfig, TransformerEncoderConfig};
use candle_graph_weights::convert::haiku::{configure_with, convert_tensors};
use candle_graph_weights::convert::{Converted, Options};
use candle_graph_weights::{Error, Limits, StateDict, TensorData};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{fixture, floats};

/// Names and shapes of an official checkpoint, with its options.
#[derive(Clone, Deserialize)]
pub(crate) struct Case {
    pub(crate) options: Value,
    pub(crate) tensors: BTreeMap<String, Vec<usize>>,
}

pub(crate) fn cases() -> BTreeMap<String, Case> {
    let text = std::fs::read_to_string(fixture("digraph/names.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn named(name: &str) -> Case {
    cases().remove(name).unwrap()
}

/// Values that differ within a tensor and between tensors.
pub(crate) fn values(seed: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| 1e-3 * ((31 * seed + 7 * i) % 997) as f32)
        .collect()
}

impl Case {
    pub(crate) fn set(mut self, pointer: &str, value: Value) -> Self {
        let (section, option) = pointer.rsplit_once('/').unwrap();
        let section = self.options.pointer_mut(section).unwrap();
        section
            .as_object_mut()
            .unwrap()
            .insert(option.to_string(), value);
        self
    }

    pub(crate) fn without(mut self, pointer: &str) -> Self {
        let (section, option) = pointer.rsplit_once('/').unwrap();
        let section = self.options.pointer_mut(section).unwrap();
        section.as_object_mut().unwrap().remove(option).unwrap();
        self
    }

    pub(crate) fn rename(mut self, rename: impl Fn(&str) -> String) -> Self {
        let tensors = std::mem::take(&mut self.tensors);
        self.tensors = (tensors.into_iter())
            .map(|(name, shape)| (rename(&name), shape))
            .collect();
        self
    }

    pub(crate) fn tensor(&self, name: &str) -> Vec<f32> {
        let seed = self.tensors.keys().position(|n| n == name).expect(name);
        values(seed, self.tensors[name].iter().product())
    }

    pub(crate) fn options(&self) -> Options {
        Options::from_value(self.options.clone(), "config.json")
    }

    pub(crate) fn convert(&self) -> Result<Converted, Error> {
        let mut official = StateDict::new("checkpoint.dill");
        for (name, shape) in &self.tensors {
            let tensor = TensorData::from_f32(shape.clone(), &self.tensor(name)).unwrap();
            official.insert(name.clone(), tensor).unwrap();
        }
        convert_tensors(official, self.options(), &Limits::default())
    }

    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        let message = self.convert().map(|_| ()).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }

    pub(crate) fn config(&self) -> DigraphConfig {
        let configured = configure_with(self.options()).unwrap();
        match configured.config.model {
            ModelConfig::Digraph(config) => config,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn transformer(config: &DigraphConfig) -> &TransformerEncoderConfig {
    match &config.encoder {
        DigraphEncoderConfig::Transformer(config) => config,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn converted_values(converted: &Converted, name: &str) -> (Vec<usize>, Vec<f32>) {
    let tensor = converted.checkpoint.weights().get(name).expect(name);
    let shape = tensor.shape().to_vec();
    (shape, floats(converted.checkpoint.weights(), name))
}

/// `[rows, columns]` to `[columns, rows]`.
pub(crate) fn transposed(shape: &[usize], values: &[f32]) -> (Vec<usize>, Vec<f32>) {
    let (rows, columns) = (shape[0], shape[1]);
    let value = |i: usize| values[(i % rows) * columns + i / rows];
    (vec![columns, rows], (0..values.len()).map(value).collect())
}
