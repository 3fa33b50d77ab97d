//! Fused and reference operations side by side, over the head sizes of published models and over
//! ragged extremes: a graph of nearly 2000 nodes beside graphs of one and of none.
//!
//! Both are measured against the reference in f64, relative to the largest magnitude of the result:
//! the fused error may be twice the reference's in f32, which adds up in another order, and 2e-6.

use candle_core::{DType, Device, Result, Tensor};
use proptest::prelude::*;

use crate::graph::{Adjacency, Offsets, PairLayout};
use crate::ops::test_data::{edges, randn, uniform};
use crate::ops::*;

const HEAD_SIZES: [usize; 9] = [6, 8, 12, 13, 16, 24, 32, 64, 96];
/// Nodes of graphs: a large one among the smallest, more than one block, and none.
const RAGGED: [usize; 9] = [0, 1, 1, 1700, 0, 2, 1, 37, 0];
const MARGIN: f64 = 2e-6;

fn values(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.to_dtype(DType::F64).unwrap();
    wide.flatten_all().unwrap().to_vec1().unwrap()
}

/// The results of `operation` on `inputs`, fused, agree with those of its reference.
#[track_caller]
fn agree(what: &str, inputs: &[&Tensor], operation: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>) {
    let single: Vec<Tensor> = inputs.iter().map(|&t| t.clone()).collect();
    let double: Vec<Tensor> = (inputs.iter())
        .map(|t| t.to_dtype(DType::F64).unwrap())
        .collect();
    let fused = operation(&single).unwrap();
    let reference = force_reference(|| operation(&single)).unwrap();
    let exact = operation(&double).unwrap();
    assert_eq!(fused.len(), exact.len());
    for (at, exact) in exact.iter().enumerate() {
        assert_eq!(fused[at].dims(), exact.dims(), "{what}");
        let exact = values(exact);
        let largest = exact
            .iter()
            .fold(f64::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
        let error = |found: &Tensor| {
            let off = values(found)
                .into_iter()
                .zip(&exact)
                .map(|(x, y)| (x - y).abs());
            // NaN is no error that `max` would keep.
            off.fold(0.0, |worst: f64, x| if x <= worst { worst } else { x }) / largest
        };
        let (fused, reference) = (error(&fused[at]), error(&reference[at]));
        assert!(
            fused <= 2.0 * reference + MARGIN,
            "{what}, result {at}: fused {fused:e}, reference {reference:e}"
        );
    }
}

fn offsets(sizes: &[usize]) -> Offsets {
    Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap()
}

fn softmax_attention(sizes: &[usize], heads: usize, d: usize, bias: bool) {
    let node_ptr = offsets(sizes);
    let [query, key, value] = [(); 3].map(|()| randn(&[node_ptr.total(), heads * d], 1.0));
    let pairs = sizes.iter().map(|n| n * n).sum();
    let bias = bias.then(|| randn(&[pairs, heads], 2.0));
    let inputs: Vec<_> = [&query, &key, &value].into_iter().chain(&bias).collect();
    agree(&format!("attention, heads of {d}"), &inputs, |t| {
        let result = attention(AttentionInput {
            query: &t[0],
            key: &t[1],
            value: &t[2],
            node_ptr: &node_ptr,
            heads,
            scale: 1.0 / (d as f64).sqrt(),
            bias: t.get(3),
        });
        Ok(vec![result?])
    });
}

/// A feature map of linear attention, and the features of a head.
#[derive(Debug, Clone, Copy)]
enum Map {
    Random(usize),
    Relu,
    Simple,
}

fn linear_attention_of(sizes: &[usize], heads: usize, d: usize, map: Map, rotate: bool) {
    let node_ptr = offsets(sizes);
    let nodes = node_ptr.total();
    let [query, key, value] = [(); 3].map(|()| randn(&[nodes, heads * d], 1.0));
    let features = match map {
        Map::Random(features) => features,
        Map::Relu | Map::Simple => d,
    };
    let projection = randn(&[features, d], 1.0);
    let angles = randn(&[nodes, RotaryPairs::FullWidth.count(heads, features)], 0.3);
    let (cos, sin) = (angles.cos().unwrap(), angles.sin().unwrap());
    let what = format!("linear attention {map:?}, heads of {d}, rotated {rotate}");
    agree(
        &what,
        &[&query, &key, &value, &projection, &cos, &sin],
        |t| {
            let table = RotationTable {
                cos: t[4].clone(),
                sin: t[5].clone(),
            };
            let result = linear_attention(LinearAttentionInput {
                query: &t[0],
                key: &t[1],
                value: &t[2],
                node_ptr: &node_ptr,
                heads,
                feature_map: match map {
                    Map::Random(_) => FeatureMap::PositiveRandom { projection: &t[3] },
                    Map::Relu => FeatureMap::Relu { eps: 1e-3 },
                    Map::Simple => FeatureMap::Simple,
                },
                rotation: rotate.then_some(FeatureRotation {
                    query: &table,
                    key: &table,
                    pairs: RotaryPairs::FullWidth,
                }),
            });
            Ok(vec![result?])
        },
    );
}

fn pairs_of(sizes: &[usize], heads: usize, d: usize) {
    let width = heads * d;
    let layout = PairLayout::new(&offsets(sizes));
    let (nodes, pairs) = (layout.num_nodes(), layout.num_pairs().unwrap());
    // Scores keep away from 0, where the signed root has no bounded slope.
    let [query, key, value] = [(); 3].map(|()| uniform(&[nodes, width], 0.5, 1.5));
    let pair = randn(&[pairs, width], 1.0);
    let edge = randn(&[2 * width, width], 0.02);
    let bias = uniform(&[2 * width], 1.0, 2.0);
    let (logit, edge_value) = (randn(&[d, heads, 1], 1.0), randn(&[d, heads, d], 0.5));
    let output = randn(&[width, width], 0.2);
    let inputs = [
        &query,
        &key,
        &value,
        &pair,
        &edge,
        &bias,
        &logit,
        &edge_value,
        &output,
    ];
    agree(&format!("pair attention, heads of {d}"), &inputs, |t| {
        let weights = PairAttentionWeights::new(
            LinearWeights::new(t[4].clone(), Some(t[5].clone()))?,
            t[6].clone(),
            Some(t[7].clone()),
            Activation::Relu,
            Some(5.0),
        )?;
        let output = LinearWeights::new(t[8].clone(), None)?;
        let update = PairUpdate::new(Some(output), None, None, None);
        let input = PairAttentionInput {
            query: &t[0],
            key: &t[1],
            value: &t[2],
            pair: &t[3],
            layout: &layout,
            mask: None,
        };
        let found = pair_attention(input, &weights, PairOutput::New(&update), true)?;
        Ok([Some(found.value), found.pair, found.weights]
            .into_iter()
            .flatten()
            .collect())
    });
}

/// Everything that gathers along edges, at one width.
fn along_edges(adjacency: &Adjacency, width: usize) {
    let (nodes, count) = (adjacency.num_nodes(), adjacency.len());
    let [a, b, c, d] = [(); 4].map(|()| randn(&[nodes, width], 1.0));
    let (states, weights) = (randn(&[count, width], 1.0), randn(&[count, 1], 1.0));
    let gate = randn(&[width, width], 1.0 / (width as f32).sqrt());
    let columns = uniform(&[width], 0.5, 1.5);
    let inputs = [&a, &b, &c, &d, &states, &weights, &gate, &columns];
    let with = |name: &str, operation: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>| {
        agree(
            &format!("{name}, {count} edges, width {width}"),
            &inputs,
            operation,
        );
    };
    with("neighbour sum", &|t| {
        let sum = neighbour_sum(NeighbourSumInput {
            nodes: &t[0],
            adjacency,
            edge_states: Some(&t[4]),
            weights: Some(&t[5]),
            self_weight: None,
        });
        Ok(vec![sum?])
    });
    with("gated sum", &|t| {
        let norm = Affine {
            scale: t[7].clone(),
            shift: t[7].clone(),
        };
        let found = gated_sum(GatedSumInput {
            own: &t[0],
            sent: &t[1],
            gate_target: &t[2],
            gate_source: &t[3],
            edge_states: &t[4],
            gate_edge: &LinearWeights::new(t[6].clone(), Some(t[7].clone()))?,
            weights: None,
            adjacency,
            norm_node: &norm,
            norm_edge: &norm,
            activation: Activation::Relu,
            residual: Some(&t[0]),
        })?;
        Ok(vec![found.nodes, found.edge_states])
    });
    with("neighbour softmax", &|t| {
        Ok(vec![neighbour_softmax(&t[0], &t[4], adjacency)?])
    });
    with("neighbour statistics", &|t| {
        // Mean, largest and sum are of different magnitudes.
        let all = neighbour_statistics(&t[0], &t[1], &t[4], adjacency)?;
        (0..3)
            .map(|part| all.narrow(1, part * width, width))
            .collect()
    });
    with("edge update", &|t| {
        let updated = edge_update(EdgeUpdateInput {
            edge_states: Some(&t[4]),
            from_sources: &t[0],
            from_targets: &t[1],
            adjacency,
            activation: Activation::Gelu,
        });
        Ok(vec![updated?])
    });
    with("squared distances", &|t| {
        Ok(vec![squared_distances(&t[0], adjacency)?])
    });
    with("sums by end", &|t| {
        Ok(vec![
            sum_by_source(&t[4], adjacency)?,
            sum_by_target(&t[4], adjacency)?,
        ])
    });
}

fn segments(sizes: &[usize], width: usize) {
    let segments = offsets(sizes);
    let x = randn(&[segments.total(), width], 3.0);
    agree(&format!("segments of width {width}"), &[&x], |t| {
        [Reduction::Sum, Reduction::Mean, Reduction::Max]
            .map(|reduction| segment_reduce(&t[0], &segments, reduction))
            .into_iter()
            .chain([segment_softmax(&t[0], &segments)])
            .collect()
    });
}

/// Everything that treats rows one by one, for heads of width `d`.
fn rows(count: usize, heads: usize, d: usize) {
    let width = heads * d;
    let (x, other) = (randn(&[count, width], 1.0), randn(&[count, width], 1.0));
    let [up, down] = [[2 * width, width], [width, 2 * width]]
        .map(|shape| randn(&shape, 1.0 / (shape[1] as f32).sqrt()));
    let (columns, more) = (randn(&[width], 1.0), randn(&[2 * width], 1.0));
    let inputs = [&x, &other, &up, &down, &columns, &more];
    let with = |name: &str, operation: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
        agree(&format!("{name}, {count} rows of {width}"), &inputs, |t| {
            Ok(vec![operation(t)?])
        });
    };
    for activation in [Activation::Identity, Activation::Relu, Activation::Gelu] {
        with("linear", &|t| {
            let weights = LinearWeights::new(t[2].clone(), Some(t[5].clone()))?;
            linear(&t[0], &weights, activation)
        });
    }
    with("feed forward", &|t| {
        let first = LinearWeights::new(t[2].clone(), Some(t[5].clone()))?;
        let second = LinearWeights::new(t[3].clone(), Some(t[4].clone()))?;
        feed_forward(&t[0], [&first, &second], Activation::Gelu)
    });
    with("layer norm", &|t| {
        let norm = LayerNorm {
            weight: t[4].clone(),
            bias: t[4].clone(),
            eps: 1e-5,
        };
        norm.forward_sum(&t[0], &t[1])
    });
    with("residual affine", &|t| {
        let norm = Affine {
            scale: t[4].clone(),
            shift: t[4].clone(),
        };
        residual_affine(&t[0], &t[1], Some(&norm), Some(&t[0]))
    });
    for pairs in [RotaryPairs::FullWidth, RotaryPairs::PerHead] {
        let angles = randn(&[count, pairs.count(heads, d)], 2.0);
        let (cos, sin) = (angles.cos().unwrap(), angles.sin().unwrap());
        let inputs = [&x, &cos, &sin, &up];
        agree(
            &format!("{pairs:?}, {count} rows, heads of {d}"),
            &inputs,
            |t| {
                let table = RotationTable {
                    cos: t[1].clone(),
                    sin: t[2].clone(),
                };
                let weights = LinearWeights::new(t[3].clone(), None)?;
                let columns = ColumnRotation {
                    columns: 0..width,
                    heads,
                    pairs,
                    table: &table,
                };
                Ok(vec![
                    rotate(&t[0], &table, pairs, heads)?,
                    rotated_linear(&t[0], &weights, &[columns])?,
                ])
            },
        );
    }
}

/// A graph of `nodes`: a hub with an edge of some 40 nodes at most, a ring, and nodes that no edge
/// enters. The reference pads every node to the edges of the hub.
fn hub_and_ring(nodes: u32) -> Adjacency {
    let every = (nodes / 40).max(3);
    let list: Vec<_> = (0..nodes)
        .flat_map(|s| {
            [
                [s, if s % every == 0 { 0 } else { s / 2 }],
                [s, (s + 1) % nodes],
            ]
        })
        .collect();
    edges(nodes as usize + 3, &list)
}

#[test]
fn attention_over_head_sizes_and_a_large_graph() {
    for d in HEAD_SIZES {
        softmax_attention(&[1, 0, 40, 1, 130], 2, d, true);
    }
    softmax_attention(&RAGGED, 1, 6, false);
    softmax_attention(&RAGGED, 1, 13, true);
}

#[test]
fn linear_attention_over_head_sizes_and_a_large_graph() {
    for d in HEAD_SIZES {
        for map in [Map::Random(40), Map::Relu, Map::Simple] {
            linear_attention_of(&[1, 0, 40, 1, 130], 2, d, map, d % 4 == 0);
        }
    }
    for map in [Map::Random(30), Map::Relu, Map::Simple] {
        linear_attention_of(&RAGGED, 2, 13, map, false);
        linear_attention_of(&RAGGED, 2, 16, map, true);
    }
}

#[test]
fn pair_attention_over_head_sizes_and_a_large_graph() {
    for d in HEAD_SIZES {
        pairs_of(&[1, 0, 19, 1, 2], 2, d);
    }
    // The pairs of 2000 nodes would take gigabytes in f64.
    pairs_of(&[1, 400, 0, 1], 1, 6);
}

#[test]
fn neighbours_over_widths_and_a_large_graph() {
    for d in HEAD_SIZES {
        along_edges(&hub_and_ring(40), d);
    }
    along_edges(&hub_and_ring(1900), 52);
    along_edges(&edges(4, &[]), 8);
}

#[test]
fn segments_over_widths_and_a_large_graph() {
    for d in HEAD_SIZES {
        segments(&RAGGED, d);
    }
    segments(&[0, 0, 0], 8);
}

#[test]
fn rows_over_head_sizes() {
    for d in HEAD_SIZES {
        rows(70, 2, d);
    }
    rows(2000, 4, 16);
    rows(1, 1, 13);
    rows(0, 1, 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_sizes_of_graphs_and_heads(
        sizes in prop::collection::vec(
            prop_oneof![Just(0usize), Just(1), 2..12usize, 60..140usize],
            1..6,
        ),
        heads in 1..4usize,
        d in prop::sample::select(&HEAD_SIZES[..]),
        list in prop::collection::vec([0u32..30, 0u32..30], 0..120),
    ) {
        softmax_attention(&sizes, heads, d, heads % 2 == 0);
        linear_attention_of(&sizes, heads, d, Map::Relu, heads == 1);
        segments(&sizes, d);
        let small: Vec<usize> = sizes.iter().map(|n| n % 23).collect();
        pairs_of(&small, heads, d);
        along_edges(&edges(30, &list), d);
        rows(sizes.iter().sum(), heads, d);
    }
}
