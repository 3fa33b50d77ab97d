//! Pooling, head and outputs.

use candle_graph::nn::{HeadConfig, Pooling};
use candle_graph::ops::Activation;

use super::Sizes;
use crate::convert::options::Options;
use crate::error::Result;

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
        other => {
            return Err(options.refuse(
                "gnn.head",
                format!("head `{other}` is not supported (san_graph, graph, node, inductive_node)"),
            ));
        }
    })
}

/// Outputs of the head: `share.dim_out` where the options are resolved, otherwise what the
/// checkpoint's last map has, otherwise what the data set needs. A classification into two classes
/// has one output.
pub(in crate::convert) fn output_dim(sizes: &Sizes<'_>) -> Result<usize> {
    let options = sizes.options();
    let option = "share.dim_out";
    let task_type = options.text("dataset.task_type", "classification")?;
    match options.bounded(option, 0, Options::MAX_WIDTH)? {
        0 => {}
        2 if task_type.contains("classification") => return Ok(1),
        outputs => return Ok(outputs),
    }
    if let Some(&outputs) = sizes.of_list("head.layers").last() {
        return Ok(outputs);
    }
    if sizes.has_tensors() {
        return Err(options.refuse(
            option,
            "absent, and the checkpoint has no head to take it from",
        ));
    }
    sizes.dim_out(option)
}
