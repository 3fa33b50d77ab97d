//! SGFormer against the official code: the cases of `fixtures/sgformer`, whose README tells how they
//! were made.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor, safetensors};
use candle_graph::graph::{Features, Graph};
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, NodeEncoderConfig, Pooling};
use candle_graph::ops::{Activation, force_reference};
use candle_graph_models::sections::{InputConfig, OutputConfig};
use candle_graph_models::sgformer::{
    Aggregation, AttentionBranchConfig, GraphBranchConfig, SgFormerConfig,
};
use candle_graph_models::{ModelConfig, Predictor, Trace};
use candle_nn::VarBuilder;
use serde_json::Value;

/// The configuration of a case, from the arguments of the official class.
fn config(case: &Value) -> ModelConfig {
    let option = |name: &str| case["options"].get(name);
    let on = |name: &str, default: bool| option(name).map_or(default, |v| v.as_bool().unwrap());
    let number = |name: &str| option(name).map_or(1, |v| v.as_u64().unwrap() as usize);
    let real = |name: &str, default: f64| option(name).map_or(default, |v| v.as_f64().unwrap());
    ModelConfig::SgFormer(SgFormerConfig {
        hidden_dim: case["hidden"].as_u64().unwrap() as usize,
        input: InputConfig {
            node_encoder: NodeEncoderConfig {
                features: FeatureEncoderConfig::Raw,
                prepend: None,
                positional: Vec::new(),
            },
            edge_encoder: None,
            node_norm: false,
            edge_norm: false,
            norm_eps: 1e-5,
            pre_layers: None,
        },
        attention: AttentionBranchConfig {
            layers: number("trans_num_layers"),
            heads: number("trans_num_heads"),
            value_map: on("trans_use_weight", true),
            residual: on("trans_use_residual", true),
            alpha: real("alpha", 0.5),
            layer_norm: on("trans_use_bn", true),
            layer_activation: on("trans_use_act", true),
        },
        rotary: None,
        message_passing: on("use_graph", true).then(|| GraphBranchConfig {
            layers: number("gnn_num_layers"),
            map: on("gnn_use_weight", true),
            initial_states: on("gnn_use_init", false),
            batch_norm: on("gnn_use_bn", true),
            residual: on("gnn_use_residual", true),
            layer_activation: on("gnn_use_act", true),
        }),
        aggregation: match option("aggregate") {
            Some(_) => Aggregation::Concatenate,
            None => Aggregation::Mean {
                graph_weight: real("graph_weight", 0.8),
            },
        },
        activation: Activation::Relu,
        output: OutputConfig {
            dim: case["out"].as_u64().unwrap() as usize,
            pooling: Pooling::Mean,
            head: HeadConfig::InductiveNode { layers: 1 },
        },
    })
}

/// Our name of an official tensor.
fn name(official: &str) -> String {
    let parts: Vec<&str> = official.split('.').collect();
    match parts.as_slice() {
        ["fc", end] => format!("head.layers.0.{end}"),
        ["trans_conv", "fcs", "0", end] => format!("attention_input.{end}"),
        ["trans_conv", "bns", "0", end] => format!("attention_input_norm.{end}"),
        ["trans_conv", "bns", i, end] => {
            format!("layers.{}.norm.{end}", i.parse::<usize>().unwrap() - 1)
        }
        ["trans_conv", "convs", i, map, end] => {
            let map = match *map {
                "Wq" => "query",
                "Wk" => "key",
                "Wv" => "value",
                other => panic!("{other}"),
            };
            format!("layers.{i}.attention.{map}.{end}")
        }
        ["graph_conv", "fcs", "0", end] => format!("graph_input.{end}"),
        ["graph_conv", "bns", "0", end] => format!("graph_input_norm.{end}"),
        ["graph_conv", "bns", i, end] => {
            format!(
                "graph_layers.{}.norm.{end}",
                i.parse::<usize>().unwrap() - 1
            )
        }
        ["graph_conv", "convs", j, "W", end] => format!("graph_layers.{j}.map.{end}"),
        _ => panic!("{official}"),
    }
}

fn rows(tensor: &Tensor) -> Vec<f32> {
    let values = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap();
    values.to_vec1().unwrap()
}

/// The largest difference.
fn off(found: &[f32], expected: &Tensor) -> f32 {
    let expected = rows(expected);
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(&expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Predictions and the results of the branches, in a batch and alone, fused, by the reference and in
/// double precision, are those of the official code.
#[test]
fn predictions_are_those_of_the_official_code() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/sgformer");
    let cases = std::fs::read(format!("{folder}/cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    assert_eq!(cases.len(), 4);
    for case in &cases {
        let label = case["name"].as_str().unwrap();
        let file = format!("{folder}/{label}.safetensors");
        let tensors = safetensors::load(file, &Device::Cpu).unwrap();
        let graphs: Vec<Graph> = (0..2).map(|g| graph(&tensors, g)).collect();
        let weights: HashMap<String, Tensor> = tensors
            .iter()
            .filter_map(|(key, tensor)| {
                let official = key.strip_prefix("weights.")?;
                Some((name(official), tensor.clone()))
            })
            .collect();
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::F64, 3e-6)] {
            let vb = VarBuilder::from_tensors(weights.clone(), dtype, &Device::Cpu);
            let predictor = Predictor::new(config(case).build(vb).unwrap(), Device::Cpu);
            let check = |how: &str| {
                for batch in [&graphs[..], &graphs[..1], &graphs[1..]] {
                    let first = if batch[0] == graphs[0] { 0 } else { 1 };
                    compare(
                        &predictor,
                        batch,
                        first,
                        &tensors,
                        tolerance,
                        &format!("{label}, {how}"),
                    );
                }
            };
            check("fused");
            force_reference(|| check("reference"));
        }
    }
}

fn graph(tensors: &HashMap<String, Tensor>, at: usize) -> Graph {
    let x = &tensors[&format!("graph{at}.x")];
    let (nodes, width) = x.dims2().unwrap();
    let edges = tensors[&format!("graph{at}.edge_index")]
        .to_vec2::<i64>()
        .unwrap();
    Graph::builder(nodes)
        .edge_index(&edges[0], &edges[1])
        .node_features(Features::float(width, rows(x)))
        .build()
        .unwrap()
}

/// Runs `graphs`, recorded from number `first` on, as one batch.
fn compare(
    predictor: &Predictor,
    graphs: &[Graph],
    first: usize,
    tensors: &HashMap<String, Tensor>,
    tolerance: f32,
    label: &str,
) {
    let plan = predictor.model().encoding_plan();
    let encodings = plan.compute_all(graphs, 0).unwrap();
    let batch = predictor.batch(graphs, &encodings, 0).unwrap();
    let mut trace = Trace::on();
    predictor
        .model()
        .forward_traced(&batch, &mut trace)
        .unwrap();
    let activations = trace.into_activations();
    let last = |prefix: &str| {
        let names = activations.keys().filter(|name| name.starts_with(prefix));
        names.max().cloned()
    };
    let taps = [
        (Some("prediction".to_string()), "out"),
        (last("layers."), "trans_conv"),
        (last("graph.layers."), "graph_conv"),
    ];
    for (name, recorded) in taps {
        let Some(name) = name else { continue };
        for (at, range) in batch.node_ptr().ranges().enumerate() {
            let found = activations[&name]
                .narrow(0, range.start, range.len())
                .unwrap();
            let expected = &tensors[&format!("graph{}.{recorded}", first + at)];
            let off = off(&rows(&found), expected);
            assert!(
                off < tolerance,
                "{label}: {recorded} of graph {at} is off by {off:e}"
            );
        }
    }
}
