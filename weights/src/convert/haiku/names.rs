//! Tensor names of the official code, `<Haiku module path>/<name>`.

use candle_graph_models::digraph::{DigraphConfig, DigraphEncoderConfig};

use crate::convert::key_table::{KeyTable, Presence, Rule};
use crate::state_dict::TensorData;
use crate::strided::gather;

/// Our name of the map of edge features in syntax trees.
pub(super) const AST_EDGE_WEIGHT: &str = "edge_encoder.linear.weight";

/// The table for models like `config`.
pub(super) fn digraph_table(config: &DigraphConfig) -> &'static KeyTable {
    match &config.encoder {
        DigraphEncoderConfig::Transformer(layers) if layers.norm_first => &NORM_FIRST,
        _ => &DIGRAPH,
    }
}

/// Official tensors to the names of this project's models of directed graphs.
///
/// Weights `w` `[in, out]` become `[out, in]`; scale, offset and moving averages of batch norms `[1, 1, D]`
/// become `[D]`.
pub(super) const DIGRAPH: KeyTable = KeyTable {
    prefix: "",
    last: None,
    rules: &[
        INPUT,
        POSITIONAL,
        LAYERS,
        NORMS,
        STRUCTURE,
        MESSAGE_PASSING,
        HEADS,
        STATE,
    ],
};

/// The same where the first norm of a layer stands before its attention.
const NORM_FIRST: KeyTable = KeyTable {
    prefix: "",
    last: None,
    rules: &[
        INPUT,
        POSITIONAL,
        LAYERS,
        NORMS_FIRST,
        STRUCTURE,
        MESSAGE_PASSING,
        HEADS,
        STATE,
    ],
};

/// A map with the official name `$official` and our name `$ours`.
macro_rules! linear {
    ($official:expr, $ours:expr) => {
        Rule::rename(
            concat!($official, "/{w>weight|b>bias}"),
            concat!($ours, ".{w>weight|b>bias}"),
        )
        .with(output_first)
    };
}

/// A norm of either kind; what counts it stands behind its name.
macro_rules! norm {
    ($official:expr, $count:literal, $ours:expr) => {
        Rule::rename(
            concat!(
                $official,
                "/{layer_norm|batch_norm}",
                $count,
                "/{scale>weight|offset>bias}"
            ),
            concat!($ours, ".{scale>weight|offset>bias}"),
        )
        .with(flat)
    };
}

/// The moving averages of a batch norm, which makes two modules for each and reads the second.
macro_rules! averages {
    ($official:expr, $count:literal, $ours:expr) => {
        Rule::rename(
            concat!(
                $official,
                "/batch_norm",
                $count,
                "/~/{mean_ema_1>running_mean|var_ema_1>running_var}/average"
            ),
            concat!($ours, ".{mean_ema_1>running_mean|var_ema_1>running_var}"),
        )
        .with(flat)
    };
}

const WITH_DEPTH: Presence = Presence::Present("data_flow_ast_encoder/embed_4/embeddings");

const INPUT: &[Rule] = &[
    linear!("sorting_network_encoder/linear", "node_encoder.linear"),
    // Node type, attribute and, if it is read, depth; then edge type and name.
    Rule::rename(
        "data_flow_ast_encoder/{embed>0|embed_1>1}/embeddings",
        "node_encoder.embeddings.{embed>0|embed_1>1}.weight",
    ),
    Rule::rename(
        "data_flow_ast_encoder/embed_2/embeddings",
        "node_encoder.embeddings.2.weight",
    )
    .when(WITH_DEPTH),
    Rule::rename(
        "data_flow_ast_encoder/{embed_3>0|embed_4>1}/embeddings",
        "edge_encoder.embeddings.{embed_3>0|embed_4>1}.weight",
    )
    .when(WITH_DEPTH),
    Rule::rename(
        "data_flow_ast_encoder/{embed_2>0|embed_3>1}/embeddings",
        "edge_encoder.embeddings.{embed_2>0|embed_3>1}.weight",
    ),
    Rule::rename(
        "ast_node_encoder/{type_encoder>0|attribute_encoder>1|depth_encoder>2}",
        "node_encoder.embeddings.{type_encoder>0|attribute_encoder>1|depth_encoder>2}.weight",
    ),
    Rule::rename("ast_node_encoder/linear/w", AST_EDGE_WEIGHT).with(output_first),
    Rule::rename("structure_aware_transformer/cls_token", "token"),
];

macro_rules! mag_lap_net {
    ($rest:literal) => {
        concat!("structure_aware_transformer/~/mag_lap_net/", $rest)
    };
}

macro_rules! encodings {
    ($rest:literal) => {
        concat!("structure_aware_transformer/~positional_encodings/", $rest)
    };
}

const POSITIONAL: &[Rule] = &[
    // The map of elements is the last one of their message passing, where there is any.
    linear!(
        mag_lap_net!("~/re_element/linear"),
        "positional.network.element.output"
    )
    .when(Presence::Present(mag_lap_net!(
        "~/re_element/~_update_fn/node_mlp0_linear0/w"
    ))),
    linear!(
        mag_lap_net!("~/re_element/linear"),
        "positional.network.element"
    ),
    linear!(
        mag_lap_net!("~/re_element/~_update_fn/{edge_mlp0_linear0>edge|node_mlp0_linear0>node}"),
        "positional.network.element.steps.0.{edge_mlp0_linear0>edge|node_mlp0_linear0>node}.0"
    ),
    linear!(
        mag_lap_net!("~/re_aggregate/linear"),
        "positional.network.aggregate"
    ),
    linear!(
        mag_lap_net!("~/im_aggregate/linear"),
        "positional.network.aggregate_imaginary"
    ),
    norm!(
        "structure_aware_transformer/~/mag_lap_net",
        "",
        "positional.network.norm"
    ),
    linear!(
        mag_lap_net!("multi_head_attention/{query|key|value|linear>output}"),
        "positional.network.attention.{query|key|value|linear>output}"
    ),
    linear!(
        "structure_aware_transformer/~/naive_mag_lap_net/{linear>real|linear_1>imaginary}",
        "positional.network.{linear>real|linear_1>imaginary}"
    ),
    linear!(encodings!("posenc_linear"), "positional.pair"),
    linear!(encodings!("posenc_mlp_linear0"), "positional.node"),
];

macro_rules! layer {
    ($rest:literal) => {
        concat!(
            "structure_aware_transformer/~/transformer_encoder_layer{_i}/",
            $rest
        )
    };
}

/// The map of walks to biases is made before that of the output, and takes its name.
const WITH_PAIR_BIAS: Presence = Presence::Present(
    "structure_aware_transformer/~/transformer_encoder_layer/~/multi_head_attention/linear_1/w",
);

const LAYERS: &[Rule] = &[
    linear!(
        layer!(
            "~/multi_head_attention/{query|key|value|query_1>query_imaginary|key_1>key_imaginary}"
        ),
        "layers.{_i}.attention.{query|key|value|query_1>query_imaginary|key_1>key_imaginary}"
    ),
    linear!(
        layer!("~/multi_head_attention/{linear>pair_bias|linear_1>output}"),
        "layers.{_i}.attention.{linear>pair_bias|linear_1>output}"
    )
    .when(WITH_PAIR_BIAS),
    linear!(
        layer!("~/multi_head_attention/linear"),
        "layers.{_i}.attention.output"
    ),
    linear!(
        layer!("{linear>input|linear_1>output}"),
        "layers.{_i}.feed_forward.{linear>input|linear_1>output}"
    ),
    // MagNet: two maps a layer, the second without bias.
    linear!(
        "structure_aware_transformer/~/mag_net/linear{_2i}",
        "layers.{_2i}.own"
    ),
    linear!(
        "structure_aware_transformer/~/mag_net/linear{_2i+1}",
        "layers.{_2i+1}.neighbours"
    ),
];

macro_rules! layer_norms {
    ($first:literal, $second:literal) => {
        &[
            norm!(
                "structure_aware_transformer/~/transformer_encoder_layer{_i}",
                "",
                concat!("layers.{_i}.", $first)
            ),
            norm!(
                "structure_aware_transformer/~/transformer_encoder_layer{_i}",
                "_1",
                concat!("layers.{_i}.", $second)
            ),
            averages!(
                "structure_aware_transformer/~/transformer_encoder_layer{_i}",
                "",
                concat!("layers.{_i}.", $first)
            ),
            averages!(
                "structure_aware_transformer/~/transformer_encoder_layer{_i}",
                "_1",
                concat!("layers.{_i}.", $second)
            ),
        ]
    };
}

const NORMS: &[Rule] = layer_norms!("norm_attention", "norm_feed_forward");
const NORMS_FIRST: &[Rule] = layer_norms!("norm_first", "norm_attention");

/// Rules of message passing, from the official module to ours. Convolutions have a backward map of nodes
/// that nothing reads.
macro_rules! message_passing_rules {
    ($official:literal, $ours:literal) => {
        [
            linear!(
                concat!(
                    $official,
                    "/~_update_fn/{edge_mlp>edge|node_mlp>node}{s}_linear{j}"
                ),
                concat!($ours, ".steps.{s}.{edge_mlp>edge|node_mlp>node}.{j}")
            ),
            Rule::ignore(concat!(
                $official,
                "/~_layer/graph_convolution/linear_2/{w|b}"
            )),
            linear!(
                concat!(
                    $official,
                    "/~_layer/graph_convolution/{linear>node|linear_1>edge|linear_3>backward_edge}"
                ),
                concat!(
                    $ours,
                    ".steps.0.{linear>node|linear_1>edge|linear_3>backward_edge}"
                )
            ),
            Rule::rename(
                concat!($official, "/~_layer/graph_convolution/root_emb"),
                concat!($ours, ".steps.0.root"),
            ),
            linear!(concat!($official, "/linear"), concat!($ours, ".output")),
            norm!($official, "", concat!($ours, ".norm")),
            averages!($official, "", concat!($ours, ".norm")),
        ]
    };
}

const STRUCTURE: &[Rule] = &message_passing_rules!(
    "structure_aware_transformer/~/transformer_encoder_layer{_i}/~/gnn",
    "layers.{_i}.structure"
);
const MESSAGE_PASSING: &[Rule] =
    &message_passing_rules!("structure_aware_transformer/~/gnn", "message_passing");

const HEADS: &[Rule] = &[
    linear!("structure_aware_transformer/linear", "head"),
    linear!(
        "structure_aware_transformer/adj_mlp/linear{_j}",
        "head.layers.{_j}"
    ),
    Rule::rename(
        "structure_aware_transformer/adj_mlp/layer_norm{_j}/{scale>weight|offset>bias}",
        "head.norms.{_j}.{scale>weight|offset>bias}",
    ),
    linear!("structure_aware_transformer/adj_out", "head.output"),
];

/// How moving averages are kept up in training.
const STATE: &[Rule] = &[Rule::ignore(
    "{*}/~/{mean_ema|var_ema}{_k}/{counter|hidden}",
)];

/// A weight from `[in, out]` to `[out, in]`; a bias `[out]` stays as it is.
fn output_first(tensor: TensorData) -> Result<TensorData, String> {
    let &[rows, columns] = tensor.shape() else {
        return match tensor.shape().len() {
            1 => Ok(tensor),
            _ => Err(format!(
                "expected a matrix or a row, found {:?}",
                tensor.shape()
            )),
        };
    };
    let element = tensor.element();
    let bytes = gather(
        tensor.bytes(),
        element.size(),
        0,
        &[columns, rows],
        &[1, columns],
    )?;
    TensorData::new(element, vec![columns, rows], bytes)
        .ok_or_else(|| "its bytes do not fit its shape".to_string())
}

/// `[1, 1, D]` to `[D]`.
fn flat(tensor: TensorData) -> Result<TensorData, String> {
    match tensor.shape() {
        [_] => Ok(tensor),
        [leading @ .., width] if leading.iter().all(|&dim| dim == 1) => {
            let (element, width) = (tensor.element(), *width);
            TensorData::new(element, vec![width], tensor.bytes().to_vec())
                .ok_or_else(|| "its bytes do not fit its shape".to_string())
        }
        shape => Err(format!("expected one row, found {shape:?}")),
    }
}
