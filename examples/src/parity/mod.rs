//! Recorded cases of official implementations, run in this engine and compared value by value.
//!
//! A case is a folder with `model.ckpt` and `config.json` (the official checkpoint and its resolved
//! options), `inputs.safetensors`, `encodings.safetensors` (where the model reads encodings) and
//! `outputs.safetensors`. Those of directed graph models have `params.safetensors` or
//! `checkpoint.dill`, and their encodings are part of the inputs.

mod activations;
mod case;
mod compare;
mod digraph;
mod gps;
mod gps_encodings;
mod grit;

use std::path::Path;

use anyhow::{Context, Result};
use candle_graph::graph::Graph;
use candle_graph_models::ModelConfig;
use candle_graph_weights::Limits;
use candle_graph_weights::convert::graphgym::{Converted, GraphGymOptions, convert};

pub use compare::{Difference, EncodingDifference, Report};

/// What is common to all families: the converted checkpoint, the graphs and what was recorded.
struct Case<'a> {
    folder: &'a Path,
    converted: Converted,
    graphs: Vec<Graph>,
    outputs: case::Recorded,
    tolerance: f64,
}

/// Whether `folder` holds a case.
pub fn is_case(folder: &Path) -> bool {
    folder.join("model.ckpt").is_file() || digraph::is_case(folder)
}

/// Runs the case in `folder`. Values that differ by more than `tolerance` are counted.
///
/// # Errors
/// Files that cannot be read, options that cannot be converted, a model that fails.
pub fn run(folder: &Path, tolerance: f64) -> Result<Report> {
    let name = folder.file_name().context("a case is a folder")?;
    let name = name.to_string_lossy().into_owned();
    if digraph::is_case(folder) {
        return digraph::run(folder, name, tolerance);
    }
    let converted = convert(
        &folder.join("model.ckpt"),
        &folder.join("config.json"),
        &GraphGymOptions::default(),
        &Limits::default(),
    )?;
    let case = Case {
        folder,
        graphs: case::graphs(folder)?,
        outputs: case::Recorded::read(&folder.join("outputs.safetensors"))?,
        tolerance,
        converted,
    };
    match &case.converted.checkpoint.config().model {
        ModelConfig::Grit(_) => grit::run(&case, name),
        _ => gps::run(&case, name),
    }
}
