//! The Magnetic Laplacian of a directed graph ("Transformers Meet Directed Graphs", section 3), a
//! Hermitian matrix whose phases tell the direction of edges. Complex numbers are pairs of reals.

mod dense;
mod gauge;
mod iterative;
mod laplacian;
mod potential;
mod spectrum;
mod subspace;

pub use laplacian::{MagneticLaplacian, MagneticLaplacianBuilder};
pub use potential::Potential;
pub use spectrum::{MagneticSpectrum, VectorScale};
