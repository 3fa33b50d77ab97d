//! Graph-mode layer norm against a layer of the official GraphGPS.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_graph::graph::Offsets;
use candle_graph::nn::{GraphLayerNorm, linear};
use candle_graph::ops::{self, Activation, force_reference};
use candle_graph_weights::{Limits, read_safetensors};
use candle_nn::VarBuilder;
use support::fixture;

/// From what the local model and the attention of the first layer gave to what the layer gave,
/// through its three norms.
#[test]
fn the_norms_of_a_recorded_layer_are_reproduced() {
    let path = fixture("gps-attention/graph-layer-norm.safetensors");
    let recorded = read_safetensors(&path, &Limits::default()).unwrap();
    let get = |name: &str| {
        let data = recorded.get(name).unwrap_or_else(|| panic!("no {name}"));
        data.to_tensor(&Device::Cpu).unwrap()
    };
    let ptr: Vec<i64> = get("ptr").to_vec1().unwrap();
    let lengths = ptr
        .windows(2)
        .map(|w| usize::try_from(w[1] - w[0]).unwrap());
    let node_ptr = Offsets::from_lengths(lengths, &Device::Cpu).unwrap();
    let states = get("node_after_encoder");
    let width = states.dim(1).unwrap();
    let vb = |module: &str| {
        let tensors: HashMap<String, Tensor> = ["weight", "bias"]
            .map(|kind| {
                (
                    kind.to_owned(),
                    get(&format!("model.layers.0.{module}.{kind}")),
                )
            })
            .into();
        VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
    };
    let norm = |module: &str, x: Tensor| {
        let norm = GraphLayerNorm::new(width, 1e-5, vb(module)).unwrap();
        norm.forward(&x, &node_ptr).unwrap()
    };
    let dense = get("layer_0_attn_raw_dense");
    let attended: Vec<Tensor> = (node_ptr.lengths().enumerate())
        .map(|(graph, size)| dense.get(graph).unwrap().narrow(0, 0, size).unwrap())
        .collect();
    let attended = Tensor::cat(&attended, 0).unwrap();
    let ff = [
        linear(width, 2 * width, vb("ff_linear1")).unwrap(),
        linear(2 * width, width, vb("ff_linear2")).unwrap(),
    ];
    let layer = || {
        let local = norm("norm1_local", (&states + get("layer_0_local_raw")).unwrap());
        let global = norm("norm1_attn", (&states + &attended).unwrap());
        let h = (local + global).unwrap();
        let hidden = ops::linear(&h, &ff[0], Activation::Relu).unwrap();
        let change = ops::linear(&hidden, &ff[1], Activation::Identity).unwrap();
        norm("norm2", (h + change).unwrap())
    };
    let expected: Vec<Vec<f32>> = get("node_after_layer_0").to_vec2().unwrap();
    for found in [layer(), force_reference(layer)] {
        let found: Vec<Vec<f32>> = found.to_vec2().unwrap();
        assert_eq!(found.len(), expected.len());
        for (x, y) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!(
                (x - y).abs() <= 5e-6 * y.abs().max(1.0),
                "{x}, recorded {y}"
            );
        }
    }
}
