//! Layers of `GPSModel`, `Graphormer` and `SANTransformer`.

use crate::convert::key_table::{Presence, Rule};
use crate::state_dict::TensorData;

/// Attention of `GPSModel`.
pub(super) const GPS_ATTENTION: &[Rule] = &[
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

/// Norms and feed-forward block of `GPSModel`.
pub(super) const GPS_LAYER: &[Rule] = &[
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
pub(super) const GRAPHORMER_LAYER: &[Rule] = &[
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

/// A layer of `SANTransformer`. The state of "no edge" is one for all layers and saved with each.
pub(super) const SAN_LAYER: &[Rule] = &[
    Rule::rename(
        "trf_layers.{i}.attention.Q.weight",
        "layers.{i}.attention.query.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.K.weight",
        "layers.{i}.attention.key.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.E.weight",
        "layers.{i}.attention.edge.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.V.weight",
        "layers.{i}.attention.value.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.Q_2.weight",
        "layers.{i}.attention.query_other.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.K_2.weight",
        "layers.{i}.attention.key_other.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.E_2.weight",
        "layers.{i}.attention.edge_other.weight",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.fake_edge_emb.weight",
        "layers.{i}.attention.other_edge",
    ),
    Rule::rename(
        "trf_layers.{i}.attention.gamma",
        "layers.{i}.attention.gamma",
    )
    .with(scalar_to_row),
    Rule::rename(
        "trf_layers.{i}.O_h.{weight|bias}",
        "layers.{i}.node_output.{weight|bias}",
    ),
    Rule::rename(
        "trf_layers.{i}.FFN_h_layer1.{weight|bias}",
        "layers.{i}.feed_forward.input.{weight|bias}",
    ),
    Rule::rename(
        "trf_layers.{i}.FFN_h_layer2.{weight|bias}",
        "layers.{i}.feed_forward.output.{weight|bias}",
    ),
    Rule::rename(
        "trf_layers.{i}.{layer_norm|batch_norm}1_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.{layer_norm|batch_norm}_attention.{weight|bias|running_mean|running_var}",
    ),
    Rule::rename(
        "trf_layers.{i}.{layer_norm|batch_norm}2_h.{weight|bias|running_mean|running_var}",
        "layers.{i}.{layer_norm|batch_norm}_feed_forward.{weight|bias|running_mean|running_var}",
    ),
];

/// `[]` to `[1]`.
fn scalar_to_row(tensor: TensorData) -> Result<TensorData, String> {
    let (element, bytes) = (tensor.element(), tensor.bytes().to_vec());
    TensorData::new(element, vec![1], bytes)
        .ok_or_else(|| format!("expected one value, found {:?}", tensor.shape()))
}
