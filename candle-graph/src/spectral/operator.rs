//! Symmetric matrices as what they do to a few vectors at a time.

use rayon::prelude::*;

use super::{Laplacian, LaplacianNorm};
use crate::ops::simd::vectorize;

/// Number of vectors that a [`SymmetricOperator`] is applied to at once.
pub const LANES: usize = 8;

/// One entry each of [`LANES`] vectors.
pub type Lanes = [f64; LANES];

/// Rows that one task works on, and from which work is shared among threads.
const ROWS: usize = 2048;

/// The numbers of `alpha·A·X + beta·X + gamma·Y`, one step of a three-term recurrence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Factor of `A·X`.
    pub alpha: f64,
    /// Factor of `X`.
    pub beta: f64,
    /// Factor of `Y`.
    pub gamma: f64,
}

impl Step {
    /// `A·X` itself.
    pub const PRODUCT: Self = Self {
        alpha: 1.0,
        beta: 0.0,
        gamma: 0.0,
    };
}

/// A real symmetric matrix `A`, `[n, n]`, known by its products with blocks of vectors.
///
/// A block is `n` rows of [`LANES`] entries, one a vector. Implementations must give the same bits
/// whatever the number of threads.
pub trait SymmetricOperator: Sync {
    /// Number of rows, n.
    fn dim(&self) -> usize;

    /// A number that no eigenvalue exceeds, better close than not, and greater than 0: errors are
    /// measured by it.
    fn upper_bound(&self) -> f64;

    /// `out ← alpha·A·block + beta·block + gamma·out`, the numbers of `step`; both blocks have
    /// [`dim`](Self::dim) rows.
    fn step(&self, step: Step, block: &[Lanes], out: &mut [Lanes]);
}

/// The symmetric matrix of a [`Laplacian`] in compressed rows: the Laplacian itself or, for
/// [`LaplacianNorm::Rw`], the symmetric normalised one, whose eigenvalues are the same.
#[derive(Debug, Clone)]
pub struct LaplacianOperator {
    diagonal: Vec<f64>,
    /// Where the entries of each row begin, and where the last row's end.
    starts: Vec<usize>,
    /// Column and value of the entries beside the diagonal, ascending in every row.
    entries: Vec<(u32, f64)>,
    upper_bound: f64,
}

impl LaplacianOperator {
    /// Compresses the rows of `laplacian`.
    pub fn new(laplacian: &Laplacian) -> Self {
        let upper_bound = match laplacian.norm() {
            LaplacianNorm::Sym | LaplacianNorm::Rw => 2.0,
            // Gershgorin's discs of the matrix of edges, L = B·W·Bᵀ: closer than those of L itself.
            LaplacianNorm::None => {
                let degrees = laplacian.degrees();
                let sums = laplacian.weights().map(|(i, j, _)| degrees[i] + degrees[j]);
                sums.fold(0.0, f64::max)
            }
            LaplacianNorm::RwLowerTriangle => {
                let mut sums: Vec<f64> = laplacian.diagonal().collect();
                for (i, j, value) in laplacian.symmetric_part() {
                    sums[i] += value.abs();
                    sums[j] += value.abs();
                }
                sums.into_iter().fold(0.0, f64::max)
            }
        };
        let diagonal = laplacian.diagonal().collect();
        Self::of_entries(diagonal, laplacian.symmetric_part(), upper_bound)
    }

    /// The symmetric matrix of a diagonal and of the entries `(i, j, value)`, `i > j`, below it,
    /// sorted by rows. No eigenvalue exceeds `upper_bound`.
    pub(super) fn of_entries(
        diagonal: Vec<f64>,
        below: impl Iterator<Item = (usize, usize, f64)> + Clone,
        upper_bound: f64,
    ) -> Self {
        let n = diagonal.len();
        let mut starts = vec![0usize; n + 1];
        for (i, j, _) in below.clone() {
            starts[i + 1] += 1;
            starts[j + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut entries = vec![(0u32, 0.0f64); starts[n]];
        // Row i gets its entries left of the diagonal before later rows add those to the right.
        for (i, j, value) in below {
            for (row, column) in [(i, j), (j, i)] {
                entries[next[row]] = (column as u32, value);
                next[row] += 1;
            }
        }
        Self {
            diagonal,
            starts,
            entries,
            upper_bound: upper_bound.max(f64::MIN_POSITIVE),
        }
    }

    /// The diagonal.
    pub(super) fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    /// Column and value of the entries of row `i` beside the diagonal, ascending.
    pub(super) fn row(&self, i: usize) -> &[(u32, f64)] {
        &self.entries[self.starts[i]..self.starts[i + 1]]
    }

    #[inline(always)]
    fn rows(&self, first: usize, step: Step, block: &[Lanes], out: &mut [Lanes]) {
        for (at, out) in out.iter_mut().enumerate() {
            let i = first + at;
            let mut sum = block[i].map(|x| self.diagonal[i] * x);
            for &(column, value) in &self.entries[self.starts[i]..self.starts[i + 1]] {
                let x = &block[column as usize];
                for lane in 0..LANES {
                    sum[lane] += value * x[lane];
                }
            }
            let x = &block[i];
            for lane in 0..LANES {
                out[lane] = step.alpha * sum[lane] + step.beta * x[lane] + step.gamma * out[lane];
            }
        }
    }
}

impl SymmetricOperator for LaplacianOperator {
    fn dim(&self) -> usize {
        self.diagonal.len()
    }

    fn upper_bound(&self) -> f64 {
        self.upper_bound
    }

    fn step(&self, step: Step, block: &[Lanes], out: &mut [Lanes]) {
        let arch = pulp::Arch::new();
        let task = |(at, out): (usize, &mut [Lanes])| {
            vectorize(
                arch,
                #[inline(always)]
                || self.rows(at * ROWS, step, block, out),
            );
        };
        if out.len() <= ROWS {
            task((0, out));
        } else {
            out.par_chunks_mut(ROWS).enumerate().for_each(task);
        }
    }
}
