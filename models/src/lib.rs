//! Graph transformer definitions, one file per family: configuration and weights in, tensors out;
//! no file, no network.
//!
//! Every family implements [`GraphModel`]; [`ModelConfig`] builds any of them from its
//! configuration; [`Predictor`] runs one over graphs in batches, with encodings computed on the fly
//! or taken from a cache.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod config;
pub mod digraph;
mod family;
pub mod gps;
pub mod graphormer;
pub mod grit;
mod model;
pub mod mpnn;
mod post_norm;
mod predictor;
mod rotations;
pub mod san;
pub mod sections;
pub mod sgformer;
mod threads;
mod trace;
pub mod transformer;
mod untrained;
pub mod wire_benchmarks;

pub use candle_graph::nn::PredictionLevel;
pub use config::{ConfigError, ModelConfig};
pub use model::{GraphModel, NodeStates};
pub use predictor::{Output, Predictor, Want};
pub use trace::Trace;
pub use untrained::untrained;
