//! Simple attention, linear in the number of nodes.

use candle_core::{Result, Tensor};
use candle_graph::graph::Offsets;
use candle_graph::nn::{Rotation, attention_projection};
use candle_graph::ops::{FeatureMap, LinearAttentionInput, LinearWeights, linear_attention};
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
        let (heads, inner) = (self.heads, self.heads * width);
        let packed = attention_projection(nodes, &self.in_proj, (heads, inner), rotation)?;
        let part = |i: usize| packed.narrow(1, i * inner, inner);
        let value = match self.value_map {
            true => part(2)?,
            false => nodes.repeat((1, heads))?,
        };
        let attended = linear_attention(LinearAttentionInput {
            query: &part(0)?,
            key: &part(1)?,
            value: &value,
            node_ptr,
            heads,
            feature_map: FeatureMap::Simple,
            rotation: rotation.and_then(Rotation::of_features),
        })?;
        attended.reshape((rows, heads, width))?.mean(1)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use candle_graph::nn::RotaryModulation;
    use candle_graph::ops::{RotaryPairs, RotationTable};

    use super::*;
    use crate::untrained;

    const WIDTH: usize = 4;
    const HEADS: usize = 3;

    fn rows(x: &Tensor) -> Vec<Vec<f64>> {
        x.to_dtype(DType::F64).unwrap().to_vec2().unwrap()
    }

    /// Numbers of no particular kind.
    fn numbers(name: &str, shape: (usize, usize)) -> Tensor {
        let vb = untrained(9, DType::F64, &Device::Cpu);
        (vb.get(shape, name).unwrap() * 2.0).unwrap()
    }

    /// One head: pairs of columns as complex numbers, all pairs of nodes.
    fn head(
        [query, key, value]: [&[Vec<f64>]; 3],
        [query_angles, key_angles]: [&[Vec<f64>]; 2],
        norms: [f64; 2],
        in_denominator: bool,
    ) -> Vec<Vec<f64>> {
        let n = query.len() as f64;
        let weight = |i: usize, j: usize, rotated: bool| -> f64 {
            let pairs = query[i].chunks(2).zip(key[j].chunks(2)).enumerate();
            let product = pairs.map(|(p, (q, k))| {
                let angle = match rotated {
                    true => query_angles[i][p] - key_angles[j][p],
                    false => 0.0,
                };
                let (real, imaginary) = (q[0] * k[0] + q[1] * k[1], q[1] * k[0] - q[0] * k[1]);
                real * angle.cos() - imaginary * angle.sin()
            });
            product.sum::<f64>() / (norms[0] * norms[1])
        };
        let nodes = 0..query.len();
        let of_node = |i: usize| {
            let below: f64 = nodes.clone().map(|j| weight(i, j, in_denominator)).sum();
            let column = |c: usize| {
                let above = nodes.clone().map(|j| weight(i, j, true) * value[j][c]);
                (above.sum::<f64>() + n * value[i][c]) / (below + n)
            };
            (0..WIDTH).map(column).collect()
        };
        nodes.clone().map(of_node).collect()
    }

    /// What attention must give, by sums over all pairs of nodes of a graph.
    fn brute_force(
        parts: [&Tensor; 3],
        angles: [&Tensor; 2],
        pairs: RotaryPairs,
        in_denominator: bool,
        sizes: &[usize],
    ) -> Vec<Vec<f64>> {
        let parts = parts.map(rows);
        let angles = angles.map(rows);
        let mut out = Vec::new();
        let mut start = 0;
        for &size in sizes {
            let nodes = start..start + size;
            start += size;
            let norm = |x: &[Vec<f64>]| {
                let squares = x[nodes.clone()].iter().flatten().map(|v| v * v);
                squares.sum::<f64>().sqrt()
            };
            let norms = [norm(&parts[0]), norm(&parts[1])];
            let mut mean = vec![vec![0.0; WIDTH]; size];
            for h in 0..HEADS {
                let cut = |x: &[Vec<f64>], width: usize, h: usize| -> Vec<Vec<f64>> {
                    let rows = x[nodes.clone()].iter();
                    rows.map(|row| row[h * width..(h + 1) * width].to_vec())
                        .collect()
                };
                let own = match pairs {
                    RotaryPairs::SharedByHeads => 0,
                    _ => h,
                };
                let [query, key, value] = [0, 1, 2].map(|i| cut(&parts[i], WIDTH, h));
                let [of_query, of_key] = [0, 1].map(|i| cut(&angles[i], WIDTH / 2, own));
                let made = head(
                    [&query, &key, &value],
                    [&of_query, &of_key],
                    norms,
                    in_denominator,
                );
                for (sum, row) in mean.iter_mut().zip(made) {
                    let columns = sum.iter_mut().zip(row);
                    columns.for_each(|(sum, value)| *sum += value / HEADS as f64);
                }
            }
            out.extend(mean);
        }
        out
    }

    #[test]
    fn rotated_attention_is_the_sum_over_all_pairs() {
        let sizes = [5, 1, 7];
        let nodes: usize = sizes.iter().sum();
        let node_ptr = Offsets::from_lengths(sizes, &Device::Cpu).unwrap();
        let states = numbers("states", (nodes, WIDTH));
        let angles = |name: &str, pairs: RotaryPairs| {
            (numbers(name, (nodes, pairs.count(HEADS, WIDTH))) * 3.0).unwrap()
        };
        let table = |angles: &Tensor| RotationTable {
            cos: angles.cos().unwrap(),
            sin: angles.sin().unwrap(),
        };
        for value_map in [true, false] {
            let config = AttentionBranchConfig {
                layers: 1,
                heads: HEADS,
                value_map,
                residual: true,
                alpha: 0.5,
                layer_norm: true,
                layer_activation: true,
            };
            let vb = untrained(4, DType::F64, &Device::Cpu);
            let layer = SimpleAttention::new(&config, WIDTH, vb.clone()).unwrap();
            let mapped = |name: &str| {
                let weight = vb
                    .get((HEADS * WIDTH, WIDTH), &format!("{name}.weight"))
                    .unwrap();
                let bias = vb.get(HEADS * WIDTH, &format!("{name}.bias")).unwrap();
                let product = states.matmul(&weight.t().unwrap()).unwrap();
                product.broadcast_add(&bias).unwrap()
            };
            let value = match value_map {
                true => mapped("value"),
                false => Tensor::cat(&[&states, &states, &states], 1).unwrap(),
            };
            let (query, key) = (mapped("query"), mapped("key"));
            let parts = [&query, &key, &value];
            let check = |found: Tensor, expected: Vec<Vec<f64>>| {
                let pairs = rows(&found).concat().into_iter().zip(expected.concat());
                let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert_eq!(found.dims(), [nodes, WIDTH]);
                assert!(worst < 1e-12, "{worst:e}");
            };
            let none = numbers("none", (nodes, HEADS * WIDTH / 2))
                .zeros_like()
                .unwrap();
            let expected = brute_force(parts, [&none, &none], RotaryPairs::PerHead, true, &sizes);
            check(layer.forward(&states, &node_ptr, None).unwrap(), expected);
            for pairs in [
                RotaryPairs::FullWidth,
                RotaryPairs::PerHead,
                RotaryPairs::SharedByHeads,
            ] {
                for modulation in [
                    RotaryModulation::BeforeFeatures,
                    RotaryModulation::AfterFeatures,
                ] {
                    for separate in [false, true] {
                        let of_query = angles("query angles", pairs);
                        let of_key = match separate {
                            true => angles("key angles", pairs),
                            false => of_query.clone(),
                        };
                        let rotation = Rotation {
                            query: table(&of_query),
                            key: separate.then(|| table(&of_key)),
                            pairs,
                            modulation,
                        };
                        let before = modulation == RotaryModulation::BeforeFeatures;
                        let angles = [&of_query, &of_key];
                        let expected = brute_force(parts, angles, pairs, before, &sizes);
                        let found = layer.forward(&states, &node_ptr, Some(&rotation)).unwrap();
                        check(found, expected);
                    }
                }
            }
        }
    }
}
