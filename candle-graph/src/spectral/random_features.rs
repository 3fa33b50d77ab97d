//! Spectra of graphs that are defined by distances between points, without their N² edges: the
//! random features of appendix A.2 of "Rotary Position Encodings for Graphs".
//!
//! Nodes i and j are joined by the weight `exp(−‖vᵢ − vⱼ‖² / (2·s²))`. Its Fourier transform is a
//! Gaussian density, so that with frequencies ω₁, …, ω_r drawn from it the weight is, in
//! expectation, the product φᵢᵀφⱼ of the features `φᵢ = r^-½·(cos ωₖᵀvᵢ, sin ωₖᵀvᵢ)ₖ`. With Φ the
//! features of all nodes, the Laplacian D − A becomes `diag(Φ(Φᵀ1)) − ΦΦᵀ`, which is applied to a
//! vector in O(N·r).
//!
//! The ε-ball graph of the paper is not offered this way: the Fourier transform of a ball takes
//! both signs, so it is no density to draw from, and the weights are 0 or 1, which r random waves
//! reach slowly. Its sparse edges are had from [`PointCloud`](crate::graph::PointCloud).

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use rand_mt::Mt64;
use rayon::prelude::*;

use super::block::uniform;
use super::operator::LANES;
use super::{Eigenpairs, Lanes, SolverOptions, Step, SymmetricOperator, lowest_eigenpairs};
use crate::error::{Error, Result};
use crate::ops::simd::vectorize;

/// Rows that one task works on.
const ROWS: usize = 1024;

/// The Laplacian `D − ΦΦᵀ` of a graph with Gaussian weights, approximated by random features.
///
/// Every weight errs by about 1/√(2r), its expectation is exact, and so is the weight 1 of a node
/// with itself, which drops out of a Laplacian. Measured on 300 random points of the unit cube,
/// s = 0.3: the 8 lowest nontrivial eigenvalues err by 26 % at r = 256 and 3 % at r = 4096 (mean
/// relative error). As weights may come out negative, so may eigenvalues where r is small.
#[derive(Debug, Clone)]
pub struct GaussianFeatures {
    /// `[nodes, 2·r]`, row by row.
    features: Vec<f64>,
    width: usize,
    degrees: Vec<f64>,
}

impl GaussianFeatures {
    /// Draws the features of `points`, `[nodes, dim]` row by row: `frequencies` is r, `scale` the
    /// length s of the weights.
    ///
    /// # Errors
    /// No points, a row that is not full, a value that is not finite, no frequencies, or a scale
    /// that is not positive and finite.
    pub fn new(
        points: &[f64],
        dim: usize,
        scale: f64,
        frequencies: usize,
        seed: u64,
    ) -> Result<Self> {
        let refuse = |message: String| Err(Error::Spectrum(format!("random features: {message}")));
        if dim == 0 || points.is_empty() || !points.len().is_multiple_of(dim) {
            let len = points.len();
            return refuse(format!(
                "{len} numbers do not form points of {dim} coordinates"
            ));
        }
        if let Some(at) = points.iter().position(|x| !x.is_finite()) {
            let (row, column) = (at / dim, at % dim);
            return refuse(format!("point {row}, coordinate {column} is not finite"));
        }
        if frequencies == 0 || !(scale.is_finite() && scale > 0.0) {
            return refuse(format!(
                "{frequencies} frequencies, scale {scale}: both must be positive"
            ));
        }
        let mut generator = Mt64::new(seed);
        let waves: Vec<f64> = (0..frequencies * dim)
            .map(|_| normal(&mut generator) / scale)
            .collect();
        let width = 2 * frequencies;
        let mut features = vec![0.0; points.len() / dim * width];
        let norm = (frequencies as f64).sqrt().recip();
        let rows = features.par_chunks_mut(width).zip(points.par_chunks(dim));
        rows.for_each(|(row, point)| {
            for (pair, wave) in row.chunks_exact_mut(2).zip(waves.chunks_exact(dim)) {
                let angle: f64 = wave.iter().zip(point).map(|(w, x)| w * x).sum();
                let (sin, cos) = angle.sin_cos();
                pair.copy_from_slice(&[norm * cos, norm * sin]);
            }
        });
        let mut total = vec![0.0; width];
        for row in features.chunks_exact(width) {
            total.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let degree = |row: &[f64]| row.iter().zip(&total).map(|(a, b)| a * b).sum();
        let degrees = features.chunks_exact(width).map(degree).collect();
        Ok(Self {
            features,
            width,
            degrees,
        })
    }

    /// The approximate degrees `Φ(Φᵀ1)`, a node's weight with itself included.
    pub fn degrees(&self) -> &[f64] {
        &self.degrees
    }

    /// The approximate weight of nodes `i` and `j`; None where there is no such node.
    pub fn weight(&self, i: usize, j: usize) -> Option<f64> {
        let row = |i: usize| self.features.chunks_exact(self.width).nth(i);
        Some(row(i)?.iter().zip(row(j)?).map(|(a, b)| a * b).sum())
    }

    /// The `count` lowest eigenpairs of `D − ΦΦᵀ`, the trivial one included, to the accuracy of
    /// `options`: what errs is the features, not the solver. O(N·r) a step.
    ///
    /// # Errors
    /// As [`lowest_eigenpairs`].
    pub fn lowest(&self, count: usize, options: &SolverOptions) -> Result<Eigenpairs> {
        lowest_eigenpairs(self, count, options)
    }

    /// The recipe of the paper: `D − ΦΦᵀ = X·Yᵀ`, `X = [√D, Φ]`, `Y = [√D, −Φ]`, is replaced by
    /// `X'·Y'ᵀ` with the Johnson-Lindenstrauss projections `X' = X·G/√m`, `Y' = Y·G/√m` to
    /// `dimension` = m columns, and diagonalised through the small matrix `Y'ᵀX'`. Gives its m
    /// eigenvalues, largest first (real parts: the matrix is not symmetric), with the eigenvectors
    /// `X'z` and their residuals against `D − ΦΦᵀ`.
    ///
    /// It is unbiased entry by entry, but of no use for the lowest eigenvectors: its rank is m, so
    /// that all low eigenvalues are replaced by zeros, and the projection of the full-rank part D
    /// to m of N dimensions raises the largest eigenvalues about N/m-fold. The residuals say so; it
    /// is kept for comparison. [`lowest`](Self::lowest) costs O(N·r) a step and has none of this.
    ///
    /// # Errors
    /// `dimension` is 0 or more than the number of nodes; the small decomposition does not converge.
    pub fn projected(&self, dimension: usize, seed: u64) -> Result<Eigenpairs> {
        let n = self.degrees.len();
        if dimension == 0 || dimension > n {
            return Err(Error::Spectrum(format!(
                "random features: a projection of {n} nodes to {dimension} dimensions"
            )));
        }
        let mut generator = Mt64::new(seed);
        let norm = (dimension as f64).sqrt().recip();
        let mut gaussian = |rows: usize| {
            let entry = |_: usize, _: usize| norm * normal(&mut generator);
            Mat::<f64>::from_fn(rows, dimension, entry)
        };
        let mut diagonal = gaussian(n);
        for (i, degree) in self.degrees.iter().enumerate() {
            // A degree that came out negative has no root.
            let root = degree.max(0.0).sqrt();
            diagonal.row_mut(i).iter_mut().for_each(|x| *x *= root);
        }
        let waves = gaussian(self.width);
        let features = faer::MatRef::from_row_major_slice(&self.features, n, self.width);
        let mut low_rank = Mat::<f64>::zeros(n, dimension);
        matmul(
            &mut low_rank,
            Accum::Replace,
            features,
            &waves,
            1.0,
            Par::Seq,
        );
        let x = &diagonal + &low_rank;
        let y = &diagonal - &low_rank;
        let small = y.transpose() * &x;
        let decomposed = small.eigen().map_err(|_| {
            Error::Spectrum(format!(
                "the eigendecomposition of {dimension} random projections did not converge"
            ))
        })?;
        let values = decomposed.S().column_vector();
        let mut order: Vec<usize> = (0..dimension).collect();
        order.sort_by(|&a, &b| values[b].re.total_cmp(&values[a].re));
        let mut pairs = Eigenpairs {
            steps: 1,
            ..Eigenpairs::default()
        };
        for at in order {
            let part = Mat::from_fn(dimension, 1, |i, _| decomposed.U()[(i, at)].re);
            let image = &x * &part;
            let mut vector: Vec<f64> = image.col(0).iter().copied().collect();
            let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            let length = length.max(f64::MIN_POSITIVE);
            vector.iter_mut().for_each(|v| *v /= length);
            pairs.values.push(values[at].re);
            pairs.residuals.push(self.residual(values[at].re, &vector));
            pairs.vectors.extend(vector);
        }
        Ok(pairs)
    }

    fn residual(&self, value: f64, vector: &[f64]) -> f64 {
        let block: Vec<Lanes> = vector.iter().map(|&v| [v; LANES]).collect();
        let mut off = block.clone();
        let step = Step {
            alpha: 1.0,
            beta: -value,
            gamma: 0.0,
        };
        self.step(step, &block, &mut off);
        off.iter().map(|row| row[0] * row[0]).sum::<f64>().sqrt()
    }

    /// `sums += Φᵀ·block` for some rows of both.
    #[inline(always)]
    fn gather(&self, features: &[f64], block: &[Lanes], sums: &mut [Lanes]) {
        for (row, x) in features.chunks_exact(self.width).zip(block) {
            for (sum, feature) in sums.iter_mut().zip(row) {
                for lane in 0..LANES {
                    sum[lane] += feature * x[lane];
                }
            }
        }
    }
}

impl SymmetricOperator for GaussianFeatures {
    fn dim(&self) -> usize {
        self.degrees.len()
    }

    fn upper_bound(&self) -> f64 {
        // ΦΦᵀ has no negative eigenvalue.
        self.degrees
            .iter()
            .copied()
            .fold(f64::MIN_POSITIVE, f64::max)
    }

    fn step(&self, step: Step, block: &[Lanes], out: &mut [Lanes]) {
        let arch = pulp::Arch::new();
        let chunks = self.features.par_chunks(self.width * ROWS);
        let partial = chunks.zip(block.par_chunks(ROWS)).map(|(features, block)| {
            let mut sums = vec![[0.0; LANES]; self.width];
            vectorize(
                arch,
                #[inline(always)]
                || self.gather(features, block, &mut sums),
            );
            sums
        });
        let mut sums = vec![[0.0; LANES]; self.width];
        for part in partial.collect::<Vec<_>>() {
            let entries = sums.as_flattened_mut().iter_mut();
            let part = part.as_flattened();
            entries.zip(part).for_each(|(sum, x)| *sum += x);
        }
        let rows = out.par_iter_mut().with_min_len(64).enumerate();
        rows.for_each(|(i, out)| {
            let features = &self.features[i * self.width..(i + 1) * self.width];
            let mut product = block[i].map(|x| self.degrees[i] * x);
            for (sum, feature) in sums.iter().zip(features) {
                for lane in 0..LANES {
                    product[lane] -= feature * sum[lane];
                }
            }
            for lane in 0..LANES {
                let other = step.beta * block[i][lane] + step.gamma * out[lane];
                out[lane] = step.alpha * product[lane] + other;
            }
        });
    }
}

/// A number of the normal distribution of variance 1.
fn normal(generator: &mut Mt64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(generator)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(generator)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: usize = 300;
    const SCALE: f64 = 0.3;

    fn points() -> Vec<f64> {
        let mut generator = Mt64::new(5);
        (0..3 * NODES).map(|_| uniform(&mut generator)).collect()
    }

    fn exact_weight(points: &[f64], i: usize, j: usize) -> f64 {
        let (a, b) = (&points[3 * i..3 * i + 3], &points[3 * j..3 * j + 3]);
        let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
        (-square / (2.0 * SCALE * SCALE)).exp()
    }

    /// Eigenvalues of `D − A` from its entries, ascending.
    fn spectrum(weight: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut matrix = Mat::from_fn(NODES, NODES, |i, j| -weight(i, j));
        for i in 0..NODES {
            let degree: f64 = (0..NODES).map(|j| weight(i, j)).sum();
            matrix[(i, i)] += degree;
        }
        let decomposed = matrix.self_adjoint_eigen(faer::Side::Lower).unwrap();
        decomposed.S().column_vector().iter().copied().collect()
    }

    fn features(frequencies: usize, seed: u64) -> GaussianFeatures {
        GaussianFeatures::new(&points(), 3, SCALE, frequencies, seed).unwrap()
    }

    /// Mean relative error of the lowest nontrivial eigenvalues.
    fn mean_error(found: &[f64], exact: &[f64]) -> f64 {
        let pairs = found.iter().zip(exact).skip(1).take(8);
        pairs.map(|(a, b)| (a - b).abs() / b).sum::<f64>() / 8.0
    }

    #[test]
    fn eigenvalues_come_close_to_those_of_the_exact_weights_as_frequencies_grow() {
        let points = points();
        let exact = spectrum(|i, j| exact_weight(&points, i, j));
        let few = (0..4).map(|seed| {
            let found = features(256, seed).lowest(9, &SolverOptions::default());
            mean_error(&found.unwrap().values, &exact) / 4.0
        });
        let few: f64 = few.sum();
        let features = features(4096, 0);
        let many = mean_error(&spectrum(|i, j| features.weight(i, j).unwrap()), &exact);
        // Measured 0.26 and 0.03; a scale that is wrong by a factor 2 is wrong by more than half.
        assert!(few < 0.4 && many < 0.07, "{few} {many}");
        assert!(many < few / 3.0, "{few} {many}");
    }

    #[test]
    fn the_solver_finds_the_spectrum_of_the_features_themselves() {
        let features = features(64, 1);
        let expected = spectrum(|i, j| features.weight(i, j).unwrap());
        let found = features.lowest(12, &SolverOptions::default()).unwrap();
        let pairs = found.values.iter().zip(&expected);
        pairs.for_each(|(a, b)| assert!((a - b).abs() < 1e-9, "{a}, not {b}"));
        assert!(found.residuals.iter().all(|r| *r < 1e-9));
        // The trivial vector is among them.
        let zero = found.values.iter().position(|v| v.abs() < 1e-9).unwrap();
        let trivial = &found.vectors[zero * NODES..(zero + 1) * NODES];
        let sum: f64 = trivial.iter().sum();
        assert!((sum.abs() - (NODES as f64).sqrt()).abs() < 1e-6);
    }

    #[test]
    fn the_recipe_of_the_paper_is_unbiased_and_overshoots() {
        let features = features(64, 1);
        let degrees: f64 = features.degrees().iter().sum();
        // The trace of D − ΦΦᵀ; ΦΦᵀ has ones on its diagonal.
        let trace = degrees - NODES as f64;
        let runs = 40;
        let mut mean = 0.0;
        for seed in 0..runs {
            let projected = features.projected(20, seed).unwrap();
            assert_eq!(projected.values.len(), 20);
            mean += projected.values.iter().sum::<f64>() / (runs as f64 * trace);
            // N/m = 15; the true largest eigenvalue is below the largest degree.
            let over = projected.values[0] / features.upper_bound();
            assert!((5.0..40.0).contains(&over), "{over}");
            assert!(projected.residuals[0] > features.upper_bound());
        }
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn what_makes_no_features_is_refused() {
        let new = |points: &[f64], dim, scale, r| {
            GaussianFeatures::new(points, dim, scale, r, 0)
                .unwrap_err()
                .to_string()
        };
        assert!(new(&[], 3, 1.0, 8).contains("0 numbers"));
        assert!(new(&[1.0; 4], 3, 1.0, 8).contains("4 numbers"));
        assert!(new(&[1.0, f64::NAN], 1, 1.0, 8).contains("point 1, coordinate 0"));
        assert!(new(&[1.0], 1, 0.0, 8).contains("scale 0"));
        assert!(new(&[1.0], 1, 1.0, 0).contains("0 frequencies"));
        let features = GaussianFeatures::new(&[0.0, 1.0], 1, 1.0, 8, 0).unwrap();
        assert!(features.projected(3, 0).is_err());
        assert!(features.weight(0, 2).is_none());
    }
}
