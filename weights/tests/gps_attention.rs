//! Multi-head attention against what PyTorch's gives within the official GraphGPS.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_graph::graph::Offsets;
use candle_graph::nn::MultiHeadAttention;
use candle_graph::ops::force_reference;
use candle_graph_weights::{Limits, StateDict, read_safetensors, torch};
use candle_nn::VarBuilder;
use support::{find, fixture, shared};

/// Our names of the tensors of `torch.nn.MultiheadAttention`.
const NAMES: [(&str, &str); 4] = [
    ("in_proj_weight", "in_proj.weight"),
    ("in_proj_bias", "in_proj.bias"),
    ("out_proj.weight", "out_proj.weight"),
    ("out_proj.bias", "out_proj.bias"),
];

fn tensor(tensors: &StateDict, name: &str) -> Tensor {
    let data = tensors.get(name).unwrap_or_else(|| panic!("no {name}"));
    data.to_tensor(&Device::Cpu).unwrap()
}

fn read(path: &Path) -> StateDict {
    read_safetensors(path, &Limits::default()).unwrap()
}

/// Compares the attention of the first layer with the recorded one, graph by graph: the official
/// result is padded to the largest graph.
fn compare(case: &str, heads: usize, weights: &StateDict, outputs: &StateDict, ptr: &Tensor) {
    let device = Device::Cpu;
    let nodes = tensor(outputs, "node_after_encoder");
    let recorded = tensor(outputs, "layer_0_attn_raw_dense");
    let ptr: Vec<i64> = ptr.to_vec1().unwrap();
    let lengths = ptr
        .windows(2)
        .map(|w| usize::try_from(w[1] - w[0]).unwrap());
    let node_ptr = Offsets::from_lengths(lengths, &device).unwrap();
    let tensors: HashMap<String, Tensor> = (NAMES.iter())
        .map(|(official, ours)| {
            let name = format!("model.layers.0.self_attn.{official}");
            ((*ours).to_owned(), tensor(weights, &name))
        })
        .collect();
    let width = nodes.dim(1).unwrap();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &device);
    let layer = MultiHeadAttention::new(width, heads, vb).unwrap();
    let fused = layer.forward(&nodes, &node_ptr, None).unwrap();
    let reference = force_reference(|| layer.forward(&nodes, &node_ptr, None)).unwrap();
    for found in [fused, reference] {
        for (graph, range) in node_ptr.ranges().enumerate() {
            let found = found.narrow(0, range.start, range.len()).unwrap();
            let expected = recorded.get(graph).unwrap();
            let expected = expected.narrow(0, 0, range.len()).unwrap();
            let values = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            for (x, y) in values(found).into_iter().zip(values(expected)) {
                assert!(
                    (x - y).abs() <= 2e-6 * y.abs().max(1.0),
                    "{case}, graph {graph}: {x}, recorded {y}"
                );
            }
        }
    }
}

#[test]
fn a_recorded_attention_is_reproduced() {
    let recorded = read(&fixture("gps-attention/gat-transformer.safetensors"));
    let ptr = tensor(&recorded, "ptr");
    compare("fixture", 4, &recorded, &recorded, &ptr);
}

/// Every reference case with a `Transformer`, where the folder with them is there.
#[test]
fn all_recorded_attentions_are_reproduced() {
    let Some(folder) = shared()
        .map(|s| s.join("goldens/gps"))
        .filter(|f| f.is_dir())
    else {
        return;
    };
    let mut compared = 0;
    for path in find(&folder, "config.json") {
        let config = std::fs::read(&path).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        let kind = config["gt"]["layer_type"].as_str().unwrap();
        if !kind.ends_with("+Transformer") {
            continue;
        }
        let heads = usize::try_from(config["gt"]["n_heads"].as_u64().unwrap()).unwrap();
        let case = path.parent().unwrap();
        let weights = torch::read_state_dict(&case.join("model.ckpt"), &Limits::default()).unwrap();
        let outputs = read(&case.join("outputs.safetensors"));
        let ptr = tensor(&read(&case.join("inputs.safetensors")), "ptr");
        compare(&case.display().to_string(), heads, &weights, &outputs, &ptr);
        compared += 1;
    }
    assert!(compared > 0, "no case with a Transformer");
}
