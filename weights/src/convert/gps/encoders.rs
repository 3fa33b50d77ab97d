//! Node encoders and the perceptron before the layers.

use crate::convert::key_table::Rule;
use crate::convert::shared_rules::feature_rules;

/// A node encoder of features alone.
pub(super) const FEATURES: &[Rule] =
    &feature_rules!("encoder.node_encoder.", "node_encoder.features.");

/// The first part of a composed node encoder.
pub(super) const COMPOSED_FEATURES: &[Rule] =
    &feature_rules!("encoder.node_encoder.encoder1.", "node_encoder.features.");

/// Rules of a positional encoder, from the official prefix to ours. Sequential modules count their activations: the
/// maps of a deep set have odd numbers there, those of other perceptrons even ones.
macro_rules! positional_rules {
    ($official:literal, $ours:literal) => {
        [
            Rule::rename(
                concat!($official, "raw_norm.{weight|bias|running_mean|running_var}"),
                concat!($ours, "raw_norm.{weight|bias|running_mean|running_var}"),
            ),
            // LapPE.
            Rule::rename(
                concat!($official, "linear_A.{weight|bias}"),
                concat!($ours, "input.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "pe_encoder.layers.{l}.self_attn.in_proj_{weight|bias}"
                ),
                concat!($ours, "layers.{l}.attention.in_proj.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "pe_encoder.layers.{l}.self_attn.out_proj.{weight|bias}"
                ),
                concat!($ours, "layers.{l}.attention.out_proj.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "pe_encoder.layers.{l}.linear1.{weight|bias}"),
                concat!($ours, "layers.{l}.feed_forward.input.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "pe_encoder.layers.{l}.linear2.{weight|bias}"),
                concat!($ours, "layers.{l}.feed_forward.output.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "pe_encoder.layers.{l}.norm1.{weight|bias}"),
                concat!($ours, "layers.{l}.norm_attention.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "pe_encoder.layers.{l}.norm2.{weight|bias}"),
                concat!($ours, "layers.{l}.norm_feed_forward.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "post_mlp.{k}.{weight|bias}"),
                concat!($ours, "post.{k/2}.{weight|bias}"),
            ),
            // LapPE as a deep set, RWSE, HKdiagSE, ElstaticSE.
            Rule::rename(
                concat!($official, "pe_encoder.{k}.{weight|bias}"),
                concat!($ours, "layers.{k/2}.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "pe_encoder.{weight|bias}"),
                concat!($ours, "layers.0.{weight|bias}"),
            ),
            // SignNet.
            Rule::rename(
                concat!($official, "sign_inv_net.enc.layers.{l}.eps"),
                concat!($ours, "layers.{l}.eps"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "sign_inv_net.enc.layers.{l}.nn.lins.0.{weight|bias}"
                ),
                concat!($ours, "layers.{l}.input.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "sign_inv_net.enc.layers.{l}.nn.bns.0.{weight|bias|running_mean|running_var}"
                ),
                concat!(
                    $ours,
                    "layers.{l}.norm.{weight|bias|running_mean|running_var}"
                ),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "sign_inv_net.enc.layers.{l}.nn.lins.1.{weight|bias}"
                ),
                concat!($ours, "layers.{l}.output.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "sign_inv_net.enc.bns.{l}.{weight|bias|running_mean|running_var}"
                ),
                concat!($ours, "norms.{l}.{weight|bias|running_mean|running_var}"),
            ),
            Rule::rename(
                concat!($official, "sign_inv_net.rho.lins.{j}.{weight|bias}"),
                concat!($ours, "post.{j}.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "sign_inv_net.rho.bns.{j}.{weight|bias|running_mean|running_var}"
                ),
                concat!(
                    $ours,
                    "post_norms.{j}.{weight|bias|running_mean|running_var}"
                ),
            ),
            // EquivStableLapPE.
            Rule::rename(
                concat!($official, "linear_encoder_eigenvec.{weight|bias}"),
                concat!($ours, "linear.{weight|bias}"),
            ),
            // GraphormerBias: degrees, and before them the bias where there is one.
            Rule::rename(
                concat!($official, "{k}.in_degree_encoder.weight"),
                concat!($ours, "in_degrees.weight"),
            ),
            Rule::rename(
                concat!($official, "{k}.out_degree_encoder.weight"),
                concat!($ours, "out_degrees.weight"),
            ),
            Rule::rename(
                concat!($official, "0.graph_token"),
                concat!($ours, "bias_token"),
            )
            .when($crate::convert::key_table::Presence::Present(concat!(
                $official,
                "0.spatial_encoder.weight"
            ))),
            Rule::rename(
                concat!($official, "{k}.graph_token"),
                concat!($ours, "graph_token"),
            ),
            Rule::rename(
                concat!($official, "0.spatial_encoder.weight"),
                concat!($ours, "spatial.weight"),
            ),
            Rule::rename(
                concat!($official, "0.edge_encoder.weight"),
                concat!($ours, "edges.weight"),
            ),
            Rule::rename(
                concat!($official, "0.edge_dis_encoder.weight"),
                concat!($ours, "edge_distances.weight"),
            ),
            // A positional encoder that stands alone maps the features itself.
            Rule::rename(
                concat!($official, "linear_x.{weight|bias}"),
                "node_encoder.features.linear.{weight|bias}",
            ),
        ]
    };
}
pub(super) use positional_rules;

pub(super) const BARE_POSITIONAL: &[Rule] =
    &positional_rules!("encoder.node_encoder.", "node_encoder.positional.0.");
pub(super) const FIRST_POSITIONAL: &[Rule] = &positional_rules!(
    "encoder.node_encoder.encoder2.",
    "node_encoder.positional.0."
);
pub(super) const SECOND_POSITIONAL: &[Rule] = &positional_rules!(
    "encoder.node_encoder.encoder3.",
    "node_encoder.positional.1."
);

pub(super) const PRE_LAYERS: &[Rule] = &[
    Rule::rename(
        "pre_mp.Layer_{j}.layer.model.{weight|bias}",
        "pre_layers.{j}.{weight|bias}",
    ),
    Rule::rename(
        "pre_mp.Layer_{j}.post_layer.0.{weight|bias|running_mean|running_var}",
        "pre_layers.{j}.norm.{weight|bias|running_mean|running_var}",
    ),
];
