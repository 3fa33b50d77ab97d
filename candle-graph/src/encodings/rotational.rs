//! Rotational features: the coordinates of the nodes from which rotary encodings make angles
//! (r_i of "Rotary Position Encodings for Graphs", `batch.t` of the official code).

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::{EncodingArray, Level, Rwse};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::spectral::LaplacianNorm;

/// Array name of the rotational features, `[nodes, dim]`.
pub const ROTATIONAL: &str = "rotational";

/// What the coordinates of a node are. A graph that carries coordinates of its own (`t` of the JSON
/// record) keeps them, whatever the recipe, if they have its width.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rotational {
    /// The coordinates that every graph carries (`t`): Cartesian ones, or any others.
    Given {
        /// Number of coordinates.
        dim: usize,
    },
    /// Entries of the Laplacian eigenvectors of smallest eigenvalue.
    Eigenvectors {
        /// Number of eigenvectors, m.
        count: usize,
        /// Whether they start with the trivial one. Without it, one eigenvector of eigenvalue 0 a
        /// connected component is left out.
        trivial: bool,
        /// Which Laplacian.
        laplacian_norm: LaplacianNorm,
        /// How eigenvectors are scaled.
        scale: EigenvectorScale,
    },
    /// Random walk landing probabilities (RWPE-WIRE, appendix C.1).
    RandomWalk(Rwse),
    /// Diagonals and row sums of heat kernels (WavePE-WIRE, equation 32).
    Wave(Wave),
}

/// How an eigenvector u of unit length with the eigenvalue λ is scaled to coordinates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EigenvectorScale {
    /// u.
    #[default]
    Unit,
    /// u/√λ, so that squared distances are effective resistances (Theorem 2); zeros where λ is 0.
    EffectiveResistance,
}

/// The scales of heat kernels exp(−s·L) of the combinatorial Laplacian.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// The scales s, finite and not negative.
    pub scales: Vec<f64>,
}

impl Wave {
    fn bits(&self) -> impl Iterator<Item = u64> + '_ {
        self.scales.iter().map(|scale| scale.to_bits())
    }
}

impl PartialEq for Wave {
    fn eq(&self, other: &Self) -> bool {
        self.bits().eq(other.bits())
    }
}

impl Eq for Wave {}

impl Hash for Wave {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.scales.len());
        self.bits().for_each(|bits| state.write_u64(bits));
    }
}

impl Rotational {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        match self {
            Self::Given { dim } => *dim,
            Self::Eigenvectors { count, .. } => *count,
            Self::RandomWalk(rwse) => rwse.times.len(),
            Self::Wave(wave) => wave.scales.len().saturating_mul(2),
        }
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(ROTATIONAL, Level::Node, self.dim())]
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.dim() {
            1..=4096 => Ok(()),
            dim => Err(Error::Encoding(format!(
                "{dim} rotational features; it needs 1 to 4096"
            ))),
        }
    }

    pub(super) fn compute(&self, _graph: &Graph) -> Result<Vec<EncodingArray>> {
        Err(Error::Encoding("rotational features".to_string()))
    }
}
