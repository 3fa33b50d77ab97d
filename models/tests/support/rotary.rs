//! Random rotary encodings.

use candle_graph::encodings::{EigenvectorScale, LapPe, Rotational, Rwse, Wave};
use candle_graph::nn::{
    AttentionConfig, EigenvectorSet, LapPeEncoderConfig, PositionalEncoderConfig, RotaryConfig,
    RotaryModulation, RotationalFeaturesConfig,
};
use candle_graph::ops::RotaryPairs;
use candle_graph::spectral::LaplacianNorm;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::positional::{any_lap_pe_recipe, any_set};

fn any_recipe() -> impl Strategy<Value = Rotational> {
    let norms = select(vec![LaplacianNorm::None, LaplacianNorm::Sym]);
    let scale = select(vec![
        EigenvectorScale::Unit,
        EigenvectorScale::EffectiveResistance,
    ]);
    let eigenvectors = (1usize..6, any::<bool>(), norms.clone(), scale);
    let eigenvectors =
        eigenvectors.prop_map(
            |(count, trivial, laplacian_norm, scale)| Rotational::Eigenvectors {
                count,
                trivial,
                laplacian_norm,
                scale,
            },
        );
    let walks = proptest::collection::vec(1usize..9, 1..5);
    let scales = proptest::collection::vec(select(vec![0.0, 0.25, 1.0, 3.0]), 1..4);
    prop_oneof![
        2 => eigenvectors,
        1 => walks.prop_map(|times| Rotational::RandomWalk(Rwse { times })),
        1 => (scales, norms).prop_map(|(scales, laplacian_norm)| {
            Rotational::Wave(Wave { scales, laplacian_norm })
        }),
    ]
}

fn any_features() -> impl Strategy<Value = RotationalFeaturesConfig> {
    let learned = (any_lap_pe_recipe(), any_set(), 0usize..3, any::<bool>());
    let learned = learned.prop_map(|(recipe, set, post_layers, raw_norm)| {
        RotationalFeaturesConfig::LapPe(LapPeEncoderConfig {
            recipe,
            dim: 2,
            set,
            post_layers,
            raw_norm,
        })
    });
    prop_oneof![
        2 => any_recipe().prop_map(|recipe| RotationalFeaturesConfig::Raw { recipe }),
        1 => learned,
    ]
}

/// Rotary encodings, before it is known what they rotate.
pub(crate) fn any_rotary() -> impl Strategy<Value = RotaryConfig> {
    let pairs = select(vec![
        RotaryPairs::FullWidth,
        RotaryPairs::SharedByHeads,
        RotaryPairs::PerHead,
    ]);
    let layers = option::weighted(0.3, proptest::collection::btree_set(0usize..3, 0..3));
    (any_features(), pairs, layers, any::<[bool; 3]>()).prop_map(
        |(features, pairs, layers, [separate_keys, share_layers, after])| RotaryConfig {
            features,
            pairs,
            separate_keys,
            share_layers,
            layers: layers.map(|layers| layers.into_iter().collect()),
            modulation: match after {
                true => RotaryModulation::AfterFeatures,
                false => RotaryModulation::BeforeFeatures,
            },
        },
    )
}

/// `rotary` for `attention` of `width` columns in `layers` layers behind `positional`, as much of it
/// as there can be: eigenvectors for LapPE's encoder are the same for all that read them.
pub(crate) fn fitted(
    mut rotary: RotaryConfig,
    attention: &AttentionConfig,
    width: usize,
    layers: usize,
    positional: &[PositionalEncoderConfig],
) -> Option<RotaryConfig> {
    let shared: Option<&LapPe> = positional.iter().find_map(|encoder| match encoder {
        PositionalEncoderConfig::LapPe(LapPeEncoderConfig { recipe, .. })
        | PositionalEncoderConfig::EquivStable { recipe, .. } => Some(recipe),
        _ => None,
    });
    if let (RotationalFeaturesConfig::LapPe(LapPeEncoderConfig { recipe, .. }), Some(shared)) =
        (&mut rotary.features, shared)
    {
        recipe.clone_from(shared);
    }
    if let RotationalFeaturesConfig::LapPe(LapPeEncoderConfig {
        dim,
        set: EigenvectorSet::Transformer { heads, .. },
        ..
    }) = &mut rotary.features
    {
        *dim = dim.next_multiple_of(*heads);
    }
    if let Some(indices) = &mut rotary.layers {
        indices.retain(|&index| index < layers);
    }
    let linear = matches!(attention, AttentionConfig::Linear { .. });
    if !linear {
        rotary.modulation = RotaryModulation::BeforeFeatures;
    }
    rotary.check(attention, width, layers).ok().map(|()| rotary)
}
