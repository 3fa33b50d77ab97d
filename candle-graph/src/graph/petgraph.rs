//! From petgraph graphs and back.

use petgraph::EdgeType;
use petgraph::graph::{DiGraph, IndexType, NodeIndex};
use petgraph::visit::{
    Data, EdgeCount, EdgeRef, GraphProp, IntoEdgeReferences, IntoNodeReferences, NodeIndexable,
    NodeRef,
};

use super::{Features, Graph, GraphBuilder};
use crate::error::{Error, GraphProblem, Result};

/// A value of a feature row: `f32` rows make a real table, `u32` rows a categorical one.
pub trait FeatureValue: Copy + sealed::Sealed {
    /// The table with `width` columns over the row-major `data`.
    fn table(width: usize, data: Vec<Self>) -> Features;
}

impl FeatureValue for f32 {
    fn table(width: usize, data: Vec<Self>) -> Features {
        Features::float(width, data)
    }
}

impl FeatureValue for u32 {
    fn table(width: usize, data: Vec<Self>) -> Features {
        Features::categorical(width, data)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u32 {}
}

impl GraphBuilder {
    /// A builder with the nodes and edges of any petgraph graph, read through its
    /// [`visit`](petgraph::visit) traits; id, targets, rotational features and node pairs to score
    /// can be added before [`build`](GraphBuilder::build).
    ///
    /// Nodes are numbered from 0 in the order of `node_references`, so holes that removed nodes
    /// leave in a `StableGraph` close up. The edges of an undirected graph are doubled. `node_row`
    /// and `edge_row` give the feature row of a weight; when all rows are empty there are no
    /// features.
    ///
    /// ```
    /// use candle_graph::graph::GraphBuilder;
    /// use petgraph::stable_graph::StableUnGraph;
    ///
    /// let mut water = StableUnGraph::<&str, u32>::default();
    /// let [h1, o, gone, h2] = ["H", "O", "X", "H"].map(|atom| water.add_node(atom));
    /// water.add_edge(h1, o, 1);
    /// water.add_edge(o, h2, 1);
    /// water.remove_node(gone);
    ///
    /// let graph = GraphBuilder::from_petgraph(
    ///     &water,
    ///     |atom| vec![if *atom == "O" { 8u32 } else { 1 }],
    ///     |bond| vec![*bond],
    /// )?
    /// .id("water")
    /// .build()?;
    /// assert_eq!(graph.num_nodes(), 3);
    /// assert_eq!(graph.edges(), [[0, 1], [1, 0], [1, 2], [2, 1]]);
    /// # Ok::<(), candle_graph::Error>(())
    /// ```
    ///
    /// # Errors
    /// Rows of different widths; an edge between nodes that the graph does not list. What
    /// [`build`](GraphBuilder::build) checks is left to it.
    pub fn from_petgraph<G, X, E>(
        graph: G,
        mut node_row: impl FnMut(&<G as Data>::NodeWeight) -> Vec<X>,
        mut edge_row: impl FnMut(&<G as Data>::EdgeWeight) -> Vec<E>,
    ) -> Result<Self>
    where
        G: IntoNodeReferences + IntoEdgeReferences + NodeIndexable + EdgeCount + GraphProp,
        X: FeatureValue,
        E: FeatureValue,
    {
        let wrap = |problem| Error::graph("from petgraph", problem);
        let mut numbers = vec![None; graph.node_bound()];
        let mut nodes = RowCollector::new("x");
        for node in graph.node_references() {
            let number = nodes.rows;
            match numbers.get_mut(graph.to_index(node.id())) {
                Some(slot) => *slot = i64::try_from(number).ok(),
                None => return Err(wrap(unlisted_node())),
            }
            nodes.push(node_row(node.weight())).map_err(wrap)?;
        }
        let number_of = |id| numbers.get(graph.to_index(id)).copied().flatten();
        let mut edges = Vec::new();
        let mut rows = RowCollector::new("edge_attr");
        for edge in graph.edge_references() {
            let pair = number_of(edge.source()).zip(number_of(edge.target()));
            let (source, target) = pair.ok_or_else(|| wrap(unlisted_node()))?;
            edges.push([source, target]);
            rows.push(edge_row(edge.weight())).map_err(wrap)?;
        }
        // An undirected `Csr` lists both directions of an edge and counts it once; the other
        // undirected graphs list it once.
        let doubled = graph.is_directed() || edges.len() > graph.edge_count();
        Ok(Graph::builder(nodes.rows)
            .edges(edges)
            .undirected(!doubled)
            .node_features(nodes.table())
            .edge_features(rows.table()))
    }
}

fn unlisted_node() -> GraphProblem {
    GraphProblem::Field {
        field: "edge_index".to_string(),
        message: "an edge or index refers to a node that the graph does not list".to_string(),
    }
}

/// Collects rows of one width.
struct RowCollector<T> {
    field: &'static str,
    width: usize,
    rows: usize,
    data: Vec<T>,
}

impl<T: FeatureValue> RowCollector<T> {
    fn new(field: &'static str) -> Self {
        Self {
            field,
            width: 0,
            rows: 0,
            data: Vec::new(),
        }
    }

    fn push(&mut self, row: Vec<T>) -> Result<(), GraphProblem> {
        if self.rows == 0 {
            self.width = row.len();
        }
        if row.len() != self.width {
            return Err(GraphProblem::Ragged {
                field: self.field,
                row: self.rows,
                found: row.len(),
                expected: self.width,
            });
        }
        self.rows += 1;
        self.data.extend(row);
        Ok(())
    }

    fn table(self) -> Option<Features> {
        (self.width > 0).then(|| T::table(self.width, self.data))
    }
}

/// The structure without features; weights are not read.
///
/// # Errors
/// As [`GraphBuilder::build`]: a graph needs at least one node.
impl<N, E, Ty, Ix> TryFrom<&petgraph::Graph<N, E, Ty, Ix>> for Graph
where
    Ty: EdgeType,
    Ix: IndexType,
{
    type Error = Error;

    fn try_from(graph: &petgraph::Graph<N, E, Ty, Ix>) -> Result<Self> {
        GraphBuilder::from_petgraph(graph, |_| Vec::<u32>::new(), |_| Vec::<u32>::new())?.build()
    }
}

impl Graph {
    /// The graph as a petgraph graph: every directed edge one edge, in order, weights the feature
    /// rows as real values (empty without features). Targets and id are not carried.
    pub fn to_petgraph(&self) -> DiGraph<Vec<f32>, Vec<f32>> {
        let row = |features: Option<&Features>, at| features.map_or_else(Vec::new, |f| f.row(at));
        let mut out = DiGraph::with_capacity(self.num_nodes(), self.num_edges());
        for node in 0..self.num_nodes() {
            out.add_node(row(self.node_features(), node));
        }
        for (at, &[source, target]) in self.edges().iter().enumerate() {
            out.add_edge(
                NodeIndex::new(source as usize),
                NodeIndex::new(target as usize),
                row(self.edge_features(), at),
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petgraph::Undirected;
    use petgraph::csr::Csr;
    use petgraph::graphmap::UnGraphMap;
    use petgraph::stable_graph::StableDiGraph;

    fn none<T>(_: &T) -> Vec<f32> {
        Vec::new()
    }

    #[test]
    fn holes_of_a_stable_graph_close_up_and_rows_stay_with_their_nodes() {
        let mut source = StableDiGraph::<f32, u32>::new();
        let nodes: Vec<_> = (0..6).map(|i| source.add_node(i as f32)).collect();
        source.add_edge(nodes[5], nodes[1], 7);
        source.add_edge(nodes[1], nodes[4], 8);
        source.add_edge(nodes[0], nodes[4], 9);
        source.remove_node(nodes[0]);
        source.remove_node(nodes[3]);
        let graph = GraphBuilder::from_petgraph(&source, |w| vec![*w], |w| vec![*w, 1])
            .unwrap()
            .build()
            .unwrap();
        assert_eq!(
            graph.node_features(),
            Some(&Features::float(1, vec![1.0, 2.0, 4.0, 5.0]))
        );
        assert_eq!(graph.edges(), [[3, 0], [0, 2]]);
        assert_eq!(
            graph.edge_features(),
            Some(&Features::categorical(2, vec![7, 1, 8, 1]))
        );
    }

    #[test]
    fn every_undirected_representation_gives_each_direction_once() {
        let pairs = [(0u32, 1u32), (1, 2), (2, 2)];
        let expected = [[0, 1], [1, 0], [1, 2], [2, 1], [2, 2]];
        let sorted = |graph: Graph| {
            let mut edges = graph.edges().to_vec();
            edges.sort_unstable();
            edges
        };

        let list = petgraph::graph::UnGraph::<(), ()>::from_edges(pairs);
        assert_eq!(sorted(Graph::try_from(&list).unwrap()), expected);

        let map = UnGraphMap::<u32, ()>::from_edges(pairs);
        let built = GraphBuilder::from_petgraph(&map, none, none).unwrap();
        assert_eq!(sorted(built.build().unwrap()), expected);

        let mut csr = Csr::<(), (), Undirected>::with_nodes(3);
        for (source, target) in pairs {
            csr.add_edge(source, target, ());
        }
        let built = GraphBuilder::from_petgraph(&csr, none, none).unwrap();
        assert_eq!(sorted(built.build().unwrap()), expected);
    }

    #[test]
    fn there_and_back_is_the_same_graph() {
        let graph = Graph::builder(3)
            .edges([[2, 0], [2, 0], [1, 1]])
            .node_features(Features::float(2, vec![0.5, 1.0, -1.0, 2.0, 3.0, 4.0]))
            .edge_features(Features::float(1, vec![1.0, 2.0, 3.0]))
            .build()
            .unwrap();
        let back = GraphBuilder::from_petgraph(&graph.to_petgraph(), Vec::clone, Vec::clone)
            .unwrap()
            .build()
            .unwrap();
        assert_eq!(back, graph);

        let bare = Graph::builder(2).edges([[0, 1]]).build().unwrap();
        assert_eq!(Graph::try_from(&bare.to_petgraph()).unwrap(), bare);
    }

    #[test]
    fn bad_graphs_are_errors() {
        let empty = petgraph::Graph::<(), ()>::new();
        let message = Graph::try_from(&empty).unwrap_err().to_string();
        assert!(message.contains("no nodes"), "{message}");

        let mut ragged = petgraph::Graph::<usize, ()>::new();
        ragged.add_node(1);
        ragged.add_node(2);
        let message = GraphBuilder::from_petgraph(&ragged, |&w| vec![0.0f32; w], none)
            .unwrap_err()
            .to_string();
        assert!(message.contains("x: row 1 has 2 value(s)"), "{message}");

        let mut infinite = petgraph::Graph::<f32, ()>::new();
        infinite.add_node(f32::NAN);
        let message = GraphBuilder::from_petgraph(&infinite, |&w| vec![w], none)
            .unwrap()
            .build()
            .unwrap_err()
            .to_string();
        assert!(message.contains("x: value NaN at row 0"), "{message}");
    }
}
