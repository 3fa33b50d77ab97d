//! Comparison of complex eigenvectors that depends neither on their phase nor on the basis of the
//! space of a multiple eigenvalue.

use super::MagneticSpectrum;
use crate::spectral::subspace::{SAME_EIGENVALUE, worst};

impl MagneticSpectrum {
    /// The largest entry by which `vectors`, real and imaginary part of one an eigenvalue from the
    /// smallest on, fail to span the eigenspaces of this spectrum: as
    /// [`Spectrum::subspace_error`](crate::spectral::Spectrum::subspace_error).
    pub fn subspace_error<V: AsRef<[f64]>>(&self, vectors: &[[V; 2]]) -> f64 {
        let n = self.num_nodes();
        let fits = |part: &V| part.as_ref().len() == n;
        if !vectors.iter().flatten().all(fits) {
            return f64::INFINITY;
        }
        let ours: Vec<[&[f64]; 2]> = self.eigenvectors().collect();
        let mut error = 0.0f64;
        let mut rest = vectors;
        let mut start = 0;
        for space in self.eigenvalues().chunk_by(|a, b| b - a < SAME_EIGENVALUE) {
            let full = projector(n, &ours[start..start + space.len()]);
            start += space.len();
            let part: Vec<[&[f64]; 2]> = rest
                .iter()
                .take(space.len())
                .map(|[re, im]| [re.as_ref(), im.as_ref()])
                .collect();
            rest = rest.get(part.len()..).unwrap_or_default();
            if part.len() == space.len() {
                let theirs = projector(n, &part);
                error = error.max(worst(&theirs[0], &full[0]));
                error = error.max(worst(&theirs[1], &full[1]));
            }
            for vector in part {
                for (image, entries) in product(&full, vector).iter().zip(vector) {
                    error = error.max(worst(image, entries));
                }
            }
        }
        error
    }
}

/// `Σ v·vᴴ`, real and imaginary part, `[n, n]` each.
fn projector(n: usize, vectors: &[[&[f64]; 2]]) -> [Vec<f64>; 2] {
    let mut out = [(); 2].map(|()| vec![0.0; n * n]);
    for [re, im] in vectors {
        let [real, imaginary] = &mut out;
        let rows = real
            .chunks_exact_mut(n.max(1))
            .zip(imaginary.chunks_exact_mut(n.max(1)));
        for ((real, imaginary), (a, b)) in rows.zip(re.iter().zip(*im)) {
            let entries = real.iter_mut().zip(imaginary).zip(re.iter().zip(*im));
            for ((real, imaginary), (c, d)) in entries {
                *real += a * c + b * d;
                *imaginary += b * c - a * d;
            }
        }
    }
    out
}

/// A matrix `[n, n]` times a vector.
fn product(matrix: &[Vec<f64>; 2], [re, im]: [&[f64]; 2]) -> [Vec<f64>; 2] {
    let n = re.len().max(1);
    let [real, imaginary] = matrix;
    let dot = |row: &[f64], v: &[f64]| row.iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
    let rows = || real.chunks_exact(n).zip(imaginary.chunks_exact(n));
    [
        rows().map(|(a, b)| dot(a, re) - dot(b, im)).collect(),
        rows().map(|(a, b)| dot(a, im) + dot(b, re)).collect(),
    ]
}
