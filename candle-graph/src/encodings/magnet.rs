//! The matrix that the MagNet baseline of "Transformers Meet Directed Graphs" convolves with.

use serde::{Deserialize, Serialize};

use super::values::array;
use super::{EncodingArray, Level};
use crate::error::Result;
use crate::graph::Graph;
use crate::spectral::{MagneticLaplacian, MagneticSpectrum, Potential};

/// Array name of the Magnetic Laplacian in full, `[pairs, 2]`: real and imaginary part. The pair
/// (source `s`, target `t`) holds `L[s, t]`.
pub const MAGNET_LAPLACIAN: &str = "magnet.laplacian";
/// Array name of its largest eigenvalue, `[1, 1]`.
pub const MAGNET_LARGEST_EIGENVALUE: &str = "magnet.largest_eigenvalue";

/// The symmetric normalised Magnetic Laplacian of MagNet ("MagNet: A Neural Network for Directed
/// Graphs") with its largest eigenvalue.
///
/// The official code of the baseline, as released, hides rows of nodes by a mask over padded
/// batches, loses edges there, and takes the largest eigenvalue of all graphs of a batch; this is
/// the matrix of each graph and its own eigenvalue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MagNet {
    /// The potential: q (`q_absolute`) or q', which the size of the graph divides.
    pub q: Potential,
}

impl MagNet {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![
            (MAGNET_LAPLACIAN, Level::Pair, 2),
            (MAGNET_LARGEST_EIGENVALUE, Level::Graph, 1),
        ]
    }

    pub(super) fn check(&self) -> Result<()> {
        self.q.check()
    }

    pub(super) fn check_graph(&self, graph: &Graph) -> Result<()> {
        MagneticSpectrum::check(graph.num_nodes(), graph.num_nodes())
    }

    /// The matrix of `graph`, sparse and in f64.
    ///
    /// # Errors
    /// An unusable potential.
    pub fn laplacian(&self, graph: &Graph) -> Result<MagneticLaplacian> {
        MagneticLaplacian::builder(graph, self.q).build()
    }

    pub(super) fn compute(&self, graph: &Graph) -> Result<Vec<EncodingArray>> {
        let n = graph.num_nodes();
        let laplacian = self.laplacian(graph)?;
        let mut pairs = vec![0.0f32; 2 * n * n];
        let mut set = |s: usize, t: usize, re: f64, im: f64| {
            let at = 2 * (t * n + s);
            pairs[at] = re as f32;
            pairs[at + 1] = im as f32;
        };
        for (i, &value) in laplacian.diagonal().iter().enumerate() {
            set(i, i, value, 0.0);
        }
        for (i, j, [re, im]) in laplacian.below() {
            set(i, j, re, im);
            set(j, i, re, -im);
        }
        let largest = MagneticSpectrum::largest_eigenvalue(&laplacian)?;
        let data = [pairs, vec![largest as f32]];
        Ok(self.arrays().into_iter().zip(data).map(array).collect())
    }
}
