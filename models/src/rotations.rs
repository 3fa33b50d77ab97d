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

/// The frequencies of all layers, and what makes the coordinates that they turn into angles.
#[derive(Debug, Clone)]
pub(crate) struct Rotations {
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
        config: &RotaryConfig,
        attention: &AttentionConfig,
        width: usize,
        layers: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let load = |vb| Rotary::new(config, attention, width, vb);
        let rotates = |i: &usize| config.rotates(*i);
        Ok(Self {
            encoder: RotationalEncoder::new(&config.features, vb.pp("rotary.encoder"))?,
            frequencies: match config.share_layers {
                true => Frequencies::Shared(
                    load(vb.pp("rotary"))?,
                    (0..layers).map(|i| rotates(&i)).collect(),
                ),
                false => Frequencies::Own(
                    (0..layers)
                        .map(|i| {
                            let own = rotates(&i).then(|| vb.pp("layers").pp(i).pp("rotary"));
                            own.map(load).transpose()
                        })
                        .collect::<Result<_>>()?,
                ),
            },
        })
    }

    /// The rotations for the nodes of `batch`. Records `rotary.coordinates` `[nodes, m]`.
    pub(crate) fn for_batch(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<BatchRotations<'_>> {
        let coordinates = self.encoder.forward(batch)?;
        trace.record(|| "rotary.coordinates".to_string(), &coordinates);
        Ok(BatchRotations {
            shared: match &self.frequencies {
                Frequencies::Shared(rotary, _) => Some(rotary.rotation(&coordinates)?),
                Frequencies::Own(_) => None,
            },
            frequencies: &self.frequencies,
            coordinates,
        })
    }
}

/// The rotations for the nodes of a batch.
#[derive(Debug)]
pub(crate) struct BatchRotations<'a> {
    frequencies: &'a Frequencies,
    coordinates: Tensor,
    shared: Option<Rotation>,
}

impl BatchRotations<'_> {
    /// The rotation of layer `index`, if it rotates.
    pub(crate) fn of_layer(&self, index: usize) -> Result<Option<Cow<'_, Rotation>>> {
        match self.frequencies {
            Frequencies::Shared(_, rotates) => {
                let rotates = rotates.get(index).copied().unwrap_or(false);
                Ok(self.shared.as_ref().filter(|_| rotates).map(Cow::Borrowed))
            }
            Frequencies::Own(rotaries) => match rotaries.get(index) {
                Some(Some(rotary)) => Ok(Some(Cow::Owned(rotary.rotation(&self.coordinates)?))),
                _ => Ok(None),
            },
        }
    }
}
