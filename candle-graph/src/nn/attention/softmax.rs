//! Multi-head softmax attention.

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use crate::graph::Offsets;
use crate::nn::linear;
use crate::ops::{self, Activation, AttentionInput, LinearWeights, attention};

/// Attention with queries, keys and values that are affine maps of the node states, and an affine
/// map of what comes out: PyTorch's `MultiheadAttention` over the nodes of a graph (the
/// `Transformer` of GraphGPS), for which the logits have the factor 1/√(width / heads).
#[derive(Debug, Clone)]
pub struct MultiHeadAttention {
    heads: usize,
    in_proj: LinearWeights,
    out_proj: LinearWeights,
}

impl MultiHeadAttention {
    /// Loads `in_proj.weight` `[3·width, width]` and `in_proj.bias` `[3·width]` (first the
    /// queries, then the keys, then the values; PyTorch's `in_proj_weight` and `in_proj_bias`),
    /// and `out_proj.weight` `[width, width]` and `out_proj.bias` `[width]`.
    ///
    /// # Errors
    /// A width that the heads do not divide, tensors that are missing or of another shape.
    pub fn new(width: usize, heads: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let packed = width.checked_mul(3).filter(|&packed| packed > 0);
        let (Some(packed), Some(0)) = (packed, width.checked_rem(heads)) else {
            bail!("attention: a width of {width} for {heads} heads");
        };
        Ok(Self {
            heads,
            in_proj: linear(width, packed, vb.pp("in_proj"))?,
            out_proj: linear(width, width, vb.pp("out_proj"))?,
        })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph,
    /// `bias` is added to the logits, `[pairs, heads]` in the order of
    /// [`PairLayout`](crate::graph::PairLayout).
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        let width = self.out_proj.in_dim();
        let packed = ops::linear(nodes, &self.in_proj, Activation::Identity)?;
        let part = |i: usize| packed.narrow(1, i * width, width);
        let attended = attention(AttentionInput {
            query: &part(0)?,
            key: &part(1)?,
            value: &part(2)?,
            node_ptr,
            heads: self.heads,
            scale: 1.0 / ((width / self.heads) as f64).sqrt(),
            bias,
        })?;
        ops::linear(&attended, &self.out_proj, Activation::Identity)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{DType, Device};

    use super::*;

    fn layer(tensors: &[(&str, &[usize])]) -> Result<MultiHeadAttention> {
        let tensors: HashMap<String, Tensor> = tensors
            .iter()
            .map(|&(name, shape)| {
                let tensor = Tensor::full(0.25f32, shape, &Device::Cpu);
                tensor.map(|tensor| (name.to_owned(), tensor))
            })
            .collect::<Result<_>>()?;
        MultiHeadAttention::new(
            4,
            2,
            VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu),
        )
    }

    #[test]
    fn a_graph_of_one_node_sees_its_own_value() {
        let layer = layer(&[
            ("in_proj.weight", &[12, 4]),
            ("in_proj.bias", &[12]),
            ("out_proj.weight", &[4, 4]),
            ("out_proj.bias", &[4]),
        ])
        .unwrap();
        let node_ptr = Offsets::from_lengths([1, 1], &Device::Cpu).unwrap();
        let nodes = Tensor::new(&[[1f32, 2.0, 3.0, 6.0], [0.0, 0.0, 0.0, 4.0]], &Device::Cpu);
        let found = layer.forward(&nodes.unwrap(), &node_ptr, None).unwrap();
        // Every value is a quarter of the row's sum and of one, every output four of its quarters.
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[3.5f32; 4], [1.5; 4]]);
    }

    #[test]
    fn missing_tensors_and_odd_heads_are_named() {
        let message = layer(&[("in_proj.weight", &[12, 4])]).unwrap_err();
        assert!(message.to_string().contains("in_proj.bias"), "{message}");
        let vb = || VarBuilder::zeros(DType::F32, &Device::Cpu);
        for heads in [0, 3] {
            let message = MultiHeadAttention::new(4, heads, vb()).unwrap_err();
            let expected = format!("a width of 4 for {heads} heads");
            assert!(message.to_string().contains(&expected), "{message}");
        }
    }
}
