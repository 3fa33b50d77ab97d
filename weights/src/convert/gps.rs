//! Tensor names of the official GraphGPS code (rampasek/GraphGPS), as GraphGym saves them.

use super::key_table::{KeyTable, Presence, Rule};
use super::shared_rules::{
    COUNTERS, EDGE_FEATURES, ENCODER_NORMS, HEADS, HIDDEN_HEAD_LAYERS, feature_rules,
};
use crate::state_dict::TensorData;

/// Official tensors of `GPSModel`, `custom_gnn` and `Graphormer` to the names of this project's GraphGPS models.
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
        GPS_LAYER,
        PLAIN_GINE,
        PLAIN_GATED,
        GRAPHORMER_LAYER,
        HEADS,
        GPS_HEADS,
    ],
};

/// A node encoder of features alone.
const FEATURES: &[Rule] = &feature_rules!("encoder.node_encoder.", "node_encoder.features.");

/// The first part of a composed node encoder.
const COMPOSED_FEATURES: &[Rule] =
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
            .when(Presence::Present(concat!(
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

const BARE_POSITIONAL: &[Rule] =
    &positional_rules!("encoder.node_encoder.", "node_encoder.positional.0.");
const FIRST_POSITIONAL: &[Rule] = &positional_rules!(
    "encoder.node_encoder.encoder2.",
    "node_encoder.positional.0."
);
const SECOND_POSITIONAL: &[Rule] = &positional_rules!(
    "encoder.node_encoder.encoder3.",
    "node_encoder.positional.1."
);

const PRE_LAYERS: &[Rule] = &[
    Rule::rename(
        "pre_mp.Layer_{j}.layer.model.{weight|bias}",
        "pre_layers.{j}.{weight|bias}",
    ),
    Rule::rename(
        "pre_mp.Layer_{j}.post_layer.0.{weight|bias|running_mean|running_var}",
        "pre_layers.{j}.norm.{weight|bias|running_mean|running_var}",
    ),
];

/// Local models whose names look like those of others.
const GPS_EDGELESS_AND_OLD: &[Rule] = &[
    // GAT. Both maps of older releases are one and the same; newer ones say so.
    Rule::rename(
        "layers.{i}.local_model.lin.weight",
        "layers.{i}.local.node.weight",
    )
    .when(Presence::Present("layers.0.local_model.att_src")),
    Rule::rename(
        "layers.{i}.local_model.lin_src.weight",
        "layers.{i}.local.node.weight",
    ),
    Rule::ignore("layers.{i}.local_model.lin_dst.weight"),
    Rule::rename(
        "layers.{i}.local_model.lin_edge.weight",
        "layers.{i}.local.edge.weight",
    ),
    Rule::rename(
        "layers.{i}.local_model.att_src",
        "layers.{i}.local.attention.source",
    ),
    Rule::rename(
        "layers.{i}.local_model.att_dst",
        "layers.{i}.local.attention.target",
    ),
    Rule::rename(
        "layers.{i}.local_model.att_edge",
        "layers.{i}.local.attention.edge",
    ),
    // GCN, which has no bias in its map.
    Rule::rename(
        "layers.{i}.local_model.lin.weight",
        "layers.{i}.local.weight",
    )
    .when(Presence::Absent("layers.0.local_model.lin.bias")),
    Rule::rename("layers.{i}.local_model.weight", "layers.{i}.local.weight").with(transpose),
    // GAT and GCN.
    Rule::rename("layers.{i}.local_model.bias", "layers.{i}.local.bias"),
];

/// GENConv and PNA.
const GPS_LOCAL: &[Rule] = &[
    Rule::rename(
        "layers.{i}.local_model.mlp.0.weight",
        "layers.{i}.local.mlp.0.weight",
    ),
    Rule::rename(
        "layers.{i}.local_model.mlp.1.{weight|bias|running_mean|running_var}",
        "layers.{i}.local.mlp.norm.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.local_model.mlp.4.weight",
        "layers.{i}.local.mlp.1.weight",
    ),
    Rule::rename(
        "layers.{i}.local_model.edge_encoder.{weight|bias}",
        "layers.{i}.local.edge.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.local_model.pre_nns.0.0.{weight|bias}",
        "layers.{i}.local.message.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.local_model.post_nns.0.0.{weight|bias}",
        "layers.{i}.local.update.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.local_model.lin.{weight|bias}",
        "layers.{i}.local.output.{weight|bias}",
    ),
    // Mean degrees, which only scalers other than the identity read.
    Rule::ignore("layers.{i}.local_model.{aggr_module.|}avg_deg_{lin|log}"),
];

/// Rules of GINE, GIN and GatedGCN, from the official prefix to ours.
macro_rules! gated_and_gine_rules {
    ($official:literal, $ours:literal) => {
        [
            Rule::rename(concat!($official, "eps"), concat!($ours, "eps")),
            Rule::rename(
                concat!($official, "nn.{k}.{weight|bias}"),
                concat!($ours, "mlp.{k/2}.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "mlp_r_ij.{k}.{weight|bias}"),
                concat!($ours, "distance_gate.{k/2}.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "A.{weight|bias}"),
                concat!($ours, "self.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "B.{weight|bias}"),
                concat!($ours, "neighbour.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "C.{weight|bias}"),
                concat!($ours, "gate_edge.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "D.{weight|bias}"),
                concat!($ours, "gate_target.{weight|bias}"),
            ),
            Rule::rename(
                concat!($official, "E.{weight|bias}"),
                concat!($ours, "gate_source.{weight|bias}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "bn_node_x.{weight|bias|running_mean|running_var}"
                ),
                concat!($ours, "norm_node.{weight|bias|running_mean|running_var}"),
            ),
            Rule::rename(
                concat!(
                    $official,
                    "bn_edge_e.{weight|bias|running_mean|running_var}"
                ),
                concat!($ours, "norm_edge.{weight|bias|running_mean|running_var}"),
            ),
        ]
    };
}

const GPS_GATED_AND_GINE: &[Rule] =
    &gated_and_gine_rules!("layers.{i}.local_model.", "layers.{i}.local.");
const PLAIN_GINE: &[Rule] = &gated_and_gine_rules!("gnn_layers.{i}.model.", "layers.{i}.");
const PLAIN_GATED: &[Rule] = &gated_and_gine_rules!("gnn_layers.{i}.", "layers.{i}.");

const GPS_ATTENTION: &[Rule] = &[
    // Transformer.
    Rule::rename(
        "layers.{i}.self_attn.in_proj_{weight|bias}",
        "layers.{i}.attention.in_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.out_proj.{weight|bias}",
        "layers.{i}.attention.out_proj.{weight|bias}",
    ),
    // Performer.
    Rule::rename(
        "layers.{i}.self_attn.to_q.weight",
        "layers.{i}.attention.query.weight",
    ),
    Rule::rename(
        "layers.{i}.self_attn.to_k.weight",
        "layers.{i}.attention.key.weight",
    ),
    Rule::rename(
        "layers.{i}.self_attn.to_v.weight",
        "layers.{i}.attention.value.weight",
    ),
    Rule::rename(
        "layers.{i}.self_attn.to_out.{weight|bias}",
        "layers.{i}.attention.out_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.fast_attention.projection_matrix",
        "layers.{i}.attention.projection",
    ),
    // A counter of training steps.
    Rule::ignore("layers.{i}.self_attn.fast_attention.calls_since_last_redraw"),
    // BigBird.
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.attention.self.{query|key|value}.{weight|bias}",
        "layers.{i}.attention.{query|key|value}.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.attention.output.dense.{weight|bias}",
        "layers.{i}.attention.out_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.attention.output.LayerNorm.{weight|bias}",
        "layers.{i}.attention.attention_norm.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.intermediate.dense.{weight|bias}",
        "layers.{i}.attention.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.output.dense.{weight|bias}",
        "layers.{i}.attention.feed_forward.output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.self_attn.encoder.layers.0.output.LayerNorm.{weight|bias}",
        "layers.{i}.attention.feed_forward_norm.{weight|bias}",
    ),
];

const GPS_LAYER: &[Rule] = &[
    // Every layer owns both norms, also that of a part that is `None`.
    Rule::ignore("layers.{i}.norm1_local.{*}").when(Presence::NoneBelow("layers.0.local_model.")),
    Rule::ignore("layers.{i}.norm1_attn.{*}").when(Presence::NoneBelow("layers.0.self_attn.")),
    Rule::rename(
        "layers.{i}.norm1_local.{weight|bias|running_mean|running_var}",
        "layers.{i}.norm_local.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.norm1_attn.{weight|bias|running_mean|running_var}",
        "layers.{i}.norm_attention.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "layers.{i}.ff_linear1.{weight|bias}",
        "layers.{i}.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.ff_linear2.{weight|bias}",
        "layers.{i}.feed_forward.output.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.norm2.{weight|bias|running_mean|running_var}",
        "layers.{i}.norm_feed_forward.{weight|bias|running_mean|running_var}",
    ),
];

/// A layer of `Graphormer`.
const GRAPHORMER_LAYER: &[Rule] = &[
    Rule::rename(
        "layers.{i}.attention.in_proj_{weight|bias}",
        "layers.{i}.attention.in_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.attention.out_proj.{weight|bias}",
        "layers.{i}.attention.out_proj.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.input_norm.{weight|bias}",
        "layers.{i}.norm_attention.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.mlp.0.{weight|bias}",
        "layers.{i}.norm_feed_forward.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.mlp.1.{weight|bias}",
        "layers.{i}.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "layers.{i}.mlp.4.{weight|bias}",
        "layers.{i}.feed_forward.output.{weight|bias}",
    ),
];

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

/// `[in, out]` to `[out, in]`.
fn transpose(tensor: TensorData) -> Result<TensorData, String> {
    let &[rows, columns] = tensor.shape() else {
        return Err(format!("expected a matrix, found {:?}", tensor.shape()));
    };
    let (size, bytes) = (tensor.element().size(), tensor.bytes());
    let mut turned = Vec::with_capacity(bytes.len());
    if !bytes.is_empty() {
        for column in 0..columns {
            let values = bytes.chunks_exact(size).skip(column).step_by(columns);
            values.for_each(|value| turned.extend_from_slice(value));
        }
    }
    TensorData::new(tensor.element(), vec![columns, rows], turned)
        .ok_or_else(|| "its bytes do not fit its shape".to_string())
}
