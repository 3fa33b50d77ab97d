//! Numbers of 16 bits: bf16 and f16 hold states and weights, and operations that add up many of
//! them, or square them, compute in f32 and round once. In 8 bits of mantissa a running sum stands
//! still once it is 256 times what is added, and the square of 256 is beyond f16.

use candle_core::{DType, Result, Tensor};

/// Whether `tensor` is of bf16 or f16.
pub(crate) fn is_half(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), DType::BF16 | DType::F16)
}

/// `tensor` in f32.
pub(crate) fn wide(tensor: &Tensor) -> Result<Tensor> {
    tensor.to_dtype(DType::F32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Offsets;
    use crate::ops::test_data::{edges, randn, uniform};
    use crate::ops::*;
    use candle_core::Device;

    /// `operation` of `inputs` in bf16 and f16 is what it is of the same numbers in f32, rounded:
    /// within `steps` of the type's precision, relative to the largest result.
    #[track_caller]
    fn computes_wide(inputs: &[&Tensor], operation: impl Fn(&[Tensor]) -> Result<Tensor>) {
        for (dtype, precision) in [(DType::BF16, 1.0 / 256.0), (DType::F16, 1.0 / 2048.0)] {
            let rounded: Vec<Tensor> = (inputs.iter())
                .map(|t| t.to_dtype(dtype).unwrap())
                .collect();
            let exact: Vec<Tensor> = rounded.iter().map(|t| wide(t).unwrap()).collect();
            let found = operation(&rounded).unwrap();
            assert_eq!(found.dtype(), dtype);
            let values = |t: &Tensor| wide(t).unwrap().flatten_all().unwrap().to_vec1::<f32>();
            let (found, exact) = (
                values(&found).unwrap(),
                values(&operation(&exact).unwrap()).unwrap(),
            );
            let largest = exact.iter().fold(0f32, |largest, x| largest.max(x.abs()));
            for (found, exact) in found.iter().zip(&exact) {
                assert!(
                    (found - exact).abs() <= precision * largest,
                    "{dtype:?}: {found} instead of {exact} of {largest}"
                );
            }
        }
    }

    const ROWS: usize = 1500;

    fn one_graph() -> Offsets {
        Offsets::from_lengths([ROWS, 1], &Device::Cpu).unwrap()
    }

    #[test]
    fn long_segments_add_up() {
        let values = uniform(&[ROWS + 1, 3], 0.5, 1.5);
        let segments = one_graph();
        for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            computes_wide(&[&values], |t| segment_reduce(&t[0], &segments, reduction));
        }
        computes_wide(&[&values], |t| {
            // The lone row has a share of 1, beside which the others would not show.
            segment_softmax(&t[0], &segments)?.narrow(0, 0, ROWS)
        });
    }

    #[test]
    fn edges_of_a_hub_add_up() {
        let hub: Vec<_> = (1..=ROWS as u32).map(|target| [0, target]).collect();
        let adjacency = edges(ROWS + 1, &hub);
        let states = uniform(&[ROWS, 3], 0.5, 1.5);
        computes_wide(&[&states], |t| sum_by_source(&t[0], &adjacency));
    }

    #[test]
    fn attention_weighs_every_node_of_a_large_graph() {
        let node_ptr = one_graph();
        let query = randn(&[ROWS + 1, 4], 0.3);
        let key = randn(&[ROWS + 1, 4], 0.3);
        let value = uniform(&[ROWS + 1, 4], 0.5, 1.5);
        computes_wide(&[&query, &key, &value], |t| {
            attention(AttentionInput {
                query: &t[0],
                key: &t[1],
                value: &t[2],
                node_ptr: &node_ptr,
                heads: 2,
                scale: 0.7,
                bias: None,
            })
        });
        let directions = randn(&[6, 2], 1.0);
        let angles = randn(&[ROWS + 1, 6], 1.0);
        let tensors = [&query, &key, &value, &directions, &angles];
        for map in 0..3 {
            for rotate in [false, true] {
                computes_wide(&tensors, |t| {
                    let feature_map = match map {
                        0 => FeatureMap::Relu { eps: 1e-3 },
                        1 => FeatureMap::Simple,
                        _ => FeatureMap::PositiveRandom { projection: &t[3] },
                    };
                    let pairs = if map == 2 { 6 } else { 2 };
                    let angles = t[4].narrow(1, 0, pairs)?.contiguous()?;
                    let table = RotationTable {
                        cos: angles.cos()?,
                        sin: angles.sin()?,
                    };
                    let rotation = rotate.then_some(FeatureRotation {
                        query: &table,
                        key: &table,
                        pairs: RotaryPairs::FullWidth,
                    });
                    linear_attention(LinearAttentionInput {
                        query: &t[0],
                        key: &t[1],
                        value: &t[2],
                        node_ptr: &node_ptr,
                        heads: 2,
                        feature_map,
                        rotation,
                    })
                });
            }
        }
    }

    #[test]
    fn norms_square_what_is_large_and_what_is_far_from_zero() {
        let x = (randn(&[5, 70], 300.0) + 1000.0).unwrap();
        let ones = uniform(&[70], 0.5, 1.5);
        computes_wide(&[&x, &ones, &ones], |t| {
            let norm = LayerNorm {
                weight: t[1].clone(),
                bias: t[2].clone(),
                eps: 1e-5,
            };
            norm.forward_sum(&t[0], &t[0])
        });
        computes_wide(&[&x], |t| normalise_rows(&t[0], 1e-12));
    }
}
