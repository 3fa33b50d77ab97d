//! Laplacians of graphs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::graph::Graph;

/// How a Laplacian is normalised (`posenc_LapPE.eigen.laplacian_norm` of GraphGPS). A is the
/// symmetric adjacency matrix without self loops, D its degrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaplacianNorm {
    /// Combinatorial, `D − A`.
    None,
    /// Symmetric normalised, `I − D^-½·A·D^-½`. An isolated node keeps the 1 of `I`, so that its
    /// eigenvalue is 1.
    Sym,
    /// Random walk, `I − D⁻¹·A`: the eigenvalues of [`Sym`](Self::Sym), the eigenvectors multiplied
    /// by `D^-½` (isolated nodes by 1) and brought back to unit length. They are not orthogonal.
    Rw,
    /// What GraphGPS computes for `rw`: it hands `I − D⁻¹·A`, which is not symmetric, to a solver
    /// that reads the lower triangle only. The result is the spectrum of another matrix, which
    /// depends on the numbering of the nodes; only a model trained on it should ask for it.
    RwLowerTriangle,
}

impl LaplacianNorm {
    /// Every normalisation.
    pub const ALL: [Self; 4] = [Self::None, Self::Sym, Self::Rw, Self::RwLowerTriangle];

    /// The name, as it is serialised: `none`, `sym`, `rw` or `rw_lower_triangle`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Sym => "sym",
            Self::Rw => "rw",
            Self::RwLowerTriangle => "rw_lower_triangle",
        }
    }
}

impl fmt::Display for LaplacianNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LaplacianNorm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|norm| norm.name() == text);
        found.ok_or_else(|| {
            Error::Spectrum(format!(
                "unknown Laplacian normalisation `{text}`; known: {}",
                Self::ALL.map(Self::name).join(", ")
            ))
        })
    }
}

/// The Laplacian of a graph, sparse.
///
/// Self loops are left out. A graph whose every edge is listed as often as its reverse is taken as
/// it is, repeated edges with their multiplicity as weight; any other graph is symmetrised first,
/// with weight 1 for every pair of nodes that an edge joins in either direction. This is what
/// GraphGPS does, except that it decides once for a data set, from its first graphs.
#[derive(Debug, Clone, PartialEq)]
pub struct Laplacian {
    norm: LaplacianNorm,
    degrees: Vec<f64>,
    /// `(i, j, weight)` with `i > j`, sorted, each pair once.
    weights: Vec<(u32, u32, f64)>,
}

impl Laplacian {
    /// The Laplacian of `graph`.
    pub fn new(graph: &Graph, norm: LaplacianNorm) -> Self {
        let directed = graph.edges().iter().filter(|[s, t]| s != t);
        let (mut down, mut up): (Vec<[u32; 2]>, Vec<[u32; 2]>) = directed.partition(|[s, t]| s > t);
        up.iter_mut().for_each(|edge| edge.reverse());
        down.sort_unstable();
        up.sort_unstable();
        let symmetric = down == up;
        if !symmetric {
            down.append(&mut up);
            down.sort_unstable();
        }
        let mut degrees = vec![0.0; graph.num_nodes()];
        let mut weights = Vec::new();
        for run in down.chunk_by(|a, b| a == b) {
            let [i, j] = run[0];
            let weight = if symmetric { run.len() as f64 } else { 1.0 };
            degrees[i as usize] += weight;
            degrees[j as usize] += weight;
            weights.push((i, j, weight));
        }
        Self {
            norm,
            degrees,
            weights,
        }
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.degrees.len()
    }

    /// The normalisation.
    pub fn norm(&self) -> LaplacianNorm {
        self.norm
    }

    /// Degrees of the symmetrised graph without self loops.
    pub fn degrees(&self) -> &[f64] {
        &self.degrees
    }

    /// Weights of the symmetrised graph without self loops: `(i, j, weight)` with `i > j`, sorted,
    /// each pair once.
    pub fn weights(&self) -> impl Iterator<Item = (usize, usize, f64)> + Clone + '_ {
        let weights = self.weights.iter();
        weights.map(|&(i, j, weight)| (i as usize, j as usize, weight))
    }

    /// The diagonal of [`symmetric_part`](Self::symmetric_part).
    pub(super) fn diagonal(&self) -> impl Iterator<Item = f64> + '_ {
        self.degrees.iter().map(|&degree| match self.norm {
            LaplacianNorm::None => degree,
            LaplacianNorm::Sym | LaplacianNorm::Rw | LaplacianNorm::RwLowerTriangle => 1.0,
        })
    }

    /// The entries `(i, j, value)`, `i > j`, below the diagonal of the symmetric matrix whose
    /// spectrum is sought: the Laplacian itself or, for [`LaplacianNorm::Rw`], the similar
    /// symmetric normalised one.
    pub(super) fn symmetric_part(&self) -> impl Iterator<Item = (usize, usize, f64)> + Clone + '_ {
        self.weights().map(|(i, j, weight)| {
            let scale = match self.norm {
                LaplacianNorm::None => 1.0,
                LaplacianNorm::Sym | LaplacianNorm::Rw => {
                    (self.degrees[i] * self.degrees[j]).sqrt()
                }
                LaplacianNorm::RwLowerTriangle => self.degrees[i],
            };
            (i, j, -weight / scale)
        })
    }

    /// Factors a row that turn an eigenvector of the symmetric matrix into one of the Laplacian,
    /// where they differ.
    pub(super) fn back_scale(&self) -> Option<Vec<f64>> {
        let scale = |&degree: &f64| {
            if degree > 0.0 {
                degree.sqrt().recip()
            } else {
                1.0
            }
        };
        (self.norm == LaplacianNorm::Rw).then(|| self.degrees.iter().map(scale).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(n: usize, edges: &[[i64; 2]]) -> Graph {
        let edges = edges.iter().copied();
        Graph::builder(n).edges(edges).build().unwrap()
    }

    fn entries(graph: &Graph, norm: LaplacianNorm) -> Vec<(usize, usize, f64)> {
        Laplacian::new(graph, norm).symmetric_part().collect()
    }

    #[test]
    fn directions_are_symmetrised_and_loops_left_out() {
        let one_way = graph(4, &[[0, 1], [2, 1], [1, 1], [2, 1], [3, 3]]);
        let both_ways = graph(4, &[[0, 1], [1, 0], [1, 2], [2, 1]]);
        for norm in LaplacianNorm::ALL {
            let laplacian = Laplacian::new(&one_way, norm);
            assert_eq!(laplacian, Laplacian::new(&both_ways, norm), "{norm}");
            assert_eq!(laplacian.degrees(), [1.0, 2.0, 1.0, 0.0]);
        }
    }

    #[test]
    fn repeated_edges_weigh_only_where_the_graph_is_symmetric() {
        let symmetric = graph(2, &[[0, 1], [1, 0], [0, 1], [1, 0]]);
        assert_eq!(entries(&symmetric, LaplacianNorm::None), [(1, 0, -2.0)]);
        let uneven = graph(2, &[[0, 1], [1, 0], [0, 1]]);
        assert_eq!(entries(&uneven, LaplacianNorm::None), [(1, 0, -1.0)]);
    }

    #[test]
    fn each_normalisation_scales_as_it_says() {
        // Degrees 1, 3, 1, 1.
        let star = graph(4, &[[0, 1], [2, 1], [3, 1]]);
        let root = 3f64.sqrt().recip();
        let below = |norm| entries(&star, norm).into_iter().map(|(.., v)| v).collect();
        let near = |found: Vec<f64>, expected: [f64; 3]| {
            let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
            assert!(
                found.len() == 3 && off.fold(0.0, f64::max) < 1e-15,
                "{found:?}"
            );
        };
        near(below(LaplacianNorm::None), [-1.0; 3]);
        near(below(LaplacianNorm::Sym), [-root; 3]);
        near(below(LaplacianNorm::Rw), [-root; 3]);
        // Row 1 has degree 3; rows 2 and 3 have degree 1.
        near(
            below(LaplacianNorm::RwLowerTriangle),
            [-1.0 / 3.0, -1.0, -1.0],
        );
        let diagonal = |norm| Laplacian::new(&star, norm).diagonal().collect::<Vec<_>>();
        assert_eq!(diagonal(LaplacianNorm::None), [1.0, 3.0, 1.0, 1.0]);
        assert_eq!(diagonal(LaplacianNorm::Sym), [1.0; 4]);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for norm in LaplacianNorm::ALL {
            assert_eq!(norm.name().parse::<LaplacianNorm>().unwrap(), norm);
            let json = serde_json::to_value(norm).unwrap();
            assert_eq!(json, norm.name());
        }
        let error = "left".parse::<LaplacianNorm>().unwrap_err().to_string();
        assert!(error.contains("`left`; known: none, sym, rw"), "{error}");
    }
}
