//! Graph tokens: an additional node a graph.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use candle_core::Tensor;

use super::{BatchEdges, GraphBatch};
use crate::error::Result;
use crate::graph::pairs::edges_into;
use crate::graph::{Adjacency, Offsets, PairLayout};

impl GraphBatch {
    /// The batch in which every graph has one more node, its token, before its own nodes. Tokens
    /// have no edges; edges keep their order. Features, encodings and the pairs
    /// to score are left out.
    ///
    /// The official Graphormer inserts tokens without renumbering the edges, which from then on
    /// join other nodes than they should; here they join the nodes that they always did.
    ///
    /// # Errors
    /// More nodes than 32-bit indices can address.
    pub fn with_graph_tokens(&self) -> Result<Self> {
        let node_ptr = Offsets::from_lengths(
            self.node_ptr().lengths().map(|n| n.saturating_add(1)),
            &self.device,
        )?;
        let pairs = PairLayout::new(&node_ptr);
        let edges = self.edges.len();
        let (mut sources, mut targets) = (Vec::with_capacity(edges), Vec::with_capacity(edges));
        let mut out_degrees = Vec::with_capacity(pairs.num_nodes());
        let graphs = self.node_ptr().ranges().zip(node_ptr.ranges());
        for (before, after) in graphs {
            let shift = (after.start - before.start + 1) as u32;
            out_degrees.push(0);
            out_degrees.extend_from_slice(&self.out_degrees[before.clone()]);
            let of_graph = edges_into(self.edges.edge_ptr(), &before);
            for edge in of_graph {
                sources.push(self.edges.sources()[edge] + shift);
                targets.push(self.edges.targets()[edge] + shift);
            }
        }
        let adjacency = Adjacency::from_sorted(sources, targets, pairs.num_nodes(), &self.device)?;
        Ok(Self {
            device: self.device.clone(),
            edges: BatchEdges::new(adjacency, self.edges.input_position.clone()),
            pairs,
            edge_pairs: OnceLock::new(),
            node_features: None,
            edge_features: None,
            out_degrees,
            encodings: BTreeMap::new(),
            label_pairs: None,
            graph_tokens: true,
        })
    }

    /// Whether the first node of every graph is a token.
    pub fn has_graph_tokens(&self) -> bool {
        self.graph_tokens
    }

    /// `nodes` `[nodes, width]` without the rows of tokens, in the order of the graphs' own nodes;
    /// unchanged for a batch without tokens.
    ///
    /// # Errors
    /// Rows that are not the batch's nodes.
    pub fn without_graph_tokens(&self, nodes: &Tensor) -> candle_core::Result<Tensor> {
        if !self.graph_tokens {
            return Ok(nodes.clone());
        }
        let own = self.node_ptr().ranges().flat_map(|nodes| nodes.skip(1));
        let own: Vec<u32> = own.map(|node| node as u32).collect();
        let count = own.len();
        nodes.index_select(&Tensor::from_vec(own, count, &self.device)?, 0)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use crate::graph::{Graph, GraphBatch, InputSchema};

    use super::*;

    fn graph(n: usize, edges: &[[i64; 2]]) -> Graph {
        let edges = edges.iter().copied();
        Graph::builder(n).edges(edges).build().unwrap()
    }

    fn batch() -> GraphBatch {
        let graphs = [
            graph(2, &[[1, 0], [0, 1]]),
            graph(1, &[]),
            graph(3, &[[2, 0], [0, 2], [1, 1]]),
        ];
        GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap()
    }

    #[test]
    fn tokens_stand_first_and_edges_join_the_nodes_that_they_did() {
        let tokens = batch().with_graph_tokens().unwrap();
        assert_eq!(tokens.node_ptr().as_slice(), [0, 3, 5, 9]);
        assert_eq!(tokens.pair_ptr().unwrap().as_slice(), [0, 9, 13, 29]);
        assert_eq!(tokens.edges().targets(), [1, 2, 6, 7, 8]);
        assert_eq!(tokens.edges().sources(), [2, 1, 8, 7, 6]);
        let degrees: Vec<usize> = tokens.edges().edge_ptr().lengths().collect();
        assert_eq!(degrees, [0, 1, 1, 0, 0, 0, 1, 1, 1]);
        assert_eq!(tokens.out_degrees(), [0, 1, 1, 0, 0, 0, 1, 1, 1]);
        // Target · n + source within the graph, from the first pair of the graph.
        assert_eq!(
            tokens.edge_pairs().unwrap(),
            [5, 7, 13 + 7, 13 + 10, 13 + 13]
        );
        assert_eq!(
            tokens.edges().input_positions(),
            batch().edges().input_positions()
        );
        assert!(tokens.has_graph_tokens() && !batch().has_graph_tokens());
    }

    #[test]
    fn rows_of_tokens_are_left_out() {
        let tokens = batch().with_graph_tokens().unwrap();
        let states = Tensor::arange(0f32, 9.0, &Device::Cpu).unwrap();
        let states = states.reshape((9, 1)).unwrap();
        let rows = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let own = tokens.without_graph_tokens(&states).unwrap();
        assert_eq!(rows(own), [1.0, 2.0, 4.0, 6.0, 7.0, 8.0]);
        let without = batch().without_graph_tokens(&states).unwrap();
        assert_eq!(rows(without).len(), 9);
    }
}
