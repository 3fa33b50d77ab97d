//! The configuration of rotary encodings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::encodings::{EncodingPlan, EncodingRecipe, Rotational};
use crate::nn::{AttentionConfig, FeatureMapConfig, InvalidOption, LapPeEncoderConfig};
use crate::ops::RotaryPairs;

/// Rotation of the queries and keys of all attention layers of a model (`gt.graphrope`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotaryConfig {
    /// The coordinates of the nodes (`gt.graphrope.encoder`).
    pub features: RotationalFeaturesConfig,
    /// Which columns are rotated together.
    #[serde(default)]
    pub pairs: RotaryPairs,
    /// Whether keys have frequencies of their own (`gt.graphrope.double_omega`).
    #[serde(default)]
    pub separate_keys: bool,
    /// Whether all layers have the same frequencies, which are stored once
    /// (`gt.graphrope.share_omega`).
    #[serde(default)]
    pub share_layers: bool,
    /// The layers that rotate, by their numbers from 0; all of them when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<usize>>,
    /// Where linear attention rotates.
    #[serde(default)]
    pub modulation: RotaryModulation,
}

/// The coordinates from which angles are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotationalFeaturesConfig {
    /// As they are.
    Raw {
        /// What they are.
        recipe: Rotational,
    },
    /// Through LapPE's encoder (`LapRoPE`); its `dim` is the number of coordinates
    /// (`gt.graphrope.t_dim`).
    LapPe(LapPeEncoderConfig),
}

impl RotationalFeaturesConfig {
    /// Number of coordinates, m (`gt.graphrope.t_dim`).
    pub fn dim(&self) -> usize {
        match self {
            Self::Raw { recipe } => recipe.dim(),
            Self::LapPe(config) => config.dim,
        }
    }

    /// The encoding that they are made from.
    pub fn recipe(&self) -> EncodingRecipe {
        match self {
            Self::Raw { recipe } => EncodingRecipe::Rotational(recipe.clone()),
            Self::LapPe(config) => EncodingRecipe::LapPe(config.recipe.clone()),
        }
    }

    fn check(&self) -> std::result::Result<(), InvalidOption> {
        let of_encoder = match self {
            Self::Raw { .. } => None,
            Self::LapPe(config) => config.problem(),
        };
        let of_recipe = || {
            let plan = EncodingPlan::new(vec![self.recipe()]);
            plan.err().map(|error| error.to_string())
        };
        match of_encoder.or_else(of_recipe) {
            Some(problem) => Err(InvalidOption::new("features", problem)),
            None => Ok(()),
        }
    }
}

/// Where linear attention with the feature map φ rotates (appendix B.2). Softmax attention has no φ
/// and rotates queries and keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotaryModulation {
    /// Queries and keys, before φ: weights stay positive.
    #[default]
    BeforeFeatures,
    /// φ of queries and keys, in the numerator only: weights depend on differences of coordinates
    /// alone, and may be negative. Frequencies are those of the features' pairs.
    AfterFeatures,
}

impl RotaryConfig {
    /// Rotation by `features` with everything else as it is by default: pairs over the full width,
    /// frequencies for every layer, which queries and keys share, before the features of linear
    /// attention.
    pub fn new(features: RotationalFeaturesConfig) -> Self {
        Self {
            features,
            pairs: RotaryPairs::default(),
            separate_keys: false,
            share_layers: false,
            layers: None,
            modulation: RotaryModulation::default(),
        }
    }

    /// Checks that queries and keys of `attention` of `width` columns, which can be built, can be
    /// rotated in `layers` layers.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(
        &self,
        attention: &AttentionConfig,
        width: usize,
        layers: usize,
    ) -> std::result::Result<(), InvalidOption> {
        self.features.check()?;
        self.check_modulation(attention)?;
        let (heads, head_dim) = self.rotated_heads(attention, width);
        if self.pairs.count(heads, head_dim) == 0 {
            return Err(InvalidOption::new(
                "pairs",
                format!("{heads} heads of width {head_dim} have no pair of columns to rotate"),
            ));
        }
        match &self.layers {
            Some(listed) => check_layers(listed, layers),
            None => Ok(()),
        }
    }

    fn check_modulation(
        &self,
        attention: &AttentionConfig,
    ) -> std::result::Result<(), InvalidOption> {
        let problem = match (self.modulation, attention) {
            (RotaryModulation::BeforeFeatures, _)
            | (RotaryModulation::AfterFeatures, AttentionConfig::Linear { .. }) => return Ok(()),
            (_, AttentionConfig::Performer { .. }) => {
                "Performer attention does not rotate features"
            }
            (_, AttentionConfig::Softmax { .. } | AttentionConfig::BigBird { .. }) => {
                "the logits of a softmax have no features to rotate"
            }
        };
        Err(InvalidOption::new(
            "modulation",
            format!("{problem}: use `before_features`, or `linear` attention"),
        ))
    }

    /// Heads and width of a head of what is rotated.
    pub(super) fn rotated_heads(
        &self,
        attention: &AttentionConfig,
        width: usize,
    ) -> (usize, usize) {
        match (self.modulation, attention) {
            (
                RotaryModulation::AfterFeatures,
                AttentionConfig::Linear {
                    heads,
                    feature_map: FeatureMapConfig::PositiveRandom { features },
                },
            ) => (*heads, *features),
            _ => attention.head_widths(width),
        }
    }

    /// Whether layer `index` rotates.
    pub fn rotates(&self, index: usize) -> bool {
        (self.layers.as_ref()).is_none_or(|layers| layers.contains(&index))
    }
}

/// Checks that `listed` names some of `layers` layers, none of them twice.
fn check_layers(listed: &[usize], layers: usize) -> std::result::Result<(), InvalidOption> {
    let mut seen = BTreeSet::new();
    let unknown = listed.iter().find(|&&index| index >= layers);
    let again = listed.iter().find(|&&index| !seen.insert(index));
    let problem = match (listed, unknown, again) {
        ([], ..) => "no layer rotates: leave the rotation out".to_string(),
        (_, Some(index), _) => {
            format!("layer {index} of {layers}, which are numbered from 0")
        }
        (_, _, Some(index)) => format!("layer {index} is listed twice"),
        _ => return Ok(()),
    };
    Err(InvalidOption::new("layers", problem))
}
