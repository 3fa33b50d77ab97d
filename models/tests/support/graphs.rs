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
        let mut pairs = Stream::new(!self.seed);
        let mut node = || (pairs.next() % self.nodes as u64) as i64;
        let pairs: Vec<_> = (0..self.seed % 4).map(|_| [node(), node()]).collect();
        Graph::builder(self.nodes)
            .edges(self.edges.iter().copied())
            .node_features(features(&schema.node, self.nodes, &mut stream))
            .edge_features(features(&schema.edge, self.edges.len(), &mut stream))
            .edge_label_index(pairs)
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
        FeatureSchema::Categorical { tables }
        | FeatureSchema::ClampedCategorical { tables, .. } => {
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

/// For every pair `t·n + s`: whether `s` is `t`, an edge leads from `s` to `t`, or a walk of at most
/// `steps` edges leads from `t` to `s`.
pub(crate) fn reachable(graph: &Graph, steps: usize) -> Vec<bool> {
    let n = graph.num_nodes();
    let mut allowed = vec![false; n * n];
    for t in 0..n {
        let mut now = vec![false; n];
        now[t] = true;
        for _ in 0..=steps {
            let mut next = vec![false; n];
            for &[from, to] in graph.edges() {
                next[to as usize] |= now[from as usize];
            }
            for (s, &here) in now.iter().enumerate() {
                allowed[t * n + s] |= here;
            }
            now = next;
        }
    }
    for &[s, t] in graph.edges() {
        allowed[t as usize * n + s as usize] = true;
    }
    allowed
}

/// Both graphs as one, the nodes of `b` after those of `a`.
pub(crate) fn disjoint_union(a: &Graph, b: &Graph) -> Graph {
    let join = |a: Option<&Features>, b: Option<&Features>| match (a, b) {
        (Some(Features::Float { width, data }), Some(Features::Float { data: more, .. })) => {
            Some(Features::float(*width, [data.as_slice(), more].concat()))
        }
        (
            Some(Features::Categorical { width, data }),
            Some(Features::Categorical { data: more, .. }),
        ) => Some(Features::categorical(
            *width,
            [data.as_slice(), more].concat(),
        )),
        (one, other) => one.or(other).cloned(),
    };
    let offset = a.num_nodes() as u32;
    let moved = |pairs: &[[u32; 2]]| -> Vec<[u32; 2]> {
        let pairs = pairs.iter();
        pairs.map(|&[s, t]| [s + offset, t + offset]).collect()
    };
    let pairs = |graph: &Graph| graph.edge_label_index().unwrap().to_vec();
    Graph::builder(a.num_nodes() + b.num_nodes())
        .edges([a.edges(), &moved(b.edges())].concat())
        .edge_label_index([pairs(a), moved(&pairs(b))].concat())
        .node_features(join(a.node_features(), b.node_features()))
        .edge_features(join(a.edge_features(), b.edge_features()))
        .build()
        .unwrap()
}

/// The kinds of graph that break careless code, each by name.
pub(crate) fn unusual_graphs() -> Vec<(&'static str, GraphSpec)> {
    let spec = |nodes, edges: &[[i64; 2]]| GraphSpec {
        nodes,
        edges: edges.to_vec(),
        seed: 5,
    };
    vec![
        ("one node", spec(1, &[])),
        ("one node with a loop", spec(1, &[[0, 0]])),
        ("no edges", spec(4, &[])),
        ("isolated nodes", spec(5, &[[1, 3], [3, 1]])),
        (
            "self loops",
            spec(3, &[[0, 0], [0, 1], [1, 0], [2, 2], [2, 2]]),
        ),
        (
            "repeated edges",
            spec(3, &[[0, 1], [0, 1], [1, 2], [0, 1], [2, 0]]),
        ),
        (
            "components",
            spec(7, &[[0, 1], [1, 0], [2, 3], [3, 4], [4, 2], [5, 6]]),
        ),
        ("one way", spec(4, &[[0, 1], [1, 2], [2, 3]])),
        ("complete", {
            let all = (0..5).flat_map(|s| (0..5).map(move |t| [s, t]));
            spec(5, &all.collect::<Vec<_>>())
        }),
    ]
}
