//! Transition probabilities of the simple random walk, and its powers without an n³ product.

use crate::graph::Graph;

/// How repeated edges count in the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeated {
    /// A repeated edge is walked as often as it is listed: P = D⁻¹A with A counting edges.
    Counted,
    /// A repeated edge is one edge in A, but still counts in D, as GRIT's official code has it.
    MergedButInDegree,
}

/// Number of start nodes that are walked together; the innermost loops run over them, so it is a
/// multiple of every vector width.
pub(super) const LANES: usize = 16;

/// P of one graph in CSR by target: the walk enters node `t` from `sources[ptr[t]..ptr[t + 1]]`
/// with the probabilities at the same places.
pub(super) struct Transitions {
    ptr: Vec<usize>,
    sources: Vec<u32>,
    probabilities: Vec<f32>,
}

impl Transitions {
    /// P = D⁻¹A with D the out-degrees; nodes without outgoing edges have an empty row.
    pub(super) fn new(graph: &Graph, repeated: Repeated) -> Self {
        let n = graph.num_nodes();
        let inverse: Vec<f32> = graph
            .out_degrees()
            .iter()
            .map(|&d| 1.0 / d as f32)
            .collect();
        let mut sorted: Vec<[u32; 2]> = graph.edges().iter().map(|&[s, t]| [t, s]).collect();
        sorted.sort_unstable();
        let mut out = Self {
            ptr: vec![0; n + 1],
            sources: Vec::with_capacity(sorted.len()),
            probabilities: Vec::with_capacity(sorted.len()),
        };
        for run in sorted.chunk_by(|a, b| a == b) {
            let [target, source] = run[0];
            let count = match repeated {
                Repeated::Counted => run.len() as f32,
                Repeated::MergedButInDegree => 1.0,
            };
            out.sources.push(source);
            out.probabilities.push(count * inverse[source as usize]);
            out.ptr[target as usize + 1] = out.sources.len();
        }
        for t in 0..n {
            out.ptr[t + 1] = out.ptr[t + 1].max(out.ptr[t]);
        }
        out
    }

    /// Source, target and probability of every step, by target.
    pub(super) fn steps(&self) -> impl Iterator<Item = (u32, u32, f32)> + '_ {
        let targets = self.ptr.windows(2).enumerate();
        targets.flat_map(move |(target, range)| {
            let range = range[0]..range[1];
            range.map(move |at| (self.sources[at], target as u32, self.probabilities[at]))
        })
    }

    /// One step for [`LANES`] walkers: `to[t] = Σ_s P[s, t]·from[s]`.
    pub(super) fn step(&self, from: &[[f32; LANES]], to: &mut [[f32; LANES]]) {
        for (t, out) in to.iter_mut().enumerate() {
            let mut sum = [0.0; LANES];
            for at in self.ptr[t]..self.ptr[t + 1] {
                let p = self.probabilities[at];
                let row = &from[self.sources[at] as usize];
                for (acc, &v) in sum.iter_mut().zip(row) {
                    *acc += p * v;
                }
            }
            *out = sum;
        }
    }
}
