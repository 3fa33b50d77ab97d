//! Rules of key tables that every descendant of GraphGym shares.

use super::key_table::Rule;

/// Rules of an encoder of features, from the official prefix to ours.
macro_rules! feature_rules {
    ($official:literal, $ours:literal) => {
        [
            Rule::rename(
                concat!($official, "encoder.weight"),
                concat!($ours, "embeddings.0.weight"),
            )
            .when($crate::convert::key_table::Presence::Absent(concat!(
                $official,
                "encoder.bias"
            ))),
            Rule::rename(
                concat!($official, "encoder.{weight|bias}"),
                concat!($ours, "linear.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "{atom|bond}_embedding_list.{t}.weight"),
                concat!($ours, "embeddings.{t}.weight"),
            ),
            Rule::rename(
                concat!($official, "{type_encoder|embedding_type}.weight"),
                concat!($ours, "embeddings.0.weight"),
            ),
            Rule::rename(
                concat!($official, "{attribute_encoder|embedding_direction}.weight"),
                concat!($ours, "embeddings.1.weight"),
            ),
            Rule::rename(
                concat!($official, "depth_encoder.weight"),
                concat!($ours, "embeddings.2.weight"),
            ),
        ]
    };
}
pub(super) use feature_rules;

/// Edge features. One embedding table (TypeDict, Dummy), several (Bond, the syntax trees), or an
/// affine map (Linear, VOC, PPA), which alone has a bias.
pub(super) const EDGE_FEATURES: &[Rule] = &feature_rules!("encoder.edge_encoder.", "edge_encoder.");

/// The two norms after the encoders.
pub(super) const ENCODER_NORMS: &[Rule] = &[
    Rule::rename(
        "encoder.node_encoder_bn.bn.{weight|bias|running_mean|running_var}",
        "node_encoder_norm.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "encoder.edge_encoder_bn.bn.{weight|bias|running_mean|running_var}",
        "edge_encoder_norm.{weight|bias|running_mean|running_var}",
    ),
];

/// A counter of training steps in every batch norm.
pub(super) const COUNTERS: &[Rule] = &[Rule::ignore("{*}.num_batches_tracked")];

/// The pattern that counts the hidden layers of GraphGym's MLP, for its last one.
pub(super) const HIDDEN_HEAD_LAYERS: &str =
    "post_mp.layer_post_mp.model.0.Layer_{j}.layer.model.weight";

/// Heads: `san_graph`; then GraphGym's MLP, whose hidden layers stand apart from its last one, and
/// which has no hidden part if it is a single layer.
pub(super) const HEADS: &[Rule] = &[
    Rule::rename(
        "post_mp.FC_layers.{j}.{weight|bias}",
        "head.layers.{j}.{weight|bias}",
    ),
    Rule::rename(
        "post_mp.layer_post_mp.model.0.Layer_{j}.layer.model.{weight|bias}",
        "head.layers.{j}.{weight|bias}",
    ),
    Rule::rename(
        "post_mp.layer_post_mp.model.1.model.{weight|bias}",
        "head.layers.{last}.{weight|bias}",
    ),
    Rule::rename(
        "post_mp.layer_post_mp.model.0.model.{weight|bias}",
        "head.layers.0.{weight|bias}",
    ),
];
