//! Eigenvalues and eigenvectors by dense decomposition.

use faer::{Mat, Side};

use super::Laplacian;
use crate::error::{Error, Result};

/// The most memory that one dense decomposition takes without asking: 1 GiB, 5792 nodes. Its time
/// grows with the cube of the nodes.
pub const MAX_DENSE_BYTES: u64 = 1 << 30;

/// Bytes that the dense decomposition for `num_nodes` nodes takes: four matrices of f64 (the
/// Laplacian, its eigenvectors and two of the solver's own).
pub fn dense_bytes(num_nodes: usize) -> u64 {
    let n = num_nodes as u64;
    n.saturating_mul(n).saturating_mul(32)
}

/// Refuses a graph whose dense decomposition takes more than `max_bytes`.
///
/// # Errors
/// Both numbers.
pub fn check_dense(num_nodes: usize, max_bytes: u64) -> Result<()> {
    let bytes = dense_bytes(num_nodes);
    if bytes > max_bytes {
        return Err(Error::Spectrum(format!(
            "the dense eigendecomposition for {num_nodes} nodes takes {bytes} bytes, more than the \
             limit of {max_bytes}: leave the graph out or use a model without eigenvectors"
        )));
    }
    Ok(())
}

/// The smallest eigenvalues of a Laplacian, ascending, trivial ones included, with eigenvectors of
/// unit length.
///
/// What is fixed:
/// - No eigenvalue is negative, and one that rounding cannot tell from zero is exactly 0.
/// - The entry of largest magnitude of an eigenvector is positive; of entries that are equal up to
///   a relative 1e-8, the one of the first node counts.
///
/// What is not: the basis of the space of a multiple eigenvalue is the solver's.
#[derive(Debug, Clone, PartialEq)]
pub struct Spectrum {
    num_nodes: usize,
    eigenvalues: Vec<f64>,
    /// One eigenvector after the other.
    eigenvectors: Vec<f64>,
}

impl Spectrum {
    /// The `count` smallest eigenvalues of `laplacian`, all of them if it has fewer, from a dense
    /// decomposition on one thread.
    ///
    /// # Errors
    /// The decomposition takes more than `max_bytes` ([`MAX_DENSE_BYTES`] is a fair choice), or
    /// does not converge.
    pub fn dense(laplacian: &Laplacian, count: usize, max_bytes: u64) -> Result<Self> {
        let n = laplacian.num_nodes();
        check_dense(n, max_bytes)?;
        let mut matrix = Mat::<f64>::zeros(n, n);
        let mut row_sums = vec![0.0f64; n];
        for (i, value) in laplacian.diagonal().enumerate() {
            matrix[(i, i)] = value;
            row_sums[i] += value.abs();
        }
        for (i, j, value) in laplacian.symmetric_part() {
            matrix[(i, j)] = value;
            row_sums[i] += value.abs();
            row_sums[j] += value.abs();
        }
        let decomposed = matrix.self_adjoint_eigen(Side::Lower).map_err(|_| {
            Error::Spectrum(format!(
                "the dense eigendecomposition for {n} nodes did not converge"
            ))
        })?;

        let count = count.min(n);
        // Largest row sum bounds the matrix norm; a backward stable solver errs by about n·ε of it.
        let norm = row_sums.iter().copied().fold(0.0, f64::max);
        let resolution = n as f64 * f64::EPSILON * norm;
        let values = decomposed.S().column_vector();
        let eigenvalues = (0..count)
            .map(|at| Some(values[at]).filter(|&v| v > resolution).unwrap_or(0.0))
            .collect();
        let vectors = (0..count).flat_map(|at| decomposed.U().col(at).iter().copied());
        Ok(Self::of_laplacian(
            laplacian,
            eigenvalues,
            vectors.collect(),
        ))
    }

    /// The spectrum of `laplacian` from eigenvalues and eigenvectors of its symmetric part, one
    /// vector after the other.
    pub(super) fn of_laplacian(
        laplacian: &Laplacian,
        eigenvalues: Vec<f64>,
        mut eigenvectors: Vec<f64>,
    ) -> Self {
        let num_nodes = laplacian.num_nodes();
        let scale = laplacian.back_scale();
        // A graph has at least one node.
        for vector in eigenvectors.chunks_exact_mut(num_nodes.max(1)) {
            if let Some(scale) = &scale {
                vector.iter_mut().zip(scale).for_each(|(v, s)| *v *= s);
                let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
                vector.iter_mut().for_each(|v| *v /= length);
            }
            fix_sign(vector);
        }
        Self {
            num_nodes,
            eigenvalues,
            eigenvectors,
        }
    }

    /// Number of nodes, the length of an eigenvector.
    pub fn num_nodes(&self) -> usize {
        self.num_nodes
    }

    /// The eigenvalues, ascending.
    pub fn eigenvalues(&self) -> &[f64] {
        &self.eigenvalues
    }

    /// The eigenvectors, in the order of the eigenvalues.
    pub fn eigenvectors(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        // A graph has at least one node.
        self.eigenvectors.chunks_exact(self.num_nodes.max(1))
    }
}

/// Makes the entry of largest magnitude positive.
fn fix_sign(vector: &mut [f64]) {
    let largest = vector.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let first = vector.iter().find(|v| v.abs() >= largest * (1.0 - 1e-8));
    if first.is_some_and(|&v| v < 0.0) {
        vector.iter_mut().for_each(|v| *v = -*v);
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::graph::Graph;
    use crate::spectral::LaplacianNorm;

    fn graph(n: usize, edges: impl IntoIterator<Item = [usize; 2]>) -> Graph {
        let edges = edges.into_iter().map(|[s, t]| [s as i64, t as i64]);
        let builder = Graph::builder(n).edges(edges).undirected(true);
        builder.build().unwrap()
    }

    fn spectrum(graph: &Graph, norm: LaplacianNorm) -> Spectrum {
        let laplacian = Laplacian::new(graph, norm);
        Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap()
    }

    fn path(n: usize) -> Graph {
        graph(n, (1..n).map(|i| [i - 1, i]))
    }

    fn cycle(n: usize) -> Graph {
        graph(n, (0..n).map(|i| [i, (i + 1) % n]))
    }

    fn complete(n: usize) -> Graph {
        graph(n, (0..n).flat_map(|i| (0..i).map(move |j| [i, j])))
    }

    fn star(leaves: usize) -> Graph {
        graph(leaves + 1, (1..=leaves).map(|i| [0, i]))
    }

    /// Two triangles, a path of two nodes and an isolated node.
    fn scattered() -> Graph {
        graph(9, [[0, 3], [3, 6], [6, 0], [1, 4], [4, 7], [7, 1], [2, 5]])
    }

    /// A tree and a cycle with chords, without symmetry.
    fn irregular() -> Graph {
        let edges = [
            [0, 1],
            [1, 2],
            [2, 3],
            [3, 4],
            [4, 5],
            [5, 0],
            [0, 2],
            [5, 6],
            [6, 7],
            [7, 8],
            [1, 9],
        ];
        graph(10, edges)
    }

    fn assert_eigenvalues(graph: &Graph, norm: LaplacianNorm, mut expected: Vec<f64>) {
        expected.sort_by(f64::total_cmp);
        let spectrum = spectrum(graph, norm);
        let found = spectrum.eigenvalues();
        assert_eq!(found.len(), expected.len());
        for (at, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (a - b).abs() < 1e-12,
                "{norm}, eigenvalue {at}: {a}, not {b}"
            );
        }
        let zeros = |values: &[f64]| values.iter().filter(|&&v| v == 0.0).count();
        assert_eq!(zeros(found), zeros(&expected), "exact zeros of {norm}");
    }

    #[test]
    fn textbook_spectra_of_the_combinatorial_laplacian() {
        let n = 11;
        let angle = |k: usize| PI * k as f64 / n as f64;
        let check = |graph: &Graph, expected| {
            assert_eigenvalues(graph, LaplacianNorm::None, expected);
        };
        let of_path = |k| {
            if k == 0 {
                0.0
            } else {
                2.0 - 2.0 * angle(k).cos()
            }
        };
        check(&path(n), (0..n).map(of_path).collect());
        // k and n − k give the same value: every eigenvalue but 0 is double.
        let of_cycle = |k| {
            if k == 0 {
                0.0
            } else {
                2.0 - 2.0 * angle(2 * k).cos()
            }
        };
        check(&cycle(n), (0..n).map(of_cycle).collect());
        let with = |value: f64, times, rest: &[f64]| [vec![value; times], rest.to_vec()].concat();
        check(&complete(n), with(n as f64, n - 1, &[0.0]));
        check(&star(7), with(1.0, 6, &[0.0, 8.0]));
        check(&scattered(), with(3.0, 4, &[0.0, 0.0, 0.0, 0.0, 2.0]));
        check(&graph(3, []), vec![0.0; 3]);
        check(&graph(1, []), vec![0.0]);
    }

    #[test]
    fn textbook_spectra_of_the_normalised_laplacians() {
        for norm in [LaplacianNorm::Sym, LaplacianNorm::Rw] {
            let with =
                |value: f64, times, rest: &[f64]| [vec![value; times], rest.to_vec()].concat();
            assert_eigenvalues(&complete(6), norm, with(1.2, 5, &[0.0]));
            assert_eigenvalues(&star(7), norm, with(1.0, 6, &[0.0, 2.0]));
            // The isolated node has 1, not 0.
            assert_eigenvalues(&scattered(), norm, with(1.5, 4, &[0.0, 0.0, 0.0, 1.0, 2.0]));
        }
    }

    #[test]
    fn the_lower_triangle_of_the_random_walk_laplacian_is_another_matrix() {
        // Path 0 - 1 - 2: below the diagonal −1/2 and −1, so the eigenvalues are 1 and 1 ± √(5/4);
        // the negative one becomes 0.
        let expected = vec![0.0, 1.0, 1.0 + 1.25f64.sqrt()];
        assert_eigenvalues(&path(3), LaplacianNorm::RwLowerTriangle, expected);
        assert_eigenvalues(&path(3), LaplacianNorm::Rw, vec![0.0, 1.0, 2.0]);
    }

    /// The Laplacian after its definition, dense, row by row.
    fn definition(graph: &Graph, norm: LaplacianNorm) -> Vec<Vec<f64>> {
        let n = graph.num_nodes();
        let mut a = vec![vec![0.0f64; n]; n];
        for &[s, t] in graph.edges() {
            a[s as usize][t as usize] += 1.0;
        }
        let degree: Vec<f64> = a.iter().map(|row| row.iter().sum()).collect();
        let entry = |i: usize, j: usize| {
            let identity = f64::from(i == j);
            let over = |scale: f64| if a[i][j] == 0.0 { 0.0 } else { a[i][j] / scale };
            match norm {
                LaplacianNorm::None => identity * degree[i] - a[i][j],
                LaplacianNorm::Sym => identity - over(degree[i].sqrt() * degree[j].sqrt()),
                LaplacianNorm::Rw => identity - over(degree[i]),
                LaplacianNorm::RwLowerTriangle => identity - over(degree[i.max(j)]),
            }
        };
        let row = |i| (0..n).map(|j| entry(i, j)).collect();
        (0..n).map(row).collect()
    }

    #[test]
    fn every_pair_solves_the_eigenvalue_equation_and_has_unit_length() {
        for graph in [irregular(), cycle(12), scattered(), path(150)] {
            for norm in [LaplacianNorm::None, LaplacianNorm::Sym, LaplacianNorm::Rw] {
                let matrix = definition(&graph, norm);
                let spectrum = spectrum(&graph, norm);
                let pairs = spectrum.eigenvalues().iter().zip(spectrum.eigenvectors());
                for (value, vector) in pairs {
                    let residual = matrix.iter().zip(vector).map(|(row, v)| {
                        let image: f64 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
                        (image - value * v).abs()
                    });
                    let worst = residual.fold(0.0, f64::max);
                    assert!(worst < 1e-11, "{norm}: residual {worst}");
                    let length = vector.iter().map(|v| v * v).sum::<f64>();
                    assert!((length - 1.0).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn the_largest_entry_is_positive_and_the_first_of_equals_decides() {
        for graph in [irregular(), cycle(8), scattered(), path(9)] {
            for vector in spectrum(&graph, LaplacianNorm::Sym).eigenvectors() {
                let lowest = vector.iter().copied().fold(0.0, f64::min);
                let highest = vector.iter().copied().fold(0.0, f64::max);
                assert!(highest >= -lowest * (1.0 - 1e-8));
            }
        }
        // Antisymmetric about the middle: both ends are equally large.
        let spectrum = spectrum(&path(9), LaplacianNorm::None);
        let second = spectrum.eigenvectors().nth(1).unwrap();
        assert!(second[0] > 0.3 && second[8] < -0.3, "{second:?}");
        let mut vector = [0.5, -0.5 - 1e-12, 0.1];
        fix_sign(&mut vector);
        assert_eq!(vector[0], 0.5);
        let mut vector = [0.5, -0.6, 0.1];
        fix_sign(&mut vector);
        assert_eq!(vector, [-0.5, 0.6, -0.1]);
    }

    #[test]
    fn fewer_are_the_first_of_all() {
        let laplacian = Laplacian::new(&irregular(), LaplacianNorm::None);
        let all = spectrum(&irregular(), LaplacianNorm::None);
        let three = Spectrum::dense(&laplacian, 3, MAX_DENSE_BYTES).unwrap();
        assert_eq!(three.eigenvalues(), &all.eigenvalues()[..3]);
        assert!(three.eigenvectors().eq(all.eigenvectors().take(3)));
    }

    #[test]
    fn a_graph_over_the_budget_is_refused_with_the_numbers() {
        let laplacian = Laplacian::new(&path(10), LaplacianNorm::None);
        assert!(Spectrum::dense(&laplacian, 2, 3200).is_ok());
        let error = Spectrum::dense(&laplacian, 2, 3199)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("10 nodes takes 3200 bytes, more than the limit of 3199"),
            "{error}"
        );
        assert!(check_dense(usize::MAX, MAX_DENSE_BYTES).is_err());
        assert!(check_dense(5792, MAX_DENSE_BYTES).is_ok());
        assert!(check_dense(5793, MAX_DENSE_BYTES).is_err());
    }
}
