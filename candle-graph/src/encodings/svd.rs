//! Singular vectors of the adjacency matrix.

use faer::Mat;
use serde::{Deserialize, Serialize};

use super::values::array;
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::spectral::MAX_DENSE_BYTES;

/// Array name of the SVD encoding, `[nodes, 2·rank]`: `U·√S`, then `V·√S`.
pub const SVD: &str = "svd";

/// The singular vectors of the adjacency matrix with the largest singular values, scaled by their
/// roots ("Global Self-Attention as a Replacement for Graph Convolution", equation 5): `A ≈ U·S·Vᵀ`.
///
/// A counts repeated edges and self loops: `A[s, t]` is the number of edges from s to t. The matrix
/// is that of the graph alone; the official code decomposes padded matrices, in whose last corner
/// padded edges pile up.
///
/// The entry of largest magnitude of a column of U is positive, that of the first node counting
/// where others are equal up to a relative 1e-8; the column of V follows. The bases of spaces of
/// equal singular values are the solver's. Columns beyond the number of nodes, and those of singular
/// values of 0, are 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Svd {
    /// Number of singular vectors on either side (`rank`, `top_k_eigenvectors`).
    pub rank: usize,
}

/// The largest singular values of a matrix `[n, n]`, descending, and their vectors of unit length.
#[derive(Debug, Clone, PartialEq)]
pub struct SingularVectors {
    /// The singular values.
    pub values: Vec<f64>,
    /// Columns of U, `n` entries each, one after the other.
    pub left: Vec<f64>,
    /// Columns of V, `n` entries each, one after the other.
    pub right: Vec<f64>,
}

impl Svd {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(SVD, Level::Node, self.rank.saturating_mul(2))]
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.rank == 0 || self.rank > 4096 {
            return Err(Error::Encoding(format!(
                "SVD of rank {}; it needs 1 to 4096",
                self.rank
            )));
        }
        Ok(())
    }

    pub(super) fn check_graph(&self, graph: &Graph) -> Result<()> {
        // A, U, V and three matrices of the solver's own.
        let n = graph.num_nodes() as u64;
        let bytes = n.saturating_mul(n).saturating_mul(48);
        if bytes > MAX_DENSE_BYTES {
            return Err(Error::Encoding(format!(
                "the singular value decomposition for {n} nodes takes {bytes} bytes, more than the \
                 limit of {MAX_DENSE_BYTES}: leave the graph out or use a model without it"
            )));
        }
        Ok(())
    }

    /// The singular values and vectors of the adjacency matrix of `graph`, in f64: as many as it
    /// has, at most `rank`. Found on one thread.
    ///
    /// # Errors
    /// The graph is too large, or the solver does not converge.
    pub fn decompose(&self, graph: &Graph) -> Result<SingularVectors> {
        self.check_graph(graph)?;
        let n = graph.num_nodes();
        let mut adjacency = Mat::<f64>::zeros(n, n);
        for &[s, t] in graph.edges() {
            adjacency[(s as usize, t as usize)] += 1.0;
        }
        let svd = adjacency.svd().map_err(|_| {
            Error::Encoding(format!(
                "the singular value decomposition for {n} nodes did not converge"
            ))
        })?;
        let count = self.rank.min(n);
        let values = svd.S().column_vector();
        let largest = values.iter().copied().fold(0.0, f64::max);
        let resolution = n as f64 * f64::EPSILON * largest;
        let mut found = SingularVectors {
            values: Vec::with_capacity(count),
            left: Vec::with_capacity(count * n),
            right: Vec::with_capacity(count * n),
        };
        for at in 0..count {
            let value = values[at];
            found
                .values
                .push(if value > resolution { value } else { 0.0 });
            let left: Vec<f64> = svd.U().col(at).iter().copied().collect();
            let sign = sign_of(&left);
            found.left.extend(left.iter().map(|v| sign * v));
            let right = svd.V().col(at).iter();
            found.right.extend(right.map(|v| sign * v));
        }
        Ok(found)
    }

    pub(super) fn compute(&self, graph: &Graph) -> Result<Vec<EncodingArray>> {
        let n = graph.num_nodes();
        let found = self.decompose(graph)?;
        let width = 2 * self.rank;
        let mut out = vec![0.0f32; n * width];
        for (at, value) in found.values.iter().enumerate() {
            let root = value.sqrt();
            for (first, side) in [(0, &found.left), (self.rank, &found.right)] {
                let column = side.iter().skip(at * n).take(n);
                let entries = out.iter_mut().skip(first + at).step_by(width);
                entries
                    .zip(column)
                    .for_each(|(out, v)| *out = (root * v) as f32);
            }
        }
        Ok(self.arrays().into_iter().zip([out]).map(array).collect())
    }
}

/// The sign of the entry of largest magnitude, 1 or −1.
fn sign_of(column: &[f64]) -> f64 {
    let largest = column.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let first = column.iter().find(|v| v.abs() >= largest * (1.0 - 1e-8));
    if first.is_some_and(|&v| v < 0.0) {
        -1.0
    } else {
        1.0
    }
}
