//! What several example programs need: where the repository keeps its models and sample data, the
//! comparison with recorded cases, the evaluation of synthetic tasks, and the names of functions.

pub mod code2;
pub mod parity;
pub mod synthetic;

use std::path::PathBuf;

/// The root of the repository.
fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder of the shipped model called `name`.
pub fn zoo(name: &str) -> PathBuf {
    repository().join("weights/zoo").join(name)
}

/// The shipped sample data file called `name`.
pub fn sample(name: &str) -> PathBuf {
    repository().join("examples/data").join(name)
}
