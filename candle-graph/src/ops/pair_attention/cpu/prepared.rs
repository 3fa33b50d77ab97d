//! Weights of pair attention in the kernel's form, made once a model.

use candle_core::{Result, Tensor};

use super::super::{PairAttentionWeights, PairUpdate};
use crate::ops::matmul::Rhs;

/// The attention's weights in the kernel's form.
#[derive(Debug)]
pub(in crate::ops::pair_attention) struct PreparedAttention {
    /// Edge map with its columns reordered: first E_w of all heads, then E_b of all heads.
    pub(super) edge: Rhs,
    pub(super) edge_bias: Vec<f32>,
    /// A_w as a block-diagonal `[D, H]`.
    pub(super) logit: Rhs,
    /// W_Ev as a block-diagonal `[D, D]`.
    pub(super) edge_value: Option<Rhs>,
}

/// The update's weights in the kernel's form: `keep ⊙ e + ê·output + shift`, then, only with a
/// layer norm, the norm and the affine map.
#[derive(Debug)]
pub(in crate::ops::pair_attention) struct PreparedUpdate {
    /// Factor of the old state.
    pub(super) keep: Vec<f32>,
    /// Map of ê with every later factor folded in; `None` is the diagonal `keep_state`.
    pub(super) output: Option<Rhs>,
    /// Factor of ê where there is no output map.
    pub(super) keep_state: Vec<f32>,
    pub(super) shift: Vec<f32>,
    pub(super) norm: Option<PreparedNorm>,
}

/// A layer norm with the affine map behind it folded in.
#[derive(Debug)]
pub(super) struct PreparedNorm {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
    pub(super) eps: f32,
}

fn host(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1::<f32>()
}

impl PreparedAttention {
    pub(super) fn new(weights: &PairAttentionWeights) -> Result<Self> {
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
    pub(super) fn new(update: &PairUpdate, width: usize) -> Result<Self> {
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
