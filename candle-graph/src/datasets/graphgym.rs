//! Batches of graphs in one safetensors file, as GraphGym (GraphGPS, GRIT) lays them out in memory.

use std::io::Read;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use super::Graphs;
use super::source::Source;
use crate::error::Result;
use crate::graph::{Features, Graph, Targets};

/// The graphs of a batch file, in order. The whole file is checked when it is opened.
pub struct SafetensorsBatch {
    source: Source,
    ptr: Vec<usize>,
    /// Edges sorted by graph, in file order within one, with their positions in the file.
    edges: Vec<([i64; 2], u32)>,
    edge_ptr: Vec<usize>,
    x: Option<Features>,
    edge_attr: Option<Features>,
    targets: Option<(Targets, bool)>,
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
        let x = tensor("x").map(|t| table("x", &t)).transpose()?;
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
        let &[2, num_edges] = index.shape.as_slice() else {
            return Err(format!(
                "edge_index: shape {:?}, expected [2, edges]",
                index.shape
            ));
        };
        let (sources, targets) = index.data.split_at(num_edges);
        let mut edge_ptr = vec![0usize; num_graphs + 1];
        let mut edge_graphs = Vec::with_capacity(num_edges);
        for (edge, (&s, &t)) in sources.iter().zip(targets).enumerate() {
            let graph = |node: i64| {
                let node = usize::try_from(node).ok().filter(|&n| n < num_nodes)?;
                Some(ptr.partition_point(|&start| start <= node) - 1)
            };
            let (Some(from), Some(to)) = (graph(s), graph(t)) else {
                return Err(format!(
                    "edge_index: edge {edge} is {s} -> {t}, but nodes are numbered 0 to {}",
                    num_nodes.saturating_sub(1)
                ));
            };
            if from != to {
                return Err(format!(
                    "edge_index: edge {edge} is {s} -> {t}, from graph {from} into graph {to}"
                ));
            }
            edge_ptr[from + 1] += 1;
            edge_graphs.push(from);
        }
        if u32::try_from(num_edges).is_err() {
            return Err(format!(
                "edge_index: {num_edges} edges, more than 32-bit indices address"
            ));
        }
        for graph in 0..num_graphs {
            edge_ptr[graph + 1] += edge_ptr[graph];
        }
        let mut next = edge_ptr.clone();
        let mut edges = vec![([0; 2], 0u32); num_edges];
        for (edge, &graph) in edge_graphs.iter().enumerate() {
            let first = ptr[graph] as i64;
            let slot = &mut next[graph];
            edges[*slot] = ([sources[edge] - first, targets[edge] - first], edge as u32);
            *slot += 1;
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
                .map(|t| targets_table(&t, num_graphs, num_nodes))
                .transpose()?,
            x: x.map(|(_, x)| x),
            edge_attr: edge_attr.map(|(_, e)| e),
            ptr,
            edges,
            edge_ptr,
            position: 0,
        })
    }

    /// Number of graphs of the file.
    pub fn num_graphs(&self) -> usize {
        self.ptr.len() - 1
    }

    fn graph(&self, graph: usize) -> Result<Graph> {
        let nodes = self.ptr[graph]..self.ptr[graph + 1];
        let edges = &self.edges[self.edge_ptr[graph]..self.edge_ptr[graph + 1]];
        let node_rows = || nodes.clone().map(|n| n as u32).collect::<Vec<_>>();
        let edge_rows = || edges.iter().map(|&(_, row)| row).collect::<Vec<_>>();
        let targets = self.targets.as_ref().map(|(all, of_nodes)| {
            let rows = if *of_nodes {
                nodes.clone()
            } else {
                graph..graph + 1
            };
            Targets {
                width: all.width,
                data: all.data[rows.start * all.width..rows.end * all.width].to_vec(),
            }
        });
        let built = Graph::builder(nodes.len())
            .edges(edges.iter().map(|&(pair, _)| pair))
            .node_features(self.x.as_ref().map(|x| x.select_rows(&node_rows())))
            .edge_features(self.edge_attr.as_ref().map(|e| e.select_rows(&edge_rows())))
            .targets(targets)
            .check_and_build();
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

/// Targets, and whether they are those of nodes.
fn targets_table(
    tensor: &TensorView<'_>,
    num_graphs: usize,
    num_nodes: usize,
) -> Result<(Targets, bool), String> {
    let (rows, width) = rows_and_width("y", tensor)?;
    let data = match numbers(tensor).ok_or_else(|| unsupported("y", tensor))? {
        Numbers::Whole(data) => data.into_iter().map(|v| v as f32).collect(),
        Numbers::Real(data) => data,
    };
    if rows != num_graphs && rows != num_nodes {
        return Err(format!(
            "y: {rows} rows, expected one a graph ({num_graphs}) or one a node ({num_nodes})"
        ));
    }
    Ok((Targets { width, data }, rows != num_graphs))
}
