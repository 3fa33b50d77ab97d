//! The engine of candle-graph: graphs, ragged batches, encodings, operations and layers for graph
//! transformers on [candle](candle_core).
//!
//! Modules only use the ones before them: [`graph`] ← [`datasets`], [`spectral`] ← [`encodings`]
//! and [`ops`] ← [`nn`]. Models live in their own crate, checkpoints in another.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod datasets;
pub mod device_error;
pub mod encodings;
pub mod error;
pub mod graph;
pub mod metrics;
pub mod nn;
pub mod ops;
pub mod spectral;

pub use error::{Error, GraphProblem, Result};
