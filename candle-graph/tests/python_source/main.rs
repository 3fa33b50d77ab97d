//! Python source code as graphs: equal to the graphs of the official code, and hostile input refused.
#![cfg(feature = "python-source")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod isomorphism;
mod official;
mod refusals;
mod vocabulary;
