//! Pooling, head and outputs.

use candle_graph::nn::{EdgeDecoding, HeadConfig, Pooling};
use candle_graph::ops::Activation;

use super::Sizes;
use crate::convert::options::Options;
use crate::error::Result;

/// Sub-tokens that `ogb_code_graph` predicts, one after another.
const CODE_POSITIONS: usize = 5;
/// Its vocabulary: 5000 words, one for all others, one for the end.
const CODE_VOCABULARY: usize = 5002;

/// From nodes to a graph (`model.graph_pooling`).
pub(in crate::convert) fn pooling(options: &Options) -> Result<Pooling> {
    let name = options.text("model.graph_pooling", "add")?;
    Ok(match name.as_str() {
        "add" => Pooling::Add,
        "mean" => Pooling::Mean,
        "max" => Pooling::Max,
        "graph_token" => Pooling::GraphToken,
        other => {
            return Err(options.refuse(
                "model.graph_pooling",
                format!("`{other}` is not supported (add, mean, max, graph_token)"),
            ));
        }
    })
}

/// The head (`gnn.head`; `default` is the task).
pub(in crate::convert) fn head(options: &Options, activation: Activation) -> Result<HeadConfig> {
    // GraphGym raises smaller numbers to one.
    let layers = options.layers("gnn.layers_post_mp", 0)?.max(1);
    let mut name = options.text("gnn.head", "default")?;
    if name == "default" {
        name = options.text("dataset.task", "node")?;
    }
    Ok(match name.as_str() {
        "san_graph" => HeadConfig::SanGraph { activation },
        "graph" => HeadConfig::Graph { layers },
        // `node` differs in the rows that training and evaluation pick, not in the predictions.
        "node" | "inductive_node" => HeadConfig::InductiveNode { layers },
        "ogb_code_graph" => HeadConfig::OgbCodeGraph {
            positions: CODE_POSITIONS,
        },
        "graphormer_graph" => HeadConfig::GraphormerGraph,
        "inductive_edge" => HeadConfig::InductiveEdge {
            layers,
            decoding: edge_decoding(options)?,
        },
        other => {
            let reason = match other {
                "edge" | "link_pred" => {
                    "; for link prediction use inductive_edge: pairs of one large graph \
                     (transductive) are not supported"
                }
                _ => "",
            };
            return Err(options.refuse(
                "gnn.head",
                format!(
                    "head `{other}` is not supported (san_graph, graph, node, inductive_node, \
                     ogb_code_graph, graphormer_graph, inductive_edge){reason}"
                ),
            ));
        }
    })
}

/// How two node states become a prediction (`model.edge_decoding`).
fn edge_decoding(options: &Options) -> Result<EdgeDecoding> {
    let option = "model.edge_decoding";
    Ok(match options.text(option, "dot")?.as_str() {
        "dot" => EdgeDecoding::Dot,
        "cosine_similarity" => EdgeDecoding::CosineSimilarity,
        "concat" => EdgeDecoding::Concat,
        other => {
            return Err(options.refuse(
                option,
                format!("`{other}` is not known (dot, cosine_similarity, concat)"),
            ));
        }
    })
}

/// Outputs of `head`: the vocabulary at all positions for `ogb_code_graph`, one for a score of node
/// pairs, otherwise `share.dim_out` where the options are resolved, otherwise what the
/// checkpoint's last map has, otherwise what the data set needs. A classification into two classes
/// has one output.
pub(in crate::convert) fn output_dim(sizes: &Sizes<'_>, head: &HeadConfig) -> Result<usize> {
    let options = sizes.options();
    let option = "share.dim_out";
    let outputs = stated_outputs(options)?;
    match head {
        HeadConfig::OgbCodeGraph { .. } => Ok(CODE_POSITIONS * CODE_VOCABULARY),
        // The last map ends with node states here.
        HeadConfig::InductiveEdge { decoding, .. } if *decoding != EdgeDecoding::Concat => {
            match outputs {
                None | Some(1) => Ok(1),
                Some(outputs) => Err(options.refuse(
                    option,
                    format!("{outputs}, but with this model.edge_decoding a pair gets one score"),
                )),
            }
        }
        _ => match outputs {
            Some(outputs) => Ok(outputs),
            None => outputs_of_checkpoint_or_data_set(sizes, option),
        },
    }
}

/// `share.dim_out`, as the official code reads it.
fn stated_outputs(options: &Options) -> Result<Option<usize>> {
    let task_type = options.text("dataset.task_type", "classification")?;
    Ok(
        match options.bounded("share.dim_out", 0, Options::MAX_WIDTH)? {
            0 => None,
            2 if task_type.contains("classification") => Some(1),
            outputs => Some(outputs),
        },
    )
}

fn outputs_of_checkpoint_or_data_set(sizes: &Sizes<'_>, option: &str) -> Result<usize> {
    if let Some(&outputs) = sizes.of_list("head.layers").last() {
        return Ok(outputs);
    }
    if sizes.has_tensors() {
        return Err(sizes.options().refuse(
            option,
            "absent, and the checkpoint has no head to take it from",
        ));
    }
    sizes.dim_out(option)
}
