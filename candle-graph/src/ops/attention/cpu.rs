//! Attention in blocks: a task takes some targets of one graph through all heads and, block after
//! block, all sources, with the softmax carried along. No matrix of all pairs is ever made.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::{AttentionInput, HeadWidths};
use crate::ops::host::{HostF32, HostRows};
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::simd;
use crate::ops::strided_rows::strided_rows;

/// Targets that one task takes at most.
pub(super) const TARGETS: usize = 32;

/// Sources whose logits are in memory at one time. The weighted values of a block are summed
/// before they join those of the blocks before, which keeps long sums exact.
pub(super) const SOURCES: usize = 128;

/// Floats that are worked on together. Rows of logits are filled up to whole groups.
const LANES: usize = 16;

/// Multiplications below which threads cost more than they save.
const PARALLEL_FROM: usize = 200_000;

/// Some targets of one graph, and where their results go.
struct Task<'a> {
    nodes: Range<usize>,
    /// First target, counted within the graph.
    first: usize,
    targets: usize,
    /// First pair of the graph.
    pairs: usize,
    out: &'a mut [f32],
}

/// What every task reads.
struct Shared<'a> {
    query: HostRows<'a>,
    key: HostRows<'a>,
    value: HostRows<'a>,
    bias: Option<HostF32<'a>>,
    heads: usize,
    widths: HeadWidths,
    scale: f32,
}

/// The softmax of one target up to the present block.
#[derive(Clone, Copy)]
struct Running {
    /// The largest logit, −∞ before the first.
    largest: f32,
    /// The sum of the exponentials relative to it.
    sum: f32,
}

pub(super) fn forward(input: &AttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    // Parts of one packed projection are read where they are.
    let query = strided_rows(input.query)?;
    let key = strided_rows(input.key)?;
    let value = strided_rows(input.value)?;
    let bias = input.bias.map(Tensor::contiguous).transpose()?;
    let shared = Shared {
        query: HostRows::new(&query)?,
        key: HostRows::new(&key)?,
        value: HostRows::new(&value)?,
        bias: bias.as_ref().map(HostF32::new).transpose()?,
        heads: input.heads,
        widths,
        scale: input.scale as f32,
    };

    let out_width = input.heads * widths.value;
    let mut out = vec![0.0f32; input.node_ptr.total() * out_width];
    let mut rest = out.as_mut_slice();
    let mut tasks = Vec::new();
    let mut pairs = 0;
    for nodes in input.node_ptr.ranges().filter(|nodes| !nodes.is_empty()) {
        let size = nodes.len();
        // Blocks of equal size, as a short one leaves a thread idle.
        let block = size.div_ceil(size.div_ceil(TARGETS));
        for first in (0..size).step_by(block) {
            let targets = block.min(size - first);
            let (front, back) = std::mem::take(&mut rest).split_at_mut(targets * out_width);
            rest = back;
            tasks.push(Task {
                nodes: nodes.clone(),
                first,
                targets,
                pairs,
                out: front,
            });
        }
        pairs += size * size;
    }
    if pairs.saturating_mul(input.heads * (widths.query + widths.value)) < PARALLEL_FROM {
        tasks.into_iter().for_each(|task| run(task, &shared));
    } else {
        tasks.into_par_iter().for_each(|task| run(task, &shared));
    }
    Tensor::from_vec(out, (input.node_ptr.total(), out_width), &Device::Cpu)
}

/// The part of `rows` that belongs to `head` and to the nodes of `range`.
fn part<'a>(rows: &'a HostRows<'_>, range: Range<usize>, head: usize, width: usize) -> View<'a> {
    let start = range.start * rows.stride() + head * width;
    View::new(&rows[start..], range.len(), width, rows.stride())
}

fn run(task: Task<'_>, shared: &Shared<'_>) {
    let arch = pulp::Arch::new();
    let HeadWidths { query, value } = shared.widths;
    let (size, targets) = (task.nodes.len(), task.targets);
    let out_width = shared.heads * value;
    let first_target = task.nodes.start + task.first;
    let mut logits = [0.0f32; TARGETS * SOURCES];
    for head in 0..shared.heads {
        let queries = part(
            &shared.query,
            first_target..first_target + targets,
            head,
            query,
        );
        let out = &mut task.out[head * value..];
        let mut running = [Running {
            largest: f32::NEG_INFINITY,
            sum: 0.0,
        }; TARGETS];
        for first in (0..size).step_by(SOURCES) {
            let sources = SOURCES.min(size - first);
            let range = task.nodes.start + first..task.nodes.start + first + sources;
            let stride = sources.next_multiple_of(LANES);
            let keys = part(&shared.key, range.clone(), head, query).transposed();
            matmul_views(
                queries,
                keys,
                shared.scale,
                &mut logits,
                stride,
                Into::Replace,
            );
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    let rows = logits.chunks_exact_mut(stride).take(targets);
                    for (target, (row, running)) in rows.zip(&mut running).enumerate() {
                        let (present, filling) = row.split_at_mut(sources);
                        filling.fill(f32::NEG_INFINITY);
                        if let Some(bias) = &shared.bias {
                            let pair = task.pairs + (task.first + target) * size + first;
                            let pairs = &bias[pair * shared.heads..(pair + sources) * shared.heads];
                            let of_head = pairs.iter().skip(head).step_by(shared.heads);
                            for (logit, &bias) in present.iter_mut().zip(of_head) {
                                *logit += bias;
                            }
                        }
                        let out = &mut out[target * out_width..][..value];
                        exponentials(row, running, out);
                    }
                },
            );
            matmul_views(
                View::new(&logits, targets, sources, stride),
                part(&shared.value, range, head, value),
                1.0,
                out,
                out_width,
                if first == 0 { Into::Replace } else { Into::Add },
            );
        }
        simd::vectorize(
            arch,
            #[inline(always)]
            || {
                for (target, running) in running.iter().take(targets).enumerate() {
                    // No exponential at all means no weight to give.
                    let factor = match running.sum {
                        0.0 => 0.0,
                        sum => 1.0 / sum,
                    };
                    scale(&mut out[target * out_width..][..value], factor);
                }
            },
        );
    }
}

/// Replaces the logits of a block by their exponentials relative to the largest logit so far, and
/// brings `out`, the weighted values of the blocks before, to the same reference.
#[inline(always)]
fn exponentials(row: &mut [f32], running: &mut Running, out: &mut [f32]) {
    let mut lanes = [running.largest; LANES];
    for group in row.chunks_exact(LANES) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].max(group[lane]);
        }
    }
    let largest = lanes.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    // While every logit is −∞, −∞ − (−∞) would be NaN.
    let reference = match largest {
        f32::NEG_INFINITY => 0.0,
        finite => finite,
    };
    let mut sums = [0.0f32; LANES];
    for group in row.chunks_exact_mut(LANES) {
        for lane in 0..LANES {
            group[lane] = simd::exp(group[lane] - reference);
            sums[lane] += group[lane];
        }
    }
    let sum: f32 = sums.iter().sum();
    if largest > running.largest {
        let change = simd::exp(running.largest - reference);
        running.sum *= change;
        scale(out, change);
        running.largest = largest;
    }
    running.sum += sum;
}

#[inline(always)]
fn scale(values: &mut [f32], factor: f32) {
    for value in values {
        *value *= factor;
    }
}
