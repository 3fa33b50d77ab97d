//! The lowest eigenvalues and eigenvectors of a Laplacian, by whatever is fastest.

use super::inverse::{Inverse, SHIFT};
use super::kernel::Kernel;
use super::subspace_iteration::{block_width, lowest_beside};
use super::{
    Eigenpairs, Laplacian, LaplacianNorm, LaplacianOperator, MAX_DENSE_BYTES, SolverOptions,
    Spectrum, check_dense, dense_bytes,
};
use crate::error::{Error, Result};

/// Up to this many nodes a dense decomposition is always taken.
const DENSE_NODES: usize = 300;

/// The most memory that the iteration for one graph takes without asking: 8 GiB.
pub(super) const MAX_ITERATION_BYTES: u64 = 8 << 30;

/// How [`Spectrum::lowest`] finds eigenvectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// [`Spectrum::dense`].
    Dense,
    /// [`Spectrum::iterative`].
    Iterative,
}

impl Method {
    fn choose(norm: LaplacianNorm, num_nodes: usize, count: usize) -> Self {
        let width = block_width(count.min(num_nodes));
        if norm == LaplacianNorm::RwLowerTriangle || num_nodes <= DENSE_NODES {
            return Self::Dense;
        }
        let small_part = num_nodes >= width.saturating_mul(6);
        // Where a dense decomposition takes too much, iteration may still be possible.
        let too_large = dense_bytes(num_nodes) > MAX_DENSE_BYTES && num_nodes / 2 >= width;
        match small_part || too_large {
            true => Self::Iterative,
            false => Self::Dense,
        }
    }
}

/// Whether [`Spectrum::lowest`] finds these eigenvalues by a dense decomposition, which makes them
/// independent of how many are asked for.
pub(crate) fn lowest_is_dense(norm: LaplacianNorm, num_nodes: usize, count: usize) -> bool {
    Method::choose(norm, num_nodes, count) == Method::Dense
}

/// Refuses a graph for which [`Spectrum::lowest`] takes too much memory.
///
/// # Errors
/// The number of bytes and the limit.
pub fn check_lowest(norm: LaplacianNorm, num_nodes: usize, count: usize) -> Result<()> {
    if Method::choose(norm, num_nodes, count) == Method::Dense {
        return check_dense(num_nodes, MAX_DENSE_BYTES);
    }
    // Six blocks of f64: the vectors, their images and what replaces both.
    let columns = (block_width(count.min(num_nodes)) as u64).saturating_mul(6 * 8);
    let bytes = columns.saturating_mul(num_nodes as u64);
    if bytes > MAX_ITERATION_BYTES {
        return Err(Error::Spectrum(format!(
            "{count} eigenvectors for {num_nodes} nodes take {bytes} bytes to find, more than the \
             limit of {MAX_ITERATION_BYTES}: ask for fewer"
        )));
    }
    Ok(())
}

impl Spectrum {
    /// The `count` smallest eigenvalues of `laplacian`, all of them if it has fewer: by a dense
    /// decomposition of a small graph, or where much of the spectrum is asked for, and by
    /// [`iterative`](Self::iterative) otherwise. Sign and order are the same either way.
    ///
    /// # Errors
    /// As [`check_lowest`]; or the solver does not converge.
    pub fn lowest(laplacian: &Laplacian, count: usize) -> Result<Self> {
        let n = laplacian.num_nodes();
        let count = count.min(n);
        check_lowest(laplacian.norm(), n, count)?;
        match Method::choose(laplacian.norm(), n, count) {
            Method::Dense => Self::dense(laplacian, count, MAX_DENSE_BYTES),
            Method::Iterative => {
                let found = Self::iterative(laplacian, count, &SolverOptions::default())?;
                Ok(found.0)
            }
        }
    }

    /// The `count` smallest eigenvalues of `laplacian` by iteration, with the
    /// [`Eigenpairs`] that were iterated: those of the symmetric matrix beside the trivial ones.
    ///
    /// The space of the eigenvalue 0 is spanned by one vector a connected component, in the order
    /// of their first nodes. The rest comes from a subspace iteration that finds multiple
    /// eigenvalues in full: with a sparse Cholesky factor of the matrix where it stays sparse (trees,
    /// grids, meshes, graphs of near neighbours), else with Chebyshev polynomials of the matrix,
    /// which suffice where the spectrum has gaps (random graphs).
    ///
    /// # Errors
    /// The Laplacian is not positive semidefinite ([`LaplacianNorm::RwLowerTriangle`]); `count` is
    /// more than a third of the nodes; or what did not converge within [`SolverOptions::max_steps`],
    /// with the residual.
    pub fn iterative(
        laplacian: &Laplacian,
        count: usize,
        options: &SolverOptions,
    ) -> Result<(Self, Eigenpairs)> {
        if laplacian.norm() == LaplacianNorm::RwLowerTriangle {
            return Err(Error::Spectrum(
                "the lower triangle of the random walk Laplacian is decomposed densely only"
                    .to_string(),
            ));
        }
        let kernel = Kernel::new(laplacian);
        let trivial = kernel.count().min(count);
        let mut values = vec![0.0; trivial];
        let mut vectors = kernel.vectors(trivial);
        let mut pairs = Eigenpairs::default();
        if trivial < count {
            let operator = LaplacianOperator::new(laplacian);
            let inverse = match options.factorise {
                true => Inverse::new(&operator, &kernel, SHIFT),
                false => None,
            };
            let count = count - trivial;
            pairs = lowest_beside(&operator, &kernel, inverse.as_ref(), count, options)?;
            values.extend(pairs.values.iter().map(|value| value.max(0.0)));
            vectors.extend_from_slice(&pairs.vectors);
        }
        Ok((Self::of_laplacian(laplacian, values, vectors), pairs))
    }
}
