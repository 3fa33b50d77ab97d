use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;

use super::*;
use crate::ops::test_data::{assert_close, edges, randn};

/// 0 → 1 twice, 1 → 2, and a loop at 2.
fn graph() -> Adjacency {
    edges(3, &[[0, 1], [0, 1], [1, 2], [2, 2]])
}

fn config(messages: DirectedMessageKind) -> DirectedMessagePassingConfig {
    DirectedMessagePassingConfig {
        messages,
        steps: 1,
        mlp_layers: 1,
        tightening_factor: 1,
        edge_features: true,
        concatenate: false,
        residual: false,
        bidirectional: true,
    }
}

const WIDTHS: MessageWidths = MessageWidths {
    nodes: 1,
    edges: Some(1),
    out: 1,
};

fn layer(
    config: &DirectedMessagePassingConfig,
    widths: MessageWidths,
    tensors: &[(&str, &[usize], &[f32])],
) -> DirectedMessagePassing {
    let tensor = |&(name, shape, values): &(&str, &[usize], &[f32])| {
        let tensor = Tensor::from_slice(values, shape, &Device::Cpu).unwrap();
        (name.to_string(), tensor)
    };
    let tensors: HashMap<String, Tensor> = tensors.iter().map(tensor).collect();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    DirectedMessagePassing::new(config, widths, Activation::Relu, vb).unwrap()
}

fn column(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, (values.len(), 1), &Device::Cpu).unwrap()
}

fn rows(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn a_graph_network_reads_source_target_and_both_directions() {
    let layer = layer(
        &config(DirectedMessageKind::GraphNetwork),
        WIDTHS,
        &[
            // 1·edge + 10·source + 100·target + 0.5.
            ("steps.0.edge.0.weight", &[1, 3], &[1.0, 10.0, 100.0]),
            ("steps.0.edge.0.bias", &[1], &[0.5]),
            // 1·own + 10·sent + 1000·received.
            ("steps.0.node.0.weight", &[1, 3], &[1.0, 10.0, 1000.0]),
            ("steps.0.node.0.bias", &[1], &[0.25]),
        ],
    );
    let nodes = column(&[1.0, 2.0, 3.0]);
    // In the order of the adjacency: (0, 1), (0, 1), (1, 2), (2, 2).
    let states = column(&[0.0, 4.0, 0.0, -5000.0]);
    let found = layer.forward(&nodes, Some(&states), &graph(), Ok).unwrap();
    let messages = [210.5f32, 214.5, 320.5, 0.0];
    let expected = [
        1.25 + 10.0 * (messages[0] + messages[1]),
        2.25 + 10.0 * messages[2] + 1000.0 * (messages[0] + messages[1]),
        3.25 + 1000.0 * messages[2],
    ];
    assert_eq!(rows(&found), expected);
}

#[test]
fn a_convolution_divides_by_degrees_and_keeps_the_forward_node_map_backwards() {
    let layer = layer(
        &config(DirectedMessageKind::Convolution),
        WIDTHS,
        &[
            ("steps.0.node.weight", &[1, 1], &[1.0]),
            ("steps.0.node.bias", &[1], &[0.0]),
            ("steps.0.edge.weight", &[1, 1], &[1.0]),
            ("steps.0.edge.bias", &[1], &[0.0]),
            ("steps.0.backward_edge.weight", &[1, 1], &[10.0]),
            ("steps.0.backward_edge.bias", &[1], &[0.0]),
            ("steps.0.root", &[1, 1], &[0.5]),
        ],
    );
    let nodes = column(&[1.0, 2.0, 3.0]);
    let states = column(&[0.0, 4.0, 1.0, 0.0]);
    let found = layer.forward(&nodes, Some(&states), &graph(), Ok).unwrap();
    // Out-degrees + 1: 3, 2, 2; in-degrees + 1: 1, 3, 3.
    let norm = |out: f32, into: f32| 1.0 / (out * into).sqrt();
    let expected = [
        1.5 / 1.0 + norm(3.0, 3.0) * (2.0 + 42.0),
        2.5 / 3.0 + norm(3.0, 3.0) * (1.0 + 5.0) + norm(2.0, 3.0) * 13.0,
        3.5 / 3.0 + norm(2.0, 3.0) * (3.0 + 3.0) + norm(2.0, 3.0) * 3.0,
    ];
    for (found, expected) in rows(&found).iter().zip(expected) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

/// A layer with random weights for a width of 4.
fn random(config: &DirectedMessagePassingConfig, edges: Option<usize>) -> DirectedMessagePassing {
    let (directions, out) = (if config.bidirectional { 2 } else { 1 }, 4);
    let mut tensors = HashMap::new();
    let mut put = |name: String, shape: &[usize]| {
        tensors.insert(name, randn(shape, 0.5));
    };
    let (mut nodes, mut of_edges) = (4, edges.filter(|_| config.edge_features));
    for step in 0..config.steps {
        let first = of_edges.unwrap_or(0) + directions * nodes;
        put(format!("steps.{step}.edge.0.weight"), &[out, first]);
        put(format!("steps.{step}.edge.0.bias"), &[out]);
        put(
            format!("steps.{step}.node.0.weight"),
            &[out, nodes + directions * out],
        );
        put(format!("steps.{step}.node.0.bias"), &[out]);
        for kind in ["edge", "node"] {
            put(format!("steps.{step}.{kind}.1.weight"), &[out, out]);
            put(format!("steps.{step}.{kind}.1.bias"), &[out]);
        }
        nodes = out;
        of_edges = of_edges.map(|_| out);
    }
    put("output.weight".to_string(), &[4, 4 + config.steps * out]);
    put("output.bias".to_string(), &[4]);
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let widths = MessageWidths {
        nodes: 4,
        edges,
        out: 4,
    };
    DirectedMessagePassing::new(config, widths, Activation::GeluTanh, vb).unwrap()
}

#[test]
fn without_two_directions_a_reversed_graph_gives_the_same() {
    let reversed = edges(3, &[[1, 0], [1, 0], [2, 1], [2, 2]]);
    let nodes = randn(&[3, 4], 1.0);
    for bidirectional in [false, true] {
        let config = DirectedMessagePassingConfig {
            steps: 2,
            mlp_layers: 2,
            edge_features: false,
            concatenate: true,
            bidirectional,
            ..config(DirectedMessageKind::GraphNetwork)
        };
        let layer = random(&config, None);
        let run = |graph: &Adjacency| layer.forward(&nodes, None, graph, Ok).unwrap();
        let difference = (run(&graph()) - run(&reversed)).unwrap().abs().unwrap();
        let largest = difference.max_all().unwrap().to_scalar::<f32>().unwrap();
        assert_eq!(largest < 1e-5, !bidirectional, "{largest}");
    }
}

#[test]
fn channels_do_not_mix() {
    let config = DirectedMessagePassingConfig {
        steps: 2,
        mlp_layers: 2,
        edge_features: false,
        concatenate: true,
        ..config(DirectedMessageKind::GraphNetwork)
    };
    let layer = random(&config, None);
    let both = randn(&[6, 4], 1.0);
    let found = layer.forward_channels(&both, &graph(), 2).unwrap();
    for channel in 0..2u32 {
        let ids: Vec<u32> = (0..3).map(|node| 2 * node + channel).collect();
        let ids = Tensor::new(ids.as_slice(), &Device::Cpu).unwrap();
        let alone = both.index_select(&ids, 0).unwrap();
        let alone = layer.forward(&alone, None, &graph(), Ok).unwrap();
        assert_close(&found.index_select(&ids, 0).unwrap(), &alone, 2e-6);
    }
}

#[test]
fn the_norm_stands_before_the_output_map() {
    let config = DirectedMessagePassingConfig {
        mlp_layers: 2,
        edge_features: false,
        concatenate: true,
        ..config(DirectedMessageKind::GraphNetwork)
    };
    let layer = random(&config, None);
    let nodes = randn(&[3, 4], 1.0);
    let zeros = |x: Tensor| {
        assert_eq!(x.dims(), [3, 8]);
        x.zeros_like()
    };
    let found = layer.forward(&nodes, None, &graph(), zeros).unwrap();
    let first = found.narrow(0, 0, 1).unwrap().broadcast_as((3, 4)).unwrap();
    assert_close(&found, &first.contiguous().unwrap(), 0.0);
}

#[test]
fn layers_that_cannot_be_are_refused_by_option() {
    let base = config(DirectedMessageKind::GraphNetwork);
    let cases = [
        (
            DirectedMessagePassingConfig {
                steps: 0,
                ..base.clone()
            },
            Some(4),
            "steps",
        ),
        (
            DirectedMessagePassingConfig {
                mlp_layers: 0,
                ..base.clone()
            },
            Some(4),
            "mlp_layers",
        ),
        (
            DirectedMessagePassingConfig {
                tightening_factor: 0,
                ..base.clone()
            },
            Some(4),
            "tightening_factor",
        ),
        (base.clone(), None, "edge_features"),
        (
            DirectedMessagePassingConfig {
                residual: true,
                ..base.clone()
            },
            Some(3),
            "residual",
        ),
    ];
    for (config, edges, option) in cases {
        assert_eq!(config.check(4, edges).unwrap_err().option, option);
    }
    assert_eq!(base.check(4, Some(3)), Ok(()));
}
