//! The lowest eigenvalues of large sparse graphs, by the real symmetric iteration.
//!
//! A Hermitian matrix `A + i·B` acts on `(Re z, Im z)` as the real symmetric matrix
//! `[[A, −B], [B, A]]`, which has every eigenvalue twice: with z, i·z is an eigenvector. Twice as
//! many real vectors are sought, and the complex space that they span is decomposed.

use faer::{Mat, Side, c64};

use super::MagneticLaplacian;
use super::dense::Pairs;
use crate::error::{Error, Result};
use crate::spectral::inverse::{Inverse, SHIFT_BESIDE_NOTHING};
use crate::spectral::kernel::Kernel;
use crate::spectral::subspace_iteration::{block_width, lowest_beside};
use crate::spectral::{LaplacianOperator, MAX_ITERATION_BYTES, SolverOptions};

/// Real vectors whose part outside the complex space of the others is smaller than this (squared)
/// tell nothing: those of whole doubled spaces have none, those of a space that the last of them
/// cuts have any.
const INDEPENDENT: f64 = 1e-3;

/// How many real vectors stand for `count` complex ones.
fn real_count(laplacian_is_real: bool, count: usize) -> usize {
    match laplacian_is_real {
        true => count,
        false => count.saturating_mul(2),
    }
}

/// Whether the iteration is possible: it needs more rows than vectors.
pub(super) fn is_possible(num_nodes: usize, count: usize) -> bool {
    num_nodes >= block_width(real_count(false, count))
}

/// Whether little enough of the spectrum is sought for the iteration to be worth while.
pub(super) fn is_small_part(num_nodes: usize, count: usize) -> bool {
    num_nodes >= block_width(real_count(false, count)).saturating_mul(3)
}

/// Refuses what takes too much memory.
pub(super) fn check(num_nodes: usize, count: usize) -> Result<()> {
    // Six blocks of f64, of two rows a node: the vectors, their images and what replaces both.
    let columns = (block_width(real_count(false, count)) as u64).saturating_mul(2 * 6 * 8);
    let bytes = columns.saturating_mul(num_nodes as u64);
    if bytes > MAX_ITERATION_BYTES {
        return Err(Error::Spectrum(format!(
            "{count} eigenvectors of the Magnetic Laplacian for {num_nodes} nodes take {bytes} \
             bytes to find, more than the limit of {MAX_ITERATION_BYTES}: ask for fewer"
        )));
    }
    Ok(())
}

/// The `count` smallest eigenvalues and their vectors.
pub(super) fn lowest(
    laplacian: &MagneticLaplacian,
    count: usize,
    options: &SolverOptions,
) -> Result<Pairs> {
    let is_real = laplacian.is_real();
    let operator = match is_real {
        true => {
            let below = laplacian.below().map(|(i, j, [re, _])| (i, j, re));
            let diagonal = laplacian.diagonal().to_vec();
            LaplacianOperator::of_entries(diagonal, below, laplacian.upper_bound())
        }
        false => doubled(laplacian),
    };
    let kernel = Kernel::none(rows(laplacian));
    let inverse = match options.factorise {
        true => Inverse::new(&operator, &kernel, SHIFT_BESIDE_NOTHING),
        false => None,
    };
    let sought = real_count(is_real, count);
    let found = lowest_beside(&operator, &kernel, inverse.as_ref(), sought, options)?;
    if is_real {
        return Ok(Pairs {
            imaginary: vec![0.0; found.vectors.len()],
            real: found.vectors,
            values: found.values,
        });
    }
    complex(laplacian, &found.vectors, count)
}

fn rows(laplacian: &MagneticLaplacian) -> usize {
    laplacian.num_nodes() * real_count(laplacian.is_real(), 1)
}

/// The real symmetric matrix of a complex Hermitian one: real and imaginary part of an entry are
/// neighbours.
fn doubled(laplacian: &MagneticLaplacian) -> LaplacianOperator {
    let diagonal = laplacian.diagonal().iter().flat_map(|&v| [v, v]);
    // Sorted by rows: the first rows of a node's entries, then the second ones.
    let mut below = Vec::with_capacity(4 * laplacian.below().len());
    for (i, j, [re, im]) in laplacian.below() {
        below.push((2 * i, 2 * j, re));
        below.push((2 * i, 2 * j + 1, -im));
        below.push((2 * i + 1, 2 * j, im));
        below.push((2 * i + 1, 2 * j + 1, re));
    }
    below.sort_unstable_by_key(|&(i, j, _)| (i, j));
    LaplacianOperator::of_entries(
        diagonal.collect(),
        below.into_iter(),
        laplacian.upper_bound(),
    )
}

/// The lowest `count` pairs within the complex space that real vectors span.
fn complex(laplacian: &MagneticLaplacian, vectors: &[f64], count: usize) -> Result<Pairs> {
    let n = laplacian.num_nodes();
    let columns = vectors.len() / (2 * n).max(1);
    let spanning = Mat::from_fn(n, columns, |i, j| {
        let at = 2 * (j * n + i);
        c64::new(vectors[at], vectors[at + 1])
    });
    let failed =
        |_| Error::Spectrum("a small dense eigendecomposition did not converge".to_string());
    let gram = spanning.adjoint() * &spanning;
    let gram = gram.self_adjoint_eigen(Side::Lower).map_err(failed)?;
    let sizes: Vec<f64> = gram.S().column_vector().iter().map(|v| v.re).collect();
    // Ascending.
    let first = sizes.iter().take_while(|&&size| size < INDEPENDENT).count();
    let mut basis = &spanning * gram.U().subcols(first, columns - first);
    for (column, size) in basis.col_iter_mut().zip(&sizes[first..]) {
        let scale = size.sqrt().recip();
        column.iter_mut().for_each(|z| *z *= scale);
    }

    let images = product(laplacian, &basis);
    let projected = basis.adjoint() * &images;
    let projected = projected.self_adjoint_eigen(Side::Lower).map_err(failed)?;
    let values = projected.S().column_vector();
    if values.nrows() < count {
        return Err(Error::Spectrum(format!(
            "{} of the {count} lowest eigenvalues on {n} nodes were found by iteration: ask for \
             another number of them",
            values.nrows()
        )));
    }
    let vectors = basis * projected.U().subcols(0, count);
    let entries = || vectors.col_iter().flat_map(|column| column.iter());
    Ok(Pairs {
        values: (0..count).map(|at| values[at].re).collect(),
        real: entries().map(|z| z.re).collect(),
        imaginary: entries().map(|z| z.im).collect(),
    })
}

/// The Laplacian times every column.
fn product(laplacian: &MagneticLaplacian, columns: &Mat<c64>) -> Mat<c64> {
    let mut out = Mat::<c64>::zeros(columns.nrows(), columns.ncols());
    for at in 0..columns.ncols() {
        for (i, &value) in laplacian.diagonal().iter().enumerate() {
            out[(i, at)] += columns[(i, at)] * value;
        }
        for (i, j, [re, im]) in laplacian.below() {
            out[(i, at)] += columns[(j, at)] * c64::new(re, im);
            out[(j, at)] += columns[(i, at)] * c64::new(re, -im);
        }
    }
    out
}
