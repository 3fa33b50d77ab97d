//! Tensor names of the official GRIT code (LiamMa/GRIT), as GraphGym saves them.

use super::key_table::{KeyTable, Rule};
use super::shared_rules::{
    COUNTERS, EDGE_FEATURES, ENCODER_NORMS, HEADS, HIDDEN_HEAD_LAYERS, feature_rules,
};

/// Official GRIT tensors to the names of this project's GRIT model.
///
/// Shapes stay as they are: linear weights `[out, in]`, `logit_weight` `[d, H, 1]`, `edge_value` `[d, H, d]`,
/// `degree_scaler` `[1, D, 2]` (constant and log-degree coefficient), with `D` the width, `H` heads and `d = D / H`.
pub const GRIT: KeyTable = KeyTable {
    prefix: "model.",
    last: Some(HIDDEN_HEAD_LAYERS),
    rules: &[
        NODE_FEATURES,
        EDGE_FEATURES,
        ENCODER_NORMS,
        GRIT_RULES,
        COUNTERS,
        HEADS,
    ],
};

const NODE_FEATURES: &[Rule] = &feature_rules!("encoder.node_encoder.", "node_encoder.");

/// What GRIT has of its own.
const GRIT_RULES: &[Rule] = &[
    // Relative random-walk probabilities. `padding` is a constant buffer that is added to absent pairs.
    Rule::rename("rrwp_abs_encoder.fc.weight", "rrwp_node.weight"),
    Rule::rename("rrwp_rel_encoder.fc.weight", "rrwp_pair.weight"),
    Rule::ignore_zero("rrwp_rel_encoder.padding"),
    // Attention.
    Rule::rename(
        "layers.{i}.attention.Q.{weight|bias}",
        "layers.{i}.attention.query.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.K.{weight|bias}",
        "layers.{i}.attention.key.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.V.{weight|bias}",
        "layers.{i}.attention.value.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.E.{weight|bias}",
        "layers.{i}.attention.edge.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.Aw",
        "layers.{i}.attention.logit_weight",
    ),
    Rule::rename(
        "layers.{i}.attention.VeRow",
        "layers.{i}.attention.edge_value",
    ),
    Rule::rename("layers.{i}.deg_coef", "layers.{i}.degree_scaler"),
    Rule::rename(
        "layers.{i}.O_h.{weight|bias}",
        "layers.{i}.node_output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.O_e.{weight|bias}",
        "layers.{i}.pair_output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.FFN_h_layer1.{weight|bias}",
        "layers.{i}.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.FFN_h_layer2.{weight|bias}",
        "layers.{i}.feed_forward.output.{weight|bias}",
    ),
    // Norms.
    Rule::rename(
        "layers.{i}.batch_norm1_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.batch_norm_attention.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.batch_norm1_e.{weight|bias|running_mean|running_var}",
        "layers.{i}.batch_norm_pair.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.batch_norm2_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.batch_norm_feed_forward.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.layer_norm1_h.{weight|bias}",
        "layers.{i}.layer_norm_attention.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.layer_norm1_e.{weight|bias}",
        "layers.{i}.layer_norm_pair.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.layer_norm2_h.{weight|bias}",
        "layers.{i}.layer_norm_feed_forward.{weight|bias}",
    ),
    Rule::rename("layers.{i}.alpha1_h", "layers.{i}.rezero_attention"),
    Rule::rename("layers.{i}.alpha1_e", "layers.{i}.rezero_pair"),
    Rule::rename("layers.{i}.alpha2_h", "layers.{i}.rezero_feed_forward"),
];
