//! Pooling of node states into graph states.

use candle_core::{Result, Tensor, bail};
use serde::{Deserialize, Serialize};

use crate::graph::GraphBatch;
use crate::ops::{Reduction, segment_reduce};

/// How the nodes of a graph become one vector (`model.graph_pooling`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// Sum over nodes.
    Add,
    /// Mean over nodes.
    #[default]
    Mean,
    /// Largest value over nodes, column by column.
    Max,
    /// The state of the graph's token, its first node (`graph_token`).
    GraphToken,
}

/// Pools node states `[nodes, width]` into graph states `[graphs, width]`.
///
/// # Errors
/// Rows that are not the batch's nodes; [`Pooling::GraphToken`] for a batch without tokens.
pub fn pool(nodes: &Tensor, batch: &GraphBatch, pooling: Pooling) -> Result<Tensor> {
    let reduction = match pooling {
        Pooling::Add => Reduction::Sum,
        Pooling::Mean => Reduction::Mean,
        Pooling::Max => Reduction::Max,
        Pooling::GraphToken => {
            if !batch.has_graph_tokens() {
                bail!("pooling by graph tokens: the node encoder makes none");
            }
            let firsts: Vec<u32> = batch.node_ptr().ranges().map(|n| n.start as u32).collect();
            let count = firsts.len();
            return nodes.index_select(&Tensor::from_vec(firsts, count, nodes.device())?, 0);
        }
    };
    segment_reduce(nodes, batch.node_ptr(), reduction)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::graph::{Graph, InputSchema};

    #[test]
    fn graph_tokens_are_the_first_nodes_of_a_batch_that_has_them() {
        let graphs = [2, 1, 3].map(|n| Graph::builder(n).build().unwrap());
        let batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let tokens = batch.with_graph_tokens().unwrap();
        let states = Tensor::arange(0f32, 9.0, &Device::Cpu).unwrap();
        let states = states.reshape((9, 1)).unwrap();
        let pooled = pool(&states, &tokens, Pooling::GraphToken).unwrap();
        assert_eq!(pooled.to_vec2::<f32>().unwrap(), [[0f32], [3.0], [5.0]]);
        let error = pool(&states, &batch, Pooling::GraphToken).unwrap_err();
        assert!(error.to_string().contains("makes none"), "{error}");
    }
}
