//! Diagonals and row sums of heat kernels (WavePE).

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::spectral::{LaplacianNorm, Spectrum};

/// The heat kernels exp(−s·L) of some scales s: first `exp(−s·L)[i, i]` for every scale, then the
/// row sums `Σ_j exp(−s·L)[i, j]` for every scale (equation 32).
///
/// Rows of the combinatorial Laplacian `D − A`, which is the paper's L, sum to 0, so the row sums of
/// its heat kernels are 1 for every graph and every scale: with it, the second half of the columns
/// tells nothing. The row sums of the symmetric normalised Laplacian vary with the degrees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// The scales s, finite and not negative.
    pub scales: Vec<f64>,
    /// Which Laplacian: `none` (combinatorial), which is the default, or `sym`.
    #[serde(default = "combinatorial")]
    pub laplacian_norm: LaplacianNorm,
}

fn combinatorial() -> LaplacianNorm {
    LaplacianNorm::None
}

impl Wave {
    fn bits(&self) -> impl Iterator<Item = u64> + '_ {
        self.scales.iter().map(|scale| scale.to_bits())
    }

    pub(super) fn check(&self) -> Result<()> {
        let unusable = |s: &&f64| !(s.is_finite() && **s >= 0.0);
        if let Some(scale) = self.scales.iter().find(unusable) {
            return Err(Error::Encoding(format!(
                "WavePE with the scale {scale}; scales are finite and not negative"
            )));
        }
        match self.laplacian_norm {
            LaplacianNorm::None | LaplacianNorm::Sym => Ok(()),
            norm => Err(Error::Encoding(format!(
                "WavePE with the Laplacian `{norm}`, which is not symmetric; use `none` or `sym`"
            ))),
        }
    }

    /// The values for a graph whose whole spectrum is given, `[nodes, 2·scales]`.
    pub(super) fn values(&self, spectrum: &Spectrum) -> Vec<f32> {
        let scales = self.scales.len();
        let mut sums = vec![0.0f64; spectrum.num_nodes() * 2 * scales];
        let mut decay = vec![0.0f64; scales];
        let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
        for (value, vector) in pairs {
            for (factor, scale) in decay.iter_mut().zip(&self.scales) {
                *factor = (-scale * value).exp();
            }
            let total: f64 = vector.iter().sum();
            for (row, x) in sums.chunks_exact_mut(2 * scales).zip(vector) {
                let (diagonal, row_sums) = row.split_at_mut(scales);
                for ((d, r), factor) in diagonal.iter_mut().zip(row_sums).zip(&decay) {
                    *d += factor * x * x;
                    *r += factor * x * total;
                }
            }
        }
        sums.into_iter().map(|v| v as f32).collect()
    }
}

impl PartialEq for Wave {
    fn eq(&self, other: &Self) -> bool {
        self.laplacian_norm == other.laplacian_norm && self.bits().eq(other.bits())
    }
}

impl Eq for Wave {}

impl Hash for Wave {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.laplacian_norm.hash(state);
        state.write_usize(self.scales.len());
        self.bits().for_each(|bits| state.write_u64(bits));
    }
}
