//! Encodings of directed graphs: against the official code's, and their properties.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod properties;
mod recipes;
mod recorded;
mod support;
