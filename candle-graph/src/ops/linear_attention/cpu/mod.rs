//! Linear attention in two passes over blocks of nodes: the keys and values of one graph and head
//! become one matrix of features × values, then every query reads it. Memory for features is one
//! block a thread, whatever the size of the graph.
//!
//! A large graph is cut into chunks of nodes whose sums are made side by side and then added in
//! their order. The cut depends on the number of nodes alone, so that results depend neither on the
//! number of threads nor on the other graphs of the batch.

mod features;
mod rotation;
mod sums;

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use self::features::Map;
use self::rotation::Tables;
use self::sums::{GraphScale, Statistics, Sums};
use super::{FeatureMap, HeadWidths, LinearAttentionInput};
use crate::ops::host::{HostF32, HostRows};
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::node_blocks::split_rows;
use crate::ops::simd;
use crate::ops::strided_rows::strided_rows;

/// Nodes whose features are in memory at one time. Sums over a block are made before they join
/// those of the blocks before, which keeps long sums exact.
pub(super) const BLOCK: usize = 128;

/// Nodes of the smallest chunk: enough work to pay for adding up the sums of chunks.
pub(super) const CHUNK: usize = 4 * BLOCK;

/// Chunks of the largest graph: enough for many threads, and a bound of the memory for their sums.
const CHUNKS: usize = 64;

/// Floats that are worked on together. Rows of features are filled up to whole groups.
const LANES: usize = 16;

/// Multiplications below which threads cost more than they save.
const PARALLEL_FROM: usize = 200_000;

/// Floats of sums over keys that are kept at one time, if one graph does not need more: they are
/// read again while they are still in cache.
const WAVE: usize = 1 << 20;

/// What every task reads.
struct Shared<'a> {
    query: HostRows<'a>,
    key: HostRows<'a>,
    value: HostRows<'a>,
    map: Map<'a>,
    rotation: Option<Tables<'a>>,
    heads: usize,
    widths: HeadWidths,
    /// Features of a head and what fills them up to whole groups.
    stride: usize,
    /// Heads that are worked on together: one, or all where a pair may lie in two of them.
    together: usize,
}

impl Shared<'_> {
    /// The heads that are worked on together.
    fn head_groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (heads, together) = (self.heads, self.together);
        let firsts = (0..heads).step_by(together);
        firsts.map(move |first| first..heads.min(first + together))
    }

    /// Floats of the sums over keys of one head.
    fn floats_of_sums(&self) -> usize {
        self.widths.features * self.widths.value + self.stride + self.widths.value
    }
}

/// What a thread works in; what belongs to the heads that are worked on together follows head by
/// head.
struct Scratch {
    /// Features of a block of nodes, `[BLOCK, stride]` a head; zeros in the filling.
    features: Vec<f32>,
    /// The same after the rotation, where there is one.
    rotated: Vec<f32>,
    /// Denominators of a block of nodes, `[BLOCK]` a head.
    denominators: Vec<f32>,
    /// What the features of every query of a block are relative to, `[BLOCK]`.
    levels: Vec<f32>,
    /// Sum of the features of a block, `[stride]`.
    block_sums: Vec<f32>,
    /// Sum of the values of a block, `[v]`.
    block_values: Vec<f32>,
}

impl Scratch {
    fn new(shared: &Shared<'_>) -> Self {
        let rows = shared.together * BLOCK;
        let rotated = match shared.rotation {
            Some(_) => rows * shared.stride,
            None => 0,
        };
        Self {
            features: vec![0.0; rows * shared.stride],
            rotated: vec![0.0; rotated],
            denominators: vec![0.0; rows],
            levels: vec![0.0; BLOCK],
            block_sums: vec![0.0; shared.stride],
            block_values: vec![0.0; shared.widths.value],
        }
    }
}

/// Where tasks run.
struct Runner<'a> {
    shared: &'a Shared<'a>,
    parallel: bool,
    scratch: Scratch,
}

impl Runner<'_> {
    /// The results of `body` for all tasks, in their order.
    fn run<T: Send, R: Send>(
        &mut self,
        tasks: Vec<T>,
        body: impl Fn(T, &mut Scratch) -> R + Sync + Send,
    ) -> Vec<R> {
        if !self.parallel {
            let scratch = &mut self.scratch;
            return tasks.into_iter().map(|task| body(task, scratch)).collect();
        }
        let tasks = tasks.into_par_iter();
        let scratch = || Scratch::new(self.shared);
        tasks
            .map_init(scratch, |scratch, task| body(task, scratch))
            .collect()
    }
}

pub(super) fn forward(input: &LinearAttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    // Parts of one packed projection are read where they are.
    let query = strided_rows(input.query)?;
    let key = strided_rows(input.key)?;
    let value = strided_rows(input.value)?;
    let directions = match input.feature_map {
        FeatureMap::PositiveRandom { projection } => Some(projection.t()?.contiguous()?),
        FeatureMap::Relu { .. } | FeatureMap::Simple => None,
    };
    let rotation = match &input.rotation {
        Some(rotation) => Some([rotation.query.readable()?, rotation.key.readable()?]),
        None => None,
    };
    let shared = Shared {
        query: HostRows::new(&query)?,
        key: HostRows::new(&key)?,
        value: HostRows::new(&value)?,
        map: match (input.feature_map, &directions) {
            (FeatureMap::Relu { eps }, _) => Map::Relu { eps: eps as f32 },
            (_, Some(directions)) => Map::PositiveRandom {
                directions: HostF32::new(directions)?,
            },
            (_, None) => Map::Simple,
        },
        rotation: match (&rotation, &input.rotation) {
            (Some(tensors), Some(rotation)) => Some(Tables::new(tensors, rotation.pairs)?),
            _ => None,
        },
        heads: input.heads,
        widths,
        stride: widths.features.next_multiple_of(LANES),
        together: match input.pairs_straddle(widths) {
            true => input.heads,
            false => 1,
        },
    };

    let (nodes, out_width) = (input.node_ptr.total(), input.heads * widths.value);
    let mut out = vec![0.0f32; nodes * out_width];
    let multiplications = (nodes.saturating_mul(input.heads))
        .saturating_mul(widths.features)
        .saturating_mul(widths.query + widths.value);
    let mut runner = Runner {
        shared: &shared,
        parallel: multiplications >= PARALLEL_FROM,
        scratch: Scratch::new(&shared),
    };
    let graphs: Vec<Range<usize>> = (input.node_ptr.ranges())
        .filter(|nodes| !nodes.is_empty())
        .collect();
    let mut rest = out.as_mut_slice();
    for wave in waves(&graphs, &shared) {
        let rows: usize = wave.iter().map(Range::len).sum();
        let (front, back) = std::mem::take(&mut rest).split_at_mut(rows * out_width);
        rest = back;
        run_wave(wave, front, &mut runner);
    }
    Tensor::from_vec(out, (nodes, out_width), &Device::Cpu)
}

/// Consecutive graphs whose sums over keys are kept at the same time.
fn waves<'g>(
    graphs: &'g [Range<usize>],
    shared: &Shared<'_>,
) -> impl Iterator<Item = &'g [Range<usize>]> {
    let of_chunk = shared.floats_of_sums().saturating_mul(shared.heads);
    let mut filled = 0usize;
    let mut first = true;
    graphs.chunk_by(move |before, next| {
        let floats = |graph: &Range<usize>| chunks(graph).len().saturating_mul(of_chunk);
        if std::mem::take(&mut first) {
            filled = floats(before);
        }
        filled = filled.saturating_add(floats(next));
        let together = filled <= WAVE;
        if !together {
            filled = floats(next);
        }
        together
    })
}

/// One graph of a wave: its nodes, and what brings its features into range.
struct GraphTask {
    nodes: Range<usize>,
    scale: GraphScale,
}

/// Attention within `graphs`, whose results go to `out`.
fn run_wave(graphs: &[Range<usize>], out: &mut [f32], runner: &mut Runner<'_>) {
    let shared = runner.shared;
    let of_chunks: Vec<(usize, Range<usize>)> = (graphs.iter().enumerate())
        .flat_map(|(graph, nodes)| chunks(nodes).map(move |chunk| (graph, chunk)))
        .collect();

    let mut statistics: Vec<Statistics> =
        (graphs.iter()).map(|_| Statistics::new(shared)).collect();
    if Statistics::needed(shared) {
        let tasks = of_chunks.iter().collect();
        let found = runner.run(tasks, |(graph, chunk): &(usize, Range<usize>), scratch| {
            (*graph, sums::statistics(chunk, shared, scratch))
        });
        for (graph, of_chunk) in found {
            statistics[graph].join(&of_chunk);
        }
    }
    let graphs: Vec<GraphTask> = (graphs.iter().zip(statistics))
        .map(|(nodes, statistics)| GraphTask {
            nodes: nodes.clone(),
            scale: statistics.scale(shared.together),
        })
        .collect();

    let tasks = (of_chunks.into_iter())
        .flat_map(|(graph, chunk)| {
            let groups = shared.head_groups();
            groups.map(move |heads| (graph, heads, chunk.clone()))
        })
        .collect();
    let parts = runner.run(tasks, |(graph, heads, chunk), scratch| {
        let sums = sums::collect(&chunk, heads.clone(), &graphs[graph].scale, shared, scratch);
        (graph * shared.heads + heads.start, sums)
    });
    let mut by_head: Vec<Vec<Sums>> = Vec::new();
    by_head.resize_with(graphs.len() * shared.heads, Vec::new);
    for (first, sums) in parts {
        for (place, sums) in sums.into_iter().enumerate() {
            by_head[first + place].push(sums);
        }
    }
    let tasks = by_head.into_iter().enumerate().collect();
    let sums: Vec<Sums> = runner.run(tasks, |(place, parts), _| {
        let nodes = graphs[place / shared.heads].nodes.len();
        Sums::join(parts, nodes, shared)
    });

    let blocks = || {
        let of_graphs = graphs.iter().zip(sums.chunks_exact(shared.heads));
        of_graphs.flat_map(|(graph, sums)| {
            blocks(&graph.nodes, BLOCK).map(move |block| (graph, sums, block))
        })
    };
    let rows = blocks().map(|(_, _, block)| block.len());
    let outs = split_rows(out, rows, shared.heads * shared.widths.value);
    let tasks = blocks().zip(outs).collect();
    runner.run(tasks, |((graph, sums, block), out), scratch| {
        answer(&block, graph, sums, shared, scratch, out);
    });
}

/// Nodes in pieces of `size`, the last one smaller.
fn blocks(
    nodes: &Range<usize>,
    size: usize,
) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
    let end = nodes.end;
    let firsts = nodes.clone().step_by(size);
    firsts.map(move |first| first..end.min(first.saturating_add(size)))
}

/// The pieces of a graph whose sums are made side by side.
fn chunks(nodes: &Range<usize>) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
    let size = nodes.len().div_ceil(CHUNKS).next_multiple_of(BLOCK);
    blocks(nodes, size.max(CHUNK))
}

/// The part of `rows` that belongs to `head` and to the nodes of `range`, from its first value.
fn part<'a>(rows: &'a HostRows<'_>, range: &Range<usize>, head: usize, width: usize) -> &'a [f32] {
    &rows[range.start * rows.stride() + head * width..]
}

/// The results of `block`, `[nodes, H·v]`, from the sums over the keys of its graph, head by head.
fn answer(
    block: &Range<usize>,
    graph: &GraphTask,
    sums: &[Sums],
    shared: &Shared<'_>,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let HeadWidths {
        value, features, ..
    } = shared.widths;
    let (rows, stride, out_stride) = (block.len(), shared.stride, shared.heads * value);
    for heads in shared.head_groups() {
        let places = || heads.clone().enumerate();
        let of_place = |place: usize| place * BLOCK * stride..(place * BLOCK + rows) * stride;
        scratch.levels.fill(f32::NEG_INFINITY);
        for (place, head) in places() {
            let rows = &mut scratch.features[of_place(place)];
            features::prepare_queries(block, head, &graph.scale, shared, rows, &mut scratch.levels);
        }
        for (place, head) in places() {
            features::of_queries(
                block,
                head,
                &scratch.levels,
                &sums[head].features,
                shared,
                &mut scratch.features[of_place(place)],
                &mut scratch.denominators[place * BLOCK..][..rows],
            );
        }
        let numerator = match &shared.rotation {
            Some(tables) => {
                let (from, to) = (&scratch.features, &mut scratch.rotated);
                tables.query.rotate(block, heads.clone(), shared, from, to);
                &scratch.rotated
            }
            None => &scratch.features,
        };
        for (place, head) in places() {
            let out = &mut out[head * value..];
            matmul_views(
                View::new(&numerator[place * BLOCK * stride..], rows, features, stride),
                View::new(&sums[head].context, features, value, value),
                1.0,
                out,
                out_stride,
                Into::Replace,
            );
            let values = part(&shared.value, block, head, value);
            let denominators = &scratch.denominators[place * BLOCK..][..rows];
            finish(graph, values, denominators, shared, out);
        }
    }
}

/// From numerators, in the rows of `out`, to results.
fn finish(
    graph: &GraphTask,
    values: &[f32],
    denominators: &[f32],
    shared: &Shared<'_>,
    out: &mut [f32],
) {
    let width = shared.widths.value;
    let simple = matches!(shared.map, Map::Simple);
    let alone = graph.nodes.len() == 1 && shared.rotation.is_none();
    let weight = graph.nodes.len() as f32;
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            let values = values.chunks(shared.value.stride());
            let rows = out.chunks_mut(shared.heads * width).zip(denominators);
            for ((row, &denominator), value) in rows.zip(values) {
                let row = &mut row[..width];
                let mut denominator = denominator;
                if simple {
                    if alone {
                        row.copy_from_slice(&value[..width]);
                        continue;
                    }
                    denominator += weight;
                    for (x, value) in row.iter_mut().zip(value) {
                        *x += weight * value;
                    }
                }
                // A denominator may be too small for its inverse to be a number.
                match denominator == 0.0 {
                    true => row.fill(0.0),
                    false => row.iter_mut().for_each(|x| *x /= denominator),
                }
            }
        },
    );
}

#[inline(always)]
fn add(to: &mut [f32], values: &[f32]) {
    for (to, &value) in to.iter_mut().zip(values) {
        *to += value;
    }
}

#[inline(always)]
fn scale(values: &mut [f32], factor: f32) {
    for value in values {
        *value *= factor;
    }
}
