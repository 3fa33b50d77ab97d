//! Rotary encodings and the network `GT` of cederikhoefs/Graph-RoPE.

use super::encoders::positional_rules;
use crate::convert::key_table::Rule;
use crate::convert::shared_rules::feature_rules;

/// Rules of `GraphRoPE`, from the official prefix.
macro_rules! rotary_rules {
    ($official:literal) => {
        [
            Rule::rename(
                concat!($official, "WQKV.{weight|bias}"),
                "layers.{i}.attention.in_proj.{weight|bias}",
            ),
            Rule::rename(
                concat!($official, "WO.{weight|bias}"),
                "layers.{i}.attention.out_proj.{weight|bias}",
            ),
            Rule::rename(
                concat!($official, "attention.projection_matrix"),
                "layers.{i}.attention.projection",
            ),
            Rule::rename(
                concat!($official, "OmegaQ.weight"),
                "layers.{i}.rotary.query.weight",
            ),
            Rule::rename(
                concat!($official, "OmegaK.weight"),
                "layers.{i}.rotary.key.weight",
            ),
        ]
    };
}

/// Attention of the kind `GraphRoPE` in `GPSModel`.
pub(super) const GPS_ROTARY: &[Rule] = &rotary_rules!("layers.{i}.self_attn.");

/// The encoder of the coordinates in `GPSModel`.
pub(super) const GPS_COORDINATES: &[Rule] =
    &positional_rules!("encoder.rotational_encoder.", "rotary.encoder.");

/// The encoder of the coordinates in `GT`.
pub(super) const GT_COORDINATES: &[Rule] =
    &positional_rules!("rotational_encoder.", "rotary.encoder.");

/// A node encoder of `GT`: features alone, composed, or positions that stand alone.
pub(super) const GT_FEATURES: &[Rule] = &feature_rules!("encoder.", "node_encoder.features.");
pub(super) const GT_COMPOSED_FEATURES: &[Rule] =
    &feature_rules!("encoder.encoder1.", "node_encoder.features.");
pub(super) const GT_FIRST_POSITIONAL: &[Rule] =
    &positional_rules!("encoder.encoder2.", "node_encoder.positional.0.");
pub(super) const GT_SECOND_POSITIONAL: &[Rule] =
    &positional_rules!("encoder.encoder3.", "node_encoder.positional.1.");
pub(super) const GT_BARE_POSITIONAL: &[Rule] =
    &positional_rules!("encoder.", "node_encoder.positional.0.");

/// Attention of the kind `GraphRoPE` in `GT`.
pub(super) const GT_ROTARY: &[Rule] = &rotary_rules!("layers.{i}.attention.");

/// The rest of a layer of `GT`.
pub(super) const GT_LAYER: &[Rule] = &[
    // Attention of the kind `Multihead`.
    Rule::rename(
        "layers.{i}.attention.in_proj_{weight|bias}",
        "layers.{i}.attention.in_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.out_proj.{weight|bias}",
        "layers.{i}.attention.out_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.O_h.{weight|bias}",
        "layers.{i}.second_output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.FFN_h_layer1.{weight|bias}",
        "layers.{i}.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.FFN_h_layer2.{weight|bias}",
        "layers.{i}.feed_forward.output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.{layer_norm|batch_norm}1_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.{layer_norm|batch_norm}_attention.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.{layer_norm|batch_norm}2_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.{layer_norm|batch_norm}_feed_forward.{weight|bias|running_mean|running_var}",
    ),
];
