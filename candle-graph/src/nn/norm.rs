//! Loading of normalisation layers.

use candle_core::{D, DType, Result, Tensor, bail};
use candle_nn::VarBuilder;

use crate::graph::Offsets;
use crate::ops::half_precision::{is_half, wide};
use crate::ops::{Affine, LayerNorm, Reduction, segment_reduce};

/// The eps of PyTorch's norms.
pub(super) const NORM_EPS: f64 = 1e-5;

/// Batch normalisation in evaluation mode, with its running statistics (`running_mean`,
/// `running_var`, `weight`, `bias`, each `[width]`) folded into one affine map. The fold is done in
/// double precision.
pub fn batch_norm(width: usize, eps: f64, vb: VarBuilder<'_>) -> Result<Affine> {
    let exact = ExactBatchNorm::new(width, eps, &vb)?.affine()?;
    Ok(Affine {
        scale: exact.scale.to_dtype(vb.dtype())?,
        shift: exact.shift.to_dtype(vb.dtype())?,
    })
}

/// [`batch_norm`] in double precision, to be folded further: `scale ⊙ (x − mean) + bias`, each
/// `[width]`.
pub(super) struct ExactBatchNorm {
    mean: Tensor,
    scale: Tensor,
    bias: Tensor,
    dtype: DType,
}

impl ExactBatchNorm {
    /// Loads what [`batch_norm`] does.
    pub(super) fn new(width: usize, eps: f64, vb: &VarBuilder<'_>) -> Result<Self> {
        let get = |name| vb.get(width, name)?.to_dtype(DType::F64);
        Ok(Self {
            mean: get("running_mean")?,
            scale: (get("weight")? / (get("running_var")? + eps)?.sqrt()?)?,
            bias: get("bias")?,
            dtype: vb.dtype(),
        })
    }

    /// The whole map.
    pub(super) fn affine(&self) -> Result<Affine> {
        Ok(Affine {
            scale: self.scale.clone(),
            shift: (&self.bias - (&self.mean * &self.scale)?)?,
        })
    }

    /// The map in two steps: `x − mean` in the number type of the model, and the rest to be folded.
    /// Where the mean is large against the deviation, folding it into weights would cost digits: a
    /// rounded product of the mean would have to cancel a rounded sum.
    pub(super) fn centred(&self) -> Result<(Affine, Affine)> {
        let centre = Affine {
            scale: self.scale.ones_like()?.to_dtype(self.dtype)?,
            shift: self.mean.neg()?.to_dtype(self.dtype)?,
        };
        let rest = Affine {
            scale: self.scale.clone(),
            shift: self.bias.clone(),
        };
        Ok((centre, rest))
    }
}

/// Layer normalisation over the columns: `weight` and `bias`, each `[width]`.
pub fn layer_norm(width: usize, eps: f64, vb: VarBuilder<'_>) -> Result<LayerNorm> {
    Ok(LayerNorm {
        weight: vb.get(width, "weight")?,
        bias: vb.get(width, "bias")?,
        eps,
    })
}

/// Layer normalisation with one mean and one variance over all nodes and columns of a graph, then
/// an affine map of the columns: PyG's `LayerNorm` in its graph mode (`gt.layer_norm` of GraphGPS).
#[derive(Debug, Clone)]
pub struct GraphLayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl GraphLayerNorm {
    /// Loads `weight` and `bias`, each `[width]`. `eps` is added to the variance.
    ///
    /// # Errors
    /// A width of 0, tensors that are missing or of another shape.
    pub fn new(width: usize, eps: f64, vb: VarBuilder<'_>) -> Result<Self> {
        if width == 0 {
            bail!("graph-mode layer norm: a width of 0");
        }
        Ok(Self {
            weight: vb.get(width, "weight")?,
            bias: vb.get(width, "bias")?,
            eps,
        })
    }

    /// Normalises node states `[nodes, width]`; `node_ptr` are the nodes of every graph.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(&self, x: &Tensor, node_ptr: &Offsets) -> Result<Tensor> {
        if is_half(x) {
            let exact = Self {
                weight: wide(&self.weight)?,
                bias: wide(&self.bias)?,
                eps: self.eps,
            };
            return exact.forward(&wide(x)?, node_ptr)?.to_dtype(x.dtype());
        }
        // All rows of a graph are of one width: its mean is the mean of their means.
        let of_graphs = |x: &Tensor| {
            let rows = x.mean_keepdim(D::Minus1)?;
            segment_reduce(&rows, node_ptr, Reduction::Mean)
        };
        let to_nodes = |graphs: Tensor| graphs.index_select(node_ptr.segment_ids()?, 0);
        let centred = x.broadcast_sub(&to_nodes(of_graphs(x)?)?)?;
        let deviation = (of_graphs(&centred.sqr()?)? + self.eps)?.sqrt()?;
        centred
            .broadcast_div(&to_nodes(deviation)?)?
            .broadcast_mul(&self.weight)?
            .broadcast_add(&self.bias)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{Device, Tensor, Var};

    use super::*;

    #[test]
    fn folded_batch_norm_is_the_textbook_formula() {
        let device = Device::Cpu;
        let tensor = |v: &[f32]| Tensor::new(v, &device).unwrap();
        let map = HashMap::from([
            ("weight".to_string(), tensor(&[2.0, -1.0])),
            ("bias".to_string(), tensor(&[0.5, 3.0])),
            ("running_mean".to_string(), tensor(&[10.0, -4.0])),
            ("running_var".to_string(), tensor(&[4.0, 0.25])),
        ]);
        let vb = VarBuilder::from_tensors(map, DType::F32, &device);
        let norm = batch_norm(2, 1e-5, vb).unwrap();
        let x = Tensor::new(&[[12f32, -3.0]], &device).unwrap();
        let y = norm.forward(&x).unwrap().to_vec2::<f32>().unwrap();
        let expected = [
            2.0 * 2.0 / (4.0f64 + 1e-5).sqrt() + 0.5,
            -1.0 / (0.25f64 + 1e-5).sqrt() + 3.0,
        ];
        for (a, b) in y[0].iter().zip(expected) {
            assert!((f64::from(*a) - b).abs() < 1e-5);
        }
    }

    #[test]
    fn layer_norm_survives_a_large_mean() {
        let device = Device::Cpu;
        let norm = LayerNorm {
            weight: Tensor::ones(4, DType::F32, &device).unwrap(),
            bias: Tensor::zeros(4, DType::F32, &device).unwrap(),
            eps: 1e-5,
        };
        let x = Tensor::new(&[[4096f32, 4097.0, 4098.0, 4099.0]], &device).unwrap();
        let y = norm.forward(&x).unwrap().to_vec2::<f32>().unwrap();
        let expected = [-1.341_636, -0.447_212, 0.447_212, 1.341_636];
        for (a, b) in y[0].iter().zip(expected) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }

    fn graph_norm(weight: &[f32], bias: &[f32]) -> GraphLayerNorm {
        let tensor = |v: &[f32]| Tensor::new(v, &Device::Cpu).unwrap();
        let map = HashMap::from([
            ("weight".to_string(), tensor(weight)),
            ("bias".to_string(), tensor(bias)),
        ]);
        let vb = VarBuilder::from_tensors(map, DType::F32, &Device::Cpu);
        GraphLayerNorm::new(weight.len(), 1e-5, vb).unwrap()
    }

    #[test]
    fn graph_norm_takes_one_mean_and_variance_from_each_graph() {
        let norm = graph_norm(&[2.0, -1.0], &[0.5, 3.0]);
        let x = [[1f32, 2.0], [3.0, 6.0], [1e4, 1e4 + 1.0], [7.0, 7.0]];
        let sizes = [2, 0, 1, 1];
        let node_ptr = Offsets::from_lengths(sizes, &Device::Cpu).unwrap();
        let tensor = Tensor::new(&x, &Device::Cpu).unwrap();
        let found: Vec<Vec<f32>> = norm.forward(&tensor, &node_ptr).unwrap().to_vec2().unwrap();
        for nodes in node_ptr.ranges().filter(|nodes| !nodes.is_empty()) {
            let values: Vec<f64> = (x[nodes.clone()].iter().flatten())
                .map(|&v| f64::from(v))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares = values.iter().map(|v| (v - mean) * (v - mean));
            let variance = squares.sum::<f64>() / values.len() as f64;
            for node in nodes {
                for (column, (weight, bias)) in [(2.0, 0.5), (-1.0, 3.0)].into_iter().enumerate() {
                    let centred = f64::from(x[node][column]) - mean;
                    let expected = centred / (variance + 1e-5).sqrt() * weight + bias;
                    let found = f64::from(found[node][column]);
                    assert!((found - expected).abs() < 1e-5, "{found} {expected}");
                }
            }
        }
    }

    #[test]
    fn gradients_flow_through_the_graph_norm() {
        let norm = graph_norm(&[1.0, 1.0], &[0.0, 0.0]);
        let node_ptr = Offsets::from_lengths([2], &Device::Cpu).unwrap();
        let x = Var::new(&[[1f32, 2.0], [3.0, 6.0]], &Device::Cpu).unwrap();
        let y = norm.forward(x.as_tensor(), &node_ptr).unwrap();
        let gradients = y.get(0).unwrap().sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(x.as_tensor()).unwrap();
        let values: Vec<f32> = gradient.flatten_all().unwrap().to_vec1().unwrap();
        // A shift of all values changes nothing, so that the gradient sums to 0.
        assert!(values.iter().all(|g| g.abs() > 1e-3), "{values:?}");
        assert!(values.iter().sum::<f32>().abs() < 1e-6, "{values:?}");
    }
}
