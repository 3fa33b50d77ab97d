//! Rotary encodings of all attention layers of a model.

use std::borrow::Cow;

use candle_core::{Result, Tensor};
use candle_graph::encodings::{EncodingPlan, EncodingRecipe};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{AttentionConfig, Rotary, RotaryConfig, Rotation, RotationalEncoder};
use candle_nn::VarBuilder;

use crate::sections::InputConfig;
use crate::{ConfigError, Trace};

/// Checks that `config` fits `attention` of `width` columns in `layers` layers.
pub(crate) fn check(
    config: &RotaryConfig,
    attention: Option<&AttentionConfig>,
    width: usize,
    layers: usize,
    input: &InputConfig,
) -> std::result::Result<(), ConfigError> {
    let Some(attention) = attention else {
        return Err(ConfigError::new(
            "rotary",
            "there is no attention whose queries and keys could be rotated",
        ));
    };
    let checked = config.check(attention, width, layers);
    checked.map_err(|invalid| ConfigError::within("rotary", invalid))?;
    if input.has_graph_token() {
        return Err(ConfigError::new(
            "rotary",
            "a graph token has no coordinates to be rotated by",
        ));
    }
    let plan = plan(input, Some(config));
    plan.map_err(|error| ConfigError::new("rotary.features", error.to_string()))?;
    Ok(())
}

/// What the input section and the rotations read.
pub(crate) fn plan(
    input: &InputConfig,
    rotary: Option<&RotaryConfig>,
) -> candle_graph::Result<EncodingPlan> {
    let mut recipes = input.node_encoder.recipes();
    let of_rotary: Option<EncodingRecipe> = rotary.map(|rotary| rotary.features.recipe());
    recipes.extend(of_rotary.filter(|recipe| !recipes.contains(recipe)));
    EncodingPlan::new(recipes)
}

/// The frequencies of all layers, and what makes the coordinates that they turn into angles; nothing
/// in a model that does not rotate.
#[derive(Debug, Clone)]
pub(crate) struct Rotations(Option<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    encoder: RotationalEncoder,
    frequencies: Frequencies,
}

#[derive(Debug, Clone)]
enum Frequencies {
    /// One set, and the layers that it is for.
    Shared(Rotary, Vec<bool>),
    /// A set for every layer that rotates.
    Own(Vec<Option<Rotary>>),
}

impl Rotations {
    /// Loads `rotary.encoder.…`, where coordinates are learned, and the frequencies: shared ones
    /// from `rotary.{query,key}.weight`, others from `layers.{i}.rotary.{query,key}.weight`.
    pub(crate) fn new(
        config: Option<&RotaryConfig>,
        attention: Option<&AttentionConfig>,
        width: usize,
        layers: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let Some((config, attention)) = config.zip(attention) else {
            return Ok(Self(None));
        };
        let load = |vb| Rotary::new(config, attention, width, vb);
        let own = |i: usize| {
            config
                .rotates(i)
                .then(|| vb.pp("layers").pp(i).pp("rotary"))
        };
        Ok(Self(Some(Parts {
            encoder: RotationalEncoder::new(&config.features, vb.pp("rotary.encoder"))?,
            frequencies: match config.share_layers {
                true => Frequencies::Shared(
                    load(vb.pp("rotary"))?,
                    (0..layers).map(|i| config.rotates(i)).collect(),
                ),
                false => Frequencies::Own(
                    (0..layers)
                        .map(|i| own(i).map(load).transpose())
                        .collect::<Result<_>>()?,
                ),
            },
        })))
    }

    /// The rotations for the nodes of `batch`. Records `rotary.coordinates` `[nodes, m]`.
    pub(crate) fn for_batch(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<BatchRotations<'_>> {
        let Some(Parts {
            encoder,
            frequencies,
        }) = &self.0
        else {
            return Ok(BatchRotations::None);
        };
        let coordinates = encoder.forward(batch)?;
        trace.record(|| "rotary.coordinates".to_string(), &coordinates);
        Ok(match frequencies {
            Frequencies::Shared(rotary, layers) => BatchRotations::Shared {
                rotation: rotary.rotation(&coordinates)?,
                layers,
            },
            Frequencies::Own(rotaries) => BatchRotations::Own {
                rotaries,
                coordinates,
            },
        })
    }
}

/// The rotations for the nodes of a batch.
#[derive(Debug)]
pub(crate) enum BatchRotations<'a> {
    /// No layer rotates.
    None,
    /// One for all layers that rotate.
    Shared {
        rotation: Rotation,
        layers: &'a [bool],
    },
    /// One for every layer that rotates, from coordinates `[nodes, m]`.
    Own {
        rotaries: &'a [Option<Rotary>],
        coordinates: Tensor,
    },
}

impl BatchRotations<'_> {
    /// The rotation of layer `index`, if it rotates.
    pub(crate) fn of_layer(&self, index: usize) -> Result<Option<Cow<'_, Rotation>>> {
        match self {
            Self::None => Ok(None),
            Self::Shared { rotation, layers } => {
                let rotates = layers.get(index).copied().unwrap_or(false);
                Ok(rotates.then_some(Cow::Borrowed(rotation)))
            }
            Self::Own {
                rotaries,
                coordinates,
            } => match rotaries.get(index) {
                Some(Some(rotary)) => Ok(Some(Cow::Owned(rotary.rotation(coordinates)?))),
                _ => Ok(None),
            },
        }
    }
}
