use candle_core::{Device, Tensor, Var};

use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, edges, randn};

#[test]
fn a_hand_computed_aggregation() {
    // Messages 3 and 1 to node 0, one message 0 to node 1, none to node 2.
    let adjacency = edges(3, &[[0, 0], [1, 0], [2, 1]]);
    let nodes = Tensor::new(&[[1f32], [2.0], [-4.0]], &Device::Cpu).unwrap();
    let states = Tensor::new(&[[2f32], [-1.0], [1.0]], &Device::Cpu).unwrap();
    let e = std::f32::consts::E;
    let share = e * e / (e * e + 1.0);
    let expected = [[3.0 * share + 1.0 - share], [0.0], [0.0]];
    let expected = Tensor::new(&expected, &Device::Cpu).unwrap();
    let found = neighbour_softmax(&nodes, &states, &adjacency).unwrap();
    assert_close(&found, &expected, 3e-7);
    let found = force_reference(|| neighbour_softmax(&nodes, &states, &adjacency)).unwrap();
    assert_close(&found, &expected, 3e-7);
}

#[test]
fn fused_equals_reference() {
    for adjacency in awkward_edges() {
        for width in WIDTHS {
            let nodes = randn(&[adjacency.num_nodes(), width], 2.0);
            let states = randn(&[adjacency.len(), width], 2.0);
            let fused = neighbour_softmax(&nodes, &states, &adjacency).unwrap();
            let reference = force_reference(|| neighbour_softmax(&nodes, &states, &adjacency));
            assert_close(&fused, &reference.unwrap(), 2e-6);
        }
    }
}

#[test]
fn an_aggregation_over_threads_is_the_same() {
    let many: Vec<_> = (0..3000u32)
        .map(|e| [e * 7919 % 700, e * e % 700])
        .collect();
    let adjacency = edges(700, &many);
    let (nodes, states) = (randn(&[700, 64], 1.0), randn(&[3000, 64], 1.0));
    let fused = neighbour_softmax(&nodes, &states, &adjacency).unwrap();
    let reference = force_reference(|| neighbour_softmax(&nodes, &states, &adjacency));
    assert_close(&fused, &reference.unwrap(), 2e-6);
}

#[test]
fn gradients_flow_and_shapes_are_checked() {
    let adjacency = edges(2, &[[0, 0], [1, 0]]);
    let nodes = Var::new(&[[1f32], [1.0]], &Device::Cpu).unwrap();
    let states = Tensor::zeros((2, 1), candle_core::DType::F32, &Device::Cpu).unwrap();
    let sum = neighbour_softmax(&nodes, &states, &adjacency).unwrap();
    let gradients = sum.sum_all().unwrap().backward().unwrap();
    // Equal messages have half the weight each, and no share moves to first order.
    let gradient = gradients.get(nodes.as_tensor()).unwrap();
    let half = Tensor::new(&[[0.5f32], [0.5]], &Device::Cpu).unwrap();
    assert_close(gradient, &half, 1e-6);
    assert!(neighbour_softmax(&states, &randn(&[3, 1], 1.0), &adjacency).is_err());
    assert!(neighbour_softmax(&randn(&[3, 1], 1.0), &states, &adjacency).is_err());
}
