//! Local models, within `GPSModel` and as the layers of `custom_gnn`.

use crate::convert::key_table::{Presence, Rule};
use crate::state_dict::TensorData;

/// Local models whose names look like those of others.
pub(super) const GPS_EDGELESS_AND_OLD: &[Rule] = &[
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
pub(super) const GPS_LOCAL: &[Rule] = &[
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

pub(super) const GPS_GATED_AND_GINE: &[Rule] =
    &gated_and_gine_rules!("layers.{i}.local_model.", "layers.{i}.local.");
pub(super) const PLAIN_GINE: &[Rule] =
    &gated_and_gine_rules!("gnn_layers.{i}.model.", "layers.{i}.");
pub(super) const PLAIN_GATED: &[Rule] = &gated_and_gine_rules!("gnn_layers.{i}.", "layers.{i}.");

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
