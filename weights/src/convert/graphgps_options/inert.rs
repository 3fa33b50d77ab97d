//! Options of GraphGPS that do not reach a prediction.

use crate::convert::options::Options;
use crate::convert::shared_options::mark_framework_options;

/// Options that all sections `posenc_…` of this kind have.
const COMMON: &[&str] = &[
    "enable",
    "model",
    "dim_pe",
    "layers",
    "n_heads",
    "post_layers",
    "raw_norm_type",
    "pass_as_var",
];
const EIGEN: &[&str] = &[
    "eigen.laplacian_norm",
    "eigen.eigvec_norm",
    "eigen.max_freqs",
    "eigen.use_lanczos",
];
const KERNEL: &[&str] = &["kernel.times", "kernel.times_func"];

/// Every option of every section `posenc_…`. A section that a model does not read has no effect,
/// but a misspelt option in it is still one.
const POSITIONAL: &[(&str, &[&[&str]])] = &[
    ("posenc_LapPE", &[COMMON, EIGEN]),
    ("posenc_LapRoPE", &[COMMON, EIGEN]),
    // The fork names this section, but has no such encoder.
    ("posenc_SignNetRoPE", &[COMMON]),
    (
        "posenc_SignNet",
        &[COMMON, EIGEN, &["phi_out_dim", "phi_hidden_dim"]],
    ),
    ("posenc_RWSE", &[COMMON, KERNEL]),
    ("posenc_HKdiagSE", &[COMMON, KERNEL]),
    ("posenc_ElstaticSE", &[COMMON, KERNEL]),
    (
        "posenc_EquivStableLapPE",
        &[&["enable", "raw_norm_type"], EIGEN],
    ),
    (
        "posenc_GraphormerBias",
        &[&[
            "enable",
            "node_degrees_only",
            "dim_pe",
            "num_spatial_types",
            "num_in_degrees",
            "num_out_degrees",
        ]],
    ),
];

/// Options of the networks and layers, of which a model reads those of its own kind.
const NETWORK: &[&str] = &[
    "graphormer.num_layers",
    "graphormer.embed_dim",
    "graphormer.num_heads",
    "graphormer.use_graph_token",
    // Only training sees dropout.
    "graphormer.dropout",
    "graphormer.attention_dropout",
    "graphormer.mlp_dropout",
    "graphormer.input_dropout",
    "gt.dropout",
    "gt.attn_dropout",
    "gt.layer_type",
    "gt.layers",
    "gt.n_heads",
    "gt.dim_hidden",
    "gt.full_graph",
    "gt.gamma",
    "gt.layer_norm",
    "gt.batch_norm",
    "gt.residual",
    "gt.graphrope.enable",
    "gt.graphrope.attn_type",
    "gt.graphrope.encoder",
    "gt.graphrope.t_dim",
    "gt.graphrope.share_omega",
    "gt.graphrope.double_omega",
    // How frequencies start, and whether training moves them.
    "gt.graphrope.init_omega",
    "gt.graphrope.freeze_omega",
    // The scaler of GraphGPS' PNA is the identity, which reads no degrees.
    "gt.pna_degrees",
    "gt.bigbird.attention_type",
    "gt.bigbird.chunk_size_feed_forward",
    "gt.bigbird.is_decoder",
    "gt.bigbird.add_cross_attention",
    "gt.bigbird.hidden_act",
    // Sizes a padded batch, of which there is none here.
    "gt.bigbird.max_position_embeddings",
    "gt.bigbird.use_bias",
    "gt.bigbird.num_random_blocks",
    "gt.bigbird.block_size",
    "gt.bigbird.layer_norm_eps",
    // Set by the official code itself on the way.
    "gt.bigbird.dim_hidden",
    "gt.bigbird.n_heads",
    "gt.bigbird.dropout",
    "gt.bigbird.layers",
];

/// Marks every option of the official code that the model at hand has not read.
pub(super) fn mark_graphgps_options(options: &Options) {
    mark_framework_options(options);
    options.without_effect(NETWORK);
    for (section, groups) in POSITIONAL {
        for option in groups.iter().copied().flatten() {
            options.without_effect(&[&format!("{section}.{option}")]);
        }
    }
}
