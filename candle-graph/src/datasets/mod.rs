//! Readers of graph data: files and streams in, checked [`Graph`]s out, one by one.
//!
//! [`open`] reads a file, [`read()`] any stream; both give an iterator over `Result<Graph>`. The
//! [`Format`] follows from the file's ending or is given. [`synthetic`] makes graphs instead.
//!
//! | format | endings | holds |
//! |---|---|---|
//! | [`Format::JsonLines`] | `.jsonl`, `.ndjson` | one record a line |
//! | [`Format::Json`] | `.json` | one record, a list of records, or `{"graphs": [...]}` |
//! | [`Format::NodeLink`] | `.json` | NetworkX node-link data, single or several as above |
//! | [`Format::EdgeList`] | `.csv`, `.tsv`, `.edges`, `.txt` | one edge a line |
//! | [`Format::SafetensorsBatch`] | `.safetensors` | the tensors of a batch of graphs |
//!
//! ```
//! use candle_graph::datasets::{self, Format};
//!
//! let lines = r#"{"id": "ethanol", "x": [0, 0, 1], "edges": [[0, 1, 1], [1, 2, 1]], "y": -0.31}
//! {"id": "water", "x": [1], "edges": []}"#;
//! let graphs = datasets::read(lines.as_bytes(), Format::JsonLines, "example")?
//!     .collect::<candle_graph::Result<Vec<_>>>()?;
//! assert_eq!(graphs.len(), 2);
//! assert_eq!(graphs[0].edges(), [[0, 1], [1, 0], [1, 2], [2, 1]]);
//! # Ok::<(), candle_graph::Error>(())
//! ```
//!
//! Errors name the source, the line where there are lines, the graph (its id, or `#` and its
//! zero-based position), the field, the place and the value. In formats of separate records
//! ([`Format::JsonLines`], and list elements of [`Format::Json`] and [`Format::NodeLink`]) reading
//! can go on after a bad record; malformed text in a document ends it.
//!
//! # The JSON record
//!
//! An object with these fields; others are left unread, and `null` counts as absent except in `y`.
//!
//! | field | value | default |
//! |---|---|---|
//! | `x` | node features: `[n]` numbers (width 1) or `[n][w]` | no features |
//! | `t` | coordinates of the nodes for rotary encodings ([`Rotational`](crate::encodings::Rotational)): `[n]` numbers or `[n][m]`, always real | none; a model that reads coordinates computes them |
//! | `num_nodes` | number of nodes; must agree with `x` | rows of `x`; required without `x` |
//! | `edge_index` | `[[sources], [targets]]`, nodes numbered from 0 | – |
//! | `edge_attr` | edge features with `edge_index`: `[m]` numbers or `[m][w]` | no features |
//! | `edges` | instead of the two above: rows `[source, target, feature...]` | – |
//! | `directed` | whether an edge has one direction; otherwise its reverse is added with the same features, directly behind it (a self loop is not repeated) | `true` with `edge_index`, `false` with `edges` |
//! | `edge_label_index` | ordered node pairs for a link prediction model to score, two lists as in `edge_index`; `directed` does not concern them | no pairs |
//! | `y` | target: a number, a list (one row of several tasks), or a list of lists (one row a node, or one row a pair of `edge_label_index`); `null` is a missing label, kept as NaN | no target |
//! | `id` | whole number or text, kept for messages and results | none |
//!
//! Exactly one of `edge_index` and `edges` must be there, empty for a graph without edges. A graph
//! has at least one node. Rows of one table are equally long and hold numbers only.
//!
//! A table in which every number is written as a whole number from 0 (below 2³²) holds
//! *categories*; one other number (`1.0`, `-1`, `0.5`) makes the whole table real. Models accept
//! either where the values allow it. JSON has no NaN or infinity (Python writes them all the same;
//! they are refused by name), and numbers too large for 32 bits are refused.
//!
//! Two spellings of the same graph:
//!
//! ```
//! use candle_graph::graph::{Features, Graph};
//!
//! let short = r#"{"x": [6, 8], "edges": [[0, 1, 2]]}"#;
//! let long = r#"{"num_nodes": 2, "x": [[6], [8]], "directed": true,
//!     "edge_index": [[0, 1], [1, 0]], "edge_attr": [[2], [2]]}"#;
//! let read = |text| serde_json::from_str::<Graph>(text);
//! assert_eq!(read(short)?, read(long)?);
//! assert_eq!(read(short)?.node_features(), Some(&Features::categorical(1, vec![6, 8])));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! `Graph` serializes to this record in the `edge_index` form; reading that back gives the same
//! graph, reals bit by bit.
//!
//! # NetworkX node-link data
//!
//! What `networkx.node_link_data` gives, with the edges under `links` or `edges`. Nodes are
//! numbered in the order of `nodes`; an `id` is a number, text, or a list of these. `directed`
//! defaults to `false`; `multigraph` is not needed. Features are read from the attributes that
//! [`NodeLinkOptions`] names (nodes `x`, `feat` or `features`; edges `edge_attr` or `weight`), a
//! number or a flat list each, which all nodes or all edges must have if one has it; graph
//! attributes `id` and `y` as in the record. Coordinates for rotary encodings are not read: a node
//! attribute `t` is as likely to be a time.
//!
//! ```
//! use candle_graph::datasets::{self, Format};
//!
//! let data = r#"{"directed": false, "multigraph": false, "graph": {"id": 7, "y": 0.5},
//!     "nodes": [{"id": "a", "x": [0.1, 0.2]}, {"id": "b", "x": [0.3, 0.4]}],
//!     "links": [{"source": "b", "target": "a", "weight": 2.5}]}"#;
//! let mut graphs = datasets::read(data.as_bytes(), Format::NodeLink, "example")?;
//! let graph = graphs.next().unwrap()?;
//! assert_eq!(graph.edges(), [[1, 0], [0, 1]]);
//! # Ok::<(), candle_graph::Error>(())
//! ```
//!
//! # Edge lists
//!
//! Source, target and any number of feature columns, separated by commas, tabs, semicolons or
//! spaces ([`Delimiter`]). Lines that start with `#` are comments. A header is optional; it names
//! the source `source`, `src` or `from`, the target `target`, `dst` or `to`, and every other column
//! is an edge feature, except `graph` (or `graph_id`): it holds the id of the edge's graph and
//! splits the file into graphs, whose lines must be consecutive. Without a header the first two
//! columns are source and target. **A line stands for both directions** unless
//! [`EdgeListOptions::directed`] is set. Nodes are numbers from 0; their count is
//! [`EdgeListOptions::num_nodes`], or the rows of the node features, or the largest number plus 1.
//!
//! [`EdgeListOptions::node_features`] is a delimited file with one row a node, in the order
//! of the nodes or with their numbers in a column `id`, `node` or `node_id`, and with a column
//! `graph` when the edge list has one. Its first line is a header when its first field is not a
//! number.
//!
//! ```
//! use candle_graph::datasets::{self, Format};
//!
//! let list = "source,target,weight\n0,1,0.5\n1,2,1.5\n";
//! let mut graphs = datasets::read(list.as_bytes(), Format::EdgeList, "example")?;
//! assert_eq!(graphs.next().unwrap()?.num_edges(), 4);
//! # Ok::<(), candle_graph::Error>(())
//! ```
//!
//! # Safetensors batches
//!
//! The tensors of one batch of graphs as GraphGym holds them: `x` (`[nodes]` or `[nodes, width]`;
//! whole numbers are categories), `edge_index` (`[2, edges]`, nodes numbered through the batch),
//! optional `edge_attr` (`[edges]` or `[edges, width]`), `batch` (the graph of every node,
//! ascending) and/or `ptr` (`[graphs + 1]`, cumulative), optional `t` (`[nodes]` or `[nodes, m]`,
//! coordinates for rotary encodings), optional `edge_label_index` or, as GraphGPS
//! calls it, `edge_index_labeled` (`[2, pairs]`, the node pairs that a link prediction model is to
//! score, numbered through the batch, graph after graph or mixed), optional `y` (one row a graph, a node or a
//! pair).
//! Without `batch` and `ptr` all nodes are one graph. Edges are directed and stay in the order of
//! the file; other tensors are left unread.

mod delimited;
mod edge_list;
mod graphgym;
mod json;
mod locate;
mod node_link;
mod points;
#[cfg(feature = "python-source")]
pub mod python;
mod source;
pub mod synthetic;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

pub use delimited::Delimiter;
pub use edge_list::{EdgeList, EdgeListOptions};
pub use graphgym::SafetensorsBatch;
pub use json::JsonLines;
pub use node_link::NodeLinkOptions;
pub use points::{parse_points, read_points};

use crate::error::{Error, Result};
use crate::graph::Graph;
use json::{Document, RecordSchema};
use node_link::NodeLinkSchema;
use source::Source;

/// How graphs are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// One JSON record a line.
    JsonLines,
    /// One JSON document with one record or several.
    Json,
    /// An edge list, with or without a header.
    EdgeList,
    /// NetworkX node-link JSON.
    NodeLink,
    /// A batch of graphs as safetensors.
    SafetensorsBatch,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::JsonLines,
        Self::Json,
        Self::EdgeList,
        Self::NodeLink,
        Self::SafetensorsBatch,
    ];

    /// The name as a command-line flag takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Json => "json",
            Self::EdgeList => "edge-list",
            Self::NodeLink => "node-link",
            Self::SafetensorsBatch => "safetensors",
        }
    }

    /// The format that a file's ending (in any case) stands for, `None` for an unknown one.
    ///
    /// `.json` gives [`Format::Json`]; [`open`] looks inside to tell node-link data from records.
    pub fn from_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_lowercase();
        Some(match ending.as_str() {
            "jsonl" | "ndjson" => Self::JsonLines,
            "json" => Self::Json,
            "csv" | "tsv" | "edges" | "txt" => Self::EdgeList,
            "safetensors" => Self::SafetensorsBatch,
            _ => return None,
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_string()))
    }
}

/// A name that is no [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{0}`: use jsonl, json, edge-list, node-link or safetensors")]
pub struct UnknownFormat(String);

/// What the formats leave open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// For [`Format::EdgeList`].
    pub edge_list: EdgeListOptions,
    /// For [`Format::NodeLink`].
    pub node_link: NodeLinkOptions,
    /// The longest line, and the longest document of the formats that are read as a whole (JSON,
    /// node-link, safetensors), in bytes; 1 GiB unless set.
    pub max_bytes: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            edge_list: EdgeListOptions::default(),
            node_link: NodeLinkOptions::default(),
            max_bytes: 1 << 30,
        }
    }
}

/// What a reader of one format does.
trait Graphs: Iterator<Item = Result<Graph>> + Send {
    /// The one-based line on which the graph given last begins, where the format has lines.
    fn line(&self) -> Option<u64>;
}

/// The graphs of a source, in order.
pub struct GraphReader {
    source_name: String,
    graphs: Box<dyn Graphs>,
}

impl GraphReader {
    /// The source as messages call it.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// The one-based line on which the graph given last begins, where the format has lines, so that
    /// whoever finds fault with the graph later can name the place.
    pub fn line(&self) -> Option<u64> {
        self.graphs.line()
    }
}

impl fmt::Debug for GraphReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphReader").finish_non_exhaustive()
    }
}

impl Iterator for GraphReader {
    type Item = Result<Graph>;

    fn next(&mut self) -> Option<Result<Graph>> {
        self.graphs.next()
    }
}

/// Opens the file `path`; without a `format` its ending decides, and for `.json` the keys of the
/// first object (`nodes` and `links` or `edges`: node-link).
///
/// # Errors
/// A file that cannot be read, an unknown ending, and what [`read_with`] refuses.
pub fn open(
    path: impl AsRef<Path>,
    format: Option<Format>,
    options: &ReadOptions,
) -> Result<GraphReader> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let given = match format.or_else(|| Format::from_path(path)) {
        Some(format) => format,
        None => {
            return Err(Error::Parse {
                source_name: name,
                line: None,
                message: "the ending tells no format: use .jsonl, .ndjson, .json, .csv, .tsv, .edges, .txt or .safetensors, or name the format".to_string(),
            });
        }
    };
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let reader = BufReader::with_capacity(1 << 16, file);
    if format.is_some() || given != Format::Json {
        return read_with(reader, given, name, options);
    }
    let source = Source {
        name,
        max_bytes: options.max_bytes,
    };
    let text = source.read_all(reader)?;
    let format = if json::looks_like_node_link(&text) {
        Format::NodeLink
    } else {
        Format::Json
    };
    Ok(document(source, text, format, options))
}

/// Reads a stream with the default [`ReadOptions`]; `source_name` stands for it in messages.
///
/// # Errors
/// As [`read_with`].
pub fn read(
    reader: impl BufRead + Send + 'static,
    format: Format,
    source_name: impl Into<String>,
) -> Result<GraphReader> {
    read_with(reader, format, source_name, &ReadOptions::default())
}

/// Reads a stream; `source_name` stands for it in messages.
///
/// # Errors
/// Formats that are read as a whole fail here when they are unreadable or too long, edge lists when
/// their header or node-feature file is; everything else is an item of the reader.
pub fn read_with(
    reader: impl BufRead + Send + 'static,
    format: Format,
    source_name: impl Into<String>,
    options: &ReadOptions,
) -> Result<GraphReader> {
    let source = Source {
        name: source_name.into(),
        max_bytes: options.max_bytes,
    };
    let limit = options.max_bytes;
    let source_name = source.name.clone();
    let graphs: Box<dyn Graphs> = match format {
        Format::JsonLines => Box::new(JsonLines::with_limit(reader, source.name, limit)),
        Format::EdgeList => {
            let options = options.edge_list.clone();
            Box::new(EdgeList::with_limit(reader, source.name, options, limit)?)
        }
        Format::SafetensorsBatch => {
            Box::new(SafetensorsBatch::with_limit(reader, source.name, limit)?)
        }
        Format::Json | Format::NodeLink => {
            let text = source.read_all(reader)?;
            return Ok(document(source, text, format, options));
        }
    };
    Ok(GraphReader {
        source_name,
        graphs,
    })
}

/// The reader of a JSON document.
fn document(source: Source, text: Vec<u8>, format: Format, options: &ReadOptions) -> GraphReader {
    GraphReader {
        source_name: source.name.clone(),
        graphs: match format {
            Format::NodeLink => {
                let schema = NodeLinkSchema(options.node_link.clone());
                Box::new(Document::new(schema, source, text))
            }
            _ => Box::new(Document::new(RecordSchema, source, text)),
        },
    }
}
