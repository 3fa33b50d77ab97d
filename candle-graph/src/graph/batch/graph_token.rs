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

    /// `nodes` `[nodes without tokens, width]` with the row `token` `[1, width]` before the rows of
    /// every graph, for this batch with tokens.
    ///
    /// # Errors
    /// Rows that are not the graphs' own nodes.
    pub fn with_token_rows(&self, token: &Tensor, nodes: &Tensor) -> candle_core::Result<Tensor> {
        // Row 0 is the token.
        let mut ids = vec![0u32; self.num_nodes()];
        let mut next = 0;
        for graph in self.node_ptr().ranges() {
            for id in ids.get_mut(graph).unwrap_or_default().iter_mut().skip(1) {
                next += 1;
                *id = next;
            }
        }
        let ids = Tensor::from_vec(ids, self.num_nodes(), nodes.device())?;
        Tensor::cat(&[token, nodes], 0)?.index_select(&ids, 0)
    }

    /// `pairs` `[pairs without tokens, width]` as rows of the pairs of this batch with tokens: pairs
    /// of a token and a node have the row `mixed`, those of a token with itself the row `own`, both
    /// `[1, width]`.
    ///
    /// # Errors
    /// As [`num_pairs`](Self::num_pairs); rows that are not the graphs' own pairs.
    pub fn with_token_pairs(&self, mixed: &Tensor, own: &Tensor, pairs: &Tensor) -> Result<Tensor> {
        let mut ids = vec![0u32; self.num_pairs()?];
        let mut next = 1;
        for (n, block) in self.node_ptr().lengths().zip(self.pair_ptr()?.ranges()) {
            let mut targets = ids
                .get_mut(block)
                .unwrap_or_default()
                .chunks_exact_mut(n.max(1));
            if let Some(id) = targets.next().and_then(<[u32]>::first_mut) {
                *id = 1;
            }
            for id in targets.flat_map(|target| target.iter_mut().skip(1)) {
                next += 1;
                *id = next;
            }
        }
        let count = ids.len();
        let ids = Tensor::from_vec(ids, count, pairs.device())?;
        Ok(Tensor::cat(&[mixed, own, pairs], 0)?.index_select(&ids, 0)?)
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

    #[test]
    fn rows_of_tokens_stand_where_the_tokens_do() {
        let tokens = batch().with_graph_tokens().unwrap();
        let column =
            |values: &[f32]| Tensor::from_slice(values, (values.len(), 1), &Device::Cpu).unwrap();
        let rows = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let own = column(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let all = tokens.with_token_rows(&column(&[-1.0]), &own).unwrap();
        assert_eq!(rows(all), [-1., 1., 2., -1., 3., -1., 4., 5., 6.]);
        let pairs: Vec<f32> = (1..=14).map(|i| i as f32).collect();
        let found = tokens
            .with_token_pairs(&column(&[-1.0]), &column(&[-2.0]), &column(&pairs))
            .unwrap();
        let (first, rest) = (
            rows(found.narrow(0, 0, 9).unwrap()),
            rows(found.narrow(0, 9, 4).unwrap()),
        );
        assert_eq!(first, [-2., -1., -1., -1., 1., 2., -1., 3., 4.]);
        assert_eq!(rest, [-2., -1., -1., 5.]);
        assert_eq!(found.dims(), [29, 1]);
    }
}
