//! Softmax attention among the nodes of every graph.

mod cpu;
#[cfg(feature = "flash-attn")]
mod flash;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::work;
use crate::graph::Offsets;

/// What goes into [`attention`]; with N nodes, P ordered node pairs, and H heads whose queries and
/// keys have width d, their values width v.
#[derive(Debug, Clone, Copy)]
pub struct AttentionInput<'a> {
    /// Queries, `[N, H·d]`, head by head.
    pub query: &'a Tensor,
    /// Keys, `[N, H·d]`.
    pub key: &'a Tensor,
    /// Values, `[N, H·v]`.
    pub value: &'a Tensor,
    /// Nodes of every graph.
    pub node_ptr: &'a Offsets,
    /// Number of heads, H.
    pub heads: usize,
    /// Factor of the logits, 1/√d as a rule.
    pub scale: f64,
    /// Added to the logits, `[P, H]` with the pairs in the order of
    /// [`PairLayout`](crate::graph::PairLayout); −∞ takes a pair out.
    pub bias: Option<&'a Tensor>,
}

/// Widths of one head.
#[derive(Debug, Clone, Copy)]
struct HeadWidths {
    /// Of queries and keys.
    query: usize,
    /// Of values.
    value: usize,
}

/// Every node attends to all nodes of its graph, itself included, and to no other: for a target t
/// and every head, the result is `Σ α·V_s` over the sources s, with α the softmax over them of
/// `scale · Q_t·K_s + bias`. Gives `[N, H·v]`, head by head. A target whose every logit is −∞
/// receives zeros.
///
/// # Errors
/// Shapes that do not fit each other, a scale that is not finite.
pub fn attention(input: AttentionInput<'_>) -> Result<Tensor> {
    let widths = check(&input)?;
    let _work = work::record(|| work::attention(&input));
    let tensors = [input.query, input.key, input.value];
    if fused_on_cpu(tensors.into_iter().chain(input.bias)) {
        cpu::forward(&input, widths)
    } else if fused_on_gpu(tensors.into_iter().chain(input.bias)) {
        #[cfg(feature = "flash-attn")]
        if flash::takes(&input, widths) {
            return flash::forward(&input, widths);
        }
        gpu::forward(&input, widths)
    } else {
        reference::forward(&input, widths)
    }
}

fn check(input: &AttentionInput<'_>) -> Result<HeadWidths> {
    let (heads, nodes) = (input.heads, input.node_ptr.total());
    let head_width = |name: &str, tensor: &Tensor| {
        let (rows, width) = tensor.dims2()?;
        match width.checked_div(heads) {
            Some(one) if one > 0 && one * heads == width && rows == nodes => Ok(one),
            _ => bail!(
                "attention: {name} of shape {:?} for {nodes} nodes and {heads} heads",
                tensor.dims()
            ),
        }
    };
    let widths = HeadWidths {
        query: head_width("query", input.query)?,
        value: head_width("value", input.value)?,
    };
    if input.key.dims() != input.query.dims() {
        bail!(
            "attention: key of shape {:?} for a query of {:?}",
            input.key.dims(),
            input.query.dims()
        );
    }
    if !input.scale.is_finite() {
        bail!("attention: a scale of {}", input.scale);
    }
    if let Some(bias) = input.bias {
        let squares = input.node_ptr.lengths().map(|n| n.saturating_mul(n));
        let pairs = squares.fold(0, usize::saturating_add);
        if bias.dims() != [pairs, heads] {
            bail!(
                "attention: bias of shape {:?}, expected [{pairs}, {heads}]",
                bias.dims()
            );
        }
    }
    Ok(widths)
}
