//! Strategies for graphs; features follow from a seed and the model's schema.

use candle_graph::graph::{FeatureSchema, Features, Graph, InputSchema};
use proptest::prelude::*;

use super::Stream;

/// The structure of a graph and the seed of its features.
#[derive(Debug, Clone)]
pub(crate) struct GraphSpec {
    pub(crate) nodes: usize,
    pub(crate) edges: Vec<[i64; 2]>,
    pub(crate) seed: u64,
}

impl GraphSpec {
    /// The graph with features as `schema` wants them.
    pub(crate) fn build(&self, schema: &InputSchema) -> Graph {
        let mut stream = Stream::new(self.seed);
        Graph::builder(self.nodes)
            .edges(self.edges.iter().copied())
            .node_features(features(&schema.node, self.nodes, &mut stream))
            .edge_features(features(&schema.edge, self.edges.len(), &mut stream))
            .build()
            .unwrap()
    }

    /// The same without repeated edges.
    pub(crate) fn simple(mut self) -> Self {
        self.edges.sort_unstable();
        self.edges.dedup();
        self
    }
}

fn features(schema: &FeatureSchema, rows: usize, stream: &mut Stream) -> Option<Features> {
    match schema {
        FeatureSchema::Ignored => None,
        FeatureSchema::Categorical { tables } => {
            let columns = tables.iter().cycle().take(rows * tables.len());
            let data = columns.map(|&t| (stream.next() % t as u64) as u32);
            Some(Features::categorical(tables.len(), data.collect()))
        }
        FeatureSchema::Float { width } => {
            let data = (0..rows * width).map(|_| stream.signed() as f32);
            Some(Features::float(*width, data.collect()))
        }
    }
}

fn spec(
    nodes: usize,
    edges: impl Strategy<Value = Vec<[i64; 2]>>,
) -> impl Strategy<Value = GraphSpec> {
    (edges, any::<u64>()).prop_map(move |(edges, seed)| GraphSpec { nodes, edges, seed })
}

fn directed(nodes: usize, most: usize) -> impl Strategy<Value = GraphSpec> {
    let node = 0..nodes as i64;
    spec(
        nodes,
        proptest::collection::vec([node.clone(), node], 0..=most),
    )
}

/// 1 to 9 nodes with any directed edges: none, loops, repeats, isolated nodes, several components.
pub(crate) fn any_graph() -> impl Strategy<Value = GraphSpec> {
    (1usize..10).prop_flat_map(|n| directed(n, 2 * n))
}

/// A few of them.
pub(crate) fn any_graphs() -> impl Strategy<Value = Vec<GraphSpec>> {
    proptest::collection::vec(any_graph(), 1..6)
}

/// 20 to 44 nodes: more than one block of every parallel loop.
pub(crate) fn large_graph() -> impl Strategy<Value = GraphSpec> {
    (20usize..45).prop_flat_map(|n| directed(n, 3 * n))
}

/// A graph whose out-degrees are 0, 1, 2 or 4. Walk probabilities are then multiples of small
/// powers of two and exact in f32, whatever the order of their sums.
pub(crate) fn dyadic_graph() -> impl Strategy<Value = GraphSpec> {
    (1usize..9).prop_flat_map(|n| {
        let out = prop_oneof![Just(0usize), Just(1), Just(2), Just(4)]
            .prop_flat_map(move |d| proptest::collection::vec(0..n as i64, d));
        let edges = proptest::collection::vec(out, n).prop_map(|lists| {
            let of_node =
                |(s, targets): (usize, Vec<i64>)| targets.into_iter().map(move |t| [s as i64, t]);
            lists.into_iter().enumerate().flat_map(of_node).collect()
        });
        spec(n, edges)
    })
}

/// A permutation of `0..len` that `seed` fixes.
pub(crate) fn permutation(len: usize, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed);
    let mut order: Vec<u32> = (0..len as u32).collect();
    for at in (1..len).rev() {
        order.swap(at, (stream.next() % (at as u64 + 1)) as usize);
    }
    order
}
