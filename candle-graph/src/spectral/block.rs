//! Blocks of long vectors, and what a subspace iteration does with them. All sums are taken in an
//! order that does not depend on the number of threads.

use faer::{Mat, MatRef};
use rand_mt::Mt64;
use rayon::prelude::*;

use super::Lanes;
use super::kernel::Kernel;
use super::operator::LANES;
use crate::ops::simd::vectorize;

/// Rows whose products are summed by one task.
const ROWS: usize = 4096;

/// `columns` vectors of `rows` entries, a multiple of [`LANES`] of them.
#[derive(Debug, Clone)]
pub(super) struct Block {
    rows: usize,
    /// [`LANES`] vectors each.
    pub(super) panels: Vec<Vec<Lanes>>,
}

impl Block {
    pub(super) fn zeros(rows: usize, columns: usize) -> Self {
        let panels = columns.div_ceil(LANES);
        Self {
            rows,
            panels: vec![vec![[0.0; LANES]; rows]; panels],
        }
    }

    /// Entries between −1 and 1.
    pub(super) fn random(rows: usize, columns: usize, generator: &mut Mt64) -> Self {
        let mut block = Self::zeros(rows, columns);
        for entry in block.panels.iter_mut().flatten().flatten() {
            *entry = uniform(generator) * 2.0 - 1.0;
        }
        block
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.panels.len() * LANES
    }

    pub(super) fn column(&self, at: usize) -> impl Iterator<Item = f64> + '_ {
        self.panels[at / LANES]
            .iter()
            .map(move |row| row[at % LANES])
    }

    /// Runs `task` on every panel, on all cores where the panels are long enough.
    pub(super) fn for_each(&mut self, task: impl Fn(usize, &mut Vec<Lanes>) + Sync) {
        if self.rows < ROWS {
            let panels = self.panels.iter_mut().enumerate();
            panels.for_each(|(at, panel)| task(at, panel));
        } else {
            let panels = self.panels.par_iter_mut().enumerate();
            panels.for_each(|(at, panel)| task(at, panel));
        }
    }

    /// `selfᵀ·other`, entry (i, j) for column i of `self` and j of `other`.
    pub(super) fn gram(&self, other: &Self) -> Mat<f64> {
        let arch = pulp::Arch::new();
        let (left, right) = (self.panels.len(), other.panels.len());
        let partial = |first: usize| -> Vec<[Lanes; LANES]> {
            let rows = first..(first + ROWS).min(self.rows);
            let mut sums = vec![[[0.0; LANES]; LANES]; left * right];
            let mut pairs = sums.iter_mut();
            for a in &self.panels {
                for b in &other.panels {
                    let (a, b) = (&a[rows.clone()], &b[rows.clone()]);
                    let Some(sum) = pairs.next() else { continue };
                    vectorize(
                        arch,
                        #[inline(always)]
                        || outer_products(a, b, sum),
                    );
                }
            }
            sums
        };
        let mut total = vec![[[0.0; LANES]; LANES]; left * right];
        let mut add = |sums: Vec<[Lanes; LANES]>| {
            let entries = total.as_flattened_mut().as_flattened_mut().iter_mut();
            let sums = sums.as_flattened().as_flattened();
            entries.zip(sums).for_each(|(entry, sum)| *entry += sum);
        };
        let starts: Vec<usize> = (0..self.rows).step_by(ROWS).collect();
        // A few chunks at a time bound the memory of the partial sums.
        for starts in starts.chunks(64) {
            if let [first] = starts {
                add(partial(*first));
            } else {
                let sums: Vec<_> = starts.par_iter().map(|&first| partial(first)).collect();
                sums.into_iter().for_each(&mut add);
            }
        }
        Mat::from_fn(self.columns(), other.columns(), |i, j| {
            total[i / LANES * right + j / LANES][i % LANES][j % LANES]
        })
    }

    /// `self·matrix`, `matrix` square with a row and a column a vector.
    pub(super) fn times(&self, matrix: MatRef<'_, f64>) -> Self {
        let arch = pulp::Arch::new();
        let mut out = Self::zeros(self.rows, self.columns());
        out.for_each(|at, out| {
            let rows = 0..matrix.nrows();
            let coefficients: Vec<Lanes> = rows
                .map(|i| std::array::from_fn(|lane| matrix[(i, at * LANES + lane)]))
                .collect();
            for (panel, coefficients) in self.panels.iter().zip(coefficients.chunks_exact(LANES)) {
                vectorize(
                    arch,
                    #[inline(always)]
                    || combine(panel, coefficients, out),
                );
            }
        });
        out
    }

    /// Gives every vector unit length; zero vectors stay.
    fn normalise(&mut self) {
        self.for_each(|_, panel| {
            // Entries may be so large or small that their squares are not finite.
            let mut largest = [0.0f64; LANES];
            for row in panel.iter() {
                for (largest, x) in largest.iter_mut().zip(row) {
                    *largest = largest.max(x.abs());
                }
            }
            let scale = largest.map(|x| if x > 0.0 { x.recip() } else { 0.0 });
            let mut squares = [0.0; LANES];
            for row in panel.iter_mut() {
                for lane in 0..LANES {
                    row[lane] *= scale[lane];
                    squares[lane] += row[lane] * row[lane];
                }
            }
            let scale = squares.map(|x| if x > 0.0 { x.sqrt().recip() } else { 0.0 });
            for row in panel.iter_mut() {
                row.iter_mut().zip(scale).for_each(|(x, scale)| *x *= scale);
            }
        });
    }

    /// Makes the vectors orthonormal, and orthogonal to `kernel` and to the vectors of `others`;
    /// directions that are lost to rounding become arbitrary ones. Returns whether it succeeded.
    pub(super) fn orthonormalise(&mut self, kernel: &Kernel, others: Option<&Self>) -> bool {
        for _ in 0..4 {
            self.for_each(|_, panel| kernel.project_out(panel));
            self.normalise();
            if let Some(others) = others {
                let overlap = others.gram(self);
                let mut part = others.times(padded(&overlap, others.columns()).as_ref());
                part.panels.truncate(self.panels.len());
                for (panel, part) in self.panels.iter_mut().zip(&part.panels) {
                    let entries = panel.as_flattened_mut().iter_mut();
                    entries
                        .zip(part.as_flattened())
                        .for_each(|(x, part)| *x -= part);
                }
            }
            let gram = self.gram(self);
            let error = distance_to_identity(&gram);
            if error < 1e-13 {
                return true;
            }
            match inverse_of_cholesky(&gram) {
                Some(inverse) => *self = self.times(inverse.as_ref()),
                None => self.householder(),
            }
        }
        let gram = self.gram(self);
        distance_to_identity(&gram) < 1e-11
    }

    /// Replaces the vectors by an orthonormal basis of a space that holds them.
    fn householder(&mut self) {
        let matrix = Mat::from_fn(self.rows, self.columns(), |i, j| {
            self.panels[j / LANES][i][j % LANES]
        });
        let basis = matrix.qr().compute_thin_Q();
        self.for_each(|at, panel| {
            for (i, row) in panel.iter_mut().enumerate() {
                *row = std::array::from_fn(|lane| basis[(i, at * LANES + lane)]);
            }
        });
    }
}

/// `sum += aᵀ·b`.
#[inline(always)]
fn outer_products(a: &[Lanes], b: &[Lanes], sum: &mut [Lanes; LANES]) {
    let mut local = *sum;
    for (a, b) in a.iter().zip(b) {
        for (sum, a) in local.iter_mut().zip(a) {
            for lane in 0..LANES {
                sum[lane] += a * b[lane];
            }
        }
    }
    *sum = local;
}

/// `out += panel·coefficients`, row by row.
#[inline(always)]
fn combine(panel: &[Lanes], coefficients: &[Lanes], out: &mut [Lanes]) {
    let Some((coefficients, _)) = coefficients.split_first_chunk::<LANES>() else {
        return;
    };
    for (out, x) in out.iter_mut().zip(panel) {
        let mut even = *out;
        let mut odd = [0.0; LANES];
        for pair in 0..LANES / 2 {
            for lane in 0..LANES {
                even[lane] += x[2 * pair] * coefficients[2 * pair][lane];
                odd[lane] += x[2 * pair + 1] * coefficients[2 * pair + 1][lane];
            }
        }
        *out = std::array::from_fn(|lane| even[lane] + odd[lane]);
    }
}

/// `matrix` as the first columns of a square one.
fn padded(matrix: &Mat<f64>, size: usize) -> Mat<f64> {
    Mat::from_fn(size, size, |i, j| {
        if j < matrix.ncols() {
            matrix[(i, j)]
        } else {
            0.0
        }
    })
}

/// The largest entry of `matrix − I`; infinite where one is not a number.
fn distance_to_identity(matrix: &Mat<f64>) -> f64 {
    let mut worst = 0.0f64;
    for j in 0..matrix.ncols() {
        for i in 0..matrix.nrows() {
            let off = (matrix[(i, j)] - f64::from(i == j)).abs();
            worst = if off.is_nan() {
                f64::INFINITY
            } else {
                worst.max(off)
            };
        }
    }
    worst
}

/// `L⁻ᵀ` for the Cholesky factor `L` of `gram`, unless that is too close to singular for the
/// product with it to be of use.
fn inverse_of_cholesky(gram: &Mat<f64>) -> Option<Mat<f64>> {
    let p = gram.nrows();
    let mut factor = Mat::<f64>::zeros(p, p);
    for j in 0..p {
        let mut pivot = gram[(j, j)];
        for k in 0..j {
            pivot -= factor[(j, k)] * factor[(j, k)];
        }
        // A vector of unit length of which less is left than 1e-5 is mostly rounding.
        if pivot.is_nan() || pivot < 1e-10 {
            return None;
        }
        let pivot = pivot.sqrt();
        factor[(j, j)] = pivot;
        for i in j + 1..p {
            let mut entry = gram[(i, j)];
            for k in 0..j {
                entry -= factor[(i, k)] * factor[(j, k)];
            }
            factor[(i, j)] = entry / pivot;
        }
    }
    // Column by column of the inverse of L, stored transposed.
    let mut inverse = Mat::<f64>::zeros(p, p);
    for j in 0..p {
        inverse[(j, j)] = factor[(j, j)].recip();
        for i in j + 1..p {
            let mut entry = 0.0;
            for k in j..i {
                entry -= factor[(i, k)] * inverse[(j, k)];
            }
            inverse[(j, i)] = entry / factor[(i, i)];
        }
    }
    Some(inverse)
}

/// A number in [0, 1).
pub(super) fn uniform(generator: &mut Mt64) -> f64 {
    (generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
