//! Spectra of graphs: Laplacians and their eigenvalues and eigenvectors, in f64.
//!
//! An eigenvector is free up to its sign, and the eigenvectors of a multiple eigenvalue up to a
//! rotation. [`Spectrum`] says what is fixed here; whatever compares eigenvectors of multiple
//! eigenvalues should compare the spaces they span.

mod dense;
mod laplacian;
mod subspace;

pub use dense::{MAX_DENSE_BYTES, Spectrum, check_dense, dense_bytes};
pub use laplacian::{Laplacian, LaplacianNorm};
