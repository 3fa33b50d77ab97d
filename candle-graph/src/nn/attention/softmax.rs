//! Multi-head softmax attention.

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::refuse_rotated_features;
use crate::graph::Offsets;
use crate::nn::{Rotation, attention_projection, linear, linear_no_bias};
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
    /// and `out_proj.weight` `[width, width]` and `out_proj.bias` `[width]`. Without `use_bias`
    /// there are the two weights only.
    ///
    /// # Errors
    /// A width that the heads do not divide, tensors that are missing or of another shape.
    pub fn new(width: usize, heads: usize, use_bias: bool, vb: VarBuilder<'_>) -> Result<Self> {
        let packed = width.checked_mul(3).filter(|&packed| packed > 0);
        let (Some(packed), Some(0)) = (packed, width.checked_rem(heads)) else {
            bail!("attention: a width of {width} for {heads} heads");
        };
        let map = |out, vb| match use_bias {
            true => linear(width, out, vb),
            false => linear_no_bias(width, out, vb),
        };
        Ok(Self {
            heads,
            in_proj: map(packed, vb.pp("in_proj"))?,
            out_proj: map(width, vb.pp("out_proj"))?,
        })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph,
    /// `bias` is added to the logits, `[pairs, heads]` in the order of
    /// [`PairLayout`](crate::graph::PairLayout); `rotation` turns queries and keys.
    ///
    /// # Errors
    /// Shapes that do not fit, a rotation behind a feature map, which softmax attention does not
    /// have.
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        bias: Option<&Tensor>,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        refuse_rotated_features("softmax", rotation)?;
        let width = self.out_proj.in_dim();
        let packed = attention_projection(nodes, &self.in_proj, (self.heads, width), rotation)?;
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

    fn layer(use_bias: bool, tensors: &[(&str, &[usize])]) -> Result<MultiHeadAttention> {
        let tensors: HashMap<String, Tensor> = tensors
            .iter()
            .map(|&(name, shape)| {
                let tensor = Tensor::full(0.25f32, shape, &Device::Cpu);
                tensor.map(|tensor| (name.to_owned(), tensor))
            })
            .collect::<Result<_>>()?;
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        MultiHeadAttention::new(4, 2, use_bias, vb)
    }

    #[test]
    fn a_graph_of_one_node_sees_its_own_value() {
        let weights: [(&str, &[usize]); 2] =
            [("in_proj.weight", &[12, 4]), ("out_proj.weight", &[4, 4])];
        let biases: [(&str, &[usize]); 2] = [("in_proj.bias", &[12]), ("out_proj.bias", &[4])];
        let node_ptr = Offsets::from_lengths([1, 1], &Device::Cpu).unwrap();
        let nodes = Tensor::new(&[[1f32, 2.0, 3.0, 6.0], [0.0, 0.0, 0.0, 4.0]], &Device::Cpu);
        let nodes = nodes.unwrap();
        // Every value is a quarter of the row's sum and of one, every output four of its quarters
        // and one more.
        let with_bias = layer(true, &[weights, biases].concat()).unwrap();
        let found = with_bias.forward(&nodes, &node_ptr, None, None).unwrap();
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[3.5f32; 4], [1.5; 4]]);
        let without = layer(false, &weights).unwrap();
        let found = without.forward(&nodes, &node_ptr, None, None).unwrap();
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[3.0f32; 4], [1.0; 4]]);
    }

    #[test]
    fn missing_tensors_and_odd_heads_are_named() {
        let message = layer(true, &[("in_proj.weight", &[12, 4])]).unwrap_err();
        assert!(message.to_string().contains("in_proj.bias"), "{message}");
        let vb = || VarBuilder::zeros(DType::F32, &Device::Cpu);
        for heads in [0, 3] {
            let message = MultiHeadAttention::new(4, heads, true, vb()).unwrap_err();
            let expected = format!("a width of 4 for {heads} heads");
            assert!(message.to_string().contains(&expected), "{message}");
        }
    }
}
