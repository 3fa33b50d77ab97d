//! Checkpoints of the official directed-graph transformer (google-deepmind/digraph_transformer) with
//! their options to our [`Checkpoint`].

mod adapt;
mod encoder;
mod input;
mod names;
mod options;
mod positional;

use std::path::Path;

use candle_graph_models::ModelConfig;

use self::adapt::{add_edge_bias, fill_empty_heads, further_steps, shared_steps};
use self::names::digraph_table;
use self::options::{digraph_config, training};
use super::converted::{Configured, Converted};
use super::options::Options;
use crate::checkpoint::{Checkpoint, CheckpointConfig};
use crate::error::{Error, Result};
use crate::haiku::read_parameters;
use crate::limits::Limits;
use crate::state_dict::StateDict;

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
    let mut tensors = fill_empty_heads(conversion.complete()?);
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
