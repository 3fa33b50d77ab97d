//! Fused against reference, and gradients.

use candle_core::{DType, Device, Tensor, Var};

use super::*;
use crate::graph::Offsets;
use crate::ops::force_reference;
use crate::ops::test_data::{randn, uniform};

fn linear_weights(out: usize, inputs: usize) -> LinearWeights {
    let weight = randn(&[out, inputs], 1.0 / (inputs as f32).sqrt());
    LinearWeights::new(weight, Some(randn(&[out], 0.5))).unwrap()
}

fn assert_close(name: &str, a: &Tensor, b: &Tensor) {
    assert_within(4e-6, name, a, b);
}

fn assert_within(tolerance: f32, name: &str, a: &Tensor, b: &Tensor) {
    assert_eq!(a.dims(), b.dims(), "{name}");
    let (a, b) = (
        a.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
        b.flatten_all().unwrap().to_vec1::<f32>().unwrap(),
    );
    for (x, y) in a.iter().zip(&b) {
        assert!(
            (x - y).abs() <= tolerance * y.abs().max(1.0),
            "{name}: {x} {y}"
        );
    }
}

/// An edge map whose factors E_w keep away from 0: the root's slope is infinite there, and two
/// correct computations would differ by more than rounding.
fn edge_map(heads: usize, head_dim: usize) -> LinearWeights {
    let width = heads * head_dim;
    let bias: Vec<f32> = (0..2 * width)
        .map(|row| match row % (2 * head_dim) < head_dim {
            true if row % 3 == 0 => -2.0,
            true => 2.0,
            false => (row as f32).sin(),
        })
        .collect();
    let weight = randn(&[2 * width, width], 0.3 / (width as f32).sqrt());
    let bias = Tensor::from_vec(bias, 2 * width, &Device::Cpu).unwrap();
    LinearWeights::new(weight, Some(bias)).unwrap()
}

/// The reference in double precision, rounded at the end.
fn exact(
    input: &PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    update: &PairUpdate,
) -> PairAttentionOutput {
    let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    let map = |l: &LinearWeights| LinearWeights::new(wide(l.weight()), l.bias().map(wide)).unwrap();
    let weights = PairAttentionWeights::new(
        map(&weights.edge),
        wide(&weights.logit),
        weights.edge_value.as_ref().map(wide),
        weights.activation,
        weights.clamp,
    )
    .unwrap();
    let update = PairUpdate::new(
        update.output.as_ref().map(map),
        update.residual_scale.as_ref().map(wide),
        update.layer_norm.as_ref().map(|n| LayerNorm {
            weight: wide(&n.weight),
            bias: wide(&n.bias),
            eps: n.eps,
        }),
        update.affine.as_ref().map(|a| Affine {
            scale: wide(&a.scale),
            shift: wide(&a.shift),
        }),
    );
    let [query, key, value, pair] = [input.query, input.key, input.value, input.pair].map(wide);
    let input = PairAttentionInput {
        query: &query,
        key: &key,
        value: &value,
        pair: &pair,
        ..*input
    };
    let out = pair_attention(input, &weights, PairOutput::New(&update), true).unwrap();
    let narrow = |t: Tensor| t.to_dtype(DType::F32).unwrap();
    PairAttentionOutput {
        value: narrow(out.value),
        pair: out.pair.map(narrow),
        weights: out.weights.map(narrow),
    }
}

struct Case {
    heads: usize,
    head_dim: usize,
    clamp: Option<f32>,
    activation: Activation,
    edge_value: bool,
    output: bool,
    rezero: bool,
    layer_norm: bool,
    batch_norm: bool,
    masked: bool,
}

fn compare(case: &Case, sizes: &[usize]) {
    let device = Device::Cpu;
    let (heads, d) = (case.heads, case.head_dim);
    let width = heads * d;
    let layout = PairLayout::new(&Offsets::from_lengths(sizes.iter().copied(), &device).unwrap());
    let (nodes, pairs) = (layout.num_nodes(), layout.num_pairs().unwrap());
    let weights = PairAttentionWeights::new(
        edge_map(heads, d),
        randn(&[d, heads, 1], 1.5),
        case.edge_value.then(|| randn(&[d, heads, d], 0.5)),
        case.activation,
        case.clamp,
    )
    .unwrap();
    let update = PairUpdate::new(
        case.output.then(|| linear_weights(width, width)),
        case.rezero
            .then(|| Tensor::new(&[[0.7f32]], &device).unwrap()),
        case.layer_norm.then(|| LayerNorm {
            weight: randn(&[width], 1.0),
            bias: randn(&[width], 1.0),
            eps: 1e-5,
        }),
        case.batch_norm.then(|| Affine {
            scale: randn(&[width], 1.0),
            shift: randn(&[width], 1.0),
        }),
    );
    let (query, key, value) = (
        uniform(&[nodes, width], 0.5, 1.5),
        uniform(&[nodes, width], 0.5, 1.5),
        uniform(&[nodes, width], 0.5, 1.5),
    );
    let pair = randn(&[pairs, width], 1.0);
    // Every target keeps its own pair, as a masked model does.
    let mask: Vec<bool> = layout
        .node_ptr()
        .lengths()
        .flat_map(|n| (0..n * n).map(move |p| p / n == p % n || p % 3 == 0))
        .collect();
    let input = PairAttentionInput {
        query: &query,
        key: &key,
        value: &value,
        pair: &pair,
        layout: &layout,
        mask: case.masked.then_some(mask.as_slice()),
    };
    let new = PairOutput::New(&update);
    let expected = exact(&input, &weights, &update);
    let single = force_reference(|| pair_attention(input, &weights, new, true)).unwrap();
    // The reference adds long segments one by one, so its own rounding is larger.
    assert_within(3e-5, "reference value", &single.value, &expected.value);
    let fused = pair_attention(input, &weights, new, true).unwrap();
    assert_close("value", &fused.value, &expected.value);
    assert_close(
        "pair",
        fused.pair.as_ref().unwrap(),
        expected.pair.as_ref().unwrap(),
    );
    assert_close(
        "weights",
        fused.weights.as_ref().unwrap(),
        expected.weights.as_ref().unwrap(),
    );
    let dropped = pair_attention(input, &weights, PairOutput::Dropped, false).unwrap();
    assert_close("value without pair", &dropped.value, &expected.value);
    assert!(dropped.pair.is_none() && dropped.weights.is_none());
    let in_place = pair_attention(input, &weights, PairOutput::InPlace(&update), false).unwrap();
    assert_close("value in place", &in_place.value, &expected.value);
    assert_close(
        "pair in place",
        in_place.pair.as_ref().unwrap(),
        expected.pair.as_ref().unwrap(),
    );
}

#[test]
fn fused_equals_reference_for_every_option_and_head_width() {
    let plain = Case {
        heads: 8,
        head_dim: 8,
        clamp: Some(5.0),
        activation: Activation::Relu,
        edge_value: true,
        output: true,
        rezero: false,
        layer_norm: false,
        batch_norm: true,
        masked: false,
    };
    let sizes = [1, 23, 2, 40];
    compare(&plain, &sizes);
    for head_dim in [1, 4, 5, 6, 12, 13, 16, 24, 32, 64, 96] {
        compare(
            &Case {
                head_dim,
                heads: 2,
                ..plain
            },
            &[3, 7, 1],
        );
    }
    for heads in [1, 17, 20] {
        compare(
            &Case {
                heads,
                head_dim: 4,
                ..plain
            },
            &[5, 2],
        );
    }
    for activation in [Activation::Identity, Activation::Gelu, Activation::Swish] {
        compare(
            &Case {
                activation,
                ..plain
            },
            &sizes,
        );
    }
    compare(
        &Case {
            clamp: None,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            edge_value: false,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            output: false,
            rezero: true,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            rezero: true,
            batch_norm: false,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            layer_norm: true,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            layer_norm: true,
            batch_norm: false,
            rezero: true,
            ..plain
        },
        &sizes,
    );
    compare(
        &Case {
            masked: true,
            ..plain
        },
        &sizes,
    );
}

#[test]
fn graphs_larger_than_a_block_are_cut_without_a_seam() {
    let case = Case {
        heads: 2,
        head_dim: 4,
        clamp: Some(5.0),
        activation: Activation::Relu,
        edge_value: true,
        output: true,
        rezero: false,
        layer_norm: false,
        batch_norm: true,
        masked: false,
    };
    compare(&case, &[300, 1, 257]);
}

#[test]
fn a_new_pair_state_leaves_the_old_one_untouched() {
    let layout = PairLayout::new(&Offsets::from_lengths([4], &Device::Cpu).unwrap());
    let weights = PairAttentionWeights::new(
        linear_weights(8, 4),
        randn(&[2, 2, 1], 1.0),
        None,
        Activation::Relu,
        None,
    )
    .unwrap();
    let update = PairUpdate::new(Some(linear_weights(4, 4)), None, None, None);
    let node = randn(&[4, 4], 1.0);
    let pair = randn(&[16, 4], 1.0);
    let before = pair.to_vec2::<f32>().unwrap();
    let input = PairAttentionInput {
        query: &node,
        key: &node,
        value: &node,
        pair: &pair,
        layout: &layout,
        mask: None,
    };
    pair_attention(input, &weights, PairOutput::New(&update), false).unwrap();
    assert_eq!(pair.to_vec2::<f32>().unwrap(), before);
    pair_attention(input, &weights, PairOutput::InPlace(&update), false).unwrap();
    assert_ne!(pair.to_vec2::<f32>().unwrap(), before);
}

#[test]
fn gradients_reach_every_weight() {
    let device = Device::Cpu;
    let layout = PairLayout::new(&Offsets::from_lengths([3, 2], &device).unwrap());
    let var = |shape: &[usize]| Var::from_tensor(&randn(shape, 0.5)).unwrap();
    let (edge, logit, edge_value) = (var(&[8, 4]), var(&[2, 2, 1]), var(&[2, 2, 2]));
    let weights = PairAttentionWeights::new(
        LinearWeights::new(edge.as_tensor().clone(), None).unwrap(),
        logit.as_tensor().clone(),
        Some(edge_value.as_tensor().clone()),
        Activation::Identity,
        Some(5.0),
    )
    .unwrap();
    let node = var(&[5, 4]);
    let pair = randn(&[13, 4], 1.0);
    let input = PairAttentionInput {
        query: node.as_tensor(),
        key: node.as_tensor(),
        value: node.as_tensor(),
        pair: &pair,
        layout: &layout,
        mask: None,
    };
    let out = pair_attention(input, &weights, PairOutput::Dropped, false).unwrap();
    let gradients = out
        .value
        .sqr()
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    for var in [&edge, &logit, &edge_value, &node] {
        let gradient = gradients.get(var.as_tensor()).unwrap();
        let total = gradient.abs().unwrap().sum_all().unwrap();
        assert!(
            total
                .to_dtype(DType::F64)
                .unwrap()
                .to_scalar::<f64>()
                .unwrap()
                > 0.0
        );
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let layout = PairLayout::new(&Offsets::from_lengths([3], &Device::Cpu).unwrap());
    let weights = PairAttentionWeights::new(
        linear_weights(8, 4),
        randn(&[2, 2, 1], 1.0),
        None,
        Activation::Relu,
        None,
    )
    .unwrap();
    let (node, pair) = (randn(&[3, 4], 1.0), randn(&[8, 4], 1.0));
    let input = PairAttentionInput {
        query: &node,
        key: &node,
        value: &node,
        pair: &pair,
        layout: &layout,
        mask: None,
    };
    let error = pair_attention(input, &weights, PairOutput::Dropped, false).unwrap_err();
    assert!(error.to_string().contains("pair state of shape [8, 4]"));
    let pair = randn(&[9, 4], 1.0);
    let input = PairAttentionInput {
        pair: &pair,
        ..input
    };
    let short = Affine {
        scale: randn(&[3], 1.0),
        shift: randn(&[3], 1.0),
    };
    let update = PairUpdate::new(None, None, None, Some(short));
    let error = pair_attention(input, &weights, PairOutput::New(&update), false).unwrap_err();
    assert!(error.to_string().contains("a norm of shape [3]"));
    assert!(
        PairAttentionWeights::new(
            linear_weights(8, 4),
            randn(&[2, 2, 1], 1.0),
            None,
            Activation::Relu,
            Some(f32::NAN)
        )
        .is_err()
    );
    assert!(
        PairAttentionWeights::new(
            linear_weights(6, 4),
            randn(&[2, 2, 1], 1.0),
            None,
            Activation::Relu,
            None
        )
        .is_err()
    );
}
