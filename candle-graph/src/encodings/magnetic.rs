//! Eigenvectors of the Magnetic Laplacian, from "Transformers Meet Directed Graphs".

use serde::{Deserialize, Serialize};

use super::values::array;
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::spectral::{MagneticLaplacian, MagneticSpectrum, Potential, VectorScale};

/// Array name of the eigenvalues of the Magnetic Laplacian, `[1, k]`, 0 beyond those that the graph
/// has.
pub const MAGNETIC_EIGENVALUES: &str = "magnetic.eigenvalues";
/// Array name of the real parts of the eigenvectors of the Magnetic Laplacian, `[nodes, k]`, 0
/// beyond those that the graph has.
pub const MAGNETIC_EIGENVECTORS_REAL: &str = "magnetic.eigenvectors_real";
/// Array name of the imaginary parts; there are none where the potential is 0.
pub const MAGNETIC_EIGENVECTORS_IMAG: &str = "magnetic.eigenvectors_imag";

/// The smallest eigenvalues of the Magnetic Laplacian and their eigenvectors.
///
/// A graph of n nodes has `n − excluded` of them; the other columns are 0. So are eigenvalues of 0,
/// of which a graph may have one a connected component: count nodes, not zeros, to tell them apart.
/// Matrix, phases and signs are as [`MagneticLaplacian`] and [`MagneticSpectrum`] say. As in the
/// official code, a potential of 0 gives real eigenvectors of unit length, whatever `sign_rotate`,
/// `l2_norm` and `separate_parts` say; their entry of largest magnitude is positive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Magnetic {
    /// Number of columns (`k`, `top_k_eigenvectors`).
    pub k: usize,
    /// How many of the first eigenvectors are left out (`k_excl`, `excl_k_eigenvectors`).
    #[serde(default)]
    pub excluded: usize,
    /// The potential: q (`q_absolute`) or q', which the size of the graph divides.
    pub q: Potential,
    /// Whether the Laplacian is symmetric normalised (`use_symmetric_norm`).
    pub symmetric_norm: bool,
    /// Whether the eigenvectors are turned after a root node
    /// ([`MagneticSpectrum::rotate`], `sign_rotate`).
    pub sign_rotate: bool,
    /// The root node of every graph where the task has one, such as the first node of a program
    /// (section D.2 of the paper; not in the official code). Without it the root is found from the
    /// first eigenvector. Only together with `sign_rotate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<usize>,
    /// Whether eigenvectors have unit length; else their largest entry has modulus 1 (`l2_norm`).
    pub l2_norm: bool,
    /// Whether real and imaginary parts are scaled each on its own (`norm_comps_sep`).
    #[serde(default)]
    pub separate_parts: bool,
}

impl Magnetic {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    /// Whether eigenvectors have imaginary parts: those of the potential 0 do not.
    pub fn is_complex(&self) -> bool {
        self.q.value() != 0.0
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        let mut arrays = vec![
            (MAGNETIC_EIGENVALUES, Level::Graph, self.k),
            (MAGNETIC_EIGENVECTORS_REAL, Level::Node, self.k),
        ];
        if self.is_complex() {
            arrays.push((MAGNETIC_EIGENVECTORS_IMAG, Level::Node, self.k));
        }
        arrays
    }

    pub(super) fn check(&self) -> Result<()> {
        for (what, number, least) in [
            ("eigenvectors", self.k, 1),
            ("excluded eigenvectors", self.excluded, 0),
        ] {
            if !(least..=4096).contains(&number) {
                return Err(Error::Encoding(format!(
                    "Magnetic Laplacian with {number} {what}; it needs {least} to 4096"
                )));
            }
        }
        if let (Some(root), false) = (self.root, self.sign_rotate) {
            return Err(Error::Encoding(format!(
                "Magnetic Laplacian with the root node {root}, but eigenvectors are turned after a \
                 root only with sign_rotate"
            )));
        }
        self.q.check()
    }

    pub(super) fn check_graph(&self, graph: &Graph) -> Result<()> {
        let n = graph.num_nodes();
        if let Some(root) = self.root.filter(|&root| root >= n) {
            return Err(Error::Encoding(format!(
                "the recipe turns eigenvectors after node {root}, but the graph has {n} nodes"
            )));
        }
        MagneticSpectrum::check(n, self.sought())
    }

    fn sought(&self) -> usize {
        self.k.saturating_add(self.excluded)
    }

    /// The eigenvalues and vectors of `graph`, in f64: as many as it has, at most `k`.
    ///
    /// # Errors
    /// The graph is too large, has no node of the root's number, or the solver does not converge.
    pub fn spectrum(&self, graph: &Graph) -> Result<MagneticSpectrum> {
        let laplacian = MagneticLaplacian::builder(graph, self.q)
            .symmetric_norm(self.symmetric_norm)
            .build()?;
        let mut spectrum = MagneticSpectrum::lowest(&laplacian, self.sought())?;
        spectrum.skip(self.excluded);
        if self.is_complex() {
            if self.sign_rotate {
                spectrum.rotate(self.root)?;
            }
            spectrum.scale(match (self.separate_parts, self.l2_norm) {
                (false, true) => VectorScale::UnitLength,
                (false, false) => VectorScale::LargestModulus,
                (true, true) => VectorScale::UnitLengthOfParts,
                (true, false) => VectorScale::LargestOfParts,
            });
        }
        Ok(spectrum)
    }

    pub(super) fn compute(&self, graph: &Graph) -> Result<Vec<EncodingArray>> {
        let spectrum = self.spectrum(graph)?;
        let (n, k) = (graph.num_nodes(), self.k);
        let mut values = vec![0.0f32; k];
        for (out, value) in values.iter_mut().zip(spectrum.eigenvalues()) {
            *out = *value as f32;
        }
        let mut parts = [(); 2].map(|()| vec![0.0f32; n * k]);
        for (column, vector) in spectrum.eigenvectors().enumerate() {
            for (part, vector) in parts.iter_mut().zip(vector) {
                let entries = part.iter_mut().skip(column).step_by(k);
                entries.zip(vector).for_each(|(out, v)| *out = *v as f32);
            }
        }
        let data = std::iter::once(values).chain(parts);
        Ok(self.arrays().into_iter().zip(data).map(array).collect())
    }
}
