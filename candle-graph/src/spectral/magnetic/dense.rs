//! Dense decompositions of Hermitian matrices.

use faer::{Mat, Side, c64};

use super::MagneticLaplacian;
use crate::error::{Error, Result};
use crate::spectral::MAX_DENSE_BYTES;

/// Eigenvalues, ascending, and eigenvectors one after the other: real and imaginary parts.
pub(super) struct Pairs {
    pub(super) values: Vec<f64>,
    pub(super) real: Vec<f64>,
    pub(super) imaginary: Vec<f64>,
}

/// Bytes that a dense decomposition for `count` eigenvectors takes.
pub(super) fn bytes(num_nodes: usize, count: usize) -> u64 {
    let (n, count) = (num_nodes as u64, count as u64);
    let _ = count;
    n.saturating_mul(n).saturating_mul(64)
}

/// Refuses a graph whose dense decomposition takes too much memory.
pub(super) fn check(num_nodes: usize, count: usize) -> Result<()> {
    let bytes = bytes(num_nodes, count);
    if bytes > MAX_DENSE_BYTES {
        return Err(Error::Spectrum(format!(
            "the dense eigendecomposition of the Magnetic Laplacian for {num_nodes} nodes takes \
             {bytes} bytes, more than the limit of {MAX_DENSE_BYTES}: leave the graph out or use a \
             model without its eigenvectors"
        )));
    }
    Ok(())
}

/// The `count` smallest eigenvalues, on one thread.
pub(super) fn lowest(laplacian: &MagneticLaplacian, count: usize) -> Result<Pairs> {
    let n = laplacian.num_nodes();
    check(n, count)?;
    let mut matrix = Mat::<c64>::zeros(n, n);
    for (i, &value) in laplacian.diagonal().iter().enumerate() {
        matrix[(i, i)] = c64::new(value, 0.0);
    }
    for (i, j, [re, im]) in laplacian.below() {
        matrix[(i, j)] = c64::new(re, im);
    }
    let decomposed = matrix.self_adjoint_eigen(Side::Lower).map_err(|_| {
        Error::Spectrum(format!(
            "the dense eigendecomposition of the Magnetic Laplacian for {n} nodes did not converge"
        ))
    })?;
    let count = count.min(n);
    let values = decomposed.S().column_vector();
    let entries = || (0..count).flat_map(|at| decomposed.U().col(at).iter());
    Ok(Pairs {
        values: (0..count).map(|at| values[at].re).collect(),
        real: entries().map(|z| z.re).collect(),
        imaginary: entries().map(|z| z.im).collect(),
    })
}
