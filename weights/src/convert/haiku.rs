//! Checkpoints of the official directed-graph transformer (google-deepmind/digraph_transformer) with
//! their options to our [`Checkpoint`].

mod encoder;
mod input;
mod names;
mod options;
mod positional;

use std::path::Path;

use candle_graph::nn::DirectedMessageKind;
use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{DigraphConfig, DigraphEncoderConfig};

use self::names::{AST_EDGE_WEIGHT, digraph_table};
use self::options::{digraph_config, training};
use super::converted::{Configured, Converted};
use super::options::Options;
use crate::checkpoint::{Checkpoint, CheckpointConfig};
use crate::error::{Error, Result};
use crate::haiku::read_parameters;
use crate::limits::Limits;
use crate::state_dict::{ElementType, StateDict, TensorData};

/// Converts the official `checkpoint` (`checkpoint.dill`, or its parameters as flattened safetensors;
/// the content tells) with its `options` file: the sections `model` and `dataset` of the official
/// configuration, as JSON or YAML. Nothing in the files is executed.
///
/// # Errors
/// Unreadable or hostile files, options that are unknown or not supported, tensors without a place and
/// tensors that the model misses, each by name.
pub fn convert(checkpoint: &Path, options: &Path, limits: &Limits) -> Result<Converted> {
    let options = Options::read(options)?;
    convert_tensors(read_parameters(checkpoint, limits)?, options, limits)
}

/// [`convert`] with the official tensors and the options in memory already.
///
/// # Errors
/// As [`convert`].
pub fn convert_tensors(
    official: StateDict,
    options: Options,
    limits: &Limits,
) -> Result<Converted> {
    let Configured { config, mut notes } = configure_with(options)?;
    let ModelConfig::Digraph(model) = &config.model else {
        return Err(Error::Convert {
            source_name: official.source().to_string(),
            problem: "the options describe no model of directed graphs".to_string(),
        });
    };
    let mut conversion = digraph_table(model).apply(official)?;
    let steps = shared_steps(model);
    conversion.share(limits.total_bytes, |name| further_steps(name, steps))?;
    let ignored = conversion.ignored.clone();
    if ignored
        .iter()
        .any(|name| name.contains("graph_convolution"))
    {
        notes.push(
            "the backward map of nodes in graph convolutions was left out: the official code reads \
             the forward map in both directions"
                .to_string(),
        );
    }
    let mut tensors = conversion.complete()?;
    add_edge_bias(&mut tensors);
    Converted::new(Checkpoint::new(config, tensors), ignored, notes, limits)
}

/// The configuration that the official `options` file describes, without weights.
///
/// # Errors
/// An unreadable file, options that are unknown or not supported.
pub fn configure(options: &Path) -> Result<Configured> {
    configure_with(Options::read(options)?)
}

/// [`configure`] with options that are in memory already.
///
/// # Errors
/// As [`configure`].
pub fn configure_with(options: Options) -> Result<Configured> {
    let model = ModelConfig::Digraph(digraph_config(&options)?);
    let training = training(&options)?;
    let notes = options.finish()?;
    let config = CheckpointConfig::new(model, training)?;
    Ok(Configured { config, notes })
}

/// Steps of graph convolutions. All of them have the same weights: the official code makes the module of
/// a step in a method that it calls once a step, and Haiku then gives it the same name every time.
fn shared_steps(model: &DigraphConfig) -> usize {
    let messages = match &model.encoder {
        DigraphEncoderConfig::Transformer(config) => config.structure.as_ref(),
        DigraphEncoderConfig::MessagePassing(config) => Some(config),
        _ => None,
    };
    messages
        .filter(|config| config.messages == DirectedMessageKind::Convolution)
        .map_or(1, |config| config.steps)
}

/// Names of a tensor of the first step in the steps after it.
fn further_steps(name: &str, steps: usize) -> Vec<String> {
    match name.split_once(".steps.0.") {
        Some((before, after)) => (1..steps)
            .map(|step| format!("{before}.steps.{step}.{after}"))
            .collect(),
        None => Vec::new(),
    }
}

/// The official map of edge features in syntax trees has no bias, ours has: zeros.
fn add_edge_bias(tensors: &mut StateDict) {
    let weight = tensors.get(AST_EDGE_WEIGHT);
    let Some(&rows) = weight.and_then(|weight| weight.shape().first()) else {
        return;
    };
    let bias = AST_EDGE_WEIGHT.replace("weight", "bias");
    if let Some(size) = rows.checked_mul(4)
        && let Some(zeros) = TensorData::new(ElementType::F32, vec![rows], vec![0; size])
    {
        // A bias that is there already is kept.
        drop(tensors.insert(bias, zeros));
    }
}
