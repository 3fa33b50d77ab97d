//! Pair attention in one blocked pass: a task takes a few targets of one graph with all their
//! sources, and everything between the pair state's read and its rewrite stays in cache. No
//! intermediate of all pairs is ever made.

mod loops;
mod prepared;

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, Device, Error, InplaceOp1, Layout, Result, Tensor, bail};
use rayon::prelude::*;

use super::{PairAttentionInput, PairAttentionOutput, PairAttentionWeights, PairOutput};
use crate::graph::PairLayout;
use crate::ops::Activation;
use crate::ops::host::{self, HostF32};
use crate::ops::matmul::{Into, matmul};
use crate::ops::segment::softmax_rows;
use crate::ops::simd;
use loops::{aggregate, combine, keep_rows, normalise};
pub(super) use prepared::{PreparedAttention, PreparedUpdate};

/// Pair rows that one task takes at least, if the graph has them, and that one product of the edge
/// map takes at most.
const BLOCK: usize = 256;

/// The pair rows of a task.
enum Rows<'a> {
    Read(&'a [f32]),
    Update(&'a mut [f32]),
}

/// Some targets of one graph with all their sources, and where their results go.
struct Task<'a> {
    first_node: usize,
    nodes: usize,
    first_target: usize,
    rows: Rows<'a>,
    value: &'a mut [f32],
    edge: &'a mut [f32],
    weights: &'a mut [f32],
    mask: Option<&'a [bool]>,
}

/// Cuts the front `len` elements off a mutable slice.
fn take<'a, T>(rest: &mut &'a mut [T], len: usize) -> &'a mut [T] {
    let (front, back) = std::mem::take(rest).split_at_mut(len);
    *rest = back;
    front
}

/// What every task reads.
struct Shared<'a> {
    query: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    heads: usize,
    head_dim: usize,
    activation: Activation,
    clamp: Option<f32>,
    attention: &'a PreparedAttention,
    update: Option<&'a PreparedUpdate>,
}

#[derive(Default)]
struct Scratch {
    edge: Vec<f32>,
    state: Vec<f32>,
    logits: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

pub(super) fn forward(
    input: &PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    output: PairOutput<'_>,
    with_weights: bool,
) -> Result<PairAttentionOutput> {
    let attention = match weights.prepared.get() {
        Some(prepared) => prepared,
        None => {
            let made = PreparedAttention::new(weights)?;
            weights.prepared.get_or_init(|| made)
        }
    };
    let (update, in_place) = match output {
        PairOutput::Dropped => (None, false),
        PairOutput::New(update) => (Some(update), false),
        PairOutput::InPlace(update) => (Some(update), true),
    };
    let update = match update {
        None => None,
        Some(update) => Some(match update.prepared.get() {
            Some(prepared) => prepared,
            None => {
                let made = PreparedUpdate::new(update, weights.edge.in_dim())?;
                update.prepared.get_or_init(|| made)
            }
        }),
    };
    let (query, key, value) = (
        input.query.contiguous()?,
        input.key.contiguous()?,
        input.value.contiguous()?,
    );
    let (query, key, value) = (
        HostF32::new(&query)?,
        HostF32::new(&key)?,
        HostF32::new(&value)?,
    );
    let shared = Shared {
        query: &query,
        key: &key,
        value: &value,
        heads: weights.heads,
        head_dim: weights.head_dim,
        activation: weights.activation,
        clamp: weights.clamp,
        attention,
        update,
    };
    let pairs = input.layout.num_pairs().map_err(Error::wrap)?;
    let weighed = if with_weights { pairs } else { 0 };
    let run = |rows: Rows<'_>| run(&shared, input.layout, input.mask, rows, weighed);
    let width = weights.edge.in_dim();

    let (results, pair) = if update.is_none() {
        let pair = input.pair.contiguous()?;
        let rows = HostF32::new(&pair)?;
        (run(Rows::Read(&rows)), None)
    } else if in_place && input.pair.is_contiguous() {
        let op = UpdateInPlace {
            run: &run,
            results: Mutex::new(None),
        };
        input.pair.inplace_op1(&op)?;
        let results = op
            .results
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(results) = results else {
            bail!("pair attention: the kernel did not run");
        };
        (results, Some(input.pair.clone()))
    } else {
        let mut rows = HostF32::new(&input.pair.contiguous()?)?.to_vec();
        let results = run(Rows::Update(&mut rows));
        let pair = Tensor::from_vec(rows, (pairs, width), &Device::Cpu)?;
        (results, Some(pair))
    };
    let shape = (input.layout.num_nodes(), weights.width());
    Ok(PairAttentionOutput {
        value: Tensor::from_vec(results.value, shape, &Device::Cpu)?,
        pair,
        weights: match with_weights {
            true => Some(Tensor::from_vec(
                results.weights,
                (pairs, weights.heads),
                &Device::Cpu,
            )?),
            false => None,
        },
    })
}

struct Results {
    value: Vec<f32>,
    weights: Vec<f32>,
}

/// Runs the kernel over the storage of the pair state itself.
struct UpdateInPlace<'a> {
    run: &'a dyn Fn(Rows<'_>) -> Results,
    results: Mutex<Option<Results>>,
}

impl InplaceOp1 for UpdateInPlace<'_> {
    fn name(&self) -> &'static str {
        "pair-attention"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let rows = host::values_mut(storage, layout, self.name())?;
        let results = (self.run)(Rows::Update(rows));
        *self.results.lock().unwrap_or_else(PoisonError::into_inner) = Some(results);
        Ok(())
    }
}

fn run(
    shared: &Shared<'_>,
    layout: &PairLayout,
    mask: Option<&[bool]>,
    rows: Rows<'_>,
    weighed: usize,
) -> Results {
    let heads = shared.heads;
    let width = heads * shared.head_dim;
    let pair_width = shared.attention.edge.k();
    let nodes = layout.num_nodes();
    let mut results = Results {
        value: vec![0.0; nodes * width],
        weights: vec![0.0; weighed * heads],
    };
    let mut edge = match &shared.attention.edge_value {
        Some(_) => vec![0.0; nodes * width],
        None => Vec::new(),
    };

    let tasks = {
        let mut tasks = Vec::new();
        let mut rest = rows;
        let mut value_rest = results.value.as_mut_slice();
        let mut edge_rest = edge.as_mut_slice();
        let mut weights_rest = results.weights.as_mut_slice();
        let mut mask_rest = mask;
        for range in layout.node_ptr().ranges() {
            let n = range.len();
            let per_task = (BLOCK / n.max(1)).max(1);
            let mut target = 0;
            while target < n {
                let targets = per_task.min(n - target);
                let pairs = targets * n;
                let rows = match &mut rest {
                    Rows::Read(rest) => {
                        let (front, back) = rest.split_at(pairs * pair_width);
                        *rest = back;
                        Rows::Read(front)
                    }
                    Rows::Update(rest) => Rows::Update(take(rest, pairs * pair_width)),
                };
                tasks.push(Task {
                    first_node: range.start,
                    nodes: n,
                    first_target: target,
                    rows,
                    value: take(&mut value_rest, targets * width),
                    edge: match edge_rest.is_empty() {
                        true => &mut [],
                        false => take(&mut edge_rest, targets * width),
                    },
                    weights: match weights_rest.is_empty() {
                        true => &mut [],
                        false => take(&mut weights_rest, pairs * heads),
                    },
                    mask: mask_rest.map(|rest| &rest[..pairs]),
                });
                mask_rest = mask_rest.map(|rest| &rest[pairs..]);
                target += targets;
            }
        }
        tasks
    };
    let arch = pulp::Arch::new();
    tasks.into_par_iter().for_each(|task| {
        SCRATCH.with_borrow_mut(|scratch| run_task(shared, task, scratch, arch));
    });
    if let Some(edge_value) = &shared.attention.edge_value {
        matmul(&edge, edge_value, &mut results.value, Into::Add);
    }
    results
}

/// Grows a scratch buffer without touching what it holds; every element is written before it is
/// read.
fn grown(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

fn run_task(shared: &Shared<'_>, mut task: Task<'_>, scratch: &mut Scratch, arch: pulp::Arch) {
    let (heads, d) = (shared.heads, shared.head_dim);
    let width = heads * d;
    let n = task.nodes;
    let pair_width = shared.attention.edge.k();
    let pairs = task.value.len() / width * n;
    let graph = task.first_node * width..(task.first_node + n) * width;
    let (query, key, value) = (
        &shared.query[graph.clone()],
        &shared.key[graph.clone()],
        &shared.value[graph],
    );
    let state = grown(&mut scratch.state, pairs * width);
    {
        let rows: &[f32] = match &task.rows {
            Rows::Read(rows) => rows,
            Rows::Update(rows) => rows,
        };
        for first in (0..pairs).step_by(BLOCK) {
            let count = BLOCK.min(pairs - first);
            let edge = grown(&mut scratch.edge, count * 2 * width);
            edge.chunks_exact_mut(2 * width)
                .for_each(|row| row.copy_from_slice(&shared.attention.edge_bias));
            let rows = &rows[first * pair_width..(first + count) * pair_width];
            matmul(rows, &shared.attention.edge, edge, Into::Add);
            let state = &mut state[first * width..(first + count) * width];
            let first = task.first_target * n + first;
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    combine(edge, query, key, first, n, state);
                    shared.activation.apply(state);
                },
            );
        }
    }
    let logits = grown(&mut scratch.logits, pairs * heads);
    matmul(state, &shared.attention.logit, logits, Into::Replace);
    simd::vectorize(
        arch,
        #[inline(always)]
        || {
            if let Some(bound) = shared.clamp {
                for l in logits.iter_mut() {
                    *l = l.clamp(-bound, bound);
                }
            }
            if let Some(mask) = task.mask {
                for (row, _) in logits
                    .chunks_exact_mut(heads)
                    .zip(mask)
                    .filter(|(_, on)| !**on)
                {
                    row.fill(f32::NEG_INFINITY);
                }
            }
            for target in logits.chunks_exact_mut(n * heads) {
                softmax_rows(target, heads);
            }
            aggregate(d, logits, value, task.value);
            if !task.edge.is_empty() {
                for ((alpha, state), out) in logits
                    .chunks_exact(n * heads)
                    .zip(state.chunks_exact(n * width))
                    .zip(task.edge.chunks_exact_mut(width))
                {
                    aggregate(d, alpha, state, out);
                }
            }
        },
    );
    if !task.weights.is_empty() {
        task.weights.copy_from_slice(logits);
    }
    if let (Rows::Update(rows), Some(update)) = (&mut task.rows, shared.update) {
        simd::vectorize(
            arch,
            #[inline(always)]
            || keep_rows(update, rows, state),
        );
        if let Some(output) = &update.output {
            matmul(state, output, rows, Into::Add);
        }
        if let Some(norm) = &update.norm {
            simd::vectorize(
                arch,
                #[inline(always)]
                || normalise(norm, rows),
            );
        }
    }
}
