//! Official models of directed graphs become ours.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod case;
mod options;
#[path = "../support/mod.rs"]
mod support;
mod tensors;
