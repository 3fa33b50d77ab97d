//! Row normalisations as data, shared by layers and fused kernels.

use candle_core::{D, Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::half_precision::{is_half, wide};
use super::{affine_rows, layer_norm, work};

/// `scale ⊙ x + shift`, both `[width]`: what BatchNorm is once its running statistics are folded in.
#[derive(Debug, Clone)]
pub struct Affine {
    /// Factor of every column.
    pub scale: Tensor,
    /// Offset of every column.
    pub shift: Tensor,
}

impl Affine {
    /// Applies the map to `[rows, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let _work = work::record(|| work::pointwise(work::AFFINE, x, [&self.scale, &self.shift]));
        let fits = x.rank() == 2 && x.dim(1)? == self.scale.elem_count();
        let map = [&self.scale, &self.shift];
        if fits && fused_on_cpu([x].into_iter().chain(map)) {
            return affine_rows::cpu::forward(x, None, Some(map), None);
        }
        if fits && fused_on_gpu([x].into_iter().chain(map)) {
            return affine_rows::gpu::forward(x, None, Some(map), None);
        }
        x.broadcast_mul(&self.scale)?.broadcast_add(&self.shift)
    }
}

/// Every row of `[rows, width]` divided by its length, or by `eps` where that is larger.
pub fn normalise_rows(x: &Tensor, eps: f64) -> Result<Tensor> {
    let _work = work::record(|| work::pointwise(3, x, []));
    if is_half(x) {
        return normalise_rows(&wide(x)?, eps)?.to_dtype(x.dtype());
    }
    let length = x.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?;
    x.broadcast_div(&length.maximum(eps)?)
}

/// Normalisation of every row to mean 0 and variance 1, then an affine map of the columns. The
/// variance is taken around the mean, so that large means do no harm.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    /// Factor of every column, `[width]`.
    pub weight: Tensor,
    /// Offset of every column, `[width]`.
    pub bias: Tensor,
    /// Added to the variance.
    pub eps: f64,
}

impl LayerNorm {
    /// Normalises `[rows, width]`.
    ///
    /// # Errors
    /// Another width.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.of_sum(x, None)
    }

    /// Normalises `residual + x`, both `[rows, width]`.
    ///
    /// # Errors
    /// Shapes that do not fit each other.
    pub fn forward_sum(&self, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        if residual.dims() != x.dims() {
            bail!(
                "layer norm of a sum of shapes {:?} and {:?}",
                residual.dims(),
                x.dims()
            );
        }
        self.of_sum(x, Some(residual))
    }

    fn of_sum(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let fits = x.rank() == 2 && x.dim(1)? == self.weight.elem_count();
        let _work = work::record(|| work::layer_norm(self, x, residual));
        let tensors = [x, &self.weight, &self.bias].into_iter().chain(residual);
        if fits && fused_on_cpu(tensors.clone()) {
            return layer_norm::cpu::forward(self, x, residual);
        }
        if fits && fused_on_gpu(tensors) {
            return layer_norm::gpu::forward(self, x, residual);
        }
        if is_half(x) {
            let exact = Self {
                weight: wide(&self.weight)?,
                bias: wide(&self.bias)?,
                eps: self.eps,
            };
            let residual = residual.map(wide).transpose()?;
            return exact
                .of_sum(&wide(x)?, residual.as_ref())?
                .to_dtype(x.dtype());
        }
        let x = match residual {
            Some(residual) => &(residual + x)?,
            None => x,
        };
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + self.eps)?.sqrt()?;
        centred
            .broadcast_div(&deviation)?
            .broadcast_mul(&self.weight)?
            .broadcast_add(&self.bias)
    }
}
