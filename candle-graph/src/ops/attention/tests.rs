//! Fused and reference against sums written out in double precision, and what both must keep.

use candle_core::{DType, Device, Tensor, Var};

use super::cpu::{SOURCES, TARGETS};
use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::randn;

struct Case {
    sizes: Vec<usize>,
    heads: usize,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Option<Tensor>,
    node_ptr: Offsets,
    scale: f64,
}

impl Case {
    fn new(sizes: &[usize], heads: usize, d: usize, v: usize, bias: bool) -> Self {
        let nodes = sizes.iter().sum();
        let pairs = sizes.iter().map(|n| n * n).sum();
        Self {
            sizes: sizes.to_vec(),
            heads,
            query: randn(&[nodes, heads * d], 1.0),
            key: randn(&[nodes, heads * d], 1.0),
            value: randn(&[nodes, heads * v], 1.0),
            bias: bias.then(|| randn(&[pairs, heads], 2.0)),
            node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
            scale: 1.0 / (d as f64).sqrt(),
        }
    }

    fn input(&self) -> AttentionInput<'_> {
        AttentionInput {
            query: &self.query,
            key: &self.key,
            value: &self.value,
            node_ptr: &self.node_ptr,
            heads: self.heads,
            scale: self.scale,
            bias: self.bias.as_ref(),
        }
    }

    fn run(&self) -> Vec<Vec<f32>> {
        attention(self.input()).unwrap().to_vec2().unwrap()
    }

    fn to_f64(&self) -> Self {
        let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
        Self {
            sizes: self.sizes.clone(),
            query: wide(&self.query),
            key: wide(&self.key),
            value: wide(&self.value),
            bias: self.bias.as_ref().map(wide),
            node_ptr: self.node_ptr.clone(),
            ..*self
        }
    }

    /// The formula as loops in double precision.
    fn exact(&self) -> Vec<Vec<f64>> {
        let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap().to_vec2::<f64>().unwrap();
        let [query, key, value] = [&self.query, &self.key, &self.value].map(wide);
        let bias = self.bias.as_ref().map(wide);
        let mut result: Vec<Vec<f64>> = value.iter().map(|row| vec![0.0; row.len()]).collect();
        let (mut start, mut pair) = (0, 0);
        for &size in &self.sizes {
            for target in start..start + size {
                for head in 0..self.heads {
                    let columns = |row: &[f64]| {
                        let width = row.len() / self.heads;
                        head * width..(head + 1) * width
                    };
                    let of_query = columns(&query[target]);
                    let logits: Vec<f64> = (0..size)
                        .map(|s| {
                            let products = (query[target][of_query.clone()].iter())
                                .zip(&key[start + s][of_query.clone()]);
                            let dot: f64 = products.map(|(q, k)| q * k).sum();
                            dot * self.scale + bias.as_ref().map_or(0.0, |b| b[pair + s][head])
                        })
                        .collect();
                    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if largest == f64::NEG_INFINITY {
                        continue;
                    }
                    let weights: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
                    let sum: f64 = weights.iter().sum();
                    for column in columns(&value[target]) {
                        result[target][column] = (weights.iter().enumerate())
                            .map(|(s, w)| w / sum * value[start + s][column])
                            .sum();
                    }
                }
                pair += size;
            }
            start += size;
        }
        result
    }
}

fn assert_close(found: &[Vec<f32>], exact: &[Vec<f64>], what: &str) {
    assert_eq!(found.len(), exact.len());
    for (row, (found, exact)) in found.iter().zip(exact).enumerate() {
        assert_eq!(found.len(), exact.len());
        for (column, (&x, &y)) in found.iter().zip(exact).enumerate() {
            assert!(
                (f64::from(x) - y).abs() <= 2e-6 * y.abs().max(1.0),
                "{what}: {x} {y} at {row}, {column}"
            );
        }
    }
}

fn check_all(case: &Case, what: &str) {
    let exact = case.exact();
    assert_close(&case.run(), &exact, what);
    let reference = force_reference(|| case.run());
    assert_close(&reference, &exact, &format!("reference, {what}"));
    let wide = case.to_f64();
    let in_f64 = attention(wide.input()).unwrap();
    for (x, y) in (in_f64.to_vec2::<f64>().unwrap().iter().flatten()).zip(exact.iter().flatten()) {
        assert!((x - y).abs() <= 1e-12 * y.abs().max(1.0), "{what}: {x} {y}");
    }
}

#[test]
fn every_head_size_and_number_of_nodes_agrees_with_the_formula() {
    let sizes = [
        1,
        23,
        0,
        TARGETS,
        TARGETS + 1,
        2,
        SOURCES + 1,
        1,
        SOURCES,
        23,
    ];
    for (heads, d, v) in [
        (1, 1, 1),
        (3, 6, 6),
        (4, 8, 8),
        (2, 12, 12),
        (4, 13, 13),
        (4, 16, 16),
        (2, 24, 24),
        (2, 32, 32),
        (1, 64, 64),
        (1, 96, 96),
        (2, 5, 17),
    ] {
        for bias in [false, true] {
            let case = Case::new(&sizes, heads, d, v, bias);
            check_all(&case, &format!("{heads} heads of {d} and {v}, bias {bias}"));
        }
    }
}

#[test]
fn a_graph_of_many_blocks_agrees_with_the_formula() {
    // Logits that grow along the sources make every block raise the running maximum.
    let size = 5 * SOURCES + 7;
    let mut case = Case::new(&[3, size, 40], 2, 16, 16, true);
    let bias: Vec<f32> = (0..9)
        .chain(0..size * size)
        .chain(0..1600)
        .flat_map(|pair| [(pair % size) as f32 * 0.02, (pair % size) as f32 * -0.02])
        .collect();
    let pairs = bias.len() / 2;
    case.bias = Some(Tensor::from_vec(bias, (pairs, 2), &Device::Cpu).unwrap());
    check_all(&case, "many blocks");
}

#[test]
fn large_logits_neither_overflow_nor_lose_the_softmax() {
    // One source wins by far: whole numbers, so that every implementation sees the same logits.
    let device = Device::Cpu;
    let mut case = Case::new(&[SOURCES + 30], 1, 2, 1, false);
    let nodes = SOURCES + 30;
    let key: Vec<f32> = (0..nodes).flat_map(|s| [s as f32 * 64.0, -1e4]).collect();
    let value: Vec<f32> = (0..nodes).map(|s| s as f32).collect();
    case.query = Tensor::ones((nodes, 2), DType::F32, &device).unwrap();
    case.key = Tensor::from_vec(key, (nodes, 2), &device).unwrap();
    case.value = Tensor::from_vec(value, (nodes, 1), &device).unwrap();
    case.scale = 1.0;
    let last = vec![vec![(nodes - 1) as f32]; nodes];
    assert_eq!(case.run(), last);
    assert_eq!(force_reference(|| case.run()), last);
}

#[test]
fn an_infinite_bias_takes_pairs_out_and_all_of_them_leave_zeros() {
    let size = SOURCES + 20;
    let mut case = Case::new(&[2, size], 2, 8, 8, false);
    let open = |target: usize, source: usize| match target {
        0 => false,
        // Whole blocks closed before, and after, the first open source.
        1 => source >= SOURCES + 3,
        2 => source < 5,
        _ => (source + target).is_multiple_of(3),
    };
    let mut bias = vec![0.0f32; 8];
    for target in 0..size {
        for source in 0..size {
            let value = if open(target, source) {
                0.5
            } else {
                f32::NEG_INFINITY
            };
            bias.extend([value, value]);
        }
    }
    let pairs = bias.len() / 2;
    case.bias = Some(Tensor::from_vec(bias, (pairs, 2), &Device::Cpu).unwrap());
    check_all(&case, "closed pairs");
    assert_eq!(case.run()[2], [0.0; 16]);
}

#[test]
fn a_batch_gives_what_its_graphs_give_alone() {
    let sizes = [7, 1, 150, 33];
    let case = Case::new(&sizes, 4, 13, 13, true);
    let together = case.run();
    let (mut start, mut pair) = (0, 0);
    for size in sizes {
        let part = |t: &Tensor| t.narrow(0, start, size).unwrap();
        let alone = Case {
            sizes: vec![size],
            query: part(&case.query),
            key: part(&case.key),
            value: part(&case.value),
            bias: (case.bias.as_ref()).map(|b| b.narrow(0, pair, size * size).unwrap()),
            node_ptr: Offsets::from_lengths([size], &Device::Cpu).unwrap(),
            ..case
        };
        assert_eq!(alone.run(), together[start..start + size]);
        start += size;
        pair += size * size;
    }
}

#[test]
fn another_node_order_only_reorders_the_result() {
    let size = SOURCES + 9;
    let case = Case::new(&[size], 3, 12, 12, true);
    // Steps of 10 reach every node, as they have no factor in common with 137.
    let order: Vec<u32> = (0..size).map(|i| (i * 10 % size) as u32).collect();
    let pairs: Vec<u32> = (order.iter())
        .flat_map(|&t| order.iter().map(move |&s| t * size as u32 + s))
        .collect();
    let by = |t: &Tensor, ids: &[u32]| {
        let ids = Tensor::new(ids, &Device::Cpu).unwrap();
        t.index_select(&ids, 0).unwrap()
    };
    let moved = Case {
        sizes: case.sizes.clone(),
        query: by(&case.query, &order),
        key: by(&case.key, &order),
        value: by(&case.value, &order),
        bias: case.bias.as_ref().map(|b| by(b, &pairs)),
        node_ptr: case.node_ptr.clone(),
        ..case
    };
    let exact = case.exact();
    let expected: Vec<Vec<f64>> = order.iter().map(|&i| exact[i as usize].clone()).collect();
    assert_close(&moved.run(), &expected, "moved");
}

#[test]
fn parts_of_a_packed_projection_are_read_in_place() {
    let case = Case::new(&[5, 40], 4, 8, 8, false);
    let packed = Tensor::cat(&[&case.query, &case.key, &case.value], 1).unwrap();
    let part = |i: usize| packed.narrow(1, i * 32, 32).unwrap();
    let (query, key, value) = (part(0), part(1), part(2));
    let input = AttentionInput {
        query: &query,
        key: &key,
        value: &value,
        ..case.input()
    };
    let found: Vec<Vec<f32>> = attention(input).unwrap().to_vec2().unwrap();
    let exact = case.exact();
    assert_close(&found, &exact, "packed");
    // A layout without adjacent columns is copied.
    let turned = case.key.t().unwrap().contiguous().unwrap();
    let input = AttentionInput {
        key: &turned.t().unwrap(),
        ..case.input()
    };
    let found: Vec<Vec<f32>> = attention(input).unwrap().to_vec2().unwrap();
    assert_close(&found, &exact, "turned");
}

#[test]
fn gradients_agree_with_differences() {
    let case = Case::new(&[3, 1, 3, 4], 2, 3, 3, true).to_f64();
    let tensors = [
        &case.query,
        &case.key,
        &case.value,
        case.bias.as_ref().unwrap(),
    ];
    let weights = randn(&[11, 6], 1.0).to_dtype(DType::F64).unwrap();
    let loss = |tensors: [&Tensor; 4]| {
        let [query, key, value, bias] = tensors;
        let out = attention(AttentionInput {
            query,
            key,
            value,
            bias: Some(bias),
            ..case.input()
        });
        (out.unwrap() * &weights).unwrap().sum_all().unwrap()
    };
    let vars = tensors.map(|t| Var::from_tensor(t).unwrap());
    let gradients = loss([0, 1, 2, 3].map(|i| vars[i].as_tensor()))
        .backward()
        .unwrap();
    for (i, var) in vars.iter().enumerate() {
        let gradient = gradients.get(var.as_tensor()).unwrap();
        let direction = randn(var.dims(), 1.0).to_dtype(DType::F64).unwrap();
        let along = (gradient * &direction).unwrap().sum_all().unwrap();
        let step = 1e-5;
        let at = |sign: f64| {
            let moved = (tensors[i] + (&direction * (sign * step)).unwrap()).unwrap();
            let mut moved_tensors = tensors;
            moved_tensors[i] = &moved;
            loss(moved_tensors).to_scalar::<f64>().unwrap()
        };
        let difference = (at(1.0) - at(-1.0)) / (2.0 * step);
        let along = along.to_scalar::<f64>().unwrap();
        assert!(along.abs() > 1e-3, "tensor {i}: no gradient");
        assert!(
            (along - difference).abs() < 1e-7,
            "tensor {i}: {along} {difference}"
        );
    }
}

#[test]
fn nothing_gives_nothing() {
    for sizes in [vec![], vec![0, 0]] {
        let case = Case::new(&sizes, 2, 4, 3, true);
        assert_eq!(attention(case.input()).unwrap().dims(), [0, 6]);
        let reference = force_reference(|| attention(case.input())).unwrap();
        assert_eq!(reference.dims(), [0, 6]);
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let case = Case::new(&[3, 2], 2, 4, 4, true);
    let refused = |input: AttentionInput<'_>, word: &str| {
        let message = attention(input).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    };
    let rows = |rows: usize, columns: usize| randn(&[rows, columns], 1.0);
    let input = case.input();
    let (short, narrow, odd) = (rows(4, 8), rows(5, 6), rows(5, 7));
    refused(
        AttentionInput {
            query: &short,
            ..input
        },
        "query of shape [4, 8]",
    );
    refused(
        AttentionInput {
            key: &narrow,
            ..input
        },
        "key of shape [5, 6]",
    );
    refused(
        AttentionInput {
            value: &odd,
            ..input
        },
        "value of shape [5, 7]",
    );
    refused(AttentionInput { heads: 0, ..input }, "0 heads");
    refused(
        AttentionInput {
            scale: f64::NAN,
            ..input
        },
        "scale of NaN",
    );
    let (few, heads) = (rows(12, 2), rows(13, 1));
    refused(
        AttentionInput {
            bias: Some(&few),
            ..input
        },
        "expected [13, 2]",
    );
    refused(
        AttentionInput {
            bias: Some(&heads),
            ..input
        },
        "expected [13, 2]",
    );
}
