//! Pair attention in one blocked pass: a task takes a few targets of one graph with all their
//! sources, and everything between the pair state's read and its rewrite stays in cache. No
//! intermediate of all pairs is ever made.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Result, Tensor, bail};
use rayon::prelude::*;

use super::{
    PairAttentionInput, PairAttentionOutput, PairAttentionWeights, PairOutput, PairUpdate,
};
use crate::graph::PairLayout;
use crate::ops::Activation;
use crate::ops::host::HostF32;
use crate::ops::matmul::{Into, Rhs, matmul};
use crate::ops::segment::{SUM_BLOCK, softmax_rows};
use crate::ops::simd;

/// Pair rows that one task takes at least, if the graph has them, and that one product of the edge
/// map takes at most.
const BLOCK: usize = 256;

/// The attention's weights in the kernel's form.
#[derive(Debug)]
pub(super) struct PreparedAttention {
    /// Edge map with its columns reordered: first E_w of all heads, then E_b of all heads.
    edge: Rhs,
    edge_bias: Vec<f32>,
    /// A_w as a block-diagonal `[D, H]`.
    logit: Rhs,
    /// W_Ev as a block-diagonal `[D, D]`.
    edge_value: Option<Rhs>,
}

/// The update's weights in the kernel's form: `keep ⊙ e + ê·output + shift`, then, only with a
/// layer norm, the norm and the affine map.
#[derive(Debug)]
pub(super) struct PreparedUpdate {
    /// Factor of the old state.
    keep: Vec<f32>,
    /// Map of ê with every later factor folded in; `None` is the diagonal `keep_state`.
    output: Option<Rhs>,
    /// Factor of ê where there is no output map.
    keep_state: Vec<f32>,
    shift: Vec<f32>,
    norm: Option<PreparedNorm>,
}

#[derive(Debug)]
struct PreparedNorm {
    weight: Vec<f32>,
    bias: Vec<f32>,
    eps: f32,
}

fn host(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1::<f32>()
}

impl PreparedAttention {
    fn new(weights: &PairAttentionWeights) -> Result<Self> {
        let (heads, d, width) = (weights.heads, weights.head_dim, weights.width());
        let inputs = weights.edge.in_dim();
        let rows = host(weights.edge.weight())?;
        let bias = match weights.edge.bias() {
            Some(bias) => host(bias)?,
            None => vec![0.0; 2 * width],
        };
        let mut order = Vec::with_capacity(2 * width);
        for part in 0..2 {
            for head in 0..heads {
                order.extend((0..d).map(|i| head * 2 * d + part * d + i));
            }
        }
        let reordered: Vec<f32> = order
            .iter()
            .flat_map(|&row| rows[row * inputs..(row + 1) * inputs].iter().copied())
            .collect();
        let logit_values = host(&weights.logit)?;
        let mut logit = vec![0.0; width * heads];
        for i in 0..d {
            for head in 0..heads {
                logit[(head * d + i) * heads + head] = logit_values[i * heads + head];
            }
        }
        let edge_value = match &weights.edge_value {
            None => None,
            Some(tensor) => {
                let values = host(tensor)?;
                let mut diagonal = vec![0.0; width * width];
                for i in 0..d {
                    for head in 0..heads {
                        for o in 0..d {
                            diagonal[(head * d + i) * width + head * d + o] =
                                values[(i * heads + head) * d + o];
                        }
                    }
                }
                Some(Rhs::new(width, width, diagonal))
            }
        };
        Ok(Self {
            edge: Rhs::from_weight(2 * width, inputs, &reordered),
            edge_bias: order.iter().map(|&row| bias[row]).collect(),
            logit: Rhs::new(width, heads, logit),
            edge_value,
        })
    }
}

impl PreparedUpdate {
    fn new(update: &PairUpdate, width: usize) -> Result<Self> {
        let alpha = match &update.residual_scale {
            Some(scale) => host(scale)?.first().copied().unwrap_or(1.0),
            None => 1.0,
        };
        let (scale, offset) = match &update.affine {
            Some(affine) => (host(&affine.scale)?, host(&affine.shift)?),
            None => (vec![1.0; width], vec![0.0; width]),
        };
        // Without a norm in between, the affine map folds into everything before it.
        let (norm, scale, offset) = match &update.layer_norm {
            None => (None, scale, offset),
            Some(norm) => {
                let (weight, bias) = (host(&norm.weight)?, host(&norm.bias)?);
                let folded = PreparedNorm {
                    weight: weight.iter().zip(&scale).map(|(w, s)| w * s).collect(),
                    bias: bias
                        .iter()
                        .zip(&scale)
                        .zip(&offset)
                        .map(|((b, s), o)| b * s + o)
                        .collect(),
                    eps: norm.eps as f32,
                };
                (Some(folded), vec![1.0; width], vec![0.0; width])
            }
        };
        let mut shift = offset;
        let output = match &update.output {
            None => None,
            Some(linear) => {
                let inputs = linear.in_dim();
                let mut rows = host(linear.weight())?;
                for (row, s) in rows.chunks_exact_mut(inputs.max(1)).zip(&scale) {
                    row.iter_mut().for_each(|w| *w *= s * alpha);
                }
                if let Some(bias) = linear.bias() {
                    for ((o, b), s) in shift.iter_mut().zip(host(bias)?).zip(&scale) {
                        *o += s * alpha * b;
                    }
                }
                Some(Rhs::from_weight(width, inputs, &rows))
            }
        };
        Ok(Self {
            keep_state: scale.iter().map(|s| s * alpha).collect(),
            keep: scale,
            output,
            shift,
            norm,
        })
    }
}

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
    let run = |rows: Rows<'_>| run(&shared, input.layout, input.mask, rows, with_weights);
    let pairs = input.layout.num_pairs();
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
        let CpuStorage::F32(values) = storage else {
            bail!("pair attention: the pair state is not f32");
        };
        let rows = layout
            .contiguous_offsets()
            .and_then(|(start, end)| values.get_mut(start..end));
        let Some(rows) = rows else {
            bail!("pair attention: the pair state is not contiguous");
        };
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
    with_weights: bool,
) -> Results {
    let heads = shared.heads;
    let width = heads * shared.head_dim;
    let pair_width = shared.attention.edge.k();
    let nodes = layout.num_nodes();
    let mut results = Results {
        value: vec![0.0; nodes * width],
        weights: vec![
            0.0;
            if with_weights {
                layout.num_pairs() * heads
            } else {
                0
            }
        ],
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
                    weights: match with_weights {
                        true => take(&mut weights_rest, pairs * heads),
                        false => &mut [],
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

/// `ρ((K_s + Q_t) ⊙ E_w) + E_b` of consecutive pairs, of which the first is the graph's pair
/// number `first`.
#[inline(always)]
fn combine(edge: &[f32], query: &[f32], key: &[f32], first: usize, n: usize, state: &mut [f32]) {
    let width = query.len() / n;
    let (mut target, mut source) = (first / n, first % n);
    for (edge, out) in edge
        .chunks_exact(2 * width)
        .zip(state.chunks_exact_mut(width))
    {
        let (factor, offset) = edge.split_at(width);
        let q = &query[target * width..(target + 1) * width];
        let k = &key[source * width..(source + 1) * width];
        for ((((o, &w), &b), &q), &k) in out.iter_mut().zip(factor).zip(offset).zip(q).zip(k) {
            let score = (k + q) * w;
            *o = score.abs().sqrt().copysign(score) + b;
        }
        source += 1;
        if source == n {
            (target, source) = (target + 1, 0);
        }
    }
}

/// `out[t] += Σ_s alpha[t, s] · rows[s]` per head, for every target that `alpha`
/// `[targets, n, heads]` holds.
#[inline(always)]
fn aggregate(head_dim: usize, alpha: &[f32], rows: &[f32], out: &mut [f32]) {
    match head_dim {
        4 => aggregate_fixed::<4>(alpha, rows, out),
        6 => aggregate_fixed::<6>(alpha, rows, out),
        8 => aggregate_fixed::<8>(alpha, rows, out),
        12 => aggregate_fixed::<12>(alpha, rows, out),
        13 => aggregate_fixed::<13>(alpha, rows, out),
        16 => aggregate_fixed::<16>(alpha, rows, out),
        24 => aggregate_fixed::<24>(alpha, rows, out),
        32 => aggregate_fixed::<32>(alpha, rows, out),
        64 => aggregate_fixed::<64>(alpha, rows, out),
        d => {
            let width = width_of(alpha, rows, out, d);
            let heads = width / d;
            let per_target = alpha.len() / (out.len() / width);
            let mut sum = vec![0.0; width];
            for (alpha, out) in alpha
                .chunks_exact(per_target)
                .zip(out.chunks_exact_mut(width))
            {
                let blocks = alpha.chunks(SUM_BLOCK * heads);
                for (alpha, rows) in blocks.zip(rows.chunks(SUM_BLOCK * width)) {
                    sum.fill(0.0);
                    for (alpha, row) in alpha.chunks_exact(heads).zip(rows.chunks_exact(width)) {
                        let by_head = sum.chunks_exact_mut(d).zip(row.chunks_exact(d));
                        for (&a, (sum, row)) in alpha.iter().zip(by_head) {
                            sum.iter_mut().zip(row).for_each(|(o, &v)| *o += a * v);
                        }
                    }
                    out.iter_mut().zip(&sum).for_each(|(o, &s)| *o += s);
                }
            }
        }
    }
}

/// The row width H·d from the sizes: with T targets and n sources, `rows · out / alpha` is
/// (n·H·d)(T·H·d)/(T·n·H) = H·d².
#[inline(always)]
fn width_of(alpha: &[f32], rows: &[f32], out: &[f32], d: usize) -> usize {
    rows.len() * out.len() / alpha.len() / d
}

#[inline(always)]
fn aggregate_fixed<const D: usize>(alpha: &[f32], rows: &[f32], out: &mut [f32]) {
    let heads = width_of(alpha, rows, out, D) / D;
    let (rows, _) = rows.as_chunks::<D>();
    let (out, _) = out.as_chunks_mut::<D>();
    let per_target = alpha.len() / (out.len() / heads);
    for (alpha, out) in alpha
        .chunks_exact(per_target)
        .zip(out.chunks_exact_mut(heads))
    {
        let blocks = alpha.chunks(SUM_BLOCK * heads);
        for (alpha, rows) in blocks.zip(rows.chunks(SUM_BLOCK * heads)) {
            for (head, out) in out.iter_mut().enumerate() {
                let mut sum = [0.0f32; D];
                let weights = alpha.iter().skip(head).step_by(heads);
                for (&a, row) in weights.zip(rows.iter().skip(head).step_by(heads)) {
                    for i in 0..D {
                        sum[i] += a * row[i];
                    }
                }
                for i in 0..D {
                    out[i] += sum[i];
                }
            }
        }
    }
}

/// The old state scaled and shifted, ready for ê's part to be added; adds it where no map does.
#[inline(always)]
fn keep_rows(update: &PreparedUpdate, rows: &mut [f32], state: &[f32]) {
    let width = update.keep.len();
    for row in rows.chunks_exact_mut(width) {
        for ((r, &k), &s) in row.iter_mut().zip(&update.keep).zip(&update.shift) {
            *r = *r * k + s;
        }
    }
    if update.output.is_none() {
        for (row, state) in rows.chunks_exact_mut(width).zip(state.chunks_exact(width)) {
            for ((r, &e), &k) in row.iter_mut().zip(state).zip(&update.keep_state) {
                *r += e * k;
            }
        }
    }
}

#[inline(always)]
fn normalise(norm: &PreparedNorm, rows: &mut [f32]) {
    let width = norm.weight.len();
    for row in rows.chunks_exact_mut(width) {
        let mean = row.iter().sum::<f32>() / width as f32;
        row.iter_mut().for_each(|v| *v -= mean);
        let variance = row.iter().map(|v| v * v).sum::<f32>() / width as f32;
        let inverse = 1.0 / (variance + norm.eps).sqrt();
        for ((v, &w), &b) in row.iter_mut().zip(&norm.weight).zip(&norm.bias) {
            *v = *v * inverse * w + b;
        }
    }
}
