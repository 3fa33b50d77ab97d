//! GraphGym checkpoints with their options to our [`Checkpoint`].

use std::path::Path;

use candle_graph_models::ModelConfig;

use super::grit::GRIT;
use super::grit_options::grit_config;
use super::options::Options;
use super::shared_options::{Sizes, dataset_title};
use crate::checkpoint::{Checkpoint, CheckpointConfig, Training};
use crate::error::Result;
use crate::limits::Limits;
use crate::torch::read_state_dict;

/// What the user decides about a conversion.
#[derive(Debug, Clone, Default)]
pub struct GraphGymOptions {
    /// Read the misspelt section `posenc_RWPSE` of GRIT's published PCQM4Mv2 options as
    /// `posenc_RRWP`.
    pub read_rwpse_as_rrwp: bool,
}

/// A converted checkpoint and what there is to know about it.
#[derive(Debug)]
pub struct Converted {
    /// The checkpoint; it has been loaded into its model once, so it is complete.
    pub checkpoint: Checkpoint,
    /// Official tensors that have no effect and were left out.
    pub ignored: Vec<String>,
    /// Remarks on the options.
    pub notes: Vec<String>,
}

/// Converts the official checkpoint `ckpt` with its `options` file (the published YAML or a
/// resolved JSON). Nothing in the files is executed.
///
/// # Errors
/// Unreadable or hostile files, options that are unknown or not supported, tensors without a place
/// and tensors that the model misses, each by name.
pub fn convert(
    ckpt: &Path,
    options: &Path,
    choices: &GraphGymOptions,
    limits: &Limits,
) -> Result<Converted> {
    let options = Options::read(options)?;
    convert_with(ckpt, options, choices, limits)
}

/// [`convert`] with options that are in memory already.
///
/// # Errors
/// As [`convert`].
pub fn convert_with(
    ckpt: &Path,
    mut options: Options,
    choices: &GraphGymOptions,
    limits: &Limits,
) -> Result<Converted> {
    if choices.read_rwpse_as_rrwp {
        options.rename_section("posenc_RWPSE", "posenc_RRWP")?;
    }
    let family = options.text("model.type", "")?;
    if family != "GritTransformer" {
        return Err(options.refuse(
            "model.type",
            format!("unknown model `{family}`; supported: GritTransformer"),
        ));
    }
    let conversion = GRIT.apply(read_state_dict(ckpt, limits)?)?;
    let ignored = conversion.ignored.clone();
    let tensors = conversion.complete()?;
    let config = grit_config(&Sizes::new(&options, Some(&tensors)))?;
    let training = Training {
        dataset: dataset_title(&options)?,
        task: Some(options.text("dataset.task_type", "")?).filter(|t| !t.is_empty()),
    };
    let notes = options.finish()?;
    let config = CheckpointConfig::new(ModelConfig::Grit(config), training)?;
    let checkpoint = Checkpoint::new(config, tensors);
    // A conversion that does not load is worth nothing; better to say so now than at the first use.
    checkpoint.build(&candle_core::Device::Cpu, candle_core::DType::F32, limits)?;
    Ok(Converted {
        checkpoint,
        ignored,
        notes,
    })
}
