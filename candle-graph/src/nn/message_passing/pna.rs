//! Principal neighbourhood aggregation.

use candle_core::{DType, Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::MessageInput;
use crate::nn::linear;
use crate::ops::{self, Activation, LinearWeights, neighbour_statistics};

/// `U·[x_i, mean, max, sum]` of the messages `M·[x_i, x_j, E·e_ij]`, and an affine map after it
/// (PyG's `PNAConv` as GraphGPS sets it up: one tower, one map before and one after the
/// aggregation, no scaling by degrees). A node without incoming edges aggregates zeros.
///
/// Maps that follow one another are multiplied out when they are loaded.
#[derive(Debug, Clone)]
pub struct Pna {
    width: usize,
    /// To the messages' shares of target and source, `[2·width, width]`.
    nodes: LinearWeights,
    /// To their share of the edge, `[width, edge width]`.
    edges: LinearWeights,
    /// From state and aggregates, `[width, 4·width]`.
    output: LinearWeights,
}

impl Pna {
    /// Loads `edge` (`weight` `[width, edge_width]`; `edge_encoder` in PyG), `message`
    /// (`[width, 3·width]`; `pre_nns.0.0`), `update` (`[width, 4·width]`; `post_nns.0.0`) and
    /// `output` (`[width, width]`; `lin`), each with a `bias` `[width]`.
    pub(super) fn new(width: usize, edge_width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let (Some(three), Some(four)) = (width.checked_mul(3), width.checked_mul(4)) else {
            bail!("PNA: a width of {width}");
        };
        let edge = linear(edge_width, width, vb.pp("edge"))?;
        let message = linear(three, width, vb.pp("message"))?;
        let update = linear(four, width, vb.pp("update"))?;
        let output = linear(width, width, vb.pp("output"))?;
        let part = |i: usize| message.weight().narrow(1, i * width, width);
        let of_edge = LinearWeights::new(part(2)?, message.bias().cloned())?;
        Ok(Self {
            width,
            nodes: LinearWeights::new(Tensor::cat(&[part(0)?, part(1)?], 0)?, None)?,
            edges: compose(&of_edge, &edge)?,
            output: compose(&output, &update)?,
        })
    }

    /// New node states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<Tensor> {
        let edge_states = input.edge_states("PNA")?;
        let packed = ops::linear(input.nodes, &self.nodes, Activation::Identity)?;
        let part = |i: usize| packed.narrow(1, i * self.width, self.width);
        let statistics = neighbour_statistics(
            &part(0)?,
            &part(1)?,
            &ops::linear(edge_states, &self.edges, Activation::Identity)?,
            input.edges.adjacency(),
        )?;
        let all = Tensor::cat(&[input.nodes, &statistics], 1)?;
        ops::linear(&all, &self.output, Activation::Identity)
    }
}

/// `outer(inner(x))` as one map, multiplied out in double precision.
fn compose(outer: &LinearWeights, inner: &LinearWeights) -> Result<LinearWeights> {
    let dtype = outer.weight().dtype();
    let double = |t: &Tensor| t.contiguous()?.to_dtype(DType::F64);
    let weight = double(outer.weight())?;
    let mut bias = match inner.bias() {
        Some(bias) => Some(weight.matmul(&double(bias)?.unsqueeze(1)?)?.squeeze(1)?),
        None => None,
    };
    if let Some(of_outer) = outer.bias() {
        let of_outer = double(of_outer)?;
        bias = Some(match bias {
            Some(bias) => (bias + of_outer)?,
            None => of_outer,
        });
    }
    let weight = weight.matmul(&double(inner.weight())?)?.to_dtype(dtype)?;
    let bias = bias.map(|bias| bias.to_dtype(dtype)).transpose()?;
    LinearWeights::new(weight, bias)
}
