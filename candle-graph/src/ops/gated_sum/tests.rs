use candle_core::{Device, Tensor, Var};
use proptest::prelude::*;

use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, edges, randn};

/// Random operands for a graph.
struct Case {
    adjacency: Adjacency,
    packed: Tensor,
    edge_states: Tensor,
    gate_edge: LinearWeights,
    weights: Tensor,
    norms: [Affine; 2],
    residual: Tensor,
}

impl Case {
    fn new(adjacency: Adjacency, width: usize) -> Self {
        let (nodes, edges) = (adjacency.num_nodes(), adjacency.len());
        let norm = || Affine {
            scale: randn(&[width], 1.0),
            shift: randn(&[width], 1.0),
        };
        let weight = randn(&[width, width], 1.0 / (width as f32).sqrt());
        Self {
            adjacency,
            packed: randn(&[nodes, 4 * width], 1.0),
            edge_states: randn(&[edges, width], 1.0),
            gate_edge: LinearWeights::new(weight, Some(randn(&[width], 1.0))).unwrap(),
            weights: randn(&[edges, 1], 1.0).sqr().unwrap(),
            norms: [norm(), norm()],
            residual: randn(&[nodes, width], 1.0),
        }
    }

    fn forward(&self, activation: Activation, weighted: bool, residual: bool) -> GatedSumOutput {
        let width = self.residual.dims()[1];
        let part = |i: usize| self.packed.narrow(1, i * width, width).unwrap();
        gated_sum(GatedSumInput {
            own: &part(0),
            sent: &part(1),
            gate_target: &part(2),
            gate_source: &part(3),
            edge_states: &self.edge_states,
            gate_edge: &self.gate_edge,
            weights: weighted.then_some(&self.weights),
            adjacency: &self.adjacency,
            norm_node: &self.norms[0],
            norm_edge: &self.norms[1],
            activation,
            residual: residual.then_some(&self.residual),
        })
        .unwrap()
    }

    #[track_caller]
    fn compare(&self, activation: Activation, weighted: bool, residual: bool, tolerance: f32) {
        let fused = self.forward(activation, weighted, residual);
        let reference = force_reference(|| self.forward(activation, weighted, residual));
        assert_close(&fused.nodes, &reference.nodes, tolerance);
        assert_close(&fused.edge_states, &reference.edge_states, tolerance);
    }
}

fn matrix<const R: usize, const C: usize>(values: [[f32; C]; R]) -> Tensor {
    let flat: Vec<f32> = values.into_iter().flatten().collect();
    Tensor::from_vec(flat, (R, C), &Device::Cpu).unwrap()
}

#[test]
fn a_hand_computed_sum() {
    // Node 0 hears node 1 through e = 0 (gate ½) and itself through e = ln 3 (gate ¾); node 1
    // hears nobody. The edge map doubles.
    let ln3 = 3f32.ln();
    let adjacency = edges(2, &[[0, 0], [1, 0]]);
    let one = |v: f32| Tensor::new(&[v], &Device::Cpu).unwrap();
    let norm = |scale, shift| Affine {
        scale: one(scale),
        shift: one(shift),
    };
    let (norm_node, norm_edge) = (norm(2.0, -3.0), norm(-1.0, 0.25));
    let gate_edge = LinearWeights::new(matrix([[2.0]]), Some(one(1.0))).unwrap();
    let nodes = [[10.0], [20.0]];
    let edge_states = [[0.5], [-1.5]];
    let input = GatedSumInput {
        own: &matrix([[1.0], [2.0]]),
        sent: &matrix([[4.0], [8.0]]),
        gate_target: &matrix([[ln3 - 1.0], [50.0]]),
        gate_source: &matrix([[-1.0], [3.0 - ln3]]),
        edge_states: &matrix(edge_states),
        gate_edge: &gate_edge,
        weights: None,
        adjacency: &adjacency,
        norm_node: &norm_node,
        norm_edge: &norm_edge,
        activation: Activation::Relu,
        residual: None,
    };
    let sum = |own: f32, other: f32| 1.0 + (own * 4.0 + other * 8.0) / (own + other + 1e-6);
    let residual = matrix(nodes);
    let weights = matrix([[2.0], [1.0]]);
    for fused in [true, false] {
        let run = |input| match fused {
            true => gated_sum(input).unwrap(),
            false => force_reference(|| gated_sum(input)).unwrap(),
        };
        let found = run(input);
        assert_close(
            &found.nodes,
            &matrix([[2.0 * sum(0.75, 0.5) - 3.0], [1.0]]),
            1e-6,
        );
        // relu(0.25 - ln 3) and relu(0.25 - 0).
        assert_close(&found.edge_states, &matrix([[0.0], [0.25]]), 1e-6);
        let found = run(GatedSumInput {
            residual: Some(&residual),
            weights: Some(&weights),
            ..input
        });
        let expected = [[10.0 + 2.0 * sum(1.5, 0.5) - 3.0], [21.0]];
        assert_close(&found.nodes, &matrix(expected), 1e-6);
        assert_close(&found.edge_states, &matrix([[0.5], [-1.25]]), 1e-6);
    }
}

#[test]
fn fused_equals_reference() {
    for adjacency in awkward_edges() {
        for width in WIDTHS {
            let case = Case::new(adjacency.clone(), width);
            for (weighted, residual) in [(false, false), (true, false), (false, true)] {
                case.compare(Activation::Relu, weighted, residual, 4e-6);
            }
            case.compare(Activation::Gelu, true, true, 4e-6);
        }
    }
}

#[test]
fn a_sum_over_blocks_and_threads_is_the_same() {
    let many: Vec<_> = (0..1200u32)
        .map(|e| [e * 7919 % 500, e * e % 500])
        .collect();
    Case::new(edges(500, &many), 52).compare(Activation::Relu, true, true, 4e-6);
}

#[test]
fn gates_far_from_zero_neither_overflow_nor_vanish() {
    let mut case = Case::new(edges(2, &[[0, 0], [1, 0], [0, 1]]), 3);
    for factor in [-300.0, 300.0] {
        case.packed = (case.packed.ones_like().unwrap() * factor).unwrap();
        let found = case.forward(Activation::Identity, false, false);
        for values in [found.nodes, found.edge_states] {
            let values = values.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(values.iter().all(|v| v.is_finite()), "{values:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_small_graph(
        list in prop::collection::vec([0u32..9, 0u32..9], 0..40),
        width in 1usize..40,
        weighted: bool,
        residual: bool,
    ) {
        Case::new(edges(9, &list), width).compare(Activation::Relu, weighted, residual, 4e-6);
    }
}

#[test]
fn gradients_flow_through_the_reference() {
    let mut case = Case::new(edges(3, &[[0, 0], [1, 0], [0, 1]]), 2);
    let packed = Var::from_tensor(&case.packed).unwrap();
    let states = Var::from_tensor(&case.edge_states).unwrap();
    case.packed = packed.as_tensor().clone();
    case.edge_states = states.as_tensor().clone();
    let loss = |found: GatedSumOutput| -> Tensor {
        (found.nodes.sqr().unwrap().sum_all().unwrap()
            + found.edge_states.sqr().unwrap().sum_all().unwrap())
        .unwrap()
    };
    let run = |case: &Case| loss(case.forward(Activation::Swish, true, true));
    let gradients = run(&case).backward().unwrap();
    // Along the gradient the loss changes by its squared length.
    let step = 1e-3;
    let mut squared = 0.0;
    let mut moved = |var: &Var| {
        let gradient = gradients.get(var.as_tensor()).unwrap();
        squared += f64::from(
            gradient
                .sqr()
                .unwrap()
                .sum_all()
                .unwrap()
                .to_scalar::<f32>()
                .unwrap(),
        );
        (gradient * step).unwrap()
    };
    let (by_packed, by_states) = (moved(&packed), moved(&states));
    let value = |sign: f64| {
        let shifted = Case {
            packed: (packed.as_tensor() + (&by_packed * sign).unwrap())
                .unwrap()
                .detach(),
            edge_states: (states.as_tensor() + (&by_states * sign).unwrap())
                .unwrap()
                .detach(),
            adjacency: case.adjacency.clone(),
            gate_edge: case.gate_edge.clone(),
            weights: case.weights.clone(),
            norms: case.norms.clone(),
            residual: case.residual.clone(),
        };
        f64::from(
            force_reference(|| run(&shifted))
                .to_scalar::<f32>()
                .unwrap(),
        )
    };
    let slope = (value(1.0) - value(-1.0)) / (2.0 * step);
    assert!(
        (slope - squared).abs() < 0.02 * squared,
        "{slope} {squared}"
    );
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let case = Case::new(edges(2, &[[0, 1], [1, 1]]), 3);
    let part = |i: usize| case.packed.narrow(1, i * 3, 3).unwrap();
    let parts = [part(0), part(1), part(2), part(3)];
    let good = GatedSumInput {
        own: &parts[0],
        sent: &parts[1],
        gate_target: &parts[2],
        gate_source: &parts[3],
        edge_states: &case.edge_states,
        gate_edge: &case.gate_edge,
        weights: None,
        adjacency: &case.adjacency,
        norm_node: &case.norms[0],
        norm_edge: &case.norms[1],
        activation: Activation::Relu,
        residual: None,
    };
    assert!(gated_sum(good).is_ok());
    let (wide, tall) = (randn(&[2, 4], 1.0), randn(&[3, 3], 1.0));
    let map = LinearWeights::new(randn(&[4, 3], 1.0), None).unwrap();
    let norm = Affine {
        scale: randn(&[4], 1.0),
        shift: randn(&[3], 1.0),
    };
    let bad = [
        GatedSumInput { own: &tall, ..good },
        GatedSumInput {
            sent: &wide,
            ..good
        },
        GatedSumInput {
            gate_target: &tall,
            ..good
        },
        GatedSumInput {
            gate_source: &wide,
            ..good
        },
        GatedSumInput {
            edge_states: &wide,
            ..good
        },
        GatedSumInput {
            gate_edge: &map,
            ..good
        },
        GatedSumInput {
            weights: Some(&wide),
            ..good
        },
        GatedSumInput {
            norm_node: &norm,
            ..good
        },
        GatedSumInput {
            norm_edge: &norm,
            ..good
        },
        GatedSumInput {
            residual: Some(&wide),
            ..good
        },
    ];
    for input in bad {
        assert!(gated_sum(input).is_err());
    }
}
