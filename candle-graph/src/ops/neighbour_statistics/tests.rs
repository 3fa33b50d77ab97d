use candle_core::{Device, Tensor, Var};

use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, edges, randn};

#[test]
fn hand_computed_statistics() {
    // Node 0 hears 1 and 2, node 1 hears itself, node 2 nobody: its own state counts for nothing.
    let adjacency = edges(3, &[[1, 0], [2, 0], [1, 1]]);
    let targets = Tensor::new(&[[100f32], [200.0], [300.0]], &Device::Cpu).unwrap();
    let sources = Tensor::new(&[[1f32], [2.0], [3.0]], &Device::Cpu).unwrap();
    let states = Tensor::new(&[[-150f32], [0.5], [-900.0]], &Device::Cpu).unwrap();
    let forward = || neighbour_statistics(&targets, &sources, &states, &adjacency).unwrap();
    let expected = [[27.75f32, 103.5, 55.5], [-698.0; 3], [0.0; 3]];
    for found in [forward(), force_reference(forward)] {
        assert_eq!(found.to_vec2::<f32>().unwrap(), expected);
    }
}

#[test]
fn fused_equals_reference() {
    for adjacency in awkward_edges() {
        for width in WIDTHS {
            let packed = randn(&[adjacency.num_nodes(), 2 * width], 1.0);
            let targets = packed.narrow(1, 0, width).unwrap();
            let sources = packed.narrow(1, width, width).unwrap();
            let states = randn(&[adjacency.len(), width], 1.0);
            let forward = || neighbour_statistics(&targets, &sources, &states, &adjacency).unwrap();
            let (fused, reference) = (forward(), force_reference(forward));
            assert_close(&(fused / 16.0).unwrap(), &(reference / 16.0).unwrap(), 2e-6);
        }
    }
}

#[test]
fn gradients_flow_and_shapes_are_checked() {
    let adjacency = edges(2, &[[0, 1], [1, 1]]);
    let nodes = Var::new(&[[1f32], [5.0]], &Device::Cpu).unwrap();
    let states = Tensor::zeros((2, 1), candle_core::DType::F32, &Device::Cpu).unwrap();
    let found = neighbour_statistics(&nodes, &nodes, &states, &adjacency).unwrap();
    let gradients = found.sum_all().unwrap().backward().unwrap();
    // As a target node 1 counts in every statistic (1, 1 and 2), as a source each node counts half
    // in the mean, wholly in the sum, and node 1 is the largest.
    let gradient = gradients.get(nodes.as_tensor()).unwrap();
    assert_eq!(gradient.to_vec2::<f32>().unwrap(), [[1.5f32], [4.0 + 2.5]]);
    let (wide, tall) = (randn(&[2, 2], 1.0), randn(&[3, 1], 1.0));
    assert!(neighbour_statistics(&nodes, &wide, &states, &adjacency).is_err());
    assert!(neighbour_statistics(&tall, &tall, &states, &adjacency).is_err());
    assert!(neighbour_statistics(&nodes, &nodes, &tall, &adjacency).is_err());
}
