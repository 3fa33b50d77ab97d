//! Attention by candle-flash-attn, on CUDA devices.

use candle_core::{DType, Result, Tensor};

use super::{AttentionInput, HeadWidths};

/// Nodes of the largest graph from which its tiles are worth their padding.
const NODES_FROM: usize = 64;

/// Widest head that it takes.
const WIDEST: usize = 256;

/// Whether it can compute this attention, and pays.
pub(super) fn takes(input: &AttentionInput<'_>, widths: HeadWidths) -> bool {
    input.query.device().is_cuda()
        && matches!(input.query.dtype(), DType::F16 | DType::BF16)
        && input.bias.is_none()
        && widths.query == widths.value
        && widths.query <= WIDEST
        && input.node_ptr.max_length() >= NODES_FROM
}

pub(super) fn forward(input: &AttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    let (heads, nodes) = (input.heads, input.node_ptr.total());
    // It wants a multiple of 8 columns: zeros change no product.
    let padding = widths.query.next_multiple_of(8) - widths.query;
    let by_head = |x: &Tensor| {
        let x = x.contiguous()?.reshape((nodes, heads, widths.query))?;
        x.pad_with_zeros(2, 0, padding)?.contiguous()
    };
    let (ptr, longest) = (input.node_ptr.cumulative()?, input.node_ptr.max_length());
    candle_flash_attn::flash_attn_varlen(
        &by_head(input.query)?,
        &by_head(input.key)?,
        &by_head(input.value)?,
        ptr,
        ptr,
        longest,
        longest,
        input.scale as f32,
        false,
    )?
    .narrow(2, 0, widths.value)?
    .contiguous()?
    .reshape((nodes, heads * widths.value))
}
