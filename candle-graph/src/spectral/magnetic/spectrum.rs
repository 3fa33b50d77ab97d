//! The lowest eigenvalues and their eigenvectors.

use super::dense::{self, Pairs};
use super::{MagneticLaplacian, gauge, iterative};
use crate::error::{Error, Result};
use crate::spectral::SolverOptions;

/// The smallest eigenvalues of a [`MagneticLaplacian`], ascending, trivial ones included, with
/// eigenvectors of unit length.
///
/// What is fixed:
/// - No eigenvalue is negative, and one that rounding cannot tell from zero is exactly 0.
/// - Phase: the entry of the first node is real, as the LAPACK behind the official code returns it;
///   where that entry is 0 (below 1e-8 of the largest one), the first other one is.
/// - Sign: the real part of largest magnitude is positive; of those that are equal up to 1e-8 of the
///   largest entry, the one of the first node counts. LAPACK's sign follows no rule.
///
/// What is not: the basis of the space of a multiple eigenvalue is the solver's, the same whatever
/// the number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct MagneticSpectrum {
    num_nodes: usize,
    eigenvalues: Vec<f64>,
    /// One eigenvector after the other.
    real: Vec<f64>,
    imaginary: Vec<f64>,
}

impl MagneticSpectrum {
    /// The `count` smallest eigenvalues of `laplacian`, all of them if it has fewer: by a dense
    /// decomposition of a small graph, or where much of the spectrum is asked for, and by
    /// [`iterative`](Self::iterative) otherwise.
    ///
    /// # Errors
    /// As [`check`](Self::check); or the solver does not converge.
    pub fn lowest(laplacian: &MagneticLaplacian, count: usize) -> Result<Self> {
        let n = laplacian.num_nodes();
        let count = count.min(n);
        Self::check(n, count)?;
        if is_dense(n, count) {
            return Self::dense(laplacian, count);
        }
        match Self::iterative(laplacian, count, &SolverOptions::default()) {
            // Slow, but it always finds them.
            Err(_) if dense::check(n).is_ok() => Self::dense(laplacian, count),
            found => found,
        }
    }

    /// The `count` smallest eigenvalues of `laplacian`, all of them if it has fewer, by a dense
    /// decomposition on one thread, which finds only as many vectors.
    ///
    /// # Errors
    /// It takes more than [`MAX_DENSE_BYTES`](crate::spectral::MAX_DENSE_BYTES), or does not
    /// converge.
    pub fn dense(laplacian: &MagneticLaplacian, count: usize) -> Result<Self> {
        Ok(Self::of_pairs(laplacian, dense::lowest(laplacian, count)?))
    }

    /// The `count` smallest eigenvalues of `laplacian` by iteration
    /// ([`lowest_eigenpairs`](crate::spectral::lowest_eigenpairs)), with the same result on any
    /// number of threads.
    ///
    /// # Errors
    /// `count` is more than a third of the nodes; or what did not converge within
    /// [`SolverOptions::max_steps`], with the residual.
    pub fn iterative(
        laplacian: &MagneticLaplacian,
        count: usize,
        options: &SolverOptions,
    ) -> Result<Self> {
        let pairs = iterative::lowest(laplacian, count, options)?;
        Ok(Self::of_pairs(laplacian, pairs))
    }

    /// Refuses a graph for which [`lowest`](Self::lowest) takes too much memory.
    ///
    /// # Errors
    /// The number of bytes and the limit.
    pub fn check(num_nodes: usize, count: usize) -> Result<()> {
        let count = count.min(num_nodes);
        match is_dense(num_nodes, count) {
            true => dense::check(num_nodes),
            false => iterative::check(num_nodes, count),
        }
    }

    /// The largest eigenvalue of `laplacian`.
    ///
    /// # Errors
    /// As [`dense`](Self::dense).
    pub fn largest_eigenvalue(laplacian: &MagneticLaplacian) -> Result<f64> {
        dense::largest(laplacian)
    }

    fn of_pairs(laplacian: &MagneticLaplacian, pairs: Pairs) -> Self {
        let n = laplacian.num_nodes();
        let resolution = n as f64 * f64::EPSILON * laplacian.upper_bound();
        let clean = |v: f64| if v > resolution { v } else { 0.0 };
        let mut spectrum = Self {
            num_nodes: n,
            eigenvalues: pairs.values.into_iter().map(clean).collect(),
            real: pairs.real,
            imaginary: pairs.imaginary,
        };
        spectrum.for_each_vector(gauge::fix);
        spectrum
    }

    fn for_each_vector(&mut self, mut task: impl FnMut(&mut [f64], &mut [f64])) {
        // A graph has at least one node.
        let n = self.num_nodes.max(1);
        let imaginary = self.imaginary.chunks_exact_mut(n);
        let vectors = self.real.chunks_exact_mut(n).zip(imaginary);
        vectors.for_each(|(real, imaginary)| task(real, imaginary));
    }

    /// Number of nodes, the length of an eigenvector.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// The eigenvalues, ascending.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// Real and imaginary part of the eigenvectors, in the order of the eigenvalues.
    pub fn eigenvectors(&self) -> impl ExactSizeIterator<Item = [&[f64]; 2]> {
        // A graph has at least one node.
        let n = self.num_nodes.max(1);
        let parts = self
            .real
            .chunks_exact(n)
            .zip(self.imaginary.chunks_exact(n));
        parts.map(|(real, imaginary)| [real, imaginary])
    }

    /// Leaves the first `count` eigenvalues and their vectors out.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.eigenvalues.len());
        self.eigenvalues.drain(..count);
        self.real.drain(..count * self.num_nodes);
        self.imaginary.drain(..count * self.num_nodes);
    }

    /// Turns every eigenvector so that its entry at one node, the root, is real and positive
    /// (`sign_rotate` of the official code, section D.2 of the paper). The root is `root` or, without
    /// one, the node whose entry of the first eigenvector has the largest imaginary part; of those
    /// that are equal up to 1e-8 of the largest entry, the first. A vector whose entry at the root
    /// is 0 (below 1e-8 of the largest one) keeps the phase and sign that the type fixes.
    ///
    /// # Errors
    /// The root is not a node of the graph.
    pub fn rotate(&mut self, root: Option<usize>) -> Result<()> {
        let n = self.num_nodes;
        if let Some(root) = root.filter(|&root| root >= n) {
            return Err(Error::Spectrum(format!(
                "eigenvectors cannot be turned after node {root} of a graph of {n} nodes"
            )));
        }
        let chosen = |spectrum: &Self| {
            let first = spectrum.eigenvectors().next();
            first.and_then(|[real, imaginary]| gauge::root(real, imaginary))
        };
        if let Some(root) = root.or_else(|| chosen(self)) {
            self.for_each_vector(|real, imaginary| {
                gauge::turn(real, imaginary, root);
            });
        }
        Ok(())
    }

    /// Scales every eigenvector (unit length is how they come). As in the official code, a part on
    /// its own is left as it is where the mean magnitude of its entries is not above 1e-8/√n, as it
    /// may be nothing but rounding.
    pub fn scale(&mut self, by: VectorScale) {
        let noise = 1e-8 / (self.num_nodes.max(1) as f64).sqrt();
        self.for_each_vector(|real, imaginary| {
            match by {
                VectorScale::UnitLength => {}
                VectorScale::LargestModulus => {
                    let largest = gauge::largest(real, imaginary);
                    divide(real, largest);
                    divide(imaginary, largest);
                }
                VectorScale::UnitLengthOfParts | VectorScale::LargestOfParts => {
                    for part in [real, imaginary] {
                        let sum: f64 = part.iter().map(|v| v.abs()).sum();
                        let size = match by {
                            VectorScale::LargestOfParts => {
                                part.iter().fold(0.0f64, |most, v| most.max(v.abs()))
                            }
                            _ => part.iter().map(|v| v * v).sum::<f64>().sqrt(),
                        };
                        if sum / part.len() as f64 > noise {
                            divide(part, size);
                        }
                    }
                }
            };
        });
    }
}

/// Up to this many nodes a dense decomposition is always taken.
const DENSE_NODES: usize = 800;

/// Whether [`MagneticSpectrum::lowest`] decomposes densely.
fn is_dense(num_nodes: usize, count: usize) -> bool {
    let worth_while = num_nodes > DENSE_NODES && iterative::is_small_part(num_nodes, count);
    // Where a dense decomposition takes too much, iteration may still be possible.
    let needed = dense::check(num_nodes).is_err() && iterative::is_possible(num_nodes, count);
    !(worth_while || needed)
}

/// How eigenvectors of a [`MagneticLaplacian`] are scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorScale {
    /// Unit length (`l2_norm`).
    UnitLength,
    /// The largest modulus of an entry is 1.
    LargestModulus,
    /// Real and imaginary part of unit length each (`l2_norm` and `norm_comps_sep`).
    UnitLengthOfParts,
    /// The largest magnitude of either part is 1 (`norm_comps_sep`).
    LargestOfParts,
}

fn divide(part: &mut [f64], by: f64) {
    if by > 0.0 {
        part.iter_mut().for_each(|v| *v /= by);
    }
}
