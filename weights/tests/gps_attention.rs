//! Attention against what the official GraphGPS gives.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_graph::graph::Offsets;
use candle_graph::nn::{Attention, AttentionConfig, BigBirdLayout};
use candle_graph::ops::{Activation, force_reference};
use candle_graph_weights::{Limits, StateDict, read_safetensors, torch};
use candle_nn::VarBuilder;
use support::{find, fixture, shared};

/// Our names of the tensors of `torch.nn.MultiheadAttention`.
const SOFTMAX: &[(&str, &str)] = &[
    ("in_proj_weight", "in_proj.weight"),
    ("in_proj_bias", "in_proj.bias"),
    ("out_proj.weight", "out_proj.weight"),
    ("out_proj.bias", "out_proj.bias"),
];

/// Our names of the tensors of performer-pytorch's `SelfAttention`.
const PERFORMER: &[(&str, &str)] = &[
    ("to_q.weight", "query.weight"),
    ("to_k.weight", "key.weight"),
    ("to_v.weight", "value.weight"),
    ("to_out.weight", "out_proj.weight"),
    ("to_out.bias", "out_proj.bias"),
    ("fast_attention.projection_matrix", "projection"),
];

/// Our names of the modules of GraphGPS's `SingleBigBirdLayer`.
const BIG_BIRD: &[(&str, &str)] = &[
    ("attention.self.query", "query"),
    ("attention.self.key", "key"),
    ("attention.self.value", "value"),
    ("attention.output.dense", "out_proj"),
    ("attention.output.LayerNorm", "attention_norm"),
    ("intermediate.dense", "feed_forward.input"),
    ("output.dense", "feed_forward.output"),
    ("output.LayerNorm", "feed_forward_norm"),
];

fn tensor(tensors: &StateDict, name: &str) -> Tensor {
    let data = tensors.get(name).unwrap_or_else(|| panic!("no {name}"));
    data.to_tensor(&Device::Cpu).unwrap()
}

fn read(path: &Path) -> StateDict {
    read_safetensors(path, &Limits::default()).unwrap()
}

/// The attention of the first layer, from the tensors of an official checkpoint.
fn layer(config: &AttentionConfig, width: usize, weights: &StateDict) -> Attention {
    let get = |official: &str| tensor(weights, &format!("model.layers.0.self_attn.{official}"));
    let mut tensors = HashMap::new();
    match config {
        AttentionConfig::BigBird { use_bias, .. } => {
            for (official, ours) in BIG_BIRD {
                let projection = official.starts_with("attention.self");
                for kind in ["weight", "bias"] {
                    if kind == "weight" || *use_bias || !projection {
                        let official = format!("encoder.layers.0.{official}.{kind}");
                        tensors.insert(format!("{ours}.{kind}"), get(&official));
                    }
                }
            }
        }
        AttentionConfig::Performer { .. } => {
            tensors.extend(
                PERFORMER
                    .iter()
                    .map(|(o, ours)| ((*ours).to_owned(), get(o))),
            );
        }
        _ => tensors.extend(SOFTMAX.iter().map(|(o, ours)| ((*ours).to_owned(), get(o)))),
    }
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    Attention::new(config, width, vb).unwrap()
}

fn node_ptr(ptr: &Tensor) -> Offsets {
    let ptr: Vec<i64> = ptr.to_vec1().unwrap();
    let lengths = ptr
        .windows(2)
        .map(|w| usize::try_from(w[1] - w[0]).unwrap());
    Offsets::from_lengths(lengths, &Device::Cpu).unwrap()
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f32, what: &str) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let values = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    for (x, y) in values(found).into_iter().zip(values(expected)) {
        assert!(
            (x - y).abs() <= tolerance * y.abs().max(1.0),
            "{what}: {x}, recorded {y}"
        );
    }
}

/// The rows of the graphs of a padded result, one graph after the other.
fn unpad(dense: &Tensor, node_ptr: &Offsets) -> Tensor {
    let rows: Vec<Tensor> = (node_ptr.lengths().enumerate())
        .map(|(graph, size)| dense.get(graph).unwrap().narrow(0, 0, size).unwrap())
        .collect();
    Tensor::cat(&rows, 0).unwrap()
}

/// Compares softmax attention, and every graph of the padded result.
fn compare_softmax(
    what: &str,
    heads: usize,
    weights: &StateDict,
    outputs: &StateDict,
    ptr: &Tensor,
) {
    let nodes = tensor(outputs, "node_after_encoder");
    let node_ptr = node_ptr(ptr);
    let expected = unpad(&tensor(outputs, "layer_0_attn_raw_dense"), &node_ptr);
    let config = AttentionConfig::softmax(heads);
    let layer = layer(&config, nodes.dim(1).unwrap(), weights);
    let fused = layer.forward(&nodes, &node_ptr, None, None).unwrap();
    assert_close(&fused, &expected, 2e-6, what);
    let reference = force_reference(|| layer.forward(&nodes, &node_ptr, None, None)).unwrap();
    assert_close(&reference, &expected, 2e-6, what);
}

/// Compares the Performer. The recorded result has the padding of the batch in the sums over the
/// keys. As queries, keys and values have no bias, padding is nodes whose state is zero: with
/// them, all rows agree, and without them the largest graph, which has none.
fn compare_performer(
    what: &str,
    heads: usize,
    weights: &StateDict,
    outputs: &StateDict,
    ptr: &Tensor,
) {
    let nodes = tensor(outputs, "node_after_encoder");
    let node_ptr = node_ptr(ptr);
    let dense = tensor(outputs, "layer_0_attn_raw_dense");
    let config = AttentionConfig::Performer {
        heads,
        head_dim: 64,
        features: 266,
    };
    let (graphs, longest, width) = dense.dims3().unwrap();
    let layer = layer(&config, width, weights);
    let padded: Vec<Tensor> = (node_ptr.ranges())
        .map(|nodes_of| {
            let rows = nodes.narrow(0, nodes_of.start, nodes_of.len()).unwrap();
            rows.pad_with_zeros(0, 0, longest - nodes_of.len()).unwrap()
        })
        .collect();
    let padded = Tensor::cat(&padded, 0).unwrap();
    let padded_ptr = Offsets::from_lengths(vec![longest; graphs], &Device::Cpu).unwrap();
    let largest = node_ptr.lengths().position(|n| n == longest).unwrap();
    let expected = unpad(&dense, &node_ptr);
    let run = |reference: bool, nodes: &Tensor, node_ptr: &Offsets| match reference {
        true => force_reference(|| layer.forward(nodes, node_ptr, None, None)).unwrap(),
        false => layer.forward(nodes, node_ptr, None, None).unwrap(),
    };
    for reference in [false, true] {
        let found = run(reference, &padded, &padded_ptr);
        let found = found.reshape((graphs, longest, width)).unwrap();
        assert_close(&unpad(&found, &node_ptr), &expected, 1e-5, what);

        let ragged = run(reference, &nodes, &node_ptr);
        let range = node_ptr.range(largest);
        let of_largest = ragged.narrow(0, range.start, range.len()).unwrap();
        assert_close(&of_largest, &dense.get(largest).unwrap(), 1e-5, what);
        for range in node_ptr.ranges() {
            let alone = nodes.narrow(0, range.start, range.len()).unwrap();
            let own_ptr = Offsets::from_lengths([range.len()], &Device::Cpu).unwrap();
            let of_batch = ragged.narrow(0, range.start, range.len()).unwrap();
            assert_close(&run(reference, &alone, &own_ptr), &of_batch, 1e-6, what);
        }
    }
}

/// BigBird as in the official defaults, but for what is given.
fn big_bird(
    heads: usize,
    block_size: usize,
    use_bias: bool,
    layout: BigBirdLayout,
) -> AttentionConfig {
    AttentionConfig::BigBird {
        heads,
        block_size,
        random_blocks: 3,
        use_bias,
        activation: Activation::Relu,
        norm_eps: 1e-6,
        layout,
    }
}

#[test]
fn a_recorded_attention_is_reproduced() {
    let recorded = read(&fixture("gps-attention/gat-transformer.safetensors"));
    let ptr = tensor(&recorded, "ptr");
    compare_softmax("fixture", 4, &recorded, &recorded, &ptr);
}

#[test]
fn a_recorded_performer_is_reproduced() {
    let recorded = read(&fixture("gps-attention/performer.safetensors"));
    let ptr = tensor(&recorded, "ptr");
    compare_performer("fixture", 4, &recorded, &recorded, &ptr);
}

#[test]
fn a_recorded_big_bird_is_reproduced_with_the_layout_of_the_batch() {
    let recorded = read(&fixture("gps-attention/big-bird.safetensors"));
    let nodes = tensor(&recorded, "node_after_encoder");
    let node_ptr = node_ptr(&tensor(&recorded, "ptr"));
    let expected = tensor(&recorded, "layer_0_attn_raw");
    let run = |layout| {
        let layer = layer(&big_bird(8, 3, false, layout), 56, &recorded);
        layer.forward(&nodes, &node_ptr, None, None).unwrap()
    };
    assert_close(&run(BigBirdLayout::Batch), &expected, 1e-5, "batch");
    // The first graph is the largest, whose own layout is that of the batch.
    let first = node_ptr.range(0).len();
    assert_eq!(first, node_ptr.max_length());
    let part = |t: &Tensor| t.narrow(0, 0, first).unwrap();
    let own = run(BigBirdLayout::Graph);
    assert_close(&part(&own), &part(&expected), 1e-5, "graph");
}

#[test]
fn recorded_big_birds_of_single_graphs_are_those_of_the_layout_of_the_graph() {
    let recorded = read(&fixture("gps-attention/big-bird-bias.safetensors"));
    let nodes = tensor(&recorded, "node_after_encoder");
    let node_ptr = node_ptr(&tensor(&recorded, "ptr"));
    let expected = |name| tensor(&recorded, name);
    let run = |layout| {
        let layer = layer(&big_bird(2, 2, true, layout), 8, &recorded);
        layer.forward(&nodes, &node_ptr, None, None).unwrap()
    };
    let alone = run(BigBirdLayout::Graph);
    assert_close(&alone, &expected("alone"), 1e-5, "graph");
    let batch = run(BigBirdLayout::Batch);
    assert_close(&batch, &expected("layer_0_attn_raw"), 1e-5, "batch");
}

/// Compares one case: its name, heads, weights, outputs and the first node of every graph.
type Compare = fn(&str, usize, &StateDict, &StateDict, &Tensor);

/// Every reference case with attention, where the folder with them is there.
#[test]
fn all_recorded_attentions_are_reproduced() {
    let Some(folder) = shared()
        .map(|s| s.join("goldens/gps"))
        .filter(|f| f.is_dir())
    else {
        return;
    };
    let (mut transformers, mut performers) = (0, 0);
    for path in find(&folder, "config.json") {
        let config = std::fs::read(&path).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        let kind = config["gt"]["layer_type"].as_str().unwrap();
        let (compare, count): (Compare, _) = match kind.split_once('+') {
            Some((_, "Transformer")) => (compare_softmax, &mut transformers),
            Some((_, "Performer")) => (compare_performer, &mut performers),
            _ => continue,
        };
        let heads = usize::try_from(config["gt"]["n_heads"].as_u64().unwrap()).unwrap();
        let case = path.parent().unwrap();
        let weights = torch::read_state_dict(&case.join("model.ckpt"), &Limits::default()).unwrap();
        let outputs = read(&case.join("outputs.safetensors"));
        let ptr = tensor(&read(&case.join("inputs.safetensors")), "ptr");
        compare(&case.display().to_string(), heads, &weights, &outputs, &ptr);
        *count += 1;
    }
    assert!(transformers > 0, "no case with a Transformer");
    assert!(performers > 0, "no case with a Performer");
}
