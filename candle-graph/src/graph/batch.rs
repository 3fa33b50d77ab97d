//! The ragged batch on a device.

mod graph_token;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use candle_core::{Device, Tensor};

use super::{Adjacency, Features, Graph, InputSchema, LabelPairs, Offsets, PairLayout, SelfLooped};
use crate::error::{Error, Result};

/// A feature table of a batch on its device.
#[derive(Debug, Clone)]
pub enum BatchFeatures {
    /// f32 `[rows, width]`.
    Float(Tensor),
    /// u32 `[rows, width]`, every value inside its model table.
    Categorical(Tensor),
}

/// The edges of a batch, sorted by target and then by source.
#[derive(Debug, Clone)]
pub struct BatchEdges {
    adjacency: Adjacency,
    input_position: Vec<u32>,
    self_looped: OnceLock<SelfLooped>,
}

impl BatchEdges {
    fn new(adjacency: Adjacency, input_position: Vec<u32>) -> Self {
        Self {
            adjacency,
            input_position,
            self_looped: OnceLock::new(),
        }
    }

    /// Number of directed edges.
    pub fn len(&self) -> usize {
        self.adjacency.len()
    }

    /// Whether there is no edge.
    pub fn is_empty(&self) -> bool {
        self.adjacency.is_empty()
    }

    /// The edges by target, nodes numbered through the batch.
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// Source of every edge, numbered through the batch.
    pub fn sources(&self) -> &[u32] {
        self.adjacency.sources()
    }

    /// Target of every edge, numbered through the batch; non-decreasing.
    pub fn targets(&self) -> &[u32] {
        self.adjacency.targets()
    }

    /// Incoming edges of every node (CSR by target): one segment a node.
    pub fn edge_ptr(&self) -> &Offsets {
        self.adjacency.ptr()
    }

    /// For every edge its position among the edges of the concatenated inputs, to bring results
    /// back into input order.
    pub fn input_positions(&self) -> &[u32] {
        &self.input_position
    }

    /// Sources and targets on the device, u32 `[edges]` each.
    pub fn tensors(&self) -> candle_core::Result<(&Tensor, &Tensor)> {
        self.adjacency.tensors()
    }

    /// The edges with one self loop at every node, made on first use and kept.
    ///
    /// # Errors
    /// More edges than 32-bit indices can address.
    pub fn self_looped(&self) -> candle_core::Result<&SelfLooped> {
        match self.self_looped.get() {
            Some(looped) => Ok(looped),
            None => {
                let made = SelfLooped::new(&self.adjacency)?;
                Ok(self.self_looped.get_or_init(|| made))
            }
        }
    }
}

/// Several graphs as one, on a device: nodes, edges and node pairs are concatenated, nothing is
/// padded.
///
/// Node `i` of graph `g` has number `node_ptr[g] + i`. The ordered pairs of graph `g` fill a block
/// of n² rows from `pair_ptr[g]`: the pair (source `s`, target `t`) is row `pair_ptr[g] + t·n + s`,
/// so that the pairs of one target are consecutive.
#[derive(Debug, Clone)]
pub struct GraphBatch {
    device: Device,
    pairs: PairLayout,
    edges: BatchEdges,
    edge_pairs: OnceLock<Vec<u32>>,
    node_features: Option<BatchFeatures>,
    edge_features: Option<BatchFeatures>,
    out_degrees: Vec<u32>,
    label_pairs: Option<LabelPairs>,
    encodings: BTreeMap<String, Tensor>,
    graph_tokens: bool,
}

impl GraphBatch {
    /// Concatenates `graphs`, reading the features that `schema` asks for.
    ///
    /// # Errors
    /// No graphs; a graph that does not fit the schema (named by id, or by `first` + position);
    /// sizes beyond 32-bit indices.
    pub fn new<G: AsRef<Graph>>(
        graphs: &[G],
        schema: &InputSchema,
        first: usize,
        device: &Device,
    ) -> Result<Self> {
        if graphs.is_empty() {
            return Err(Error::Batch("it needs at least one graph".to_string()));
        }
        let sizes = graphs.iter().map(|g| g.as_ref().num_nodes());
        let pairs = PairLayout::new(&Offsets::from_lengths(sizes, device)?);
        Offsets::from_lengths(graphs.iter().map(|g| g.as_ref().num_edges()), device)?;

        let mut node_tables = Vec::with_capacity(graphs.len());
        let mut edge_tables = Vec::with_capacity(graphs.len());
        let mut out_degrees = Vec::with_capacity(pairs.num_nodes());
        for (position, graph) in graphs.iter().enumerate() {
            let features = schema.conform(graph.as_ref(), first.saturating_add(position))?;
            node_tables.extend(features.node);
            edge_tables.extend(features.edge);
            out_degrees.extend(graph.as_ref().out_degrees());
        }

        let edges = sorted_edges(graphs, pairs.node_ptr(), device)?;
        Ok(Self {
            device: device.clone(),
            node_features: concat_features(&node_tables, None, device)?,
            edge_features: concat_features(&edge_tables, Some(&edges.input_position), device)?,
            label_pairs: LabelPairs::collect(graphs, pairs.node_ptr().as_slice(), device)?,
            pairs,
            edges,
            edge_pairs: OnceLock::new(),
            out_degrees,
            encodings: BTreeMap::new(),
            graph_tokens: false,
        })
    }

    /// The device that the batch lives on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of graphs.
    pub fn num_graphs(&self) -> usize {
        self.node_ptr().num_segments()
    }

    /// Number of nodes over all graphs.
    pub fn num_nodes(&self) -> usize {
        self.pairs.num_nodes()
    }

    /// Number of ordered node pairs over all graphs.
    ///
    /// # Errors
    /// [`Error::TooManyPairs`] where 32-bit indices cannot address them.
    pub fn num_pairs(&self) -> Result<usize> {
        self.pairs.num_pairs()
    }

    /// Nodes of every graph.
    pub fn node_ptr(&self) -> &Offsets {
        self.pairs.node_ptr()
    }

    /// Ordered pairs of every graph.
    ///
    /// # Errors
    /// As [`num_pairs`](Self::num_pairs).
    pub fn pair_ptr(&self) -> Result<&Offsets> {
        self.pairs.pair_ptr()
    }

    /// The layout of the ordered pairs.
    pub fn pairs(&self) -> &PairLayout {
        &self.pairs
    }

    /// The edges.
    pub fn edges(&self) -> &BatchEdges {
        &self.edges
    }

    /// The row of the pair tensor that every edge falls on, in the order of [`edges`](Self::edges);
    /// non-decreasing, repeated edges give repeated rows. Made on first use and kept.
    ///
    /// # Errors
    /// As [`num_pairs`](Self::num_pairs).
    pub fn edge_pairs(&self) -> Result<&[u32]> {
        match self.edge_pairs.get() {
            Some(rows) => Ok(rows),
            None => {
                let made = self.pairs.rows_of(self.edges.adjacency())?;
                Ok(self.edge_pairs.get_or_init(|| made))
            }
        }
    }

    /// The rows of the pair tensor of all edges, and of every node with itself; a row may come more
    /// than once.
    ///
    /// # Errors
    /// As [`num_pairs`](Self::num_pairs).
    pub fn edge_and_own_pairs(&self) -> Result<impl Iterator<Item = usize> + '_> {
        let blocks = self.node_ptr().lengths().zip(self.pair_ptr()?.ranges());
        let own = blocks.flat_map(|(nodes, block)| block.step_by(nodes + 1));
        let edges = self.edge_pairs()?.iter();
        Ok(edges.map(|&pair| pair as usize).chain(own))
    }

    /// Node features, `[nodes, width]`, when the schema asks for them.
    pub fn node_features(&self) -> Option<&BatchFeatures> {
        self.node_features.as_ref()
    }

    /// Edge features, `[edges, width]` in the order of [`edges`](Self::edges), when the schema asks
    /// for them.
    pub fn edge_features(&self) -> Option<&BatchFeatures> {
        self.edge_features.as_ref()
    }

    /// Out-degree of every node; self loops and repeated edges count.
    pub fn out_degrees(&self) -> &[u32] {
        &self.out_degrees
    }

    /// The node pairs to score, of link prediction.
    ///
    /// # Errors
    /// A graph of the batch has no field `edge_label_index`.
    /// [`Graph::required_edge_label_index`] says which one.
    pub fn edge_label_index(&self) -> Result<&LabelPairs> {
        self.label_pairs.as_ref().ok_or_else(|| {
            Error::Batch(
                "the model scores node pairs, and a graph has no field `edge_label_index`"
                    .to_string(),
            )
        })
    }

    /// Attaches an encoding tensor under `name`, replacing one of the same name.
    pub fn attach_encoding(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.encodings.insert(name.into(), tensor);
    }

    /// The encoding tensor attached under `name`.
    ///
    /// # Errors
    /// [`Error::MissingEncoding`] when there is none.
    pub fn encoding(&self, name: &str) -> Result<&Tensor> {
        self.encodings
            .get(name)
            .ok_or_else(|| Error::MissingEncoding {
                name: name.to_string(),
            })
    }
}

/// Sorts the edges of all graphs by (target, source); equal edges keep their input order.
fn sorted_edges<G: AsRef<Graph>>(
    graphs: &[G],
    node_ptr: &Offsets,
    device: &Device,
) -> Result<BatchEdges> {
    let total = graphs.iter().map(|g| g.as_ref().num_edges()).sum();
    let mut sources = Vec::with_capacity(total);
    let mut targets = Vec::with_capacity(total);
    let mut input_position = Vec::with_capacity(total);
    let mut order = Vec::new();
    for (graph, nodes) in graphs.iter().zip(node_ptr.ranges()) {
        let graph = graph.as_ref();
        let first_node = nodes.start as u32;
        let first_edge = input_position.len() as u32;
        let edges = graph.edges();
        order.clear();
        order.extend(0..edges.len() as u32);
        order.sort_by_key(|&e| {
            let [source, target] = edges[e as usize];
            (target, source)
        });
        for &e in &order {
            let [source, target] = edges[e as usize];
            sources.push(first_node + source);
            targets.push(first_node + target);
            input_position.push(first_edge + e);
        }
    }
    let adjacency = Adjacency::from_sorted(sources, targets, node_ptr.total(), device)?;
    Ok(BatchEdges::new(adjacency, input_position))
}

/// One tensor from the tables of all graphs, rows reordered when `order` is given. The schema has
/// brought all tables to one kind and width.
fn concat_features(
    tables: &[std::borrow::Cow<'_, Features>],
    order: Option<&[u32]>,
    device: &Device,
) -> Result<Option<BatchFeatures>> {
    let Some(first) = tables.first() else {
        return Ok(None);
    };
    let width = first.width();
    let all = match first.as_ref() {
        Features::Float { .. } => {
            let mut data = Vec::new();
            for table in tables {
                if let Features::Float { data: rows, .. } = table.as_ref() {
                    data.extend_from_slice(rows);
                }
            }
            Features::float(width, data)
        }
        Features::Categorical { .. } => {
            let mut data = Vec::new();
            for table in tables {
                if let Features::Categorical { data: rows, .. } = table.as_ref() {
                    data.extend_from_slice(rows);
                }
            }
            Features::categorical(width, data)
        }
    };
    let all = match order {
        Some(order) => all.select_rows(order),
        None => all,
    };
    let rows = all.rows();
    Ok(Some(match all {
        Features::Float { data, .. } => {
            BatchFeatures::Float(Tensor::from_vec(data, (rows, width), device)?)
        }
        Features::Categorical { data, .. } => {
            BatchFeatures::Categorical(Tensor::from_vec(data, (rows, width), device)?)
        }
    }))
}
