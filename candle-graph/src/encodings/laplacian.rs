//! Laplacian positional encoding (LapPE): the smallest eigenvalues of the graph's Laplacian and
//! their eigenvectors.

use std::f64::consts::FRAC_PI_2;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spectra::Spectra;
use super::values::array;
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::spectral::LaplacianNorm;

/// Array name of the eigenvectors of LapPE, `[nodes, frequencies]`, 0 where the mask is 0.
pub const LAP_PE_EIGENVECTORS: &str = "lap_pe.eigenvectors";
/// Array name of the eigenvalues of LapPE, `[nodes, frequencies]`, the same in every row of a
/// graph, 0 where the mask is 0.
pub const LAP_PE_EIGENVALUES: &str = "lap_pe.eigenvalues";
/// Array name of the mask of LapPE, `[nodes, frequencies]`: 1 for the frequencies that the graph
/// has, 0 for the others.
pub const LAP_PE_MASK: &str = "lap_pe.mask";
/// Array name of the eigenvectors of SignNet, `[nodes, frequencies]`, 0 for the frequencies that
/// the graph does not have. They may come from another Laplacian than those of LapPE.
pub const SIGN_NET_EIGENVECTORS: &str = "sign_net.eigenvectors";

/// LapPE: the `frequencies` smallest eigenvalues of the Laplacian, the trivial ones included, and
/// their eigenvectors.
///
/// A graph of fewer nodes has fewer eigenvalues. The official code fills up with NaN; here the
/// columns are 0 and [`LAP_PE_MASK`] marks them. Edges, eigenvalues and the sign of eigenvectors
/// are as [`Laplacian`](crate::spectral::Laplacian) and
/// [`Spectrum`](crate::spectral::Spectrum) say; the basis of a multiple eigenvalue's space is
/// arbitrary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LapPe {
    /// Number of columns (`posenc_LapPE.eigen.max_freqs`).
    pub frequencies: usize,
    /// Which Laplacian (`posenc_LapPE.eigen.laplacian_norm`).
    pub laplacian_norm: LaplacianNorm,
    /// How eigenvectors are scaled (`posenc_LapPE.eigen.eigvec_norm`).
    pub eigvec_norm: EigvecNorm,
}

/// How an eigenvector `v` with the eigenvalue `λ` is scaled (`eigvec_norm` of GraphGPS). Where `λ`
/// is below 1e-12, 1 stands for `√λ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EigvecNorm {
    /// `v / Σ|v|`.
    L1,
    /// `v / √Σv²`.
    L2,
    /// `v / max|v|`.
    #[serde(rename = "abs-max")]
    AbsMax,
    /// `v / max|v| · π / (2·√λ)`.
    #[serde(rename = "wavelength")]
    Wavelength,
    /// `asin(v / max|v|) / √λ`.
    #[serde(rename = "wavelength-asin")]
    WavelengthAsin,
    /// `v / (Σ softmax(|v|)·|v| · √λ)`.
    #[serde(rename = "wavelength-soft")]
    WavelengthSoft,
}

impl EigvecNorm {
    /// Every scaling.
    pub const ALL: [Self; 6] = [
        Self::L1,
        Self::L2,
        Self::AbsMax,
        Self::Wavelength,
        Self::WavelengthAsin,
        Self::WavelengthSoft,
    ];

    /// The official name, as it is serialised.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::AbsMax => "abs-max",
            Self::Wavelength => "wavelength",
            Self::WavelengthAsin => "wavelength-asin",
            Self::WavelengthSoft => "wavelength-soft",
        }
    }

    /// Scales `vector`, whose eigenvalue is `value`.
    fn scale(self, vector: &mut [f64], value: f64) {
        const SMALLEST: f64 = 1e-12;
        let magnitudes = || vector.iter().map(|v| v.abs());
        let largest = magnitudes().fold(0.0, f64::max);
        let root = if value < SMALLEST { 1.0 } else { value.sqrt() };
        let divisor = match self {
            Self::L1 => magnitudes().sum(),
            Self::L2 => vector.iter().map(|v| v * v).sum::<f64>().sqrt(),
            Self::AbsMax => largest,
            Self::Wavelength => largest * root / FRAC_PI_2,
            Self::WavelengthAsin => {
                let largest = largest.max(SMALLEST);
                vector.iter_mut().for_each(|v| *v = (*v / largest).asin());
                root
            }
            Self::WavelengthSoft => {
                let weights = || magnitudes().map(|m| (m - largest).exp());
                let weighted: f64 = weights().zip(magnitudes()).map(|(w, m)| w * m).sum();
                weighted / weights().sum::<f64>() * root
            }
        };
        let divisor = divisor.max(SMALLEST);
        vector.iter_mut().for_each(|v| *v /= divisor);
    }
}

impl fmt::Display for EigvecNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EigvecNorm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|norm| norm.name() == text);
        found.ok_or_else(|| {
            Error::Encoding(format!(
                "unknown scaling of eigenvectors `{text}`; known: {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}

impl LapPe {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 2;

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        [LAP_PE_EIGENVECTORS, LAP_PE_EIGENVALUES, LAP_PE_MASK]
            .map(|name| (name, Level::Node, self.frequencies))
            .to_vec()
    }

    pub(super) fn sign_net_arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(SIGN_NET_EIGENVECTORS, Level::Node, self.frequencies)]
    }

    /// Checks the parameters; `name` is what the encoding is called in messages.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        if self.frequencies == 0 || self.frequencies > 4096 {
            return Err(Error::Encoding(format!(
                "{name} with {} frequencies; it needs 1 to 4096",
                self.frequencies
            )));
        }
        Ok(())
    }

    /// The arrays of LapPE.
    pub(super) fn compute(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
    ) -> Result<Vec<EncodingArray>> {
        let (n, width) = (graph.num_nodes(), self.frequencies);
        let [mut vectors, mut values, mut mask] = [(); 3].map(|()| vec![0.0f32; n * width]);
        self.fill(spectra, &mut vectors, |at, value| {
            values[at] = value as f32;
            mask[at] = 1.0;
        })?;
        let named = self.arrays().into_iter().zip([vectors, values, mask]);
        Ok(named.map(array).collect())
    }

    /// The array of SignNet.
    pub(super) fn compute_sign_net(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
    ) -> Result<Vec<EncodingArray>> {
        let mut vectors = vec![0.0f32; graph.num_nodes() * self.frequencies];
        self.fill(spectra, &mut vectors, |_, _| {})?;
        let named = self.sign_net_arrays().into_iter().zip([vectors]);
        Ok(named.map(array).collect())
    }

    /// Writes the scaled eigenvectors to the columns of `vectors`, `[nodes, frequencies]`, and
    /// calls `entry` with the place and the eigenvalue of every value written.
    fn fill(
        &self,
        spectra: &Spectra<'_>,
        vectors: &mut [f32],
        mut entry: impl FnMut(usize, f64),
    ) -> Result<()> {
        let width = self.frequencies;
        let spectrum = spectra.lowest(self.laplacian_norm, width)?;
        let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
        for (column, (&value, vector)) in pairs.take(width).enumerate() {
            let mut vector = vector.to_vec();
            self.eigvec_norm.scale(&mut vector, value);
            for (row, x) in vector.into_iter().enumerate() {
                let at = row * width + column;
                vectors[at] = x as f32;
                entry(at, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(frequencies: usize, eigvec_norm: EigvecNorm) -> LapPe {
        LapPe {
            frequencies,
            laplacian_norm: LaplacianNorm::None,
            eigvec_norm,
        }
    }

    fn compute(recipe: &LapPe, graph: &Graph) -> Vec<EncodingArray> {
        recipe.compute(graph, &Spectra::new(graph, [])).unwrap()
    }

    fn path(n: usize) -> Graph {
        Graph::builder(n)
            .edges((1..n as i64).map(|i| [i - 1, i]))
            .undirected(true)
            .build()
            .unwrap()
    }

    #[test]
    fn frequencies_that_a_graph_lacks_are_masked_zeros() {
        let arrays = compute(&recipe(4, EigvecNorm::L2), &path(2));
        let data: Vec<&[f32]> = arrays.iter().map(|a| a.data.as_slice()).collect();
        let h = 0.5f32.sqrt();
        let near = |a: &[f32], b: [f32; 8]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near(data[0], [h, h, 0.0, 0.0, h, -h, 0.0, 0.0]), "{data:?}");
        assert!(near(data[1], [0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]));
        assert_eq!(data[2], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn each_scaling_is_its_formula() {
        // Path of 3 nodes: eigenvalues 0, 1, 3; vectors (1, 1, 1), (1, 0, −1), (−1, 2, −1).
        let (pi, e) = (std::f64::consts::PI, std::f64::consts::E);
        let r = |x: f64| x.sqrt();
        // Soft maxima of the unit vectors: Σ exp(|v|)·|v| / Σ exp(|v|).
        let soft = |unit: [f64; 3]| {
            let total: f64 = unit.iter().map(|m| e.powf(*m)).sum();
            unit.iter().map(|m| e.powf(*m) * m / total).sum::<f64>()
        };
        let (s1, s2) = (
            soft([r(0.5), 0.0, r(0.5)]),
            soft([1.0 / r(6.0), 2.0 / r(6.0), 1.0 / r(6.0)]),
        );
        // First and second entry of the three vectors.
        let third = 1.0 / 3.0;
        let expected = [
            (EigvecNorm::L1, [[third, third], [0.5, 0.0], [-0.25, 0.5]]),
            (
                EigvecNorm::L2,
                [
                    [r(third), r(third)],
                    [r(0.5), 0.0],
                    [-1.0 / r(6.0), 2.0 / r(6.0)],
                ],
            ),
            (EigvecNorm::AbsMax, [[1.0, 1.0], [1.0, 0.0], [-0.5, 1.0]]),
            (
                EigvecNorm::Wavelength,
                [
                    [pi / 2.0, pi / 2.0],
                    [pi / 2.0, 0.0],
                    [-pi / 4.0 / r(3.0), pi / 2.0 / r(3.0)],
                ],
            ),
            (
                EigvecNorm::WavelengthAsin,
                [
                    [pi / 2.0, pi / 2.0],
                    [pi / 2.0, 0.0],
                    [-pi / 6.0 / r(3.0), pi / 2.0 / r(3.0)],
                ],
            ),
            (
                EigvecNorm::WavelengthSoft,
                [
                    [1.0, 1.0],
                    [r(0.5) / s1, 0.0],
                    [-1.0 / r(6.0) / s2 / r(3.0), 2.0 / r(6.0) / s2 / r(3.0)],
                ],
            ),
        ];
        assert_eq!(expected.map(|(norm, _)| norm), EigvecNorm::ALL);
        for (norm, vectors) in expected {
            let data = compute(&recipe(3, norm), &path(3)).remove(0).data;
            for (column, vector) in vectors.iter().enumerate() {
                for (row, value) in vector.iter().enumerate() {
                    let found = f64::from(data[row * 3 + column]);
                    // asin is steep near 1, where it turns an error of 1e-16 into 1e-8.
                    assert!(
                        (found - value).abs() < 1e-6,
                        "{norm} [{row}, {column}]: {found}, not {value}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for norm in EigvecNorm::ALL {
            assert_eq!(norm.name().parse::<EigvecNorm>().unwrap(), norm);
            assert_eq!(serde_json::to_value(norm).unwrap(), norm.name());
        }
        assert!("l2".parse::<EigvecNorm>().is_err());
    }
}
