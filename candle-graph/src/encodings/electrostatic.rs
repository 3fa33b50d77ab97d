//! Statistics of the electrostatic interaction between nodes (ElstaticSE).

use serde::{Deserialize, Serialize};

use super::spectra::Spectra;
use super::{EncodingArray, Level};
use crate::error::Result;
use crate::graph::Graph;
use crate::spectral::{Laplacian, LaplacianNorm, Spectrum};

/// Array name of ElstaticSE, `[nodes, 10]`.
pub const ELECTROSTATIC: &str = "electrostatic";

/// Number of statistics.
const WIDTH: usize = 10;

/// Statistics of the pseudoinverse of the combinatorial Laplacian (`posenc_ElstaticSE`).
///
/// With G the pseudoinverse and `V[i, j] = G[i, j] − G[j, j]`, the columns for node v are the
/// smallest, largest, mean and standard deviation of `V[·, v]`, the smallest of `V[v, ·]`, again
/// the largest of `V[·, v]`, mean and standard deviation of `V[v, ·]`, and the sums over `V[·, v]`
/// and over `V[v, ·]` with the weights of D⁻¹A, A without self loops.
///
/// The sixth column repeats the second: the official code means the largest of `V[v, ·]`, but
/// models are trained on what it computes. Where it computes no number, there is one here: the
/// deviation of a single value is 0, and an isolated node has no neighbours to weigh (there, the
/// last two columns are NaN for the whole graph). It also inverts in single precision and takes an
/// eigenvalue that should be 0 for one of about 1e-7, which leaves noise, or, where there are
/// several components, arbitrary large values; here it is left out of the inverse.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Electrostatic {}

impl Electrostatic {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    /// Number of columns.
    pub const fn width(&self) -> usize {
        WIDTH
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(ELECTROSTATIC, Level::Node, WIDTH)]
    }

    pub(super) fn compute(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
    ) -> Result<Vec<EncodingArray>> {
        let n = graph.num_nodes();
        let laplacian = Laplacian::new(graph, LaplacianNorm::None);
        let potential = potential(&*spectra.lowest(LaplacianNorm::None, n)?);
        let mut columns = vec![Statistics::default(); n];
        let mut rows = columns.clone();
        for (i, row) in potential.chunks_exact(n).enumerate() {
            for (j, &value) in row.iter().enumerate() {
                rows[i].add(value);
                columns[j].add(value);
            }
        }
        let [mut onto, mut from] = [(); 2].map(|()| vec![0.0f64; n]);
        let degrees = laplacian.degrees();
        for (a, b, weight) in laplacian.weights() {
            for (i, j) in [(a, b), (b, a)] {
                let weighted = weight / degrees[i] * potential[i * n + j];
                onto[j] += weighted;
                from[i] += weighted;
            }
        }
        let mut data = Vec::with_capacity(n * WIDTH);
        for v in 0..n {
            let (column, row) = (&columns[v], &rows[v]);
            let values: [f64; WIDTH] = [
                column.smallest,
                column.largest,
                column.mean(),
                column.deviation(),
                row.smallest,
                column.largest,
                row.mean(),
                row.deviation(),
                onto[v],
                from[v],
            ];
            data.extend(values.map(|value| value as f32));
        }
        Ok(vec![EncodingArray {
            name: ELECTROSTATIC.to_string(),
            level: Level::Node,
            width: WIDTH,
            data,
        }])
    }
}

/// `G[i, j] − G[j, j]` with G the pseudoinverse, `[n, n]`.
fn potential(spectrum: &Spectrum) -> Vec<f64> {
    let n = spectrum.num_nodes();
    let mut inverse = vec![0.0f64; n * n];
    let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
    for (value, vector) in pairs.filter(|&(&value, _)| value > 0.0) {
        for (row, x) in inverse.chunks_exact_mut(n).zip(vector) {
            let factor = x / value;
            for (entry, y) in row.iter_mut().zip(vector) {
                *entry += factor * y;
            }
        }
    }
    let diagonal: Vec<f64> = inverse.iter().step_by(n + 1).copied().collect();
    for row in inverse.chunks_exact_mut(n) {
        for (entry, own) in row.iter_mut().zip(&diagonal) {
            *entry -= own;
        }
    }
    inverse
}

/// Running statistics (the variance by Welford's recurrence).
#[derive(Debug, Clone, Copy)]
struct Statistics {
    count: f64,
    smallest: f64,
    largest: f64,
    mean: f64,
    squares: f64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            count: 0.0,
            smallest: f64::INFINITY,
            largest: f64::NEG_INFINITY,
            mean: 0.0,
            squares: 0.0,
        }
    }
}

impl Statistics {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.smallest = self.smallest.min(value);
        self.largest = self.largest.max(value);
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    fn mean(&self) -> f64 {
        self.mean
    }

    /// The sample's standard deviation (divisor n − 1).
    fn deviation(&self) -> f64 {
        match self.count > 1.0 {
            true => (self.squares / (self.count - 1.0)).sqrt(),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, edges: &[[i64; 2]]) -> Vec<Vec<f32>> {
        let graph = Graph::builder(n)
            .edges(edges.iter().copied())
            .undirected(true)
            .build()
            .unwrap();
        let arrays = Electrostatic {}.compute(&graph, &Spectra::new(&graph, []));
        let data = arrays.unwrap().remove(0).data;
        data.chunks_exact(WIDTH).map(<[f32]>::to_vec).collect()
    }

    fn near(found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len());
        for (column, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 1e-6, "column {column}: {found:?}");
        }
    }

    #[test]
    fn a_path_of_three_by_hand() {
        // G = [[5, −1, −4], [−1, 2, −1], [−4, −1, 5]] / 9, so that
        // V = [[0, −1/3, −1], [−2/3, 0, −2/3], [−1, −1/3, 0]].
        let found = rows(3, &[[0, 1], [1, 2]]);
        let (third, two) = (1.0f32 / 3.0, 2.0f32 / 3.0);
        // Deviations of (0, −2/3, −1), (−1/3, 0, −1/3), and by rows.
        let deviation = |v: [f32; 3]| {
            let mean = v.iter().sum::<f32>() / 3.0;
            (v.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 2.0).sqrt()
        };
        let end = [
            -1.0,
            0.0,
            -5.0 / 9.0,
            deviation([0.0, -two, -1.0]),
            -1.0,
            0.0,
            -4.0 / 9.0,
            deviation([0.0, -third, -1.0]),
            // Only node 1 weighs node 0, with 1/2: −1/3. Node 0 weighs only node 1: −1/3.
            -third,
            -third,
        ];
        let middle = [
            -third,
            0.0,
            -2.0 / 9.0,
            deviation([-third, 0.0, -third]),
            -two,
            0.0,
            -4.0 / 9.0,
            deviation([-two, 0.0, -two]),
            -two,
            -two,
        ];
        near(&found[0], &end);
        near(&found[1], &middle);
        near(&found[2], &end);
    }

    #[test]
    fn isolated_nodes_and_single_nodes_have_numbers() {
        assert_eq!(rows(1, &[]), [[0.0; WIDTH]]);
        let found = rows(4, &[[0, 1], [1, 2]]);
        let alone = rows(3, &[[0, 1], [1, 2]]);
        // The weighted sums of the others are what they are without the isolated node.
        near(&found[0][8..], &alone[0][8..]);
        near(&found[1][8..], &alone[1][8..]);
        assert_eq!(found[3][8..], [0.0, 0.0]);
        assert!(found.iter().flatten().all(|v| v.is_finite()), "{found:?}");
    }
}
