//! Rotational features: the coordinates of the nodes from which rotary encodings make angles
//! (r_i of "Rotary Position Encodings for Graphs", `batch.t` of the official code).

mod eigenvectors;
mod wave;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::spectra::Spectra;
use super::{EncodingArray, Level, Rwse};
use crate::error::{Error, GraphProblem, Result};
use crate::graph::{Features, Graph};
use crate::spectral::LaplacianNorm;

pub use wave::Wave;

/// Array name of the rotational features, `[nodes, dim]`.
pub const ROTATIONAL: &str = "rotational";

/// What the coordinates of a node are.
///
/// A graph that carries coordinates of its own
/// ([`Graph::rotational_features`], `t` of the JSON record) keeps them, whatever the recipe; if they
/// have another width than the recipe's, the graph is refused. A graph that is too small for as
/// many eigenvectors has zeros instead of the missing ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rotational {
    /// The coordinates that every graph carries (`t`): Cartesian ones, or any others.
    Given {
        /// Number of coordinates.
        dim: usize,
    },
    /// Entries of the Laplacian eigenvectors of smallest eigenvalue. Their signs, and the bases of
    /// the spaces of multiple eigenvalues, are as arbitrary as those of
    /// [`Spectrum`](crate::spectral::Spectrum).
    Eigenvectors {
        /// Number of eigenvectors, m.
        count: usize,
        /// Whether they start with the trivial ones. Otherwise as many are left out as the
        /// Laplacian has eigenvalues that are 0: one a connected component, except that an isolated
        /// node has the eigenvalue 1 in the normalised Laplacians. Components are counted, so that
        /// no threshold decides what is 0.
        trivial: bool,
        /// Which Laplacian: `none` (the paper's), `sym` or `rw`.
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
    /// u/√λ; zeros where λ is 0. With all eigenvectors of the combinatorial Laplacian of a connected
    /// graph, squared distances are effective resistances (Theorem 2).
    EffectiveResistance,
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
        let refuse = |problem: String| Err(Error::Encoding(problem));
        let dim = self.dim();
        if dim == 0 || dim > 4096 {
            return refuse(format!("{dim} rotational features; it needs 1 to 4096"));
        }
        match self {
            Self::Given { .. } => Ok(()),
            Self::Eigenvectors { laplacian_norm, .. } => match laplacian_norm {
                LaplacianNorm::RwLowerTriangle => refuse(format!(
                    "rotational features from the Laplacian `{laplacian_norm}`, which depends on \
                     the numbering of the nodes; use `none`, `sym` or `rw`"
                )),
                LaplacianNorm::None | LaplacianNorm::Sym | LaplacianNorm::Rw => Ok(()),
            },
            Self::RandomWalk(rwse) => rwse.check(),
            Self::Wave(wave) => wave.check(),
        }
    }

    /// The coordinates that `graph` carries, `[nodes, dim]`, if it carries any.
    ///
    /// # Errors
    /// They do not fit the recipe, or the recipe needs them and there are none.
    pub(super) fn carried_by<'a>(
        &self,
        graph: &'a Graph,
    ) -> Result<Option<&'a [f32]>, GraphProblem> {
        let dim = self.dim();
        let carried = match graph.rotational_features() {
            Some(Features::Float { width, data }) => Some((*width, data.as_slice())),
            _ => None,
        };
        match (carried, self) {
            (Some((width, data)), _) if width == dim => Ok(Some(data)),
            (Some((found, _)), Self::Given { .. }) => Err(GraphProblem::Width {
                field: "t",
                found,
                expected: dim,
            }),
            (Some((found, _)), _) => Err(GraphProblem::Field {
                field: "t".to_string(),
                message: format!(
                    "{found} rotational feature(s) a node, the model expects {dim}; without the \
                     field they are computed"
                ),
            }),
            (None, Self::Given { .. }) => Err(GraphProblem::MissingFeatures {
                field: "t",
                needed: format!("{dim} rotational feature(s) a node"),
            }),
            (None, _) => Ok(None),
        }
    }

    /// The Laplacian whose spectrum is read for `graph`, and how many eigenvalues.
    pub(super) fn spectrum(&self, graph: &Graph) -> Option<(LaplacianNorm, usize)> {
        match self {
            _ if graph.rotational_features().is_some() => None,
            Self::Given { .. } | Self::RandomWalk(_) => None,
            Self::Eigenvectors {
                count,
                trivial,
                laplacian_norm,
                ..
            } => {
                let left_out = eigenvectors::left_out(graph, *laplacian_norm, *trivial);
                Some((*laplacian_norm, count.saturating_add(left_out)))
            }
            Self::Wave(wave) => Some((wave.laplacian_norm, graph.num_nodes())),
        }
    }

    pub(super) fn compute(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
    ) -> Result<Vec<EncodingArray>> {
        let carried = self.carried_by(graph);
        let carried = carried.map_err(|problem| Error::Encoding(problem.to_string()))?;
        let data = match (carried, self) {
            (Some(data), _) => data.to_vec(),
            // Refused above.
            (None, Self::Given { .. }) => Vec::new(),
            (
                None,
                Self::Eigenvectors {
                    count,
                    trivial,
                    laplacian_norm,
                    scale,
                },
            ) => {
                let left_out = eigenvectors::left_out(graph, *laplacian_norm, *trivial);
                let wanted = count.saturating_add(left_out);
                let spectrum = spectra.lowest(*laplacian_norm, wanted)?;
                eigenvectors::columns(&spectrum, left_out, *count, *scale)
            }
            (None, Self::RandomWalk(rwse)) => rwse.values(graph),
            (None, Self::Wave(wave)) => {
                wave.values(&*spectra.lowest(wave.laplacian_norm, graph.num_nodes())?)
            }
        };
        Ok(vec![EncodingArray {
            name: ROTATIONAL.to_string(),
            level: Level::Node,
            width: self.dim(),
            data,
        }])
    }
}
