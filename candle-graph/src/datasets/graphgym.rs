//! Batches of graphs in one safetensors file, as GraphGym (GraphGPS, GRIT) lays them out in memory.

use std::io::Read;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::Graphs;
use super::source::Source;
use crate::error::Result;
use crate::graph::{Features, Graph, Targets};

/// The graphs of a batch file, in order. The whole file is checked when it is opened. A tensor
/// `node_depth` (ogbg-code2) becomes the last column of the node features.
pub struct SafetensorsBatch {
    source: Source,
    ptr: Vec<usize>,
    edges: ByGraph,
    /// The node pairs to score.
    label_pairs: Option<ByGraph>,
    x: Option<Features>,
    /// Coordinates for rotary encodings.
    t: Option<Features>,
    edge_attr: Option<Features>,
    targets: Option<(Targets, TargetRows)>,
    position: usize,
}

impl SafetensorsBatch {
    /// Reads and checks the file behind `reader`; `source_name` stands for it in messages.
    ///
    /// # Errors
    /// No safetensors file; tensors of an unexpected kind, shape or content, named with the place
    /// and the value.
    pub fn new(reader: impl Read, source_name: impl Into<String>) -> Result<Self> {
        let limit = super::ReadOptions::default().max_bytes;
        Self::with_limit(reader, source_name, limit)
    }

    /// [`new`](Self::new) for files of at most `max_bytes`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_limit(
        reader: impl Read,
        source_name: impl Into<String>,
        max_bytes: u64,
    ) -> Result<Self> {
        let source = Source {
            name: source_name.into(),
            max_bytes,
        };
        let bytes = source.read_all(reader)?;
        Self::parse(&bytes).map_or_else(
            |message| Err(source.error(None, message)),
            |parsed| {
                Ok(Self {
                    source: source.clone(),
                    ..parsed
                })
            },
        )
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|e| format!("not a readable safetensors file: {e}"))?;
        let tensor = |name: &str| file.tensor(name).ok();
        let mut x = tensor("x").map(|t| table("x", &t)).transpose()?;
        if let Some(depth) = tensor("node_depth") {
            x = Some(with_depth(x, &depth)?);
        }
        let whole = |name| tensor(name).map(|t| Ints::read(name, &t)).transpose();
        let (batch, ptr) = (whole("batch")?, whole("ptr")?);
        let num_nodes = match (&x, &batch, &ptr) {
            (Some((rows, _)), ..) => *rows,
            (None, Some(batch), _) => batch.data.len(),
            (None, None, Some(ptr)) => ptr
                .data
                .last()
                .map_or(0, |&n| usize::try_from(n).unwrap_or(0)),
            (None, None, None) => {
                return Err("none of the tensors `x`, `batch` and `ptr` is there, so the number of nodes is unknown".to_string());
            }
        };
        let ptr = segments(num_nodes, batch.as_ref(), ptr.as_ref())?;
        let num_graphs = ptr.len() - 1;

        let index = whole("edge_index")?.ok_or("tensor `edge_index` is missing")?;
        let edges = ByGraph::new("edge_index", &index, &ptr)?;
        let num_edges = edges.pairs.len();
        let labelled = match (whole("edge_label_index")?, whole("edge_index_labeled")?) {
            (Some(_), Some(_)) => {
                return Err(
                    "edge_index_labeled: given beside `edge_label_index`; give one of the two"
                        .to_string(),
                );
            }
            (Some(index), None) => Some(("edge_label_index", index)),
            (None, Some(index)) => Some(("edge_index_labeled", index)),
            (None, None) => None,
        };
        let label_pairs = labelled
            .map(|(name, index)| ByGraph::new(name, &index, &ptr))
            .transpose()?;

        let t = tensor("t").map(|t| table("t", &t)).transpose()?;
        if let Some((rows, _)) = &t
            && *rows != num_nodes
        {
            return Err(format!("t: {rows} rows for {num_nodes} nodes"));
        }
        let edge_attr = tensor("edge_attr")
            .map(|t| table("edge_attr", &t))
            .transpose()?;
        if let Some((rows, _)) = &edge_attr
            && *rows != num_edges
        {
            return Err(format!(
                "edge_attr: {rows} rows, but edge_index has {num_edges} edges"
            ));
        }
        Ok(Self {
            source: Source {
                name: String::new(),
                max_bytes: 0,
            },
            targets: tensor("y")
                .map(|t| {
                    let num_pairs = label_pairs.as_ref().map(|pairs| pairs.pairs.len());
                    targets_table(&t, num_graphs, num_nodes, num_pairs)
                })
                .transpose()?,
            x: x.map(|(_, x)| x),
            t: t.map(|(_, t)| t),
            edge_attr: edge_attr.map(|(_, e)| e),
            ptr,
            edges,
            label_pairs,
            position: 0,
        })
    }

    /// Number of graphs of the file.
    pub fn num_graphs(&self) -> usize {
        self.ptr.len() - 1
    }

    fn graph(&self, graph: usize) -> Result<Graph> {
        let nodes = self.ptr[graph]..self.ptr[graph + 1];
        let edges = self.edges.of(graph);
        let node_rows = || nodes.clone().map(|n| n as u32).collect::<Vec<_>>();
        let pair_rows =
            |pairs: &[([i64; 2], u32)]| -> Vec<u32> { pairs.iter().map(|&(_, row)| row).collect() };
        let label_pairs = self.label_pairs.as_ref().map(|pairs| pairs.of(graph));
        let targets = self.targets.as_ref().map(|(all, rows)| {
            let rows = match rows {
                TargetRows::Graphs => vec![graph as u32],
                TargetRows::Nodes => node_rows(),
                TargetRows::Pairs => pair_rows(label_pairs.unwrap_or_default()),
            };
            let width = all.width;
            let row = |row: u32| all.data.iter().skip(row as usize * width).take(width);
            Targets {
                width,
                data: rows.into_iter().flat_map(row).copied().collect(),
            }
        });
        let mut builder = Graph::builder(nodes.len())
            .edges(edges.iter().map(|&(pair, _)| pair))
            .node_features(self.x.as_ref().map(|x| x.select_rows(&node_rows())))
            .rotational_features(self.t.as_ref().map(|t| t.select_rows(&node_rows())))
            .edge_features(
                self.edge_attr
                    .as_ref()
                    .map(|e| e.select_rows(&pair_rows(edges))),
            )
            .targets(targets);
        if let Some(pairs) = label_pairs {
            builder = builder.edge_label_index(pairs.iter().map(|&(pair, _)| pair));
        }
        let built = builder.check_and_build();
        self.source.graph(None, &format!("#{graph}"), built)
    }
}

impl Graphs for SafetensorsBatch {
    fn line(&self) -> Option<u64> {
        None
    }
}

impl Iterator for SafetensorsBatch {
    type Item = Result<Graph>;

    fn next(&mut self) -> Option<Result<Graph>> {
        if self.position >= self.num_graphs() {
            return None;
        }
        let graph = self.position;
        self.position += 1;
        Some(self.graph(graph))
    }
}

/// Node pairs sorted by graph, in file order within one, numbered within their graph, with their
/// positions in the file.
struct ByGraph {
    pairs: Vec<([i64; 2], u32)>,
    ptr: Vec<usize>,
}

impl ByGraph {
    /// The pairs of a tensor `[2, pairs]`, whose nodes are numbered through the graphs that begin
    /// at `node_ptr`.
    fn new(name: &str, index: &Ints, node_ptr: &[usize]) -> Result<Self, String> {
        let num_graphs = node_ptr.len().saturating_sub(1);
        let num_nodes = node_ptr.last().copied().unwrap_or(0);
        let (things, thing) = match name {
            "edge_index" => ("edges", "edge"),
            _ => ("pairs", "pair"),
        };
        let &[2, num_pairs] = index.shape.as_slice() else {
            return Err(format!(
                "{name}: shape {:?}, expected [2, {things}]",
                index.shape
            ));
        };
        let (sources, targets) = index.data.split_at(num_pairs);
        let mut ptr = vec![0usize; num_graphs + 1];
        let mut graphs = Vec::with_capacity(num_pairs);
        for (at, (&s, &t)) in sources.iter().zip(targets).enumerate() {
            let graph = |node: i64| {
                let node = usize::try_from(node).ok().filter(|&n| n < num_nodes)?;
                Some(node_ptr.partition_point(|&start| start <= node) - 1)
            };
            let (Some(from), Some(to)) = (graph(s), graph(t)) else {
                return Err(format!(
                    "{name}: {thing} {at} is {s} -> {t}, but nodes are numbered 0 to {}",
                    num_nodes.saturating_sub(1)
                ));
            };
            if from != to {
                return Err(format!(
                    "{name}: {thing} {at} is {s} -> {t}, from graph {from} into graph {to}"
                ));
            }
            ptr[from + 1] += 1;
            graphs.push(from);
        }
        if u32::try_from(num_pairs).is_err() {
            return Err(format!(
                "{name}: {num_pairs} {things}, more than 32-bit indices address"
            ));
        }
        for graph in 0..num_graphs {
            ptr[graph + 1] += ptr[graph];
        }
        let mut next = ptr.clone();
        let mut pairs = vec![([0; 2], 0u32); num_pairs];
        for (at, &graph) in graphs.iter().enumerate() {
            let first = node_ptr[graph] as i64;
            let slot = &mut next[graph];
            pairs[*slot] = ([sources[at] - first, targets[at] - first], at as u32);
            *slot += 1;
        }
        Ok(Self { pairs, ptr })
    }

    /// The pairs of one graph.
    fn of(&self, graph: usize) -> &[([i64; 2], u32)] {
        &self.pairs[self.ptr[graph]..self.ptr[graph + 1]]
    }
}

/// The cumulative node numbers of the graphs.
fn segments(
    num_nodes: usize,
    batch: Option<&Ints>,
    ptr: Option<&Ints>,
) -> Result<Vec<usize>, String> {
    if u32::try_from(num_nodes).is_err() {
        return Err(format!(
            "x: {num_nodes} nodes, more than 32-bit indices address"
        ));
    }
    for (name, ints) in [("batch", batch), ("ptr", ptr)] {
        if let Some(ints) = ints.filter(|i| i.shape.len() != 1) {
            return Err(format!(
                "{name}: shape {:?}, expected one dimension",
                ints.shape
            ));
        }
    }
    if let Some(batch) = batch {
        if batch.data.len() != num_nodes {
            return Err(format!(
                "batch: {} entries for {num_nodes} nodes",
                batch.data.len()
            ));
        }
        let mut before = 0;
        for (node, &graph) in batch.data.iter().enumerate() {
            if graph < before {
                return Err(format!(
                    "batch: entry {node} is {graph} after {before}; nodes must be sorted by graph, from 0"
                ));
            }
            if graph > before + 1 || (node == 0 && graph > 0) {
                return Err(format!(
                    "batch: entry {node} is {graph}, so graph {} has no nodes",
                    if node == 0 { 0 } else { before + 1 }
                ));
            }
            before = graph;
        }
    }
    let Some(ptr) = ptr else {
        let mut out = vec![0];
        if let Some(batch) = batch {
            let starts = batch.data.windows(2).enumerate();
            out.extend(starts.filter(|(_, w)| w[0] != w[1]).map(|(at, _)| at + 1));
        }
        out.push(num_nodes);
        return Ok(out);
    };
    if ptr.data.len() < 2 || ptr.data[0] != 0 {
        return Err(format!(
            "ptr: {} entries starting with {:?}, expected 0 and one end a graph",
            ptr.data.len(),
            ptr.data.first()
        ));
    }
    for (at, pair) in ptr.data.windows(2).enumerate() {
        if pair[1] < pair[0] {
            return Err(format!(
                "ptr: entry {} is {} after {}; it must not decrease",
                at + 1,
                pair[1],
                pair[0]
            ));
        }
    }
    let last = ptr.data.last().copied().unwrap_or(0);
    if last != num_nodes as i64 {
        return Err(format!(
            "ptr: the last entry is {last}, but there are {num_nodes} nodes"
        ));
    }
    let out: Vec<usize> = ptr.data.iter().map(|&p| p as usize).collect();
    if let Some(batch) = batch {
        for (graph, range) in out.windows(2).enumerate() {
            let wrong = (range[0]..range[1]).find(|&n| batch.data[n] != graph as i64);
            if let Some(node) = wrong {
                return Err(format!(
                    "batch: entry {node} is {}, but by `ptr` the node belongs to graph {graph}",
                    batch.data[node]
                ));
            }
        }
    }
    Ok(out)
}

/// A tensor of whole numbers.
struct Ints {
    shape: Vec<usize>,
    data: Vec<i64>,
}

impl Ints {
    fn read(name: &str, tensor: &TensorView<'_>) -> Result<Self, String> {
        let data = match numbers(tensor) {
            Some(Numbers::Whole(data)) => data,
            _ => {
                return Err(format!(
                    "{name}: dtype {:?}, expected whole numbers (I64)",
                    tensor.dtype()
                ));
            }
        };
        Ok(Self {
            shape: tensor.shape().to_vec(),
            data,
        })
    }
}

enum Numbers {
    Whole(Vec<i64>),
    Real(Vec<f32>),
}

/// The values of a tensor, `None` for an unsupported dtype.
fn numbers(tensor: &TensorView<'_>) -> Option<Numbers> {
    fn map<const N: usize, T>(bytes: &[u8], make: impl Fn([u8; N]) -> T) -> Vec<T> {
        let (chunks, _) = bytes.as_chunks::<N>();
        chunks.iter().map(|&chunk| make(chunk)).collect()
    }
    let bytes = tensor.data();
    Some(match tensor.dtype() {
        Dtype::I64 => Numbers::Whole(map(bytes, i64::from_le_bytes)),
        Dtype::I32 => Numbers::Whole(map(bytes, |b| i32::from_le_bytes(b).into())),
        Dtype::U32 => Numbers::Whole(map(bytes, |b| u32::from_le_bytes(b).into())),
        Dtype::U8 => Numbers::Whole(map(bytes, |[b]| b.into())),
        Dtype::F32 => Numbers::Real(map(bytes, f32::from_le_bytes)),
        Dtype::F64 => Numbers::Real(map(bytes, |b| f64::from_le_bytes(b) as f32)),
        _ => return None,
    })
}

/// Rows and columns of a tensor with one or two dimensions.
fn rows_and_width(name: &str, tensor: &TensorView<'_>) -> Result<(usize, usize), String> {
    match tensor.shape() {
        [rows] => Ok((*rows, 1)),
        [rows, width] => Ok((*rows, *width)),
        shape => Err(format!(
            "{name}: shape {shape:?}, expected [rows] or [rows, width]"
        )),
    }
}

fn unsupported(name: &str, tensor: &TensorView<'_>) -> String {
    format!(
        "{name}: dtype {:?} is not supported, expected I64, I32, U32, U8, F32 or F64",
        tensor.dtype()
    )
}

/// A feature table and its number of rows.
fn table(name: &str, tensor: &TensorView<'_>) -> Result<(usize, Features), String> {
    let (rows, width) = rows_and_width(name, tensor)?;
    if width == 0 {
        return Err(format!(
            "{name}: rows have no values; leave the tensor out instead"
        ));
    }
    let place = |at: usize| format!("row {}, column {}", at / width, at % width);
    let features = match numbers(tensor).ok_or_else(|| unsupported(name, tensor))? {
        Numbers::Whole(data) => {
            let mut out = Vec::with_capacity(data.len());
            for (at, value) in data.into_iter().enumerate() {
                out.push(u32::try_from(value).map_err(|_| {
                    format!("{name}: value {value} at {} is not a category", place(at))
                })?);
            }
            Features::categorical(width, out)
        }
        Numbers::Real(data) => {
            if let Some(at) = data.iter().position(|v| !v.is_finite()) {
                return Err(format!(
                    "{name}: value {} at {} is not finite",
                    data[at],
                    place(at)
                ));
            }
            Features::float(width, data)
        }
    };
    Ok((rows, features))
}

/// The node features `x` with the depth of every node as a last column: in ogbg-code2 it is a tensor
/// of its own.
fn with_depth(
    x: Option<(usize, Features)>,
    depth: &TensorView<'_>,
) -> Result<(usize, Features), String> {
    let (depths, column) = table("node_depth", depth)?;
    let Some((rows, x)) = x else {
        return Ok((depths, column));
    };
    if column.width() != 1 || depths != rows {
        return Err(format!(
            "node_depth: shape {:?} for {rows} nodes, expected one value a node",
            depth.shape()
        ));
    }
    fn joined<T: Copy>(x: &[T], width: usize, column: &[T]) -> Vec<T> {
        let rows = x.chunks_exact(width).zip(column);
        rows.flat_map(|(row, &last)| row.iter().copied().chain([last]))
            .collect()
    }
    let features = match (&x, &column) {
        (Features::Categorical { width, data }, Features::Categorical { data: column, .. }) => {
            Features::categorical(width + 1, joined(data, *width, column))
        }
        _ => match (x.to_float(), column.to_float()) {
            (Features::Float { width, data }, Features::Float { data: column, .. }) => {
                Features::float(width + 1, joined(&data, width, &column))
            }
            (x, _) => x,
        },
    };
    Ok((rows, features))
}

/// What the rows of the targets belong to.
#[derive(Debug, Clone, Copy)]
enum TargetRows {
    Graphs,
    Nodes,
    Pairs,
}

/// Targets and what their rows belong to: where numbers agree to graphs, before node pairs to
/// score, before nodes.
fn targets_table(
    tensor: &TensorView<'_>,
    num_graphs: usize,
    num_nodes: usize,
    num_pairs: Option<usize>,
) -> Result<(Targets, TargetRows), String> {
    let (rows, width) = rows_and_width("y", tensor)?;
    let data = match numbers(tensor).ok_or_else(|| unsupported("y", tensor))? {
        Numbers::Whole(data) => data.into_iter().map(|v| v as f32).collect(),
        Numbers::Real(data) => data,
    };
    let of = if rows == num_graphs {
        TargetRows::Graphs
    } else if Some(rows) == num_pairs {
        TargetRows::Pairs
    } else if rows == num_nodes {
        TargetRows::Nodes
    } else {
        let pairs = num_pairs.map_or_else(String::new, |n| format!(" or one a pair ({n})"));
        return Err(format!(
            "y: {rows} rows, expected one a graph ({num_graphs}) or one a node ({num_nodes}){pairs}"
        ));
    };
    Ok((Targets { width, data }, of))
}
