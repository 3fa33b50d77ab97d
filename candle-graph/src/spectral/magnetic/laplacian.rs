//! The matrix.

use std::f64::consts::PI;

use super::Potential;
use crate::error::{Error, Result};
use crate::graph::Graph;

/// The Magnetic Laplacian of a directed graph, sparse and Hermitian.
///
/// With A the adjacency matrix (`A[u, v]` for the edge from u to v), `A_s` the symmetrised one and
/// `D_s` its degrees (equation 4 of the paper):
///
/// - unnormalised: `D_s − A_s ⊙ exp(i·Θ)`;
/// - symmetric normalised: `I − D_s^-½·A_s·D_s^-½ ⊙ exp(i·Θ)`, where the degree 0 counts as 1, so
///   that an isolated node keeps the 1 of `I`;
/// - `Θ[u, v] = 2π·q·(A[u, v] − A[v, u])`.
///
/// `A_s` joins two nodes with weight 1 if an edge does in either direction; a repeated edge is one
/// edge. Self loops have no direction: `A_s` has a 1 on the diagonal for them and the degree counts
/// it, so they cancel in the unnormalised form. With q = 0, or without purely directed pairs, this
/// is the real Laplacian of the symmetrised graph. Reversing all edges conjugates the matrix.
///
/// Weights (appendix E, which leaves the symmetrisation open): A holds the weights, the sum of them
/// where an edge is repeated; `A_s` the one of a pair's weights that is not 0, or their mean where
/// both are; Θ is as above, so that only the difference of a pair's weights turns the phase. Weights
/// that are all 1, each edge once, change nothing.
///
/// Without weights the matrix depends on q modulo 1 only, and is computed from that: a huge q is no
/// more exact than its last digit, but does no harm.
#[derive(Debug, Clone, PartialEq)]
pub struct MagneticLaplacian {
    q: f64,
    symmetric_norm: bool,
    directed_pairs: usize,
    diagonal: Vec<f64>,
    /// Row, column, real and imaginary part of the entries below the diagonal, sorted.
    below: Vec<(u32, u32, [f64; 2])>,
}

/// What makes a [`MagneticLaplacian`].
#[derive(Debug, Clone)]
#[must_use]
pub struct MagneticLaplacianBuilder<'a> {
    graph: &'a Graph,
    potential: Potential,
    symmetric_norm: bool,
    weights: Option<&'a [f64]>,
}

impl MagneticLaplacianBuilder<'_> {
    /// Whether the symmetric normalised form is made, as by default (`use_symmetric_norm`).
    pub fn symmetric_norm(mut self, symmetric_norm: bool) -> Self {
        self.symmetric_norm = symmetric_norm;
        self
    }
}

impl<'a> MagneticLaplacianBuilder<'a> {
    /// Weights of the graph's edges, in their order, finite and not negative. An edge of weight 0 is
    /// none.
    pub fn weights(mut self, weights: &'a [f64]) -> Self {
        self.weights = Some(weights);
        self
    }

    /// The matrix.
    ///
    /// # Errors
    /// An unusable potential, as many weights as edges are not given, or a weight (or the sum of
    /// those of a repeated edge, or of those at a node) is negative or not finite.
    pub fn build(self) -> Result<MagneticLaplacian> {
        self.potential.check()?;
        let pairs = self.pairs()?;
        let n = self.graph.num_nodes();
        let directed_pairs = pairs.iter().filter(|(.., [down, up])| down != up).count();
        let q = self.potential.of_graph(directed_pairs, n);

        let mut degrees = vec![0.0f64; n];
        let mut loops = vec![0.0f64; n];
        let mut below = Vec::with_capacity(pairs.len());
        for (i, j, [down, up]) in pairs {
            let weight = match (down, up) {
                (0.0, one) | (one, 0.0) => one,
                (down, up) => 0.5 * down + 0.5 * up,
            };
            if i == j {
                loops[i as usize] = weight;
                degrees[i as usize] += weight;
                continue;
            }
            degrees[i as usize] += weight;
            degrees[j as usize] += weight;
            let [cos, sin] = turned(q, down - up);
            below.push((i, j, [-weight * cos, -weight * sin]));
        }
        if let Some((node, degree)) = (0..n).zip(&degrees).find(|(_, d)| !d.is_finite()) {
            return Err(Error::Spectrum(format!(
                "the weights of the edges at node {node} add up to {degree}"
            )));
        }
        let diagonal = if self.symmetric_norm {
            let root = |&degree: &f64| if degree > 0.0 { degree.sqrt() } else { 1.0 };
            let roots: Vec<f64> = degrees.iter().map(root).collect();
            for (i, j, value) in &mut below {
                // One after the other: the product of two tiny roots may be 0.
                for root in [roots[*i as usize], roots[*j as usize]] {
                    value.iter_mut().for_each(|part| *part /= root);
                }
            }
            let loops = loops.iter().zip(&roots);
            loops
                .map(|(loops, root)| 1.0 - loops / root / root)
                .collect()
        } else {
            let loops = degrees.iter().zip(&loops);
            loops.map(|(degree, loops)| degree - loops).collect()
        };
        Ok(MagneticLaplacian {
            q,
            symmetric_norm: self.symmetric_norm,
            directed_pairs,
            diagonal,
            below,
        })
    }

    /// `(i, j, [A[i, j], A[j, i]])` with `i >= j` of the pairs that an edge joins, sorted, each once.
    fn pairs(&self) -> Result<Vec<(u32, u32, [f64; 2])>> {
        let edges = self.graph.edges();
        let weight_of = |at: usize| self.weights.map_or(Some(1.0), |w| w.get(at).copied());
        if let Some(weights) = self.weights.filter(|weights| weights.len() != edges.len()) {
            return Err(Error::Spectrum(format!(
                "{} weights for a graph of {} edges",
                weights.len(),
                edges.len()
            )));
        }
        // Row, column, whether the edge goes from column to row, weight.
        let mut listed = Vec::with_capacity(edges.len());
        for (at, &[s, t]) in edges.iter().enumerate() {
            let weight = weight_of(at).unwrap_or(0.0);
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(Error::Spectrum(format!(
                    "edge {at} from node {s} to node {t} has the weight {weight}; weights are \
                     finite and not negative"
                )));
            }
            if weight > 0.0 {
                listed.push((s.max(t), s.min(t), s < t, weight));
            }
        }
        // Stable, so that weights are added in the order of the edges.
        listed.sort_by_key(|&(i, j, up, _)| (i, j, up));
        let same_pair =
            |a: &(u32, u32, bool, f64), b: &(u32, u32, bool, f64)| (a.0, a.1) == (b.0, b.1);
        let mut pairs = Vec::with_capacity(listed.len());
        for run in listed.chunk_by(same_pair) {
            let (i, j, ..) = run[0];
            let mut both = [0.0f64; 2];
            for &(.., up, weight) in run {
                let sum = &mut both[usize::from(up)];
                *sum = match self.weights {
                    Some(_) => *sum + weight,
                    None => 1.0,
                };
            }
            if i == j {
                both[1] = both[0];
            }
            pairs.push((i, j, both));
        }
        Ok(pairs)
    }
}

/// Cosine and sine of `2π·q·difference`, exact where they are 0 or ±1.
fn turned(q: f64, difference: f64) -> [f64; 2] {
    // Whole turns are taken off where that is exact: before the multiplication if it is by ±1.
    let turns = if difference.abs() == 1.0 {
        (q - q.round()) * difference
    } else {
        let turns = q * difference;
        turns - turns.round()
    };
    // Eighths of a turn: what remains beside quarters lies within ±1/8.
    let quarters = (4.0 * turns).round();
    let (sin, cos) = (2.0 * PI * (turns - 0.25 * quarters)).sin_cos();
    match quarters as i64 {
        0 => [cos, sin],
        1 => [-sin, cos],
        -1 => [sin, -cos],
        _ => [-cos, -sin],
    }
}

impl MagneticLaplacian {
    /// Begins the Magnetic Laplacian of `graph`: symmetric normalised, without weights.
    pub fn builder(graph: &Graph, potential: Potential) -> MagneticLaplacianBuilder<'_> {
        MagneticLaplacianBuilder {
            graph,
            potential,
            symmetric_norm: true,
            weights: None,
        }
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.diagonal.len()
    }

    /// The potential q itself: a relative one is divided already.
    pub fn q(&self) -> f64 {
        self.q
    }

    /// Whether this is the symmetric normalised form.
    pub fn symmetric_norm(&self) -> bool {
        self.symmetric_norm
    }

    /// Number of purely directed pairs of nodes: those joined in one direction only or, with
    /// weights, differently in both.
    pub fn directed_pairs(&self) -> usize {
        self.directed_pairs
    }

    /// The diagonal, which is real.
    pub fn diagonal(&self) -> &[f64] {
        &self.diagonal
    }

    /// Row `i`, column `j` and `[real, imaginary]` of the entries below the diagonal, `i > j`,
    /// sorted. Those above it are their conjugates.
    pub fn below(&self) -> impl ExactSizeIterator<Item = (usize, usize, [f64; 2])> + Clone + '_ {
        let below = self.below.iter();
        below.map(|&(i, j, value)| (i as usize, j as usize, value))
    }

    /// Whether no entry has an imaginary part.
    pub fn is_real(&self) -> bool {
        self.below
            .iter()
            .all(|(.., [_, imaginary])| *imaginary == 0.0)
    }

    /// A number that no eigenvalue exceeds, greater than 0.
    pub(super) fn upper_bound(&self) -> f64 {
        if self.symmetric_norm {
            return 2.0;
        }
        // Gershgorin's discs of the matrix of edges, `L = B·W·Bᴴ`: closer than those of L itself.
        let sums = self
            .below()
            .map(|(i, j, _)| self.diagonal[i] + self.diagonal[j]);
        sums.fold(0.0, f64::max).max(f64::MIN_POSITIVE)
    }

    /// The matrix in full: real and imaginary part, `[n, n]` each, row-major.
    ///
    /// # Errors
    /// It takes more than [`MAX_DENSE_BYTES`](crate::spectral::MAX_DENSE_BYTES).
    pub fn to_dense(&self) -> Result<[Vec<f64>; 2]> {
        let n = self.num_nodes();
        super::dense::check(n)?;
        let [mut real, mut imaginary] = [(); 2].map(|()| vec![0.0; n * n]);
        for (i, value) in self.diagonal.iter().enumerate() {
            real[i * n + i] = *value;
        }
        for (i, j, [re, im]) in self.below() {
            real[i * n + j] = re;
            real[j * n + i] = re;
            imaginary[i * n + j] = im;
            imaginary[j * n + i] = -im;
        }
        Ok([real, imaginary])
    }
}
