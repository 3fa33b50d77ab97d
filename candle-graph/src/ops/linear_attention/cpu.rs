//! Linear attention in two passes over blocks of nodes: the keys and values of one graph and head
//! become one matrix of features × values, then every query reads it. Memory for features is one
//! block a thread, whatever the size of the graph.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::{FEATURE_EPS, FeatureMap, HeadWidths, LinearAttentionInput};
use crate::ops::host::{HostF32, HostRows};
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::node_blocks::split_rows;
use crate::ops::simd;

/// Nodes whose features are in memory at one time. Sums over a block are made before they join
/// those of the blocks before, which keeps long sums exact.
pub(super) const BLOCK: usize = 128;

/// Floats that are worked on together. Rows of features are filled up to whole groups.
const LANES: usize = 16;

/// Multiplications below which threads cost more than they save.
const PARALLEL_FROM: usize = 200_000;

const EPS: f32 = FEATURE_EPS as f32;

/// One graph and head, and where its results go: `[nodes, v]`.
struct Task<'a> {
    nodes: Range<usize>,
    head: usize,
    out: &'a mut [f32],
}

/// What every task reads.
struct Shared<'a> {
    query: HostRows<'a>,
    key: HostRows<'a>,
    value: HostRows<'a>,
    /// `[d, features]`.
    directions: HostF32<'a>,
    widths: HeadWidths,
    /// Features and what fills them up to whole groups.
    stride: usize,
}

/// What a thread works in.
struct Scratch {
    /// Features of a block of nodes, `[BLOCK, stride]`.
    features: Vec<f32>,
    /// Sum over the nodes of features ⊗ values, `[features, v]`.
    context: Vec<f32>,
    /// Sum of the features over the nodes, `[stride]`, zeros in the filling.
    sums: Vec<f32>,
    /// The same over one block.
    block_sums: Vec<f32>,
    /// Sum of the values over the nodes, `[v]`.
    values: Vec<f32>,
    /// The same over one block.
    block_values: Vec<f32>,
}

impl Scratch {
    fn new(shared: &Shared<'_>) -> Self {
        let HeadWidths {
            value, features, ..
        } = shared.widths;
        Self {
            features: vec![0.0; BLOCK * shared.stride],
            context: vec![0.0; features * value],
            sums: vec![0.0; shared.stride],
            block_sums: vec![0.0; shared.stride],
            values: vec![0.0; value],
            block_values: vec![0.0; value],
        }
    }
}

pub(super) fn forward(input: &LinearAttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    // Parts of one packed projection are read where they are.
    let query = HostRows::readable(input.query)?;
    let key = HostRows::readable(input.key)?;
    let value = HostRows::readable(input.value)?;
    let FeatureMap::PositiveRandom { projection } = input.feature_map;
    let directions = projection.t()?.contiguous()?;
    let shared = Shared {
        query: HostRows::new(&query)?,
        key: HostRows::new(&key)?,
        value: HostRows::new(&value)?,
        directions: HostF32::new(&directions)?,
        widths,
        stride: widths.features.next_multiple_of(LANES),
    };

    // Head by head within a graph, so that every task owns a slice.
    let (nodes, out_width) = (input.node_ptr.total(), input.heads * widths.value);
    let mut by_head = vec![0.0f32; nodes * out_width];
    let graphs = input.node_ptr.ranges().filter(|nodes| !nodes.is_empty());
    let places: Vec<(Range<usize>, usize)> = graphs
        .flat_map(|nodes| (0..input.heads).map(move |head| (nodes.clone(), head)))
        .collect();
    let rows = places.iter().map(|(nodes, _)| nodes.len());
    let outs = split_rows(&mut by_head, rows, widths.value);
    let tasks: Vec<Task<'_>> = (places.into_iter().zip(outs))
        .map(|((nodes, head), out)| Task { nodes, head, out })
        .collect();
    let multiplications = (nodes.saturating_mul(input.heads))
        .saturating_mul(widths.features)
        .saturating_mul(widths.query + widths.value);
    let parallel = multiplications >= PARALLEL_FROM;
    let scratch = || Scratch::new(&shared);
    if parallel {
        let run = |scratch: &mut Scratch, task| run(task, &shared, scratch);
        tasks.into_par_iter().for_each_init(scratch, run);
    } else {
        let mut scratch = scratch();
        (tasks.into_iter()).for_each(|task| run(task, &shared, &mut scratch));
    }

    let mut out = vec![0.0f32; nodes * out_width];
    let (mut to, mut from) = (out.as_mut_slice(), by_head.as_slice());
    for size in input.node_ptr.lengths() {
        let (front, back) = std::mem::take(&mut to).split_at_mut(size * out_width);
        let (graph, behind) = from.split_at(size * out_width);
        (to, from) = (back, behind);
        for (node, row) in front.chunks_exact_mut(out_width).enumerate() {
            for (head, part) in row.chunks_exact_mut(widths.value).enumerate() {
                let start = (head * size + node) * widths.value;
                part.copy_from_slice(&graph[start..start + widths.value]);
            }
        }
    }
    Tensor::from_vec(out, (nodes, out_width), &Device::Cpu)
}

/// The part of `rows` that belongs to `head` and to the nodes of `range`, from its first value.
fn part<'a>(rows: &'a HostRows<'_>, range: &Range<usize>, head: usize, width: usize) -> &'a [f32] {
    &rows[range.start * rows.stride() + head * width..]
}

fn run(task: Task<'_>, shared: &Shared<'_>, scratch: &mut Scratch) {
    collect_keys(&task, shared, scratch);
    answer_queries(task, shared, scratch);
}

/// The blocks of nodes of a graph.
fn blocks(nodes: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = nodes.end;
    let firsts = nodes.clone().step_by(BLOCK);
    firsts.map(move |first| first..end.min(first + BLOCK))
}

/// `P·x·d^-¼` for the rows x of `block`, `[nodes, stride]`; the filling of the rows is −∞.
fn project(
    rows: &HostRows<'_>,
    block: &Range<usize>,
    head: usize,
    shared: &Shared<'_>,
    out: &mut [f32],
) {
    let HeadWidths {
        query: width,
        features,
        ..
    } = shared.widths;
    let x = part(rows, block, head, width);
    matmul_views(
        View::new(x, block.len(), width, rows.stride()),
        View::new(&shared.directions, width, features, features),
        (width as f32).powf(-0.25),
        out,
        shared.stride,
        Into::Replace,
    );
    for row in out.chunks_exact_mut(shared.stride).take(block.len()) {
        row[features..].fill(f32::NEG_INFINITY);
    }
}

/// Fills the sums over all keys of the task. Features are relative to the largest element of the
/// projections so far; where it grows, the sums follow.
fn collect_keys(task: &Task<'_>, shared: &Shared<'_>, scratch: &mut Scratch) {
    let arch = pulp::Arch::new();
    let HeadWidths {
        query: width,
        value,
        features,
    } = shared.widths;
    let Scratch {
        features: rows,
        context,
        sums,
        block_sums,
        values,
        block_values,
    } = scratch;
    sums.fill(0.0);
    values.fill(0.0);
    let mut largest = f32::NEG_INFINITY;
    for block in blocks(&task.nodes) {
        let first = block.start == task.nodes.start;
        project(&shared.key, &block, task.head, shared, rows);
        let rows = &mut rows[..block.len() * shared.stride];
        let keys = part(&shared.key, &block, task.head, width);
        let of_values = part(&shared.value, &block, task.head, value);
        simd::vectorize(
            arch,
            #[inline(always)]
            || {
                let of_block = maximum(rows);
                if of_block > largest {
                    if !first {
                        let change = simd::exp(largest - of_block);
                        scale(context, change);
                        scale(sums, change);
                    }
                    largest = of_block;
                }
                block_sums.fill(0.0);
                let keys = keys.chunks(shared.key.stride());
                for (row, key) in rows.chunks_exact_mut(shared.stride).zip(keys) {
                    let offset = half_square(&key[..width]) + largest;
                    for (feature, sum) in row.iter_mut().zip(block_sums.iter_mut()) {
                        *feature = simd::exp(*feature - offset);
                        *sum += *feature;
                    }
                }
                add(sums, block_sums);
                block_values.fill(0.0);
                let rows = of_values.chunks(shared.value.stride()).take(block.len());
                for row in rows {
                    add(block_values, &row[..value]);
                }
                add(values, block_values);
            },
        );
        matmul_views(
            View::new(rows, block.len(), features, shared.stride).transposed(),
            View::new(of_values, block.len(), value, shared.value.stride()),
            1.0,
            context,
            value,
            if first { Into::Replace } else { Into::Add },
        );
    }
    // What is added to every feature, summed over the nodes.
    let nodes = task.nodes.len() as f32;
    sums[..features]
        .iter_mut()
        .for_each(|sum| *sum += EPS * nodes);
    scale(values, EPS);
    for row in context.chunks_exact_mut(value) {
        add(row, values);
    }
}

/// The results of the task from the sums over its keys.
fn answer_queries(task: Task<'_>, shared: &Shared<'_>, scratch: &mut Scratch) {
    let arch = pulp::Arch::new();
    let HeadWidths {
        query: width,
        value,
        features,
    } = shared.widths;
    let Scratch {
        features: rows,
        context,
        sums,
        ..
    } = scratch;
    let mut denominators = [0.0f32; BLOCK];
    let mut rest = task.out;
    for block in blocks(&task.nodes) {
        let (out, back) = rest.split_at_mut(block.len() * value);
        rest = back;
        project(&shared.query, &block, task.head, shared, rows);
        let rows = &mut rows[..block.len() * shared.stride];
        let queries = part(&shared.query, &block, task.head, width);
        simd::vectorize(
            arch,
            #[inline(always)]
            || {
                let queries = queries.chunks(shared.query.stride());
                let of_rows = rows.chunks_exact_mut(shared.stride).zip(queries);
                for ((row, query), denominator) in of_rows.zip(&mut denominators) {
                    let offset = half_square(&query[..width]) + maximum(row);
                    let mut lanes = [0.0f32; LANES];
                    let groups = row.chunks_exact_mut(LANES).zip(sums.chunks_exact(LANES));
                    for (group, sums) in groups {
                        for lane in 0..LANES {
                            group[lane] = simd::exp(group[lane] - offset) + EPS;
                            lanes[lane] += group[lane] * sums[lane];
                        }
                    }
                    *denominator = lanes.iter().sum();
                }
            },
        );
        matmul_views(
            View::new(rows, block.len(), features, shared.stride),
            View::new(context, features, value, value),
            1.0,
            out,
            value,
            Into::Replace,
        );
        simd::vectorize(
            arch,
            #[inline(always)]
            || {
                for (row, denominator) in out.chunks_exact_mut(value).zip(&denominators) {
                    scale(row, 1.0 / denominator);
                }
            },
        );
    }
}

/// The largest of whole groups of values.
#[inline(always)]
fn maximum(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for group in values.chunks_exact(LANES) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].max(group[lane]);
        }
    }
    lanes.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// `‖x‖²/(2√d)`.
#[inline(always)]
fn half_square(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (groups, rest) = x.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            lanes[lane] += group[lane] * group[lane];
        }
    }
    let rest: f32 = rest.iter().map(|v| v * v).sum();
    (lanes.iter().sum::<f32>() + rest) * 0.5 / (x.len() as f32).sqrt()
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
