//! The owned, validated graph on the host.

mod order;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Features;
use crate::error::{Error, GraphProblem, Result};

/// The largest number of nodes or edges of one graph: indices are 32 bits wide, and the largest
/// 32-bit value is kept free because candle reads it as padding.
pub const MAX_INDEX: usize = u32::MAX as usize - 1;

/// The name under which a graph came in, kept as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum GraphId {
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
}

impl fmt::Display for GraphId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Text(t) => write!(f, "\"{t}\""),
        }
    }
}

impl From<i64> for GraphId {
    fn from(value: i64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for GraphId {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

/// Targets of a graph, of its nodes or of the node pairs to score, `[rows, width]`; NaN marks a
/// missing label.
#[derive(Debug, Clone, PartialEq)]
pub struct Targets {
    /// Columns (tasks).
    pub width: usize,
    /// Row-major values; one row for a graph target, one a node for node targets, one a pair of
    /// `edge_label_index` for link prediction.
    pub data: Vec<f32>,
}

impl Targets {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len().checked_div(self.width).unwrap_or(0)
    }
}

/// A directed graph with optional node and edge features, coordinates, targets and id, checked once when made:
/// at least one node, every edge in range, tables with the right number of rows, finite features.
///
/// Self loops, repeated edges, isolated nodes and several components are legal. An undirected
/// graph is held as both directions of every edge ([`GraphBuilder::undirected`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    num_nodes: usize,
    edges: Vec<[u32; 2]>,
    node_features: Option<Features>,
    rotational_features: Option<Features>,
    edge_features: Option<Features>,
    edge_label_index: Option<Vec<[u32; 2]>>,
    targets: Option<Targets>,
    id: Option<GraphId>,
}

impl Graph {
    /// Starts a graph with `num_nodes` nodes.
    ///
    /// ```
    /// use candle_graph::graph::{Features, Graph};
    /// let ring = Graph::builder(3)
    ///     .edges([[0, 1], [1, 2], [2, 0]])
    ///     .undirected(true)
    ///     .node_features(Features::categorical(1, vec![0, 0, 5]))
    ///     .build()?;
    /// assert_eq!(ring.num_edges(), 6);
    /// # Ok::<(), candle_graph::Error>(())
    /// ```
    pub fn builder(num_nodes: usize) -> GraphBuilder {
        GraphBuilder {
            num_nodes,
            edges: Vec::new(),
            undirected: false,
            node_features: None,
            rotational_features: None,
            edge_features: None,
            edge_label_index: None,
            targets: None,
            id: None,
        }
    }

    /// Number of nodes, at least one.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// Number of directed edges.
    pub fn num_edges(&self) -> usize {
        self.edges.len()
    }

    /// Number of ordered node pairs, the square of the number of nodes.
    pub fn num_pairs(&self) -> u64 {
        (self.num_nodes as u64) * (self.num_nodes as u64)
    }

    /// Directed edges `[source, target]` in input order (`edge_index` column by column).
    pub fn edges(&self) -> &[[u32; 2]] {
        &self.edges
    }

    /// Node features, one row a node.
    pub fn node_features(&self) -> Option<&Features> {
        self.node_features.as_ref()
    }

    /// Coordinates of the nodes for rotary encodings, real values, one row a node, where they come
    /// with the graph: Cartesian ones, or any that were computed before.
    pub fn rotational_features(&self) -> Option<&Features> {
        self.rotational_features.as_ref()
    }

    /// The same graph with these coordinates of its nodes, one row a node; categories become their
    /// numbers.
    ///
    /// # Errors
    /// Another number of rows, a value that is not finite.
    pub fn with_rotational_features(self, features: Features) -> Result<Self> {
        let checked = checked_coordinates(features, self.num_nodes);
        let t = checked.map_err(|problem| Error::graph(self.label(0), problem))?;
        Ok(Self {
            rotational_features: Some(t),
            ..self
        })
    }

    /// Edge features, one row a directed edge.
    pub fn edge_features(&self) -> Option<&Features> {
        self.edge_features.as_ref()
    }

    /// The ordered node pairs `[source, target]` that a link prediction model is to score, in
    /// input order (PyG's `edge_label_index`), if any are given. They need not be edges, and may
    /// repeat.
    pub fn edge_label_index(&self) -> Option<&[[u32; 2]]> {
        self.edge_label_index.as_deref()
    }

    /// Targets, if any.
    pub fn targets(&self) -> Option<&Targets> {
        self.targets.as_ref()
    }

    /// The graph's id, if any.
    pub fn id(&self) -> Option<&GraphId> {
        self.id.as_ref()
    }

    /// The id for messages; `#position` (zero-based) when the graph has none.
    pub fn label(&self, position: usize) -> String {
        match &self.id {
            Some(id) => id.to_string(),
            None => format!("#{position}"),
        }
    }

    /// Out-degree of every node; self loops and repeated edges count.
    pub fn out_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.num_nodes];
        for &[source, _] in &self.edges {
            degrees[source as usize] += 1;
        }
        degrees
    }
}

/// Builds and validates a [`Graph`].
#[derive(Debug, Clone)]
pub struct GraphBuilder {
    num_nodes: usize,
    edges: Vec<[i64; 2]>,
    undirected: bool,
    node_features: Option<Features>,
    rotational_features: Option<Features>,
    edge_features: Option<Features>,
    edge_label_index: Option<Vec<[i64; 2]>>,
    targets: Option<Targets>,
    id: Option<GraphId>,
}

impl GraphBuilder {
    /// Edges `[source, target]`; indices are checked by [`build`](Self::build).
    pub fn edges<I: Into<i64>>(mut self, edges: impl IntoIterator<Item = [I; 2]>) -> Self {
        self.edges = edges
            .into_iter()
            .map(|[source, target]| [source.into(), target.into()])
            .collect();
        self
    }

    /// Edges from the two rows of an `edge_index`; the shorter row decides if they differ, so
    /// check lengths first.
    pub fn edge_index<I: Into<i64> + Copy>(self, sources: &[I], targets: &[I]) -> Self {
        self.edges(
            sources
                .iter()
                .zip(targets)
                .map(|(&s, &t)| [s.into(), t.into()]),
        )
    }

    /// Whether every listed edge stands for both directions. The reverse of an edge follows it
    /// directly, with the same features; a self loop is not doubled.
    pub fn undirected(mut self, undirected: bool) -> Self {
        self.undirected = undirected;
        self
    }

    /// Node features, one row a node.
    pub fn node_features(mut self, features: impl Into<Option<Features>>) -> Self {
        self.node_features = features.into();
        self
    }

    /// Coordinates of the nodes for rotary encodings, one row a node; categories become their
    /// numbers.
    pub fn rotational_features(mut self, features: impl Into<Option<Features>>) -> Self {
        self.rotational_features = features.into();
        self
    }

    /// Edge features, one row a listed edge.
    pub fn edge_features(mut self, features: impl Into<Option<Features>>) -> Self {
        self.edge_features = features.into();
        self
    }

    /// Ordered node pairs `[source, target]` for a link prediction model to score; indices are
    /// checked by [`build`](Self::build). [`undirected`](Self::undirected) does not concern them.
    pub fn edge_label_index<I: Into<i64>>(
        mut self,
        pairs: impl IntoIterator<Item = [I; 2]>,
    ) -> Self {
        let pairs = pairs.into_iter();
        self.edge_label_index = Some(pairs.map(|[s, t]| [s.into(), t.into()]).collect());
        self
    }

    /// Targets: one row for the graph, one row a node, or one row a pair of
    /// [`edge_label_index`](Self::edge_label_index).
    pub fn targets(mut self, targets: impl Into<Option<Targets>>) -> Self {
        self.targets = targets.into();
        self
    }

    /// The name under which messages and predictions speak of the graph.
    pub fn id(mut self, id: impl Into<GraphId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Checks everything and makes the graph.
    ///
    /// # Errors
    /// [`Error::Graph`] naming the graph, the field, the place and the value.
    pub fn build(self) -> Result<Graph> {
        let label = self
            .id
            .as_ref()
            .map_or_else(|| "without id".to_string(), GraphId::to_string);
        self.check_and_build()
            .map_err(|problem| Error::graph(label, problem))
    }

    /// [`build`](Self::build) without the graph's name around the problem, for readers that name
    /// the place themselves.
    pub fn check_and_build(self) -> Result<Graph, GraphProblem> {
        let n = self.num_nodes;
        if n == 0 {
            return Err(GraphProblem::Empty);
        }
        let doubled = self
            .edges
            .len()
            .saturating_mul(1 + usize::from(self.undirected));
        let scored = self.edge_label_index.as_ref().map_or(0, Vec::len);
        let sizes = [("nodes", n), ("edges", doubled), ("pairs to score", scored)];
        for (what, found) in sizes {
            if found > MAX_INDEX {
                return Err(GraphProblem::TooLarge {
                    what,
                    found,
                    limit: MAX_INDEX,
                });
            }
        }
        let mut edges = pairs_in_range("edge_index", &self.edges, n, doubled)?;
        let edge_label_index = match &self.edge_label_index {
            Some(pairs) => Some(pairs_in_range("edge_label_index", pairs, n, scored)?),
            None => None,
        };
        if let Some(features) = &self.node_features {
            features.validate("x", n, "one row a node")?;
        }
        let rotational_features = match self.rotational_features {
            Some(t) => Some(checked_coordinates(t, n)?),
            None => None,
        };
        let mut edge_features = self.edge_features;
        if let Some(features) = &edge_features {
            if features.is_empty() && edges.is_empty() {
                edge_features = None;
            } else {
                features.validate("edge_attr", edges.len(), "one row an edge")?;
            }
        }
        if let Some(targets) = &self.targets
            && (targets.width == 0 || targets.data.len() % targets.width != 0)
        {
            return Err(GraphProblem::Field {
                field: "y".to_string(),
                message: format!(
                    "{} values do not form rows of {}",
                    targets.data.len(),
                    targets.width
                ),
            });
        }
        if let Some(targets) = &self.targets
            && ![0, 1, n].contains(&targets.rows())
            && edge_label_index.as_ref().map(Vec::len) != Some(targets.rows())
        {
            return Err(GraphProblem::RowCount {
                field: "y",
                found: targets.rows(),
                expected: edge_label_index.as_ref().map_or(n, Vec::len),
                why: match edge_label_index {
                    None => "one row a node, unless one row for the graph",
                    Some(_) => {
                        "one row a pair of `edge_label_index`, unless one row a node or for the graph"
                    }
                },
            });
        }
        if self.undirected {
            (edges, edge_features) = doubled_edges(&edges, edge_features.as_ref());
        }
        Ok(Graph {
            num_nodes: n,
            edges,
            node_features: self.node_features,
            rotational_features,
            edge_features,
            edge_label_index,
            targets: self.targets,
            id: self.id,
        })
    }
}

/// The node pairs of `field` as indices, with room for `capacity`.
fn pairs_in_range(
    field: &'static str,
    pairs: &[[i64; 2]],
    num_nodes: usize,
    capacity: usize,
) -> Result<Vec<[u32; 2]>, GraphProblem> {
    let inside = |v: i64| u32::try_from(v).ok().filter(|&v| (v as usize) < num_nodes);
    let mut out = Vec::with_capacity(capacity);
    for (edge, &[source_node, target_node]) in pairs.iter().enumerate() {
        let (Some(source), Some(target)) = (inside(source_node), inside(target_node)) else {
            return Err(GraphProblem::EdgeOutOfRange {
                field,
                edge,
                source_node,
                target_node,
                num_nodes,
            });
        };
        out.push([source, target]);
    }
    Ok(out)
}

/// Every edge followed by its reverse, self loops once; features go along.
fn doubled_edges(
    edges: &[[u32; 2]],
    features: Option<&Features>,
) -> (Vec<[u32; 2]>, Option<Features>) {
    let doubled = edges.iter().flat_map(|&[s, t]| [[s, t], [t, s]]);
    if edges.iter().all(|[s, t]| s != t) {
        return (doubled.collect(), features.map(Features::repeat_rows));
    }
    let mut order = Vec::with_capacity(edges.len() * 2);
    let mut out = Vec::with_capacity(edges.len() * 2);
    for (position, &[s, t]) in edges.iter().enumerate() {
        out.push([s, t]);
        order.push(position as u32);
        if s != t {
            out.push([t, s]);
            order.push(position as u32);
        }
    }
    (out, features.map(|f| f.select_rows(&order)))
}

impl AsRef<Graph> for Graph {
    fn as_ref(&self) -> &Graph {
        self
    }
}

/// Coordinates `t` for `nodes` nodes.
fn checked_coordinates(t: Features, nodes: usize) -> Result<Features, GraphProblem> {
    let t = match t {
        Features::Float { .. } => t,
        Features::Categorical { .. } => t.to_float(),
    };
    t.validate("t", nodes, "one row a node")?;
    Ok(t)
}
