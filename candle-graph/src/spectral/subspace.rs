//! Comparison of eigenvectors that does not depend on their sign, nor on the basis of the space of
//! a multiple eigenvalue.

use std::ops::Range;

use super::Spectrum;

/// Eigenvalues that are closer than this count as one.
pub(super) const SAME_EIGENVALUE: f64 = 1e-6;

impl Spectrum {
    /// The largest entry by which `vectors`, one an eigenvalue from the smallest on, fail to span
    /// the eigenspaces of this spectrum: the difference of the projectors on every space that
    /// `vectors` has in full; and of every vector the part outside its space, which is all that can
    /// be said of a space that the last of them cuts. The vectors must have unit length;
    /// infinite when one has another number of entries than the graph has nodes.
    pub fn subspace_error<V: AsRef<[f64]>>(&self, vectors: &[V]) -> f64 {
        let n = self.num_nodes();
        if vectors.iter().any(|v| v.as_ref().len() != n) {
            return f64::INFINITY;
        }
        let mut error = 0.0f64;
        for (range, full) in self.projectors() {
            let end = range.end.min(vectors.len());
            let Some(part) = vectors
                .get(range.start..end)
                .filter(|part| !part.is_empty())
            else {
                break;
            };
            if part.len() == range.len() {
                error = error.max(worst(&projector(n, part), &full));
            }
            for v in part.iter().map(AsRef::as_ref) {
                let image: Vec<f64> = full
                    .chunks_exact(n)
                    .map(|row| row.iter().zip(v).map(|(p, x)| p * x).sum())
                    .collect();
                error = error.max(worst(&image, v));
            }
        }
        error
    }

    /// Projectors on the spaces of equal eigenvalues, `[n, n]` each, with the positions of the
    /// eigenvalues.
    fn projectors(&self) -> Vec<(Range<usize>, Vec<f64>)> {
        let vectors: Vec<&[f64]> = self.eigenvectors().collect();
        let mut start = 0;
        let equal = |a: &f64, b: &f64| b - a < SAME_EIGENVALUE;
        let runs = self.eigenvalues().chunk_by(equal);
        runs.map(|run| {
            let range = start..start + run.len();
            start = range.end;
            (range.clone(), projector(self.num_nodes(), &vectors[range]))
        })
        .collect()
    }
}

/// `Σ v·vᵀ`, `[n, n]`.
fn projector<V: AsRef<[f64]>>(n: usize, vectors: &[V]) -> Vec<f64> {
    let mut out = vec![0.0; n * n];
    for v in vectors.iter().map(AsRef::as_ref) {
        for (row, a) in out.chunks_exact_mut(n.max(1)).zip(v) {
            for (entry, b) in row.iter_mut().zip(v) {
                *entry += a * b;
            }
        }
    }
    out
}

/// The largest difference; infinite where one is not a number.
pub(super) fn worst(a: &[f64], b: &[f64]) -> f64 {
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, |worst, d| match d.is_nan() {
        true => f64::INFINITY,
        false => worst.max(d),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::spectral::{Laplacian, LaplacianNorm, MAX_DENSE_BYTES};

    #[test]
    fn the_comparison_sees_what_differs_and_nothing_else() {
        let ring = Graph::builder(6).edges((0..6).map(|i| [i, (i + 1) % 6]));
        let laplacian = Laplacian::new(&ring.build().unwrap(), LaplacianNorm::None);
        let all = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap();
        let vectors: Vec<Vec<f64>> = all.eigenvectors().map(<[f64]>::to_vec).collect();
        // Eigenvalues 0, 1, 1, 3, 3, 4: turning inside a double one changes nothing.
        let mix = |a: &[f64], b: &[f64], sign: f64| -> Vec<f64> {
            let both = a.iter().zip(b);
            both.map(|(a, b)| 0.6 * a + sign * 0.8 * b).collect()
        };
        let mut turned = vectors.clone();
        turned[1] = mix(&vectors[1], &vectors[2], 1.0);
        turned[2] = mix(&vectors[2], &vectors[1], -1.0);
        assert!(all.subspace_error(&turned) < 1e-12);
        assert!(all.subspace_error(&turned[..2]) < 1e-12);
        turned[2] = turned[1].clone();
        assert!(all.subspace_error(&turned) > 0.1);
        let mut leaving = vectors.clone();
        leaving[2] = mix(&vectors[2], &vectors[3], 1.0);
        assert!(all.subspace_error(&leaving) > 0.1);
        assert!(all.subspace_error(&[vec![1.0; 5]]).is_infinite());
    }
}
