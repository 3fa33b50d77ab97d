//! Spectra of graphs: Laplacians and their eigenvalues and eigenvectors, in f64.
//!
//! An eigenvector is free up to its sign, and the eigenvectors of a multiple eigenvalue up to a
//! rotation. [`Spectrum`] says what is fixed here; whatever compares eigenvectors of multiple
//! eigenvalues should compare the spaces they span.
//!
//! [`Spectrum::dense`] finds whole spectra; [`Spectrum::lowest`] the lowest part, for large sparse
//! graphs by iteration with full multiplicities. [`lowest_eigenpairs`] does it for any
//! [`SymmetricOperator`], such as the [`GaussianFeatures`] of points without edges.
//!
//! Directed graphs have a [`MagneticLaplacian`], Hermitian, and its complex [`MagneticSpectrum`].

mod block;
mod dense;
mod inverse;
mod kernel;
mod laplacian;
mod lowest;
#[cfg(test)]
mod lowest_tests;
mod magnetic;
mod operator;
mod random_features;
mod subspace;
mod subspace_iteration;
mod tridiagonal;

pub use dense::{MAX_DENSE_BYTES, Spectrum, check_dense, dense_bytes};
pub use laplacian::{Laplacian, LaplacianNorm};
use lowest::MAX_ITERATION_BYTES;
pub use lowest::check_lowest;
pub(crate) use lowest::lowest_is_dense;
pub use magnetic::{
    MagneticLaplacian, MagneticLaplacianBuilder, MagneticSpectrum, Potential, VectorScale,
};
pub use operator::{LANES, Lanes, LaplacianOperator, Step, SymmetricOperator};
pub use random_features::GaussianFeatures;
pub use subspace_iteration::{Eigenpairs, SolverOptions, lowest_eigenpairs};
