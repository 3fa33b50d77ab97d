//! Eigenvectors as coordinates.

use super::EigenvectorScale;
use crate::graph::Graph;
use crate::spectral::{Laplacian, LaplacianNorm, Spectrum};

/// How many of the smallest eigenvalues are left out: none if the `trivial` ones are wanted, or else
/// all that are 0.
pub(super) fn left_out(graph: &Graph, norm: LaplacianNorm, trivial: bool) -> usize {
    if trivial {
        return 0;
    }
    Laplacian::new(graph, norm).null_space_dim()
}

/// `count` eigenvectors of `spectrum` behind the first `left_out` as columns, `[nodes, count]`;
/// zeros where there are fewer.
pub(super) fn columns(
    spectrum: &Spectrum,
    left_out: usize,
    count: usize,
    scale: EigenvectorScale,
) -> Vec<f32> {
    let mut out = vec![0.0f32; spectrum.num_nodes() * count];
    let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
    for (column, (&value, vector)) in pairs.skip(left_out).take(count).enumerate() {
        let factor = match scale {
            EigenvectorScale::Unit => 1.0,
            EigenvectorScale::EffectiveResistance if value > 0.0 => value.sqrt().recip(),
            EigenvectorScale::EffectiveResistance => 0.0,
        };
        for (row, x) in out.chunks_exact_mut(count).zip(vector) {
            row[column] = (factor * x) as f32;
        }
    }
    out
}
