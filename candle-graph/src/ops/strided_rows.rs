//! Matrices whose rows lie apart: some columns of a wider one, read in place.

use candle_core::{Result, Tensor};

/// Whether `tensor` has rows of adjacent columns, which may lie apart.
pub(super) fn has_strided_rows(tensor: &Tensor) -> bool {
    matches!(tensor.stride(), &[stride, 1] if stride > 0)
}

/// `tensor` itself where it [has strided rows](has_strided_rows), otherwise a copy that has.
pub(super) fn strided_rows(tensor: &Tensor) -> Result<Tensor> {
    match has_strided_rows(tensor) {
        true => Ok(tensor.clone()),
        false => tensor.contiguous(),
    }
}
