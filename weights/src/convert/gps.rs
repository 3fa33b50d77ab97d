//! Tensor names of the official GraphGPS code (rampasek/GraphGPS), as GraphGym saves them.

mod encoders;
mod layers;
mod local;
mod rotary;

use self::encoders::{
    BARE_POSITIONAL, COMPOSED_FEATURES, FEATURES, FIRST_POSITIONAL, PRE_LAYERS, SECOND_POSITIONAL,
};
use self::layers::{GPS_ATTENTION, GPS_LAYER, GRAPHORMER_LAYER, SAN_LAYER};
use self::local::{GPS_EDGELESS_AND_OLD, GPS_GATED_AND_GINE, GPS_LOCAL, PLAIN_GATED, PLAIN_GINE};
use self::rotary::{
    GPS_COORDINATES, GPS_ROTARY, GT_BARE_POSITIONAL, GT_COMPOSED_FEATURES, GT_COORDINATES,
    GT_FEATURES, GT_FIRST_POSITIONAL, GT_LAYER, GT_ROTARY, GT_SECOND_POSITIONAL,
};
use super::key_table::{KeyTable, Rule};
use super::shared_rules::{COUNTERS, EDGE_FEATURES, ENCODER_NORMS, HEADS, HIDDEN_HEAD_LAYERS};

/// Official tensors of `GPSModel`, `custom_gnn`, `Graphormer` and `SANTransformer` to the names of this project's GraphGPS models.
///
/// Shapes stay as they are, but for the weight of GCN in releases of PyG before 2.0, which is turned from
/// `[in, out]` to `[out, in]`.
pub const GPS: KeyTable = KeyTable {
    prefix: "model.",
    last: Some(HIDDEN_HEAD_LAYERS),
    rules: &[
        COUNTERS,
        FEATURES,
        COMPOSED_FEATURES,
        BARE_POSITIONAL,
        FIRST_POSITIONAL,
        SECOND_POSITIONAL,
        EDGE_FEATURES,
        ENCODER_NORMS,
        PRE_LAYERS,
        GPS_EDGELESS_AND_OLD,
        GPS_LOCAL,
        GPS_GATED_AND_GINE,
        GPS_ATTENTION,
        GPS_ROTARY,
        GPS_COORDINATES,
        GPS_LAYER,
        PLAIN_GINE,
        PLAIN_GATED,
        GRAPHORMER_LAYER,
        SAN_LAYER,
        HEADS,
        GPS_HEADS,
    ],
};

/// Official tensors of `GT` (cederikhoefs/Graph-RoPE) to the names of this project's plain transformers.
pub const GT: KeyTable = KeyTable {
    prefix: "model.",
    last: Some(HIDDEN_HEAD_LAYERS),
    rules: &[
        COUNTERS,
        GT_COORDINATES,
        GT_COMPOSED_FEATURES,
        GT_FIRST_POSITIONAL,
        GT_SECOND_POSITIONAL,
        GT_FEATURES,
        GT_BARE_POSITIONAL,
        GT_ROTARY,
        GT_LAYER,
        HEADS,
        GPS_HEADS,
    ],
};

/// `ogb_code_graph`, one map a position, and `graphormer_graph`.
const GPS_HEADS: &[Rule] = &[
    Rule::rename(
        "post_mp.graph_pred_linear_list.{j}.{weight|bias}",
        "head.layers.{j}.{weight|bias}",
    ),
    Rule::rename("post_mp.ln.{weight|bias}", "head.norm.{weight|bias}"),
    Rule::rename(
        "post_mp.layers.0.{weight|bias}",
        "head.layers.0.{weight|bias}",
    ),
];
