//! Random walk structural encoding (RWSE), the landing probabilities `diag(M^k)`.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::random_walk::{LANES, Repeated, Transitions};
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// Array name of RWSE, `[nodes, times]`.
pub const RWSE: &str = "rwse";

/// RWSE: for every node and every `k` of `times` the probability that the simple random walk is
/// back after `k` steps, `M^k[i, i]` with `M = D⁻¹A` and D the out-degrees; directed edges are
/// walked as they are, repeated edges as often as they are listed, nodes without outgoing edges
/// give 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rwse {
    /// Walk lengths (`posenc_RWSE.kernel.times`), each at least 1.
    pub times: Vec<usize>,
}

impl Rwse {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(RWSE, Level::Node, self.times.len())]
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.times.iter().find(|&&k| k == 0 || k > 100_000) {
            Some(k) => Err(Error::Encoding(format!(
                "RWSE with a walk of {k} steps; it needs 1 to 100000"
            ))),
            None if self.times.is_empty() => {
                Err(Error::Encoding("RWSE without walk lengths".to_string()))
            }
            None => Ok(()),
        }
    }

    pub(super) fn compute(&self, graph: &Graph) -> Vec<EncodingArray> {
        vec![EncodingArray {
            name: RWSE.to_string(),
            level: Level::Node,
            width: self.times.len(),
            data: self.values(graph),
        }]
    }

    /// The probabilities, `[nodes, times]`.
    pub(super) fn values(&self, graph: &Graph) -> Vec<f32> {
        let (n, width) = (graph.num_nodes(), self.times.len());
        let longest = self.times.iter().copied().max().unwrap_or(0);
        let walk = Transitions::new(graph, Repeated::Counted);
        let mut data = vec![0.0f32; n * width];
        data.par_chunks_mut(LANES * width)
            .enumerate()
            .for_each(|(block, rows)| {
                let first = block * LANES;
                let starts = rows.len() / width;
                let mut now = vec![[0.0f32; LANES]; n];
                let mut next = now.clone();
                for lane in 0..starts {
                    now[first + lane][lane] = 1.0;
                }
                for k in 1..=longest {
                    walk.step(&now, &mut next);
                    std::mem::swap(&mut now, &mut next);
                    for (column, _) in self.times.iter().enumerate().filter(|&(_, &t)| t == k) {
                        for lane in 0..starts {
                            rows[lane * width + column] = now[first + lane][lane];
                        }
                    }
                }
            });
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triangle_returns_with_the_known_probabilities() {
        let graph = Graph::builder(3)
            .edges([[0, 1], [1, 2], [2, 0]])
            .undirected(true)
            .build()
            .unwrap();
        let recipe = Rwse {
            times: vec![1, 2, 3],
        };
        let data = recipe.compute(&graph).remove(0).data;
        for row in data.chunks(3) {
            assert_eq!(row, [0.0, 0.5, 0.25]);
        }
    }

    #[test]
    fn repeated_edges_are_walked_as_often_as_listed() {
        // 0 -> 1 twice and 0 -> 2 once, both lead back: back at 0 after 2 steps for certain, and
        // from 1 with the probability of drawing one of the two parallel edges.
        let graph = Graph::builder(3)
            .edges([[0, 1], [0, 1], [0, 2], [1, 0], [2, 0]])
            .build()
            .unwrap();
        let data = Rwse { times: vec![2] }.compute(&graph).remove(0).data;
        for (value, expected) in data.iter().zip([1.0, 2.0 / 3.0, 1.0 / 3.0]) {
            assert!((value - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn isolated_nodes_and_sinks_give_zero() {
        let graph = Graph::builder(3).edges([[0, 1]]).build().unwrap();
        let data = Rwse { times: vec![1, 2] }.compute(&graph).remove(0).data;
        assert_eq!(data, [0.0; 6]);
    }
}
