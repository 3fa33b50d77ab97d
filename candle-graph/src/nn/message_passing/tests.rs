//! Every kind on graphs small enough to compute by hand, with states of width 1.

use std::collections::HashMap;

use candle_core::{DType, Device};

use super::*;
use crate::graph::{Graph, GraphBatch, InputSchema};
use crate::ops::{Activation, force_reference};

const GINE: MessagePassingConfig = MessagePassingConfig::Gine {
    activation: Activation::Relu,
};
const GIN: MessagePassingConfig = MessagePassingConfig::Gin {
    activation: Activation::Relu,
};
const GATED: MessagePassingConfig = MessagePassingConfig::GatedGcn {
    activation: Activation::Relu,
    residual: true,
};

fn batch(nodes: usize, edges: &[[i64; 2]]) -> GraphBatch {
    let graph = Graph::builder(nodes).edges(edges.to_vec()).build().unwrap();
    GraphBatch::new(&[graph], &InputSchema::default(), 0, &Device::Cpu).unwrap()
}

fn column(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, (values.len(), 1), &Device::Cpu).unwrap()
}

fn load(
    config: &MessagePassingConfig,
    distance_gate: bool,
    tensors: &[(&str, &[usize], &[f32])],
) -> Result<MessagePassing> {
    let tensors: HashMap<String, Tensor> = (tensors.iter())
        .map(|&(name, shape, values)| {
            let tensor = Tensor::from_slice(values, shape, &Device::Cpu).unwrap();
            (name.to_owned(), tensor)
        })
        .collect();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    MessagePassing::new(config, 1, distance_gate, vb)
}

/// Node states, edge states (in the order of the batch) and positions to node and edge states.
#[track_caller]
fn assert_gives(
    layer: &MessagePassing,
    batch: &GraphBatch,
    [nodes, edges, positions]: [&[f32]; 3],
    expected: &[f32],
    expected_edges: Option<&[f32]>,
) {
    let (nodes, edges, positions) = (column(nodes), column(edges), column(positions));
    let forward = || {
        layer
            .forward(MessageInput {
                nodes: &nodes,
                edge_states: Some(&edges),
                edges: batch.edges(),
                positions: Some(&positions),
            })
            .unwrap()
    };
    for found in [forward(), force_reference(forward)] {
        let values = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let close = |found: &Tensor, expected: &[f32]| {
            let found = values(found);
            assert_eq!(found.len(), expected.len());
            for (x, y) in found.iter().zip(expected) {
                assert!((x - y).abs() <= 3e-6 * y.abs().max(1.0), "{found:?}");
            }
        };
        close(&found.nodes, expected);
        assert_eq!(found.edge_states.is_some(), expected_edges.is_some());
        if let (Some(found), Some(expected)) = (found.edge_states, expected_edges) {
            close(&found, expected);
        }
    }
}

const MLP: [(&str, &[usize], &[f32]); 5] = [
    ("eps", &[1], &[0.5]),
    ("mlp.0.weight", &[1, 1], &[2.0]),
    ("mlp.0.bias", &[1], &[1.0]),
    ("mlp.1.weight", &[1, 1], &[-1.0]),
    ("mlp.1.bias", &[1], &[0.0]),
];

#[test]
fn gin_and_gine() {
    let batch = batch(3, &[[2, 0], [1, 0]]);
    let input: [&[f32]; 3] = [&[1.0, 2.0, -5.0], &[0.5, 1.0], &[0.0, 1.0, 3.0]];
    // -(2·s + 1) of the sums 1.5 + 2.5 + 0, 3 and -7.5.
    let layer = load(&GINE, false, &MLP).unwrap();
    assert_gives(&layer, &batch, input, &[-9.0, -7.0, 0.0], None);
    // The sum 1.5 + 2 - 5 is negative as well.
    let layer = load(&GIN, false, &MLP).unwrap();
    assert_gives(&layer, &batch, input, &[0.0, -7.0, 0.0], None);
    // A gate of ¾ for the squared distance 1, and every node with its own state, not that of node 1.
    let ln3 = [3f32.ln()];
    let gate: [(&str, &[usize], &[f32]); 4] = [
        ("distance_gate.0.weight", &[1, 1], &[1.0]),
        ("distance_gate.0.bias", &[1], &[0.0]),
        ("distance_gate.1.weight", &[1, 1], &ln3),
        ("distance_gate.1.bias", &[1], &[0.0]),
    ];
    let layer = load(&GINE, true, &[MLP.as_slice(), &gate].concat()).unwrap();
    assert_gives(&layer, &batch, input, &[-7.75, -7.0, 0.0], None);
}

#[test]
fn gcn_replaces_self_loops() {
    let batch = batch(2, &[[0, 0], [0, 0], [1, 0]]);
    let layer = load(
        &MessagePassingConfig::Gcn,
        false,
        &[("weight", &[1, 1], &[2.0]), ("bias", &[1], &[0.5])],
    );
    let expected = [2.0 * (3.0 / 2.0 + 5.0 / 2f32.sqrt()) + 0.5, 10.5];
    let input: [&[f32]; 3] = [&[3.0, 5.0], &[0.0; 3], &[0.0; 2]];
    assert_gives(&layer.unwrap(), &batch, input, &expected, None);
}

#[test]
fn gat_gives_self_loops_the_mean_of_the_other_edges() {
    let batch = batch(2, &[[0, 0], [1, 0]]);
    let layer = load(
        &MessagePassingConfig::Gat { heads: 1 },
        false,
        &[
            ("node.weight", &[1, 1], &[2.0]),
            ("edge.weight", &[1, 1], &[3.0]),
            ("attention.source", &[1, 1, 1], &[1.0]),
            ("attention.target", &[1, 1, 1], &[-1.0]),
            ("attention.edge", &[1, 1, 1], &[0.5]),
            ("bias", &[1], &[0.25]),
        ],
    );
    // Logits of node 0: leaky(-4 - 2 + 1.5) = -0.9 from node 1, 2 - 2 + 1.5 from itself.
    let share = 1.0 / (1.0 + 2.4f32.exp());
    let expected = [-4.0 * share + 2.0 * (1.0 - share) + 0.25, -3.75];
    let input: [&[f32]; 3] = [&[1.0, -2.0], &[100.0, 1.0], &[0.0; 2]];
    assert_gives(&layer.unwrap(), &batch, input, &expected, None);
}

#[test]
fn gen_conv() {
    let batch = batch(2, &[[1, 0]]);
    let layer = load(
        &MessagePassingConfig::GenConv,
        false,
        &[
            ("mlp.0.weight", &[2, 1], &[1.0, -1.0]),
            ("mlp.norm.weight", &[2], &[2.0, 1.0]),
            ("mlp.norm.bias", &[2], &[1.0, 0.0]),
            ("mlp.norm.running_mean", &[2], &[0.0, 0.0]),
            ("mlp.norm.running_var", &[2], &[1.0 - 1e-5, 1.0 - 1e-5]),
            ("mlp.1.weight", &[1, 2], &[0.5, 7.0]),
        ],
    );
    // Sums 1 + 3 and 2; their negatives do not pass the ReLU.
    let input: [&[f32]; 3] = [&[1.0, 2.0], &[1.0], &[0.0; 2]];
    assert_gives(&layer.unwrap(), &batch, input, &[4.5, 2.5], None);
}

#[test]
fn pna() {
    let batch = batch(3, &[[1, 0], [2, 0]]);
    let layer = load(
        &MessagePassingConfig::Pna,
        false,
        &[
            ("edge.weight", &[1, 1], &[2.0]),
            ("edge.bias", &[1], &[1.0]),
            ("message.weight", &[1, 3], &[10.0, 1.0, 3.0]),
            ("message.bias", &[1], &[0.5]),
            ("update.weight", &[1, 4], &[1.0, 2.0, 3.0, 4.0]),
            ("update.bias", &[1], &[-1.0]),
            ("output.weight", &[1, 1], &[2.0]),
            ("output.bias", &[1], &[0.25]),
        ],
    );
    // Messages 21.5 and 10.5: 1 + 2·16 + 3·21.5 + 4·32 - 1 before the last map.
    let input: [&[f32]; 3] = [&[1.0, 2.0, 3.0], &[1.0, -1.0], &[0.0; 3]];
    assert_gives(&layer.unwrap(), &batch, input, &[449.25, 2.25, 4.25], None);
}

#[test]
fn gated_gcn_changes_edges_too() {
    let batch = batch(2, &[[1, 0]]);
    let shapes: [&[usize]; 2] = [&[1, 1], &[1]];
    let maps = [
        ("self", [1.0f32]),
        ("neighbour", [2.0]),
        ("gate_target", [1.0]),
        ("gate_source", [-1.0]),
        ("gate_edge", [1.0]),
    ];
    let mut names = Vec::new();
    for (name, weight) in &maps {
        names.push((format!("{name}.weight"), shapes[0], weight.as_slice()));
        names.push((format!("{name}.bias"), shapes[1], [0.0].as_slice()));
    }
    for (name, bias) in [("norm_node", [0.0f32].as_slice()), ("norm_edge", &[4.0])] {
        names.push((format!("{name}.weight"), shapes[1], &[1.0]));
        names.push((format!("{name}.bias"), shapes[1], bias));
        names.push((format!("{name}.running_mean"), shapes[1], &[0.0]));
        names.push((format!("{name}.running_var"), shapes[1], &[1.0 - 1e-5]));
    }
    let tensors: Vec<_> = (names.iter())
        .map(|(name, shape, values)| (name.as_str(), *shape, *values))
        .collect();
    // The edge becomes 3 - 5 + 2 = 0, its gate ½; the sums are 3 + 10 and 5, edges shift by 4.
    let layer = load(&GATED, false, &tensors).unwrap();
    let input: [&[f32]; 3] = [&[3.0, 5.0], &[2.0], &[0.0; 2]];
    let first = 3.0 + 3.0 + 10.0 * 0.5 / (0.5 + 1e-6);
    assert_gives(&layer, &batch, input, &[first, 10.0], Some(&[6.0]));
    let message = load(&GATED, true, &tensors).unwrap_err().to_string();
    assert!(message.contains("distance_gate.0"), "{message}");
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let message = load(&GIN, true, &MLP).unwrap_err().to_string();
    assert!(message.contains("distance gate"), "{message}");
    let message = load(&GINE, false, &MLP[..2]).unwrap_err().to_string();
    assert!(message.contains("mlp.0"), "{message}");
    let gat = MessagePassingConfig::Gat { heads: 0 };
    let message = load(&gat, false, &[]).unwrap_err().to_string();
    assert!(message.contains("a width of 1 for 0 heads"), "{message}");

    let batch = batch(2, &[[1, 0]]);
    let nodes = column(&[1.0, 2.0]);
    let input = MessageInput {
        nodes: &nodes,
        edge_states: None,
        edges: batch.edges(),
        positions: None,
    };
    let layer = load(&GINE, false, &MLP).unwrap();
    let message = layer.forward(input).unwrap_err().to_string();
    assert!(message.contains("GINE needs edge states"), "{message}");
    assert!(load(&GIN, false, &MLP).unwrap().forward(input).is_ok());
    let gate: [(&str, &[usize], &[f32]); 4] = [
        ("distance_gate.0.weight", &[1, 1], &[1.0]),
        ("distance_gate.0.bias", &[1], &[0.0]),
        ("distance_gate.1.weight", &[1, 1], &[1.0]),
        ("distance_gate.1.bias", &[1], &[0.0]),
    ];
    let layer = load(&GINE, true, &[MLP.as_slice(), &gate].concat()).unwrap();
    let message = layer.forward(input).unwrap_err().to_string();
    assert!(message.contains("needs the positions"), "{message}");
}
