//! Results of graphs as files and on standard output, one file a format.

mod arrays;
mod encodings;
mod ids;
mod json;
mod lines;
mod npy;
mod npz;
mod rows;
mod safetensors;

use std::path::{Path, PathBuf};

use candle_graph::graph::{Graph, GraphId};
use candle_graph_models::{Output, PredictionLevel};
use candle_graph_weights::atomic_file::AtomicFile;

pub(crate) use encodings::EncodingsFile;
pub(crate) use lines::Lines;

/// What results are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming {
    /// Key in a JSON object.
    pub(crate) singular: &'static str,
    /// Name of the array of all.
    pub(crate) plural: &'static str,
}

impl Naming {
    pub(crate) const PREDICTION: Self = Self {
        singular: "prediction",
        plural: "predictions",
    };
    pub(crate) const EMBEDDING: Self = Self {
        singular: "embedding",
        plural: "embeddings",
    };
}

/// How results are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    JsonLines,
    Json,
    Npy,
    Npz,
    Safetensors,
}

/// A file for results, whose ending names a format.
#[derive(Debug, Clone)]
pub(crate) struct OutputPath {
    path: PathBuf,
    format: Format,
}

/// The ending of `path` in lower case.
fn ending(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    ending.to_string_lossy().to_lowercase()
}

/// A path as the flag takes it.
pub(crate) fn parse_path(text: &str) -> Result<OutputPath, String> {
    let path = PathBuf::from(text);
    let format = match ending(&path).as_str() {
        "jsonl" | "ndjson" => Format::JsonLines,
        "json" => Format::Json,
        "npy" => Format::Npy,
        "npz" => Format::Npz,
        "safetensors" => Format::Safetensors,
        _ => {
            return Err(
                "the ending tells no format: use .jsonl, .ndjson, .json, .npy, .npz or .safetensors"
                    .to_string(),
            );
        }
    };
    Ok(OutputPath { path, format })
}

/// A path for encodings as the flag takes it.
pub(crate) fn parse_encodings_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if ending(&path) == "safetensors" {
        Ok(path)
    } else {
        Err("encodings are written as .safetensors".to_string())
    }
}

/// A path for graphs as the flag takes it.
pub(crate) fn parse_graphs_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match ending(&path).as_str() {
        "jsonl" | "ndjson" => Ok(path),
        _ => Err("graphs are written as .jsonl or .ndjson".to_string()),
    }
}

/// The id under which a graph's result is written: its own, else its position.
pub(crate) fn id(graph: &Graph, position: usize) -> GraphId {
    graph
        .id()
        .cloned()
        .unwrap_or(GraphId::Number(i64::try_from(position).unwrap_or(i64::MAX)))
}

/// What failed, for an error of writing to `file`.
fn cannot_write(file: &AtomicFile) -> String {
    format!("cannot write {}", file.path().display())
}

/// Takes results graph by graph.
pub(crate) trait Sink {
    /// Takes the result of the next graph.
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()>;

    /// A batch is complete; who reads along should see it.
    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// All graphs are written: a file appears under its name now. Dropping a sink instead leaves
    /// nothing.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}

/// Opens the file, or standard output without one. Rows have `width` values and stand for what
/// `level` says.
///
/// # Errors
/// A place that cannot be written.
pub(crate) fn open(
    to: Option<&OutputPath>,
    naming: Naming,
    level: PredictionLevel,
    width: usize,
) -> anyhow::Result<Box<dyn Sink>> {
    let Some(OutputPath { path, format }) = to else {
        return Ok(Box::new(json::JsonLines::new(Lines::stdout(), naming)));
    };
    Ok(match format {
        Format::JsonLines => Box::new(json::JsonLines::new(Lines::file(path)?, naming)),
        Format::Json => Box::new(json::JsonList::create(path, naming)?),
        Format::Npy => Box::new(npy::Npy::create(path, level, width)?),
        Format::Npz => Box::new(npz::Npz::create(path, naming, level, width)?),
        Format::Safetensors => Box::new(safetensors::Safetensors::create(
            path, naming, level, width,
        )?),
    })
}
