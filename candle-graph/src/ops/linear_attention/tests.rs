//! Fused and reference against sums written out in double precision, and what both must keep.

use candle_core::{DType, Device, Tensor, Var};
use proptest::prelude::*;

use super::cpu::BLOCK;
use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::randn;

struct Case {
    sizes: Vec<usize>,
    heads: usize,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    projection: Tensor,
    node_ptr: Offsets,
}

impl Case {
    fn new(sizes: &[usize], heads: usize, (d, v, features): (usize, usize, usize)) -> Self {
        let nodes = sizes.iter().sum();
        Self {
            sizes: sizes.to_vec(),
            heads,
            query: randn(&[nodes, heads * d], 1.0),
            key: randn(&[nodes, heads * d], 1.0),
            value: randn(&[nodes, heads * v], 1.0),
            projection: randn(&[features, d], 1.0),
            node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
        }
    }

    fn input(&self) -> LinearAttentionInput<'_> {
        LinearAttentionInput {
            query: &self.query,
            key: &self.key,
            value: &self.value,
            node_ptr: &self.node_ptr,
            heads: self.heads,
            feature_map: FeatureMap::PositiveRandom {
                projection: &self.projection,
            },
        }
    }

    fn run(&self) -> Vec<Vec<f32>> {
        linear_attention(self.input()).unwrap().to_vec2().unwrap()
    }

    fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            sizes: self.sizes.clone(),
            heads: self.heads,
            query: f(&self.query),
            key: f(&self.key),
            value: f(&self.value),
            projection: self.projection.clone(),
            node_ptr: self.node_ptr.clone(),
        }
    }

    /// The formula over all pairs, as loops in double precision, with the factor 1/√features that
    /// cancels.
    fn exact(&self) -> Vec<Vec<f64>> {
        let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap().to_vec2::<f64>().unwrap();
        let [query, key, value] = [&self.query, &self.key, &self.value].map(wide);
        let projection = wide(&self.projection);
        let ratio = 1.0 / (projection.len() as f64).sqrt();
        let mut result: Vec<Vec<f64>> = value.iter().map(|row| vec![0.0; row.len()]).collect();
        for nodes in self.node_ptr.ranges() {
            for head in 0..self.heads {
                let columns = |row: &[f64]| {
                    let width = row.len() / self.heads;
                    head * width..(head + 1) * width
                };
                let projected = |row: &[f64]| -> (Vec<f64>, f64) {
                    let x = &row[columns(row)];
                    let root = (x.len() as f64).powf(-0.25);
                    let dots = projection.iter().map(|direction| {
                        let products = direction.iter().zip(x).map(|(p, x)| p * root * x);
                        products.sum::<f64>()
                    });
                    let square: f64 = x.iter().map(|x| x * x).sum();
                    (dots.collect(), square / 2.0 / (x.len() as f64).sqrt())
                };
                let largest = |dots: &[f64]| dots.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let features = |(dots, square): &(Vec<f64>, f64), c: f64| -> Vec<f64> {
                    let one = |dot: &f64| ratio * ((dot - square - c).exp() + 1e-4);
                    dots.iter().map(one).collect()
                };
                let keys: Vec<_> = nodes.clone().map(|s| projected(&key[s])).collect();
                let all = keys.iter().map(|(dots, _)| largest(dots));
                let of_keys = all.fold(f64::NEG_INFINITY, f64::max);
                let keys: Vec<_> = keys.iter().map(|k| features(k, of_keys)).collect();
                for target in nodes.clone() {
                    let query = projected(&query[target]);
                    let query = features(&query, largest(&query.0));
                    let weights: Vec<f64> = (keys.iter())
                        .map(|key| query.iter().zip(key).map(|(q, k)| q * k).sum())
                        .collect();
                    let sum: f64 = weights.iter().sum();
                    for column in columns(&value[target]) {
                        result[target][column] = (weights.iter().zip(nodes.clone()))
                            .map(|(w, s)| w / sum * value[s][column])
                            .sum();
                    }
                }
            }
        }
        result
    }
}

fn assert_close(found: &[Vec<f32>], exact: &[Vec<f64>], tolerance: f64, what: &str) {
    assert_eq!(found.len(), exact.len());
    for (row, (found, exact)) in found.iter().zip(exact).enumerate() {
        assert_eq!(found.len(), exact.len());
        for (column, (&x, &y)) in found.iter().zip(exact).enumerate() {
            assert!(
                (f64::from(x) - y).abs() <= tolerance * y.abs().max(1.0),
                "{what}: {x} {y} at {row}, {column}"
            );
        }
    }
}

fn widen(rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |row: &Vec<f32>| row.iter().map(|&v| f64::from(v)).collect();
    rows.iter().map(wide).collect()
}

#[test]
fn fused_and_reference_equal_the_formula() {
    let cases = [
        Case::new(&[1], 1, (1, 1, 1)),
        Case::new(&[5, 0, 1, 5, 2], 3, (7, 5, 19)),
        Case::new(&[BLOCK, BLOCK + 1, 2 * BLOCK + 37], 2, (16, 20, 33)),
        Case::new(&[40, 9], 4, (64, 64, 266)),
    ];
    for case in cases {
        let exact = case.exact();
        let what = format!("{:?}", case.sizes);
        assert_close(&case.run(), &exact, 3e-6, &what);
        let reference = force_reference(|| case.run());
        assert_close(&reference, &exact, 3e-6, &what);
    }
}

#[test]
fn the_stabiliser_of_the_keys_is_the_largest_of_all_blocks() {
    // The norm of the keys grows from block to block, so that it is found last, or falls, so that
    // it is found first: what is added to the features tells whether it is right.
    let nodes = 3 * BLOCK;
    for falling in [false, true] {
        let mut case = Case::new(&[nodes], 2, (8, 3, 24));
        let growth = (0..nodes).map(|i| 0.2 + 2.5 * (i / BLOCK) as f32);
        let mut growth: Vec<f32> = growth.collect();
        if falling {
            growth.reverse();
        }
        let growth = Tensor::from_vec(growth, (nodes, 1), &Device::Cpu).unwrap();
        case.key = case.key.broadcast_mul(&growth).unwrap();
        let exact = case.exact();
        assert_close(&case.run(), &exact, 1e-5, "fused");
        assert_close(&force_reference(|| case.run()), &exact, 1e-5, "reference");
    }
}

#[test]
fn large_and_hopeless_inputs_give_means_of_values() {
    // Exponents down to −10⁸ leave nothing but what is added to every feature.
    for scale in [30.0, 1e4] {
        let case = Case::new(&[BLOCK + 3, 1], 2, (16, 4, 33));
        let case = case.map(|t| (t * scale).unwrap());
        for found in [case.run(), force_reference(|| case.run())] {
            let largest = case.value.abs().unwrap().max_all().unwrap();
            let largest = largest.to_scalar::<f32>().unwrap();
            assert!(found.iter().flatten().all(|v| v.abs() <= largest * 1.001));
            let last: Vec<f32> = case.value.get(BLOCK + 3).unwrap().to_vec1().unwrap();
            assert_close(&found[BLOCK + 3..], &widen(&[last]), 1e-5, "a single node");
        }
    }
}

#[test]
fn parts_of_a_packed_projection_and_turned_layouts_are_read_in_place() {
    let case = Case::new(&[6, 3], 2, (4, 4, 10));
    let exact = case.exact();
    let packed = Tensor::cat(&[&case.query, &case.key, &case.value], 1).unwrap();
    let part = |i: usize| packed.narrow(1, i * 8, 8).unwrap();
    let (query, key, value) = (part(0), part(1), part(2));
    let input = LinearAttentionInput {
        query: &query,
        key: &key,
        value: &value,
        ..case.input()
    };
    let found: Vec<Vec<f32>> = linear_attention(input).unwrap().to_vec2().unwrap();
    assert_close(&found, &exact, 3e-6, "packed");
    let turned = case.key.t().unwrap().contiguous().unwrap();
    let input = LinearAttentionInput {
        key: &turned.t().unwrap(),
        ..case.input()
    };
    let found: Vec<Vec<f32>> = linear_attention(input).unwrap().to_vec2().unwrap();
    assert_close(&found, &exact, 3e-6, "turned");
}

#[test]
fn gradients_agree_with_differences() {
    let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    let mut case = Case::new(&[3, 1, 3, 4], 2, (3, 2, 9)).map(wide);
    case.projection = wide(&case.projection);
    let tensors = [&case.query, &case.key, &case.value];
    let weights = wide(&randn(&[11, 4], 1.0));
    let loss = |[query, key, value]: [&Tensor; 3]| {
        let out = linear_attention(LinearAttentionInput {
            query,
            key,
            value,
            ..case.input()
        });
        (out.unwrap() * &weights).unwrap().sum_all().unwrap()
    };
    let vars = tensors.map(|t| Var::from_tensor(t).unwrap());
    let gradients = loss([0, 1, 2].map(|i| vars[i].as_tensor()))
        .backward()
        .unwrap();
    for (i, var) in vars.iter().enumerate() {
        let gradient = gradients.get(var.as_tensor()).unwrap();
        let direction = wide(&randn(var.dims(), 1.0));
        let along = (gradient * &direction).unwrap().sum_all().unwrap();
        let along = along.to_scalar::<f64>().unwrap();
        let step = 1e-5;
        let at = |sign: f64| {
            let moved = (tensors[i] + (&direction * (sign * step)).unwrap()).unwrap();
            let mut moved_tensors = tensors;
            moved_tensors[i] = &moved;
            loss(moved_tensors).to_scalar::<f64>().unwrap()
        };
        let difference = (at(1.0) - at(-1.0)) / (2.0 * step);
        assert!(along.abs() > 1e-3, "tensor {i}: no gradient");
        // The gradient holds the stabiliser fixed, which what is added to the features, 10⁻⁴, sees.
        assert!(
            (along - difference).abs() < 1e-2 * along.abs().max(1.0),
            "tensor {i}: {along} {difference}"
        );
    }
}

#[test]
fn nothing_gives_nothing() {
    for sizes in [vec![], vec![0, 0]] {
        let case = Case::new(&sizes, 2, (4, 3, 5));
        assert_eq!(linear_attention(case.input()).unwrap().dims(), [0, 6]);
        let reference = force_reference(|| linear_attention(case.input())).unwrap();
        assert_eq!(reference.dims(), [0, 6]);
        let packed = randn(&[0, 9], 1.0);
        let value = packed.narrow(1, 3, 6).unwrap();
        let input = LinearAttentionInput {
            value: &value,
            ..case.input()
        };
        assert_eq!(linear_attention(input).unwrap().dims(), [0, 6]);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let case = Case::new(&[3, 2], 2, (4, 4, 6));
    let refused = |input: LinearAttentionInput<'_>, words: &str| {
        let message = linear_attention(input).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let rows = |rows: usize, columns: usize| randn(&[rows, columns], 1.0);
    let input = case.input();
    let (query, key, value) = (&rows(4, 8), &rows(5, 6), &rows(5, 7));
    refused(
        LinearAttentionInput { query, ..input },
        "query of shape [4, 8]",
    );
    refused(LinearAttentionInput { key, ..input }, "key of shape [5, 6]");
    refused(
        LinearAttentionInput { value, ..input },
        "value of shape [5, 7]",
    );
    refused(LinearAttentionInput { heads: 0, ..input }, "0 heads");
    for projection in [&rows(6, 5), &rows(0, 4)] {
        let feature_map = FeatureMap::PositiveRandom { projection };
        refused(
            LinearAttentionInput {
                feature_map,
                ..input
            },
            "expected [features, 4]",
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Fused equals reference; every graph alone gives its rows of the batch; the nodes of a graph
    /// in another order give the rows in that order; every weight is positive and they sum to 1.
    #[test]
    fn results_depend_on_the_own_graph_and_not_on_orders(
        sizes in prop::collection::vec(prop_oneof![1..4usize, 1..200usize], 1..5),
        heads in 1..9usize,
        widths in (1..20usize, 1..20usize, 1..40usize),
        scale in 0.1..4.0f64,
    ) {
        let case = Case::new(&sizes, heads, widths).map(|t| (t * scale).unwrap());
        let found = case.run();
        // Exponents are differences of squares, whose rounding they inherit.
        let tolerance = 1e-5 * scale.max(1.0).powi(2);
        let reference = widen(&force_reference(|| case.run()));
        assert_close(&found, &reference, tolerance * scale.max(1.0), "reference");

        let found_wide = widen(&found);
        for (graph, nodes) in case.node_ptr.ranges().enumerate() {
            let alone = Case {
                sizes: vec![nodes.len()],
                node_ptr: Offsets::from_lengths([nodes.len()], &Device::Cpu).unwrap(),
                ..case.map(|t| t.narrow(0, nodes.start, nodes.len()).unwrap())
            };
            prop_assert_eq!(&alone.run(), &found[nodes.clone()].to_vec(), "graph {}", graph);

            let reversed: Vec<u32> = nodes.clone().rev().map(|node| node as u32).collect();
            let reversed = Tensor::new(reversed, &Device::Cpu).unwrap();
            let turned = Case {
                sizes: vec![nodes.len()],
                node_ptr: Offsets::from_lengths([nodes.len()], &Device::Cpu).unwrap(),
                ..case.map(|t| t.index_select(&reversed, 0).unwrap())
            };
            let mut turned = turned.run();
            turned.reverse();
            assert_close(&turned, &found_wide[nodes.clone()], tolerance * scale.max(1.0), "reversed");

            let values: Vec<Vec<f32>> = alone.value.to_vec2().unwrap();
            for column in 0..values[0].len() {
                let all = values.iter().map(|row| row[column]);
                let low = all.clone().fold(f32::INFINITY, f32::min);
                let high = all.fold(f32::NEG_INFINITY, f32::max);
                let slack = 1e-5 * high.abs().max(low.abs());
                for row in &found[nodes.clone()] {
                    prop_assert!(row[column] >= low - slack && row[column] <= high + slack);
                }
            }
        }
    }
}
