//! What several example programs need: where the repository keeps its models and sample data, the
//! comparison with recorded cases, the evaluation of synthetic tasks, and the names of functions.

pub mod code2;
pub mod parity;
pub mod synthetic;

use std::path::{Path, PathBuf};

use anyhow::Result;
use candle_core::Device;
use candle_graph_models::Predictor;
use candle_graph_weights::load_model;

/// The root of the repository.
fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of the shipped model called `name`.
pub fn zoo(name: &str) -> PathBuf {
    repository().join("weights/zoo").join(name)
}

/// A predictor on the CPU of `model`, a checkpoint folder or the name of a shipped model.
///
/// # Errors
/// A model that cannot be loaded.
pub fn predictor(model: &str) -> Result<Predictor> {
    let folder = match Path::new(model) {
        folder if folder.is_dir() => folder.to_path_buf(),
        _ => zoo(model),
    };
    let model = load_model(&folder, &Device::Cpu)?;
    Ok(Predictor::new(model, Device::Cpu))
}

/// The shipped sample data file called `name`.
pub fn sample(name: &str) -> PathBuf {
    repository().join("examples/data").join(name)
}
