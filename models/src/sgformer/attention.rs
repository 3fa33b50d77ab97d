//! Simple attention, linear in the number of nodes.

use candle_core::{D, Result, Tensor};
use candle_graph::graph::Offsets;
use candle_graph::nn::{RotaryModulation, Rotation, linear};
use candle_graph::ops::{self, Activation, LinearWeights, RotaryPairs, RotationTable};
use candle_nn::VarBuilder;

use super::AttentionBranchConfig;

/// Attention among the nodes of a graph with the weights `n + q_i·k_j` for the node itself and
/// `q_i·k_j` for others, where queries and keys are divided by their Frobenius norms; the mean over
/// heads as wide as the states.
#[derive(Debug, Clone)]
pub(super) struct SimpleAttention {
    heads: usize,
    /// Queries, keys and, where they have a map, values as one map.
    in_proj: LinearWeights,
    value_map: bool,
}

impl SimpleAttention {
    /// Loads `query.{weight,bias}`, `key.{weight,bias}` and, where there is a map to values,
    /// `value.{weight,bias}`: `[heads·width, width]` and `[heads·width]` each (`Wq`, `Wk`, `Wv`).
    pub(super) fn new(
        config: &AttentionBranchConfig,
        width: usize,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let inner = config.heads * width;
        let names: &[&str] = match config.value_map {
            true => &["query", "key", "value"],
            false => &["query", "key"],
        };
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for name in names {
            let map = vb.pp(name);
            weights.push(map.get((inner, width), "weight")?);
            biases.push(map.get(inner, "bias")?);
        }
        let bias = Tensor::cat(&biases, 0)?;
        Ok(Self {
            heads: config.heads,
            in_proj: LinearWeights::new(Tensor::cat(&weights, 0)?, Some(bias))?,
            value_map: config.value_map,
        })
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph.
    pub(super) fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        let (rows, width) = nodes.dims2()?;
        let inner = self.heads * width;
        let packed = ops::linear(nodes, &self.in_proj, Activation::Identity)?;
        let part = |i: usize| packed.narrow(1, i * inner, inner);
        let value = match self.value_map {
            true => part(2)?,
            false => nodes.repeat((1, self.heads))?,
        };
        let attended = simple_attention(
            [&part(0)?, &part(1)?, &value],
            node_ptr,
            self.heads,
            rotation,
        )?;
        attended.reshape((rows, self.heads, width))?.mean(1)
    }
}

fn simple_attention(
    [query, key, value]: [&Tensor; 3],
    node_ptr: &Offsets,
    heads: usize,
    rotation: Option<&Rotation>,
) -> Result<Tensor> {
    let (rows, inner) = query.dims2()?;
    let width = inner / heads;
    let rotated = match rotation {
        Some(rotation) => {
            let of_key = rotation.key.as_ref().unwrap_or(&rotation.query);
            let query = rotate(query, &rotation.query, rotation.pairs, heads)?;
            let key = rotate(key, of_key, rotation.pairs, heads)?;
            Some((query, key, rotation.modulation))
        }
        None => None,
    };
    let (numerator, denominator) = match &rotated {
        Some((q, k, RotaryModulation::BeforeFeatures)) => ([q, k], [q, k]),
        Some((q, k, _)) => ([q, k], [query, key]),
        None => ([query, key], [query, key]),
    };
    let mut out = Vec::with_capacity(node_ptr.num_segments());
    for range in node_ptr.ranges().filter(|range| !range.is_empty()) {
        let (start, n) = (range.start, range.len());
        let split = |x: &Tensor| {
            let x = x.narrow(0, start, n)?.contiguous()?;
            x.reshape((n, heads, width))?.transpose(0, 1)?.contiguous()
        };
        let unit = |x: &Tensor| {
            let x = split(x)?;
            x.broadcast_div(&x.sqr()?.sum_all()?.sqrt()?)
        };
        let value = split(value)?;
        let [q, k] = [unit(numerator[0])?, unit(numerator[1])?];
        let sums = k.transpose(1, 2)?.contiguous()?.matmul(&value)?;
        let above = (q.matmul(&sums)? + (&value * n as f64)?)?;
        let [q, k] = [unit(denominator[0])?, unit(denominator[1])?];
        let below = q
            .broadcast_mul(&k.sum_keepdim(1)?)?
            .sum_keepdim(D::Minus1)?;
        let attended = above.broadcast_div(&(below + n as f64)?)?;
        out.push(attended.transpose(0, 1)?.reshape((n, inner))?);
    }
    match out.is_empty() {
        true => Tensor::zeros((rows, inner), query.dtype(), query.device()),
        false => Tensor::cat(&out, 0),
    }
}

/// `x` `[nodes, heads·width]` with its pairs of columns rotated.
fn rotate(x: &Tensor, table: &RotationTable, pairs: RotaryPairs, heads: usize) -> Result<Tensor> {
    let (rows, inner) = x.dims2()?;
    let groups = match pairs {
        RotaryPairs::FullWidth => 1,
        _ => heads,
    };
    let width = inner / groups;
    let half = width / 2;
    let angles = match pairs {
        RotaryPairs::SharedByHeads => 1,
        _ => groups,
    };
    let x = x.contiguous()?.reshape((rows, groups, width))?;
    let paired = x.narrow(2, 0, 2 * half)?.contiguous()?;
    let paired = paired.reshape((rows, groups, half, 2))?;
    let (even, odd) = (paired.narrow(3, 0, 1)?, paired.narrow(3, 1, 1)?);
    let cos = table.cos.reshape((rows, angles, half, 1))?;
    let sin = table.sin.reshape((rows, angles, half, 1))?;
    let first = (even.broadcast_mul(&cos)? - odd.broadcast_mul(&sin)?)?;
    let second = (even.broadcast_mul(&sin)? + odd.broadcast_mul(&cos)?)?;
    let turned = Tensor::cat(&[first, second], 3)?.reshape((rows, groups, 2 * half))?;
    let rest = x.narrow(2, 2 * half, width - 2 * half)?;
    Tensor::cat(&[turned, rest], 2)?.reshape((rows, inner))
}
