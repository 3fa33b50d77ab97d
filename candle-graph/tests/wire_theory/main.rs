//! What "Rotary Position Encodings for Graphs" proves, as tests of the coordinates and rotations.
//! Every statement has a tolerance, and a variant for which it does not hold.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod equivariance;
mod grids;
mod resistances;
mod support;
