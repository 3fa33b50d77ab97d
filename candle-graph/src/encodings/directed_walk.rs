//! Directed random walks and personalised PageRank.

use std::hash::{Hash, Hasher};

use faer::Mat;
use faer::prelude::Solve;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::values::array;
use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// Array name of directed random walks, `[pairs, channels]`: for the pair (source `s`, target `t`)
/// the probability of walking from `s` to `t`.
pub const DIRECTED_WALK: &str = "directed_walk";

/// Landing probabilities of random walks along the edges, and against them (section 4 of
/// "Transformers Meet Directed Graphs").
///
/// T is row-stochastic: from a node the walk takes one of its outgoing edges, a repeated edge as
/// often as it is listed, a self loop as any other; at a node without outgoing edges it stays.
/// Channels are `T, T², …, T^steps` and then, with a restart probability p, personalised PageRank
/// `p·(I − (1 − p)·T)⁻¹`; then the same of the graph with its edges reversed if asked for. Every
/// row of each (fixed source) sums to 1.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectedWalk {
    /// Number of steps (`k`, `rw_k`).
    pub steps: usize,
    /// Restart probability p of personalised PageRank, above 0 and at most 1 (`ppr_restart_p`).
    #[serde(default)]
    pub restart: Option<f64>,
    /// Whether walks against the edges follow (`do_also_reverse`).
    #[serde(default)]
    pub also_reverse: bool,
}

impl PartialEq for DirectedWalk {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for DirectedWalk {}

impl Hash for DirectedWalk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl DirectedWalk {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    fn key(&self) -> (usize, Option<u64>, bool) {
        (
            self.steps,
            self.restart.map(f64::to_bits),
            self.also_reverse,
        )
    }

    /// Channels of one direction.
    fn one_way(&self) -> usize {
        self.steps
            .saturating_add(usize::from(self.restart.is_some()))
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.one_way()
            .saturating_mul(1 + usize::from(self.also_reverse))
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        vec![(DIRECTED_WALK, Level::Pair, self.channels())]
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.steps > 4096 || self.one_way() == 0 {
            return Err(Error::Encoding(format!(
                "directed walks of {} steps; they need 1 to 4096, or 0 with a restart probability",
                self.steps
            )));
        }
        match self.restart {
            Some(p) if !(p > 0.0 && p <= 1.0) => Err(Error::Encoding(format!(
                "directed walks with the restart probability {p}; it must be above 0 and at most 1"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a graph for which personalised PageRank takes too long.
    pub(super) fn check_graph(&self, graph: &Graph) -> Result<()> {
        let n = graph.num_nodes();
        let Some(p) = self.restart.filter(|_| n > DENSE_NODES) else {
            return Ok(());
        };
        let entries = n.saturating_add(graph.num_edges()) as f64;
        let directions = self.channels() / self.one_way().max(1);
        let work = terms(p) as f64 * entries * n as f64 * directions as f64;
        if work > MAX_WORK {
            return Err(Error::Encoding(format!(
                "personalised PageRank with the restart probability {p} for {n} nodes and {} edges \
                 takes {work:.1e} multiplications, more than the limit of {MAX_WORK:.0e}: take a \
                 larger probability or leave the graph out",
                graph.num_edges()
            )));
        }
        Ok(())
    }

    /// The probabilities of `graph` in f64, `[pairs, channels]`: the row `t·n + s` holds those of
    /// walking from `s` to `t`.
    ///
    /// Personalised PageRank of up to 2048 nodes comes from a dense solve; that of larger graphs
    /// from its series `Σ_j p·(1 − p)^j·T^j`, cut where what remains of every row is below 1e-12.
    /// The cut part is given to the last power, so that rows still sum to 1.
    ///
    /// # Errors
    /// Impossible parameters, or the graph takes too long.
    pub fn probabilities(&self, graph: &Graph) -> Result<Vec<f64>> {
        self.check()?;
        self.check_graph(graph)?;
        Ok(self.fill(graph, |p| p))
    }

    pub(super) fn compute(&self, graph: &Graph) -> Vec<EncodingArray> {
        let data = self.fill(graph, |p| p as f32);
        self.arrays().into_iter().zip([data]).map(array).collect()
    }

    fn fill<T: Copy + Default + Send>(
        &self,
        graph: &Graph,
        value: impl Fn(f64) -> T + Sync,
    ) -> Vec<T> {
        let (n, channels) = (graph.num_nodes(), self.channels());
        let mut out = vec![T::default(); n * n * channels];
        let ways = [false, true]
            .into_iter()
            .take(1 + usize::from(self.also_reverse));
        for (way, reverse) in ways.enumerate() {
            let walk = Walk::new(graph, reverse);
            let first = way * self.one_way();
            let page_rank = self.restart.filter(|_| n <= DENSE_NODES);
            let page_rank = page_rank.map(|p| walk.page_rank(p));
            // Rows of one target each: column t of a matrix.
            out.par_chunks_mut(LANES * n * channels)
                .enumerate()
                .for_each(|(block, rows)| {
                    let targets = block * LANES;
                    let mut write = |k: usize, columns: &[[f64; LANES]]| {
                        for (lane, rows) in rows.chunks_exact_mut(n * channels).enumerate() {
                            let entries = rows.iter_mut().skip(first + k).step_by(channels);
                            let columns = columns.iter().map(|row| value(row[lane]));
                            entries.zip(columns).for_each(|(out, v)| *out = v);
                        }
                    };
                    self.walk_to(&walk, targets, page_rank.as_ref(), &mut write);
                });
        }
        out
    }

    /// Calls `write` with every channel and the columns of the targets `first..first + LANES`, those
    /// beyond the last node 0.
    fn walk_to(
        &self,
        walk: &Walk,
        first: usize,
        page_rank: Option<&Mat<f64>>,
        write: &mut impl FnMut(usize, &[[f64; LANES]]),
    ) {
        let n = walk.num_nodes();
        let mut now = vec![[0.0; LANES]; n];
        for (lane, row) in now.iter_mut().skip(first).take(LANES).enumerate() {
            row[lane] = 1.0;
        }
        let mut next = now.clone();
        let mut sum = vec![[0.0; LANES]; n];
        let series = match (self.restart, page_rank) {
            (Some(p), None) => Some(p),
            _ => None,
        };
        let terms = series.map_or(0, terms);
        let mut weight = series.unwrap_or(0.0);
        for k in 0..self.steps.max(terms) {
            if let Some(p) = series.filter(|_| k < terms) {
                add(&mut sum, weight, &now);
                weight *= 1.0 - p;
            }
            walk.step(&now, &mut next);
            std::mem::swap(&mut now, &mut next);
            if k < self.steps {
                write(k, &now);
            }
            if let Some(p) = series.filter(|_| k + 1 == terms) {
                // The remainder of the series: (1 − p)^terms.
                add(&mut sum, weight / p, &now);
            }
        }
        if let Some(inverse) = page_rank {
            for (i, row) in sum.iter_mut().enumerate() {
                for (lane, v) in row.iter_mut().enumerate().take(n.saturating_sub(first)) {
                    *v = inverse[(i, first + lane)];
                }
            }
        }
        if self.restart.is_some() {
            write(self.steps, &sum);
        }
    }
}

/// Up to this many nodes personalised PageRank is solved for densely.
const DENSE_NODES: usize = 2048;

/// The most multiplications of a series that is begun.
const MAX_WORK: f64 = 1e13;

/// Targets that are walked to together; the innermost loops run over them.
const LANES: usize = 8;

/// Powers of T in the series of personalised PageRank.
fn terms(p: f64) -> usize {
    let ratio = 1.0 - p;
    if ratio <= 0.0 {
        return 1;
    }
    // ln_1p: a tiny p is lost in 1 − p.
    ((1e-12f64).ln() / (-p).ln_1p()).ceil() as usize
}

/// `sum += factor·term`.
fn add(sum: &mut [[f64; LANES]], factor: f64, term: &[[f64; LANES]]) {
    let entries = sum.as_flattened_mut().iter_mut();
    entries
        .zip(term.as_flattened())
        .for_each(|(sum, v)| *sum += factor * v);
}

/// T of one graph, in compressed rows.
struct Walk {
    /// Where the entries of each row begin, and where those of the last end.
    starts: Vec<usize>,
    /// Columns and probabilities.
    entries: Vec<(u32, f64)>,
}

impl Walk {
    fn new(graph: &Graph, reverse: bool) -> Self {
        let edges = graph.edges().iter();
        let mut edges: Vec<[u32; 2]> = match reverse {
            false => edges.copied().collect(),
            true => edges.map(|&[s, t]| [t, s]).collect(),
        };
        edges.sort_unstable();
        let mut walk = Self {
            starts: vec![0],
            entries: Vec::with_capacity(edges.len()),
        };
        let mut rest = edges.as_slice();
        for node in 0..graph.num_nodes() as u32 {
            let degree = rest.iter().take_while(|[s, _]| *s == node).count();
            let (row, after) = rest.split_at(degree);
            rest = after;
            for run in row.chunk_by(|a, b| a == b) {
                walk.entries
                    .push((run[0][1], run.len() as f64 / degree as f64));
            }
            if degree == 0 {
                walk.entries.push((node, 1.0));
            }
            walk.starts.push(walk.entries.len());
        }
        walk
    }

    fn num_nodes(&self) -> usize {
        self.starts.len() - 1
    }

    fn rows(&self) -> impl Iterator<Item = &[(u32, f64)]> {
        self.starts
            .windows(2)
            .map(|ends| &self.entries[ends[0]..ends[1]])
    }

    /// `to = T·from`.
    fn step(&self, from: &[[f64; LANES]], to: &mut [[f64; LANES]]) {
        for (row, out) in self.rows().zip(to) {
            let mut sum = [0.0; LANES];
            for &(column, p) in row {
                let x = &from[column as usize];
                for lane in 0..LANES {
                    sum[lane] += p * x[lane];
                }
            }
            *out = sum;
        }
    }

    /// `p·(I − (1 − p)·T)⁻¹`. Its condition is at most (2 − p)/p.
    fn page_rank(&self, p: f64) -> Mat<f64> {
        let n = self.num_nodes();
        let mut matrix = Mat::<f64>::identity(n, n);
        for (i, row) in self.rows().enumerate() {
            for &(j, probability) in row {
                matrix[(i, j as usize)] -= (1.0 - p) * probability;
            }
        }
        let mut solution = Mat::<f64>::zeros(n, n);
        (0..n).for_each(|i| solution[(i, i)] = p);
        matrix.partial_piv_lu().solve_in_place(&mut solution);
        solution
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_page_rank_is_what_the_dense_solve_gives() {
        let edges = (0..40i64).map(|i| [(7 * i + i / 5) % 21, (i * i + 3 * i) % 21]);
        // Nodes 21 and 22 have no edges.
        let graph = Graph::builder(23).edges(edges).build().unwrap();
        let walk = Walk::new(&graph, false);
        for (p, steps) in [(0.05, 3), (0.9, 40), (1.0, 2), (0.3, 0)] {
            let recipe = DirectedWalk {
                steps,
                restart: Some(p),
                also_reverse: false,
            };
            let dense = walk.page_rank(p);
            for first in (0..23).step_by(LANES) {
                let mut series = Vec::new();
                let mut keep = |k: usize, columns: &[[f64; LANES]]| {
                    if k == steps {
                        series = columns.to_vec();
                    }
                };
                recipe.walk_to(&walk, first, None, &mut keep);
                assert_eq!(series.len(), 23);
                for (i, row) in series.iter().enumerate() {
                    for (t, v) in (first..23).zip(row) {
                        let off = (v - dense[(i, t)]).abs();
                        assert!(off < 1e-11, "p {p}, {i} to {t}: {off}");
                    }
                }
            }
            assert!((1.0 - p).powi(terms(p) as i32) <= 1.1e-12);
        }
        assert!(terms(1e-9) > 1_000_000_000);
    }
}
