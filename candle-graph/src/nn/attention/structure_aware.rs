//! Multi-head attention whose queries and keys may come from other states than its values.

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use crate::graph::Offsets;
use crate::nn::{linear, linear_no_bias};
use crate::ops::{self, Activation, AttentionInput, LinearWeights, attention};

/// What shapes a [`StructureAwareAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StructureAwareAttentionConfig {
    /// Width of the states.
    pub width: usize,
    /// Number of heads.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Whether queries, keys and values have a bias; the output always has.
    pub bias: bool,
    /// Whether queries and keys have an imaginary part.
    pub complex: bool,
    /// Whether imaginary parts have maps of their own.
    pub separate_imaginary: bool,
    /// Width of the pairs' encodings that bias the logits, where there are any.
    pub pair_encoding: Option<usize>,
}

/// The attention of the structure-aware transformer (Chen et al., 2022) as "Transformers Meet
/// Directed Graphs" has it: values are maps of the states, queries and keys of what a structure
/// extractor makes of them, with a complex positional encoding where there is one. The logits are
/// the real part of `q·k`, without conjugation, divided by √head_dim, plus a map of the pairs'
/// encodings to the heads.
#[derive(Debug, Clone)]
pub struct StructureAwareAttention {
    config: StructureAwareAttentionConfig,
    /// Queries, keys and values of the same states, side by side.
    packed: LinearWeights,
    /// Queries and keys.
    query_key: LinearWeights,
    value: LinearWeights,
    imaginary: Option<LinearWeights>,
    output: LinearWeights,
    pair_bias: Option<LinearWeights>,
}

/// What the queries and keys are made of.
#[derive(Debug, Clone, Copy)]
pub struct QueryKeyStates<'a> {
    /// The states, or their real part, `[rows, width]`; without them those of the values.
    pub real: Option<&'a Tensor>,
    /// Their imaginary part.
    pub imaginary: Option<&'a Tensor>,
}

impl StructureAwareAttention {
    /// Loads `query`, `key` and `value` (`weight` `[heads·head_dim, width]`, `bias`
    /// `[heads·head_dim]` where it is wanted), `output` (`weight` `[width, heads·head_dim]`, `bias`
    /// `[width]`), `query_imaginary` and `key_imaginary` where they are wanted, and `pair_bias`
    /// (`weight` `[heads, pair encoding]`, `bias` `[heads]`).
    ///
    /// # Errors
    /// Sizes of 0, tensors that are missing or of another shape.
    pub fn new(config: StructureAwareAttentionConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let StructureAwareAttentionConfig {
            width,
            heads,
            head_dim,
            bias,
            ..
        } = config;
        let inner = heads.checked_mul(head_dim).filter(|&inner| inner > 0);
        let Some(inner) = inner.filter(|_| width > 0) else {
            bail!("attention: {heads} heads of width {head_dim} for states of width {width}");
        };
        let map = |name: &str| match bias {
            true => linear(width, inner, vb.pp(name)),
            false => linear_no_bias(width, inner, vb.pp(name)),
        };
        let packed = stacked(&[&map("query")?, &map("key")?, &map("value")?])?;
        let query_key = rows(&packed, 0, 2 * inner)?;
        Ok(Self {
            imaginary: match (config.complex, config.separate_imaginary) {
                (false, _) => None,
                (true, false) => Some(query_key.clone()),
                (true, true) => Some(stacked(&[
                    &map("query_imaginary")?,
                    &map("key_imaginary")?,
                ])?),
            },
            value: rows(&packed, 2 * inner, inner)?,
            query_key,
            packed,
            output: linear(inner, width, vb.pp("output"))?,
            pair_bias: match config.pair_encoding {
                Some(encoding) => Some(linear(encoding, heads, vb.pp("pair_bias"))?),
                None => None,
            },
            config,
        })
    }

    /// States `[rows, width]` to the same shape; every row attends to the rows of its segment.
    /// `pair_encodings` are `[pairs, encoding]` in the order of
    /// [`PairLayout`](crate::graph::PairLayout).
    ///
    /// # Errors
    /// Shapes that do not fit, an imaginary part or encodings that the layer was not made for.
    pub fn forward(
        &self,
        values: &Tensor,
        of_query_key: QueryKeyStates<'_>,
        segments: &Offsets,
        pair_encodings: Option<&Tensor>,
    ) -> Result<Tensor> {
        let StructureAwareAttentionConfig {
            heads, head_dim, ..
        } = self.config;
        let inner = heads * head_dim;
        let (mut query, mut key, value) = match of_query_key.real {
            None => {
                let packed = ops::linear(values, &self.packed, Activation::Identity)?;
                let part = |i: usize| packed.narrow(1, i * inner, inner);
                (part(0)?, part(1)?, part(2)?)
            }
            Some(states) => {
                let packed = ops::linear(states, &self.query_key, Activation::Identity)?;
                let part = |i: usize| packed.narrow(1, i * inner, inner);
                let value = ops::linear(values, &self.value, Activation::Identity)?;
                (part(0)?, part(1)?, value)
            }
        };
        match (of_query_key.imaginary, &self.imaginary) {
            (None, None) => {}
            (Some(states), Some(map)) => {
                let packed = ops::linear(states, map, Activation::Identity)?;
                let part = |i: usize| packed.narrow(1, i * inner, inner);
                // Re((a + ib)·(c + id)) = a·c − b·d: a scalar product of twice the width.
                let rows = packed.dim(0)?;
                let beside = |real: &Tensor, imaginary: &Tensor| -> Result<Tensor> {
                    let heads_of = |part: &Tensor| part.reshape((rows, heads, head_dim));
                    Tensor::cat(&[heads_of(real)?, heads_of(imaginary)?], 2)?
                        .reshape((rows, 2 * inner))
                };
                query = beside(&query.contiguous()?, &part(0)?.contiguous()?)?;
                key = beside(&key.contiguous()?, &part(1)?.contiguous()?.neg()?)?;
            }
            _ => bail!("attention: imaginary parts of queries and keys go with a complex layer"),
        }
        let bias = match (pair_encodings, &self.pair_bias) {
            (None, None) => None,
            (Some(pairs), Some(map)) => Some(ops::linear(pairs, map, Activation::Identity)?),
            _ => bail!("attention: encodings of pairs go with a layer that reads them"),
        };
        let attended = attention(AttentionInput {
            query: &query,
            key: &key,
            value: &value,
            node_ptr: segments,
            heads,
            scale: 1.0 / (head_dim as f64).sqrt(),
            bias: bias.as_ref(),
        })?;
        ops::linear(&attended, &self.output, Activation::Identity)
    }
}

/// Some outputs of a map, without a copy.
fn rows(map: &LinearWeights, start: usize, count: usize) -> Result<LinearWeights> {
    let bias = map.bias().map(|bias| bias.narrow(0, start, count));
    LinearWeights::new(map.weight().narrow(0, start, count)?, bias.transpose()?)
}

/// Several maps of the same states as one.
fn stacked(maps: &[&LinearWeights]) -> Result<LinearWeights> {
    let weights: Vec<&Tensor> = maps.iter().map(|map| map.weight()).collect();
    let biases: Vec<&Tensor> = maps.iter().filter_map(|map| map.bias()).collect();
    let bias = match biases.is_empty() {
        true => None,
        false => Some(Tensor::cat(&biases, 0)?),
    };
    LinearWeights::new(Tensor::cat(&weights, 0)?, bias)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{DType, Device};

    use super::*;
    use crate::ops::test_data::{assert_close, randn};

    const CONFIG: StructureAwareAttentionConfig = StructureAwareAttentionConfig {
        width: 6,
        heads: 2,
        head_dim: 2,
        bias: true,
        complex: false,
        separate_imaginary: false,
        pair_encoding: None,
    };

    fn layer(config: StructureAwareAttentionConfig) -> StructureAwareAttention {
        let mut tensors = HashMap::new();
        for name in ["query", "key", "value", "query_imaginary", "key_imaginary"] {
            tensors.insert(format!("{name}.weight"), randn(&[4, 6], 0.6));
            tensors.insert(format!("{name}.bias"), randn(&[4], 0.6));
        }
        tensors.insert("output.weight".to_string(), randn(&[6, 4], 0.6));
        tensors.insert("output.bias".to_string(), randn(&[6], 0.6));
        tensors.insert("pair_bias.weight".to_string(), randn(&[2, 3], 0.6));
        tensors.insert("pair_bias.bias".to_string(), randn(&[2], 0.6));
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        StructureAwareAttention::new(config, vb).unwrap()
    }

    fn values(t: &Tensor) -> Vec<Vec<f32>> {
        t.to_vec2().unwrap()
    }

    /// `x·Wᵀ + b`.
    fn map(x: &Tensor, map: &LinearWeights) -> Vec<Vec<f32>> {
        values(&ops::linear(x, map, Activation::Identity).unwrap())
    }

    /// The definition, term by term, for one graph.
    fn expected(
        layer: &StructureAwareAttention,
        x: &Tensor,
        real: &Tensor,
        imaginary: Option<&Tensor>,
        pairs: Option<&Tensor>,
    ) -> Tensor {
        let n = x.dim(0).unwrap();
        let qk = map(real, &layer.query_key);
        let imaginary = imaginary.map(|states| map(states, layer.imaginary.as_ref().unwrap()));
        let bias = pairs.map(|pairs| map(pairs, layer.pair_bias.as_ref().unwrap()));
        let v = map(x, &layer.value);
        let mut out = vec![0.0f32; n * 4];
        for t in 0..n {
            for head in 0..2 {
                let mut weights = Vec::new();
                for s in 0..n {
                    let mut logit = 0.0;
                    for c in 2 * head..2 * head + 2 {
                        logit += qk[t][c] * qk[s][4 + c];
                        if let Some(parts) = &imaginary {
                            logit -= parts[t][c] * parts[s][4 + c];
                        }
                    }
                    logit /= 2f32.sqrt();
                    logit += bias.as_ref().map_or(0.0, |bias| bias[t * n + s][head]);
                    weights.push(logit.exp());
                }
                let total: f32 = weights.iter().sum();
                for c in 2 * head..2 * head + 2 {
                    out[t * 4 + c] = (0..n).map(|s| weights[s] / total * v[s][c]).sum();
                }
            }
        }
        let out = Tensor::from_vec(out, (n, 4), &Device::Cpu).unwrap();
        ops::linear(&out, &layer.output, Activation::Identity).unwrap()
    }

    #[test]
    fn it_is_its_definition() {
        let (x, real, imaginary) = (
            randn(&[5, 6], 1.0),
            randn(&[5, 6], 1.0),
            randn(&[5, 6], 1.0),
        );
        let pairs = randn(&[25, 3], 1.0);
        let node_ptr = Offsets::from_lengths([5], &Device::Cpu).unwrap();
        for (complex, separate_imaginary, encoded) in [
            (false, false, false),
            (false, false, true),
            (true, false, false),
            (true, true, true),
        ] {
            let layer = layer(StructureAwareAttentionConfig {
                complex,
                separate_imaginary,
                pair_encoding: encoded.then_some(3),
                ..CONFIG
            });
            let imaginary = complex.then_some(&imaginary);
            let pairs = encoded.then_some(&pairs);
            for real in [None, Some(&real)] {
                let of_query_key = QueryKeyStates { real, imaginary };
                let found = layer.forward(&x, of_query_key, &node_ptr, pairs).unwrap();
                let expected = expected(&layer, &x, real.unwrap_or(&x), imaginary, pairs);
                assert_close(&found, &expected, 3e-6);
            }
        }
    }

    #[test]
    fn parts_that_the_layer_was_not_made_for_are_refused() {
        let x = randn(&[2, 6], 1.0);
        let node_ptr = Offsets::from_lengths([2], &Device::Cpu).unwrap();
        let run = |layer: &StructureAwareAttention, imaginary, pairs| {
            let of_query_key = QueryKeyStates {
                real: None,
                imaginary,
            };
            layer.forward(&x, of_query_key, &node_ptr, pairs)
        };
        let (plain, pairs) = (layer(CONFIG), randn(&[4, 3], 1.0));
        assert!(run(&plain, Some(&x), None).is_err());
        assert!(run(&plain, None, Some(&pairs)).is_err());
        let complex = layer(StructureAwareAttentionConfig {
            complex: true,
            ..CONFIG
        });
        assert!(run(&complex, None, None).is_err());
        let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
        let none = StructureAwareAttentionConfig { heads: 0, ..CONFIG };
        assert!(StructureAwareAttention::new(none, vb).is_err());
    }
}
