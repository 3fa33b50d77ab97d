//! The error type of the engine.

use std::path::PathBuf;

use crate::datasets::synthetic::SyntheticError;
use crate::device_error::DeviceBatch;

/// Result of every fallible function of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in the engine. Messages name the thing and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A graph breaks a rule that every later stage relies on.
    #[error("graph {graph}: {problem}")]
    Graph {
        /// The graph's id, or its position in the input when it has none.
        graph: String,
        /// What is wrong with it.
        problem: GraphProblem,
    },
    /// One graph alone needs more than the batch budget allows.
    #[error(
        "graph {graph} has {found} {what}, more than the budget of {budget} for one batch: raise the budget or leave the graph out"
    )]
    OverBudget {
        /// The graph's id or position.
        graph: String,
        /// `nodes` or `node pairs`.
        what: &'static str,
        /// What the graph has.
        found: u64,
        /// What one batch may hold.
        budget: u64,
    },
    /// A batch cannot be formed from these graphs.
    #[error("batch: {0}")]
    Batch(String),
    /// A batch has more ordered node pairs than can be numbered, and a model reads pairs.
    #[error(
        "the batch has {pairs} ordered node pairs, more than 32-bit indices can address: use smaller batches or graphs, or a model that does not read pairs"
    )]
    TooManyPairs {
        /// The sum of n² over the graphs.
        pairs: u64,
    },
    /// A model asked a batch for an encoding that was not attached.
    #[error(
        "the batch carries no encoding `{name}`: compute the model's encoding plan and attach it first"
    )]
    MissingEncoding {
        /// Name of the encoding tensor.
        name: String,
    },
    /// An encoding recipe or its result is unusable.
    #[error("encoding: {0}")]
    Encoding(String),
    /// Eigenvalues or eigenvectors cannot be computed.
    #[error("spectrum: {0}")]
    Spectrum(String),
    /// A file or stream does not hold what its format promises.
    #[error("{source_name}{}: {message}", .line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Parse {
        /// File name, or `standard input`.
        source_name: String,
        /// One-based line, where the format has lines.
        line: Option<u64>,
        /// What is wrong, naming field and value.
        message: String,
    },
    /// Reading or writing failed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The options of a synthetic task are unusable.
    #[error("synthetic task: {0}")]
    Synthetic(#[from] SyntheticError),
    /// Python source code has no graph.
    #[cfg(feature = "python-source")]
    #[error("Python source: {0}")]
    Python(#[from] crate::datasets::python::PythonError),
    /// The device has no memory left for a batch.
    #[error("{} has not enough memory for {batch}: {remedy}", .batch.device)]
    OutOfDeviceMemory {
        /// What was run, and where.
        batch: Box<DeviceBatch>,
        /// What may help.
        remedy: &'static str,
        /// What the device said.
        source: candle_core::Error,
    },
    /// The device failed for another reason than its memory; it may not be usable any more.
    #[error("{} failed at {batch}: {source}", .batch.device)]
    DeviceFailure {
        /// What was run, and where.
        batch: Box<DeviceBatch>,
        /// What the device said.
        source: candle_core::Error,
    },
    /// A tensor operation failed.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphProblem {
    /// No nodes.
    #[error("it has no nodes; a graph needs at least one")]
    Empty,
    /// More nodes or edges than 32-bit indices can address.
    #[error("it has {found} {what}, more than the supported {limit}")]
    TooLarge {
        /// `nodes`, `edges` or `pairs to score`.
        what: &'static str,
        /// What it has.
        found: usize,
        /// The largest supported number.
        limit: usize,
    },
    /// An edge names a node that does not exist.
    #[error(
        "{field}: edge {edge} is {source_node} -> {target_node}, but nodes are numbered 0 to {}", .num_nodes.saturating_sub(1)
    )]
    EdgeOutOfRange {
        /// `edge_index`, `edges` where the input lists edge by edge, or `edge_label_index`.
        field: &'static str,
        /// Position of the edge in the input.
        edge: usize,
        /// Source as given.
        source_node: i64,
        /// Target as given.
        target_node: i64,
        /// Number of nodes of the graph.
        num_nodes: usize,
    },
    /// A feature or target is NaN or infinite.
    #[error(
        "{field}: value {value:?} at row {row}, column {column} is not finite as a 32-bit number"
    )]
    NonFinite {
        /// Field name as in the JSON format.
        field: &'static str,
        /// Row (node or edge).
        row: usize,
        /// Column.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A table has a wrong number of rows.
    #[error("{field}: {found} rows, expected {expected} ({why})")]
    RowCount {
        /// Field name as in the JSON format.
        field: &'static str,
        /// Rows found.
        found: usize,
        /// Rows expected.
        expected: usize,
        /// What sets the expectation.
        why: &'static str,
    },
    /// A table has a wrong number of columns.
    #[error("{field}: {found} feature(s) per row, the model expects {expected}")]
    Width {
        /// Field name as in the JSON format.
        field: &'static str,
        /// Columns found.
        found: usize,
        /// Columns expected.
        expected: usize,
    },
    /// The rows of a table have different widths, or its data does not fill its shape.
    #[error("{field}: row {row} has {found} value(s), the rows before have {expected}")]
    Ragged {
        /// Field name as in the JSON format.
        field: &'static str,
        /// First row that differs.
        row: usize,
        /// Its width.
        found: usize,
        /// The width of the rows before.
        expected: usize,
    },
    /// A model needs a field that the graph does not have.
    #[error("{field}: missing; the model needs {needed}")]
    MissingFeatures {
        /// Field name as in the JSON format.
        field: &'static str,
        /// What the model needs.
        needed: String,
    },
    /// A category lies outside the model's table.
    #[error(
        "{field}: category {value} at row {row}, column {column} is outside the model's table of {table} (0 to {})", .table.saturating_sub(1)
    )]
    Category {
        /// Field name as in the JSON format.
        field: &'static str,
        /// Row (node or edge).
        row: usize,
        /// Column.
        column: usize,
        /// The value as given.
        value: f64,
        /// Number of rows of the model's table.
        table: usize,
    },
    /// A value that should be a category is not a non-negative whole number.
    #[error(
        "{field}: value {value} at row {row}, column {column} is not a category (a whole number from 0)"
    )]
    NotCategorical {
        /// Field name as in the JSON format.
        field: &'static str,
        /// Row (node or edge).
        row: usize,
        /// Column.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A field cannot be read as what it should be.
    #[error("{field}: {message}")]
    Field {
        /// Field name as in the JSON format.
        field: String,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    /// Wraps an I/O error with the path it happened at.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }

    /// A [`GraphProblem`] of the graph called `graph`.
    pub fn graph(graph: impl ToString, problem: GraphProblem) -> Self {
        Self::Graph {
            graph: graph.to_string(),
            problem,
        }
    }
}
