//! Attention whose logits come from a learned state of every node pair: GRIT's attention
//! (equation 2 of the paper) together with the update of the pair state.

mod cost;
mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use candle_core::{Error, Result, Tensor, bail};

use self::cost::cost;
use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::work::record;
use super::{Activation, Affine, LayerNorm, LinearWeights};
use crate::graph::PairLayout;

/// Parameters of the attention; with H heads of width d, and D = H·d.
#[derive(Debug, Clone)]
pub struct PairAttentionWeights {
    heads: usize,
    head_dim: usize,
    edge: LinearWeights,
    logit: Tensor,
    edge_value: Option<Tensor>,
    activation: Activation,
    clamp: Option<f32>,
    prepared: Arc<OnceLock<cpu::PreparedAttention>>,
}

impl PairAttentionWeights {
    /// Puts the parameters together.
    ///
    /// * `edge`: map of the pair state to `[2·D]`, ordered head by head, in every head first the d
    ///   factors E_w, then the d offsets E_b.
    /// * `logit`: A_w, `[d, H, 1]`.
    /// * `edge_value`: W_Ev, `[d, H, d]`, which brings the aggregated pair states to the node
    ///   (`gt.attn.edge_enhance`).
    /// * `activation`: of the pair state (`gt.attn.act`).
    /// * `clamp`: bound of the logits' magnitude (`gt.attn.clamp`).
    ///
    /// # Errors
    /// Shapes that do not fit, a clamp that is no number.
    pub fn new(
        edge: LinearWeights,
        logit: Tensor,
        edge_value: Option<Tensor>,
        activation: Activation,
        clamp: Option<f32>,
    ) -> Result<Self> {
        let (head_dim, heads, one) = logit.dims3()?;
        if one != 1 || edge.out_dim() != 2 * heads * head_dim || head_dim == 0 || heads == 0 {
            bail!(
                "pair attention: logit weight of shape {:?} with {} edge outputs",
                logit.dims(),
                edge.out_dim()
            );
        }
        if let Some(edge_value) = &edge_value
            && edge_value.dims() != [head_dim, heads, head_dim]
        {
            bail!(
                "pair attention: edge value of shape {:?}, expected [{head_dim}, {heads}, {head_dim}]",
                edge_value.dims()
            );
        }
        if clamp.is_some_and(f32::is_nan) {
            bail!("pair attention: the clamp is not a number");
        }
        Ok(Self {
            heads,
            head_dim,
            edge,
            logit,
            edge_value,
            activation,
            clamp: clamp.map(f32::abs),
            prepared: Arc::default(),
        })
    }

    /// Number of heads, H.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Width of all heads together, D.
    pub fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> + Clone {
        self.edge
            .tensors()
            .chain([&self.logit])
            .chain(&self.edge_value)
    }
}

/// How the pair state of the next layer follows from the activated state ê of this one:
/// `affine(layer_norm(e + residual_scale · (ê·Wᵀ + b)))`, every part optional.
#[derive(Debug, Clone)]
pub struct PairUpdate {
    output: Option<LinearWeights>,
    residual_scale: Option<Tensor>,
    layer_norm: Option<LayerNorm>,
    affine: Option<Affine>,
    prepared: Arc<OnceLock<cpu::PreparedUpdate>>,
}

impl PairUpdate {
    /// Puts the update together; `residual_scale` is a single value (ReZero).
    pub fn new(
        output: Option<LinearWeights>,
        residual_scale: Option<Tensor>,
        layer_norm: Option<LayerNorm>,
        affine: Option<Affine>,
    ) -> Self {
        Self {
            output,
            residual_scale,
            layer_norm,
            affine,
            prepared: Arc::default(),
        }
    }

    /// Checks that the norms have a value for every column of the pair state.
    fn check_columns(&self, width: usize) -> Result<()> {
        let norm = self.layer_norm.iter().flat_map(|n| [&n.weight, &n.bias]);
        let affine = self.affine.iter().flat_map(|a| [&a.scale, &a.shift]);
        for tensor in norm.chain(affine) {
            if tensor.dims() != [width] {
                bail!(
                    "pair attention: a norm of shape {:?} for a pair state of {width}",
                    tensor.dims()
                );
            }
        }
        match &self.residual_scale {
            Some(scale) if scale.elem_count() != 1 => bail!(
                "pair attention: a residual scale of shape {:?}, expected a single value",
                scale.dims()
            ),
            _ => Ok(()),
        }
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> + Clone {
        let norm = self.layer_norm.iter().flat_map(|n| [&n.weight, &n.bias]);
        let affine = self.affine.iter().flat_map(|a| [&a.scale, &a.shift]);
        self.output
            .iter()
            .flat_map(LinearWeights::tensors)
            .chain(&self.residual_scale)
            .chain(norm)
            .chain(affine)
    }
}

/// What to do with the pair state.
#[derive(Debug, Clone, Copy)]
pub enum PairOutput<'a> {
    /// Nothing: the result has no pair state.
    Dropped,
    /// Make the next state in a new tensor.
    New(&'a PairUpdate),
    /// Make the next state in the storage of the present one where the kernel can; the present
    /// one must not be read again.
    InPlace(&'a PairUpdate),
}

/// Tensors that go in; with N nodes, P pairs and D the width.
#[derive(Debug, Clone, Copy)]
pub struct PairAttentionInput<'a> {
    /// Queries, `[N, D]`.
    pub query: &'a Tensor,
    /// Keys, `[N, D]`.
    pub key: &'a Tensor,
    /// Values, `[N, D]`.
    pub value: &'a Tensor,
    /// Pair state, `[P, D]`.
    pub pair: &'a Tensor,
    /// Where the pairs lie.
    pub layout: &'a PairLayout,
    /// Pairs that take part, one flag a pair; all of them if absent. Every target needs at least
    /// one. The state of the others is updated but never read.
    pub mask: Option<&'a [bool]>,
}

/// Tensors that come out.
#[derive(Debug, Clone)]
pub struct PairAttentionOutput {
    /// Aggregated values, `[N, D]`.
    pub value: Tensor,
    /// The next pair state, `[P, D]`, unless it was dropped.
    pub pair: Option<Tensor>,
    /// Attention weights after the softmax, `[P, H]`, if asked for.
    pub weights: Option<Tensor>,
}

/// For every pair (source s, target t) and head: `ê = σ(ρ((K_s + Q_t) ⊙ E_w) + E_b)` with
/// `ρ(x) = sign(x)·√|x|` and `[E_w, E_b]` the edge map of the pair state; the logit is `A_w·ê`,
/// clamped; softmax over the sources of every target; the target receives
/// `Σ α·V_s + W_Ev Σ α·ê`.
///
/// # Errors
/// Shapes that do not fit the layout or each other.
pub fn pair_attention(
    input: PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    output: PairOutput<'_>,
    with_weights: bool,
) -> Result<PairAttentionOutput> {
    let width = weights.width();
    let nodes = input.layout.num_nodes();
    let pairs = input.layout.num_pairs().map_err(Error::wrap)?;
    for (name, tensor, rows, columns) in [
        ("query", input.query, nodes, width),
        ("key", input.key, nodes, width),
        ("value", input.value, nodes, width),
        ("pair state", input.pair, pairs, weights.edge.in_dim()),
    ] {
        if tensor.dims() != [rows, columns] {
            bail!(
                "pair attention: {name} of shape {:?}, expected [{rows}, {columns}]",
                tensor.dims()
            );
        }
    }
    if let Some(mask) = input.mask
        && mask.len() != pairs
    {
        bail!("pair attention: a mask of {} for {pairs} pairs", mask.len());
    }
    let update = match output {
        PairOutput::Dropped => None,
        PairOutput::New(update) | PairOutput::InPlace(update) => Some(update),
    };
    if let Some(update) = update {
        let (from, to) = match &update.output {
            Some(linear) => (linear.in_dim(), linear.out_dim()),
            None => (width, width),
        };
        if from != width || to != weights.edge.in_dim() {
            bail!(
                "pair attention: an update of {from} to {to} for width {width} and a pair state of {}",
                weights.edge.in_dim()
            );
        }
    }
    if let Some(update) = update {
        update.check_columns(weights.edge.in_dim())?;
    }
    let tensors = [input.query, input.key, input.value, input.pair]
        .into_iter()
        .chain(weights.tensors())
        .chain(update.into_iter().flat_map(PairUpdate::tensors));
    let _work = record(|| cost(&input, weights, update, with_weights, tensors.clone()));
    if fused_on_cpu(tensors.clone()) {
        cpu::forward(&input, weights, output, with_weights)
    } else if width <= gpu::WIDEST && fused_on_gpu(tensors) {
        gpu::forward(&input, weights, update, with_weights)
    } else {
        reference::forward(&input, weights, update, with_weights)
    }
}
