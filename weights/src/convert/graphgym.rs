//! GraphGym checkpoints with their options to our [`Checkpoint`].

use std::path::{Path, PathBuf};

use candle_graph::encodings::Rotational;
use candle_graph::nn::{
    FeatureEncoderConfig, PositionalEncoderConfig, RotaryConfig, RotationalFeaturesConfig,
};
use candle_graph_models::ModelConfig;

pub use super::converted::{Configured, Converted};
use super::gps::{GPS, GT};
use super::graphgps_options::{
    gps_config, graphormer_config, mpnn_config, san_config, transformer_config,
};
use super::grit::GRIT;
use super::grit_options::grit_config;
use super::key_table::KeyTable;
use super::options::Options;
use super::shared_options::{Sizes, dataset_title};
use crate::checkpoint::{Checkpoint, CheckpointConfig, Training};
use crate::error::Result;
use crate::limits::Limits;
use crate::state_dict::StateDict;
use crate::torch::read_state_dict;

/// What the user decides about a conversion.
#[derive(Debug, Clone, Default)]
pub struct GraphGymOptions {
    /// Read the misspelt section `posenc_RWPSE` of GRIT's published PCQM4Mv2 options as
    /// `posenc_RRWP`.
    pub read_rwpse_as_rrwp: bool,
    /// The options of the run that a model was pre-trained in, for options with `pretrained.dir`:
    /// `config.yaml` in that folder.
    pub pretrained_options: Option<PathBuf>,
    /// What the coordinates are that a model of the rotary fork expects with its data
    /// (`gt.graphrope.encoder` is empty): then they can be computed for graphs without them.
    pub coordinates: Option<Rotational>,
    /// Whether the node features that such a model was trained on begin with these coordinates: then
    /// they are put there, and the features of a graph are the other columns.
    pub features_begin_with_coordinates: bool,
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
    options: Options,
    choices: &GraphGymOptions,
    limits: &Limits,
) -> Result<Converted> {
    convert_tensors(read_state_dict(ckpt, limits)?, options, choices, limits)
}

/// [`convert`] with the official tensors and the options in memory already.
///
/// # Errors
/// As [`convert`].
pub fn convert_tensors(
    official: StateDict,
    mut options: Options,
    choices: &GraphGymOptions,
    limits: &Limits,
) -> Result<Converted> {
    apply(&mut options, choices)?;
    let network = Network::of(&options)?;
    let mut conversion = network.table().apply(official)?;
    let model = network.config(&Sizes::new(&options, Some(&conversion.tensors)));
    // Tensors without a place say more about what is wrong than a size that was not found.
    let mut model = match model {
        Err(_) if !conversion.unplaced.is_empty() => return Err(unplaced(conversion)),
        model => model?,
    };
    explain_coordinates(&mut model, choices, &options)?;
    conversion.ignore(|name| is_unread(&model, name));
    if rotary(&model).is_some_and(|rotary| rotary.share_layers) {
        // The official code saves what all layers share with every one of them.
        conversion.unify(shared_frequencies)?;
    }
    let ignored = conversion.ignored.clone();
    let tensors = conversion.complete()?;
    let Configured { config, notes } = finish(model, options)?;
    Converted::new(Checkpoint::new(config, tensors), ignored, notes, limits)
}

/// The configuration that the official `options` file (the published YAML or a resolved JSON)
/// describes, without weights. Sizes that the options leave to the data set are those of the
/// published data sets.
///
/// # Errors
/// An unreadable file, options that are unknown or not supported, a data set that is not known and
/// whose sizes the options do not state.
pub fn configure(options: &Path, choices: &GraphGymOptions) -> Result<Configured> {
    configure_with(Options::read(options)?, choices)
}

/// [`configure`] with options that are in memory already.
///
/// # Errors
/// As [`configure`].
pub fn configure_with(mut options: Options, choices: &GraphGymOptions) -> Result<Configured> {
    apply(&mut options, choices)?;
    let mut model = Network::of(&options)?.config(&Sizes::new(&options, None))?;
    explain_coordinates(&mut model, choices, &options)?;
    finish(model, options)
}

fn apply(options: &mut Options, choices: &GraphGymOptions) -> Result<()> {
    if choices.read_rwpse_as_rrwp {
        options.rename_section("posenc_RWPSE", "posenc_RRWP")?;
    }
    let dir = options.text("pretrained.dir", "")?;
    match &choices.pretrained_options {
        Some(path) => options.take_over(Options::read(path)?),
        None if dir.is_empty() => Ok(()),
        None => Err(options.refuse(
            "pretrained.dir",
            format!(
                "the architecture is that of a pre-trained model; its options are needed too: \
                 `{dir}/config.yaml` or the published file of that model (--pretrained-options)"
            ),
        )),
    }
}

fn finish(model: ModelConfig, options: Options) -> Result<Configured> {
    let training = Training {
        dataset: dataset_title(&options)?,
        task: Some(options.text("dataset.task_type", "")?).filter(|t| !t.is_empty()),
    };
    let notes = options.finish()?;
    let config = CheckpointConfig::new(model, training)?;
    Ok(Configured { config, notes })
}

/// A network of the official code bases (`model.type`).
#[derive(Debug, Clone, Copy)]
enum Network {
    Grit,
    Gps,
    CustomGnn,
    Graphormer,
    San,
    Gt,
}

impl Network {
    fn of(options: &Options) -> Result<Self> {
        let name = options.text("model.type", "gnn")?;
        Ok(match name.as_str() {
            "GritTransformer" => Self::Grit,
            "GPSModel" => Self::Gps,
            "custom_gnn" => Self::CustomGnn,
            "Graphormer" => Self::Graphormer,
            "SANTransformer" => Self::San,
            "GT" => Self::Gt,
            other => {
                let reason = match other {
                    "gnn" => "GraphGym's own network is not part of GRIT or GraphGPS",
                    "Performer" | "BigBird" => {
                        "this stack of attention layers is not supported; as the global model of a \
                         GPSModel the attention is"
                    }
                    _ => "not known",
                };
                return Err(options.refuse(
                    "model.type",
                    format!(
                        "model `{other}`: {reason}; supported: GritTransformer, GPSModel, \
                         custom_gnn, Graphormer, SANTransformer, GT"
                    ),
                ));
            }
        })
    }

    fn table(self) -> &'static KeyTable {
        match self {
            Self::Grit => &GRIT,
            Self::Gps | Self::CustomGnn | Self::Graphormer | Self::San => &GPS,
            Self::Gt => &GT,
        }
    }

    fn config(self, sizes: &Sizes<'_>) -> Result<ModelConfig> {
        Ok(match self {
            Self::Grit => ModelConfig::Grit(grit_config(sizes)?),
            Self::Gps => ModelConfig::Gps(gps_config(sizes)?),
            Self::CustomGnn => ModelConfig::Mpnn(mpnn_config(sizes)?),
            Self::Graphormer => ModelConfig::Graphormer(graphormer_config(sizes)?),
            Self::San => ModelConfig::San(san_config(sizes)?),
            Self::Gt => ModelConfig::Transformer(transformer_config(sizes)?),
        })
    }
}

fn unplaced(conversion: super::Conversion) -> crate::Error {
    let source_name = conversion.tensors.source().to_string();
    match conversion.complete() {
        Err(error) => error,
        Ok(_) => crate::Error::Convert {
            source_name,
            problem: "tensors have no place".to_string(),
        },
    }
}

/// Whether the official code keeps our tensor `name` without reading it in a model like `model`:
/// the bias from edges along shortest paths, for graphs without edge categories, and what belongs to
/// rotations in a model that does not rotate.
fn is_unread(model: &ModelConfig, name: &str) -> bool {
    if name.starts_with("rotary.") && rotary(model).is_none() {
        return true;
    }
    let input = match model {
        ModelConfig::Gps(config) => &config.input,
        ModelConfig::Mpnn(config) => &config.input,
        ModelConfig::Graphormer(config) => &config.input,
        ModelConfig::San(config) => &config.input,
        ModelConfig::Transformer(config) => &config.input,
        _ => return false,
    };
    let encoders = input.node_encoder.positional.iter().enumerate();
    encoders.into_iter().any(|(i, encoder)| match encoder {
        PositionalEncoderConfig::Graphormer { recipe, .. } if !recipe.edge_types => {
            let prefix = format!("node_encoder.positional.{i}.");
            (name.strip_prefix(&prefix))
                .is_some_and(|rest| ["edges.weight", "edge_distances.weight"].contains(&rest))
        }
        _ => false,
    })
}

/// Puts what the user knows of the coordinates that come with the data into the configuration.
fn explain_coordinates(
    model: &mut ModelConfig,
    choices: &GraphGymOptions,
    options: &Options,
) -> Result<()> {
    let Some(recipe) = &choices.coordinates else {
        return match choices.features_begin_with_coordinates {
            true => Err(options.refuse(
                "gt.graphrope.encoder",
                "which coordinates the features begin with must be given too",
            )),
            false => Ok(()),
        };
    };
    let (rotary, input) = match model {
        ModelConfig::Gps(config) => (config.rotary.as_mut(), &mut config.input),
        ModelConfig::Transformer(config) => (config.rotary.as_mut(), &mut config.input),
        _ => return Err(no_given_coordinates(options)),
    };
    let Some(RotationalFeaturesConfig::Raw { recipe: given }) =
        rotary.map(|rotary| &mut rotary.features)
    else {
        return Err(no_given_coordinates(options));
    };
    if given.dim() != recipe.dim() {
        return Err(options.refuse(
            "gt.graphrope.t_dim",
            format!(
                "{}, but there are {} of the coordinates that were named",
                given.dim(),
                recipe.dim()
            ),
        ));
    }
    given.clone_from(recipe);
    if !choices.features_begin_with_coordinates {
        return Ok(());
    }
    let encoder = &mut input.node_encoder;
    let others = match &encoder.features {
        FeatureEncoderConfig::Linear { width } => width.checked_sub(recipe.dim()),
        _ => None,
    };
    match others.filter(|&others| others > 0) {
        Some(width) => {
            encoder.features = FeatureEncoderConfig::Linear { width };
            encoder.prepend = Some(recipe.clone());
            Ok(())
        }
        None => Err(options.refuse(
            "dataset.node_encoder_name",
            format!(
                "no linear map of {} coordinates and further features",
                recipe.dim()
            ),
        )),
    }
}

fn no_given_coordinates(options: &Options) -> crate::Error {
    options.refuse(
        "gt.graphrope.encoder",
        "the model reads no coordinates that come with the data, so there are none to name",
    )
}

/// The rotary encodings of the model, if it has any.
fn rotary(model: &ModelConfig) -> Option<&RotaryConfig> {
    match model {
        ModelConfig::Gps(config) => config.rotary.as_ref(),
        ModelConfig::Transformer(config) => config.rotary.as_ref(),
        _ => None,
    }
}

/// The name of frequencies of one layer where all layers share them.
fn shared_frequencies(name: &str) -> Option<String> {
    let (layer, rest) = name.strip_prefix("layers.")?.split_once('.')?;
    let of_layer = layer.bytes().all(|b| b.is_ascii_digit()) && rest.starts_with("rotary.");
    of_layer.then(|| rest.to_string())
}
