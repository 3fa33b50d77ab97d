use candle_core::{Device, Tensor, Var};
use proptest::prelude::*;

use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, edges, randn};

fn both(input: NeighbourSumInput<'_>) -> [Tensor; 2] {
    let fused = neighbour_sum(input).unwrap();
    [fused, force_reference(|| neighbour_sum(input)).unwrap()]
}

#[test]
fn a_hand_computed_sum() {
    // Node 0 hears itself and node 1 twice, node 1 hears node 0, node 2 nobody.
    let adjacency = edges(3, &[[0, 0], [1, 0], [1, 0], [0, 1]]);
    let nodes = Tensor::new(&[[1f32, -2.0], [10.0, 20.0], [5.0, 6.0]], &Device::Cpu).unwrap();
    let plain = NeighbourSumInput {
        nodes: &nodes,
        adjacency: &adjacency,
        edge_states: None,
        weights: None,
        self_weight: None,
    };
    let own = Tensor::new(&[1.5f32], &Device::Cpu).unwrap();
    let states = Tensor::new(
        &[[0f32, 1.0], [-11.0, 0.0], [0.0, 1.0], [2.0, 3.0]],
        &Device::Cpu,
    )
    .unwrap();
    let weights = Tensor::new(
        &[[1f32, 2.0], [3.0, 1.0], [0.5, -1.0], [1.0, 4.0]],
        &Device::Cpu,
    )
    .unwrap();
    for found in both(plain) {
        let expected = [[21f32, 38.0], [1.0, -2.0], [0.0, 0.0]];
        assert_eq!(found.to_vec2::<f32>().unwrap(), expected);
    }
    for found in both(NeighbourSumInput {
        self_weight: Some(&own),
        ..plain
    }) {
        let expected = [[22.5f32, 35.0], [16.0, 28.0], [7.5, 9.0]];
        assert_eq!(found.to_vec2::<f32>().unwrap(), expected);
    }
    for found in both(NeighbourSumInput {
        edge_states: Some(&states),
        weights: Some(&weights),
        ..plain
    }) {
        // relu of [1, -1], [-1, 20], [10, 21] and [3, 1], times the factors.
        let expected = [[1.0 + 5.0, 20.0 - 21.0], [3.0, 4.0], [0.0, 0.0]];
        assert_eq!(found.to_vec2::<f32>().unwrap(), expected);
    }
}

#[test]
fn fused_equals_reference() {
    for adjacency in awkward_edges() {
        for width in WIDTHS {
            let wide = randn(&[adjacency.num_nodes(), width + 5], 1.0);
            let nodes = wide.narrow(1, 3, width).unwrap();
            let states = randn(&[adjacency.len(), width], 1.0);
            let own = randn(&[1], 1.0);
            for groups in [1, width, if width % 4 == 0 { 4 } else { 1 }] {
                let weights = randn(&[adjacency.len(), groups], 1.0);
                for edge_states in [None, Some(&states)] {
                    for weights in [None, Some(&weights)] {
                        let [fused, reference] = both(NeighbourSumInput {
                            nodes: &nodes,
                            adjacency: &adjacency,
                            edge_states,
                            weights,
                            self_weight: Some(&own),
                        });
                        // The terms of the longest sum differ in order.
                        assert_close(&(fused / 16.0).unwrap(), &(reference / 16.0).unwrap(), 2e-6);
                    }
                }
            }
        }
    }
}

#[test]
fn a_sum_over_threads_is_the_same() {
    let many: Vec<_> = (0..6000u32)
        .map(|e| [e * 7919 % 1400, e * e % 1400])
        .collect();
    let adjacency = edges(1400, &many);
    let (nodes, states) = (randn(&[1400, 64], 1.0), randn(&[6000, 64], 1.0));
    let [fused, reference] = both(NeighbourSumInput {
        nodes: &nodes,
        adjacency: &adjacency,
        edge_states: Some(&states),
        weights: None,
        self_weight: None,
    });
    assert_close(&fused, &reference, 1e-5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_small_graph(
        list in prop::collection::vec([0u32..9, 0u32..9], 0..40),
        width in 1usize..70,
    ) {
        let adjacency = edges(9, &list);
        let (nodes, states) = (randn(&[9, width], 1.0), randn(&[list.len(), width], 1.0));
        let weights = randn(&[list.len(), 1], 1.0);
        let [fused, reference] = both(NeighbourSumInput {
            nodes: &nodes,
            adjacency: &adjacency,
            edge_states: Some(&states),
            weights: Some(&weights),
            self_weight: None,
        });
        assert_close(&(fused / 8.0).unwrap(), &(reference / 8.0).unwrap(), 2e-6);
    }
}

#[test]
fn gradients_flow_through_the_reference() {
    let adjacency = edges(2, &[[0, 1], [1, 1]]);
    let make = |values: &[f32]| {
        let column = Tensor::new(values, &Device::Cpu).unwrap();
        Var::from_tensor(&column.unsqueeze(1).unwrap()).unwrap()
    };
    let (nodes, states, weights) = (make(&[2.0, -5.0]), make(&[1.0, 1.0]), make(&[3.0, 7.0]));
    let own = Var::new(&[0.5f32], &Device::Cpu).unwrap();
    let sums = neighbour_sum(NeighbourSumInput {
        nodes: &nodes,
        adjacency: &adjacency,
        edge_states: Some(&states),
        weights: Some(&weights),
        self_weight: Some(&own),
    });
    let gradients = sums.unwrap().sum_all().unwrap().backward().unwrap();
    let gradient = |of: &Var| {
        let gradient = gradients.get(of.as_tensor()).unwrap();
        gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    // relu lets the first message (3) pass and stops the second (-4).
    assert_eq!(gradient(&nodes), [3.5, 0.5]);
    assert_eq!(gradient(&states), [3.0, 0.0]);
    assert_eq!(gradient(&weights), [3.0, 0.0]);
    assert_eq!(gradient(&own), [-3.0]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let adjacency = edges(2, &[[0, 1], [1, 1]]);
    let nodes = randn(&[2, 4], 1.0);
    let good = NeighbourSumInput {
        nodes: &nodes,
        adjacency: &adjacency,
        edge_states: None,
        weights: None,
        self_weight: None,
    };
    let (tall, wide) = (randn(&[3, 4], 1.0), randn(&[2, 5], 1.0));
    let (three, none, two) = (randn(&[2, 3], 1.0), randn(&[2, 0], 1.0), randn(&[2], 1.0));
    let bad = [
        NeighbourSumInput {
            nodes: &tall,
            ..good
        },
        NeighbourSumInput {
            edge_states: Some(&tall),
            ..good
        },
        NeighbourSumInput {
            edge_states: Some(&wide),
            ..good
        },
        NeighbourSumInput {
            weights: Some(&three),
            ..good
        },
        NeighbourSumInput {
            weights: Some(&none),
            ..good
        },
        NeighbourSumInput {
            weights: Some(&tall),
            ..good
        },
        NeighbourSumInput {
            self_weight: Some(&two),
            ..good
        },
    ];
    assert!(neighbour_sum(good).is_ok());
    for input in bad {
        assert!(neighbour_sum(input).is_err());
    }
}
