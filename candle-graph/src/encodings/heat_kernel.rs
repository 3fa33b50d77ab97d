//! Diagonals of heat kernels (HKdiagSE).

use serde::{Deserialize, Serialize};

use super::spectra::Spectra;
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::spectral::LaplacianNorm;

/// Array name of the diagonals of heat kernels, `[nodes, times]`.
pub const HEAT_KERNEL: &str = "heat_kernel";

/// `Σ_i exp(−t·λ_i)·φ_i(v)²` over the positive eigenvalues of the combinatorial Laplacian, for
/// every time `t` (`posenc_HKdiagSE.kernel.times`).
///
/// Eigenvalues below 1e-8 are left out, as in the official code. That decomposes in single
/// precision, where an eigenvalue that should be 0 may come out as 1e-7 and then counts, so that
/// its values are larger by up to 1 over the size of the node's component; here such an eigenvalue
/// is 0 and is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeatKernel {
    /// Diffusion times.
    pub times: Vec<u32>,
}

impl HeatKernel {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(HEAT_KERNEL, Level::Node, self.times.len())]
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.times.is_empty() {
            true => Err(Error::Encoding("HKdiagSE without times".to_string())),
            false => Ok(()),
        }
    }

    pub(super) fn compute(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
    ) -> Result<Vec<EncodingArray>> {
        const SMALLEST: f64 = 1e-8;
        let (n, width) = (graph.num_nodes(), self.times.len());
        let spectrum = spectra.lowest(LaplacianNorm::None, n)?;
        let mut sums = vec![0.0f64; n * width];
        let mut decay = vec![0.0f64; width];
        let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
        for (&value, vector) in pairs.filter(|&(&value, _)| value >= SMALLEST) {
            for (factor, &time) in decay.iter_mut().zip(&self.times) {
                *factor = (-f64::from(time) * value).exp();
            }
            for (row, x) in sums.chunks_exact_mut(width).zip(vector) {
                for (sum, factor) in row.iter_mut().zip(&decay) {
                    *sum += factor * x * x;
                }
            }
        }
        Ok(vec![EncodingArray {
            name: HEAT_KERNEL.to_string(),
            level: Level::Node,
            width,
            data: sums.into_iter().map(|v| v as f32).collect(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(times: &[u32], graph: &Graph) -> Vec<f32> {
        let recipe = HeatKernel {
            times: times.to_vec(),
        };
        let arrays = recipe.compute(graph, &Spectra::new(graph, []));
        arrays.unwrap().remove(0).data
    }

    #[test]
    fn a_path_has_the_kernels_of_its_known_spectrum() {
        // Eigenvalues 0, 1, 3 with (1, 0, −1)/√2 and (−1, 2, −1)/√6.
        let path = Graph::builder(3)
            .edges([[0, 1], [1, 2]])
            .undirected(true)
            .build()
            .unwrap();
        let found = values(&[1, 2], &path);
        let kernel = |t: f64, a: f64, b: f64| a * (-t).exp() + b * (-3.0 * t).exp();
        let end = [kernel(1.0, 0.5, 1.0 / 6.0), kernel(2.0, 0.5, 1.0 / 6.0)];
        let middle = [kernel(1.0, 0.0, 2.0 / 3.0), kernel(2.0, 0.0, 2.0 / 3.0)];
        for (found, expected) in found.iter().zip([end, middle, end].as_flattened()) {
            assert!((f64::from(*found) - expected).abs() < 1e-7, "{found}");
        }
    }

    #[test]
    fn eigenvalues_of_zero_do_not_count() {
        // At time 0 the kernel is 1 − 1/(size of the component).
        let graph = Graph::builder(4)
            .edges([[0, 1], [1, 2]])
            .undirected(true)
            .build()
            .unwrap();
        let third = 2.0 / 3.0;
        for (found, expected) in values(&[0], &graph).iter().zip([third, third, third, 0.0]) {
            assert!((found - expected).abs() < 1e-6, "{found}");
        }
    }
}
