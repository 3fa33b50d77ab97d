//! Relative random walk probabilities (RRWP) of GRIT, "Graph Inductive Biases in Transformers
//! without Message Passing".

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::random_walk::{LANES, Repeated, Transitions};
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// Array name of the node part of RRWP, `[nodes, channels]`.
pub const RRWP_NODE: &str = "rrwp.node";
/// Array name of the pair part of RRWP, `[pairs, channels]`.
pub const RRWP_PAIR: &str = "rrwp.pair";

/// RRWP: `P_{ij} = [I, M, M², …]_{ij}` with `M = D⁻¹A` (the paper's equation 1), D the out-degrees.
///
/// The pair array gives the pair (source `s`, target `t`) the walk from `t` to `s`, that is
/// `M^k[t, s]`, as the official code does; only directed or irregular graphs show the difference.
/// The node array is the diagonal. Self loops that exist count; a repeated edge is one edge of A
/// and counts in the degree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rrwp {
    /// Number of channels asked for, the identity included (`posenc_RRWP.ksteps`). As in the
    /// official code, fewer than 2 still give 2.
    pub steps: usize,
    /// Replace the probabilities by a one-hot of the shortest walk's length and the node part by
    /// zeros (`posenc_RRWP.spd`).
    #[serde(default)]
    pub shortest_path: bool,
}

impl Rrwp {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    /// Number of channels made.
    pub fn channels(&self) -> usize {
        self.steps.max(2)
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![
            (RRWP_NODE, Level::Node, self.channels()),
            (RRWP_PAIR, Level::Pair, self.channels()),
        ]
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.steps == 0 || self.steps > 4096 {
            return Err(Error::Encoding(format!(
                "RRWP with {} steps; it needs 1 to 4096",
                self.steps
            )));
        }
        Ok(())
    }

    pub(super) fn compute(&self, graph: &Graph) -> Vec<EncodingArray> {
        let (n, channels) = (graph.num_nodes(), self.channels());
        let walk = Transitions::new(graph, Repeated::MergedButInDegree);
        let mut pair = vec![0.0f32; n * n * channels];
        pair.par_chunks_mut(LANES * n * channels)
            .enumerate()
            .for_each(|(block, rows)| {
                self.walk_from(&walk, block * LANES, n, rows);
            });
        let mut node = vec![0.0f32; n * channels];
        if !self.shortest_path {
            for (i, row) in node.chunks_exact_mut(channels).enumerate() {
                let at = (i * n + i) * channels;
                row.copy_from_slice(&pair[at..at + channels]);
            }
        }
        vec![
            EncodingArray {
                name: RRWP_NODE.to_string(),
                level: Level::Node,
                width: channels,
                data: node,
            },
            EncodingArray {
                name: RRWP_PAIR.to_string(),
                level: Level::Pair,
                width: channels,
                data: pair,
            },
        ]
    }

    /// Fills the rows of the starts `first..first + LANES` (fewer at the end), `[starts, n,
    /// channels]`, from walks of those starts.
    fn walk_from(&self, walk: &Transitions, first: usize, n: usize, rows: &mut [f32]) {
        let channels = self.channels();
        let starts = rows.len() / (n * channels);
        let mut history = vec![[0.0f32; LANES]; channels * n];
        for lane in 0..starts {
            history[first + lane][lane] = 1.0;
        }
        for k in 1..channels {
            let (past, now) = history.split_at_mut(k * n);
            walk.step(&past[(k - 1) * n..], &mut now[..n]);
        }
        for (lane, row) in rows.chunks_exact_mut(n * channels).enumerate() {
            for (end, out) in row.chunks_exact_mut(channels).enumerate() {
                for (k, value) in out.iter_mut().enumerate() {
                    *value = history[k * n + end][lane];
                }
                if self.shortest_path {
                    let shortest = out.iter().position(|&p| p > 0.0);
                    out.fill(0.0);
                    if let Some(k) = shortest {
                        out[k] = 1.0;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair_of(graph: &Graph, steps: usize) -> Vec<f32> {
        let recipe = Rrwp {
            steps,
            shortest_path: false,
        };
        recipe.compute(graph).remove(1).data
    }

    /// Dense powers in f64, written the obvious way.
    fn dense(graph: &Graph, channels: usize) -> Vec<f32> {
        let n = graph.num_nodes();
        let degrees = graph.out_degrees();
        let mut p = vec![0.0f64; n * n];
        for &[s, t] in graph.edges() {
            p[s as usize * n + t as usize] = 1.0 / f64::from(degrees[s as usize]);
        }
        let mut power = vec![0.0f64; n * n];
        (0..n).for_each(|i| power[i * n + i] = 1.0);
        let mut out = vec![0.0f32; n * n * channels];
        for k in 0..channels {
            for (at, &v) in power.iter().enumerate() {
                out[at * channels + k] = v as f32;
            }
            let mut next = vec![0.0f64; n * n];
            for i in 0..n {
                for u in 0..n {
                    for j in 0..n {
                        next[i * n + j] += power[i * n + u] * p[u * n + j];
                    }
                }
            }
            power = next;
        }
        out
    }

    #[test]
    fn matches_dense_powers_on_a_directed_graph_with_loops_and_repeats() {
        let edges: Vec<[i64; 2]> = (0..90i64)
            .map(|i| [(i * 7 + i / 5) % 37, (i * i + 3 * i) % 37])
            .chain([[4, 4], [5, 9], [5, 9], [5, 9]])
            .collect();
        // 40 nodes: three blocks of walkers, the last one not full, and isolated nodes.
        let graph = Graph::builder(40).edges(edges).build().unwrap();
        let (ours, expected) = (pair_of(&graph, 9), dense(&graph, 9));
        let worst = ours
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-6, "{worst}");
    }

    #[test]
    fn one_node_without_edges_has_only_the_identity() {
        let graph = Graph::builder(1).build().unwrap();
        assert_eq!(pair_of(&graph, 4), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn pair_rows_carry_the_walk_from_target_to_source() {
        // 0 -> 1 only: the walk from 0 reaches 1, so the pair (source 1, target 0) is non-zero.
        let graph = Graph::builder(2).edges([[0, 1]]).build().unwrap();
        let pair = pair_of(&graph, 2);
        assert_eq!(&pair[2..4], &[0.0, 1.0]); // t = 0, s = 1
        assert_eq!(&pair[4..6], &[0.0, 0.0]); // t = 1, s = 0
    }

    #[test]
    fn fewer_than_two_steps_still_give_two_channels() {
        let graph = Graph::builder(2).edges([[0, 1]]).build().unwrap();
        assert_eq!(pair_of(&graph, 1).len(), 8);
    }
}
