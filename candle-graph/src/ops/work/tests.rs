use candle_core::{DType, Device, Tensor};

use super::*;
use crate::graph::{Offsets, PairLayout};
use crate::ops::test_data::{edges, randn};
use crate::ops::{
    Activation, Affine, AttentionInput, LinearWeights, NeighbourSumInput, PairAttentionInput,
    PairAttentionWeights, PairOutput, PairUpdate, WalkInput, attention, feed_forward,
    force_reference, linear, neighbour_sum, pair_attention, pair_walks, return_probabilities,
    sum_by_target,
};

fn weights(out: usize, width: usize, bias: bool) -> LinearWeights {
    let bias = bias.then(|| randn(&[out], 1.0));
    LinearWeights::new(randn(&[out, width], 1.0), bias).unwrap()
}

/// The work of `body`, which must be the same for both implementations.
#[track_caller]
fn counted<R>(body: impl Fn() -> candle_core::Result<R>) -> Work {
    let (fused, work) = count_work(&body);
    let (reference, of_reference) = count_work(|| force_reference(&body));
    assert!(fused.is_ok() && reference.is_ok());
    assert_eq!(work, of_reference, "the mathematics is the same");
    work
}

fn work(flops: usize, values: usize) -> Work {
    Work {
        flops: flops as u64,
        bytes: 4 * values as u64,
    }
}

#[test]
fn a_linear_map_takes_two_flop_a_weight_and_row() {
    let x = randn(&[5, 4], 1.0);
    let run = |bias, activation| counted(|| linear(&x, &weights(3, 4, bias), activation));
    let plain = run(false, Activation::Identity);
    assert_eq!(plain, work(5 * 3 * 8, 20 + 12 + 15));
    let full = run(true, Activation::Swish);
    assert_eq!(full, work(5 * 3 * (8 + 1 + 3), 20 + 12 + 3 + 15));
}

#[test]
fn bytes_follow_the_dtype() {
    let half = |t: &Tensor| t.to_dtype(DType::BF16).unwrap();
    let x = half(&randn(&[5, 4], 1.0));
    let map = LinearWeights::new(half(&randn(&[3, 4], 1.0)), None).unwrap();
    let (result, of_half) = count_work(|| linear(&x, &map, Activation::Identity));
    assert!(result.is_ok());
    assert_eq!(of_half.bytes, 2 * (20 + 12 + 15));
}

#[test]
fn attention_counts_pairs_of_the_same_graph() {
    // Graphs of 2 and 3 nodes: 13 pairs; 2 heads of widths 3 and 5.
    let node_ptr = &Offsets::from_lengths([2, 3], &Device::Cpu).unwrap();
    let (query, key, value) = (
        randn(&[5, 6], 1.0),
        randn(&[5, 6], 1.0),
        randn(&[5, 10], 1.0),
    );
    let bias = randn(&[13, 2], 1.0);
    let run = |bias| {
        counted(|| {
            attention(AttentionInput {
                query: &query,
                key: &key,
                value: &value,
                node_ptr,
                heads: 2,
                scale: 0.5,
                bias,
            })
        })
    };
    // For a logit 2·3 for the product, its factor, 4 of the softmax and 2·5 for the values.
    let flops = 13 * 2 * (6 + 1 + 4 + 10) + 50;
    let values = 30 + 30 + 50 + 50;
    assert_eq!(run(None), work(flops, values));
    assert_eq!(run(Some(&bias)), work(flops + 26, values + 26));
}

#[test]
fn pair_attention_counts_the_pairs_that_take_part() {
    // One graph of 3 nodes, 9 pairs; 2 heads of width 2, a pair state of width 5.
    let node_ptr = Offsets::from_lengths([3], &Device::Cpu).unwrap();
    let layout = &PairLayout::new(&node_ptr);
    let [query, key, value] = std::array::from_fn(|_| randn(&[3, 4], 1.0));
    let pair = randn(&[9, 5], 1.0);
    let weights_of_attention = PairAttentionWeights::new(
        weights(8, 5, false),
        randn(&[2, 2, 1], 1.0),
        Some(randn(&[2, 2, 2], 1.0)),
        Activation::Relu,
        Some(5.0),
    )
    .unwrap();
    let norm = Affine {
        scale: randn(&[5], 1.0),
        shift: randn(&[5], 1.0),
    };
    let update = PairUpdate::new(Some(weights(5, 4, true)), None, None, Some(norm));
    let run = |mask, output: PairOutput<'_>, with_weights| {
        counted(|| {
            let input = PairAttentionInput {
                query: &query,
                key: &key,
                value: &value,
                pair: &pair,
                layout,
                mask,
            };
            pair_attention(input, &weights_of_attention, output, with_weights)
        })
    };
    // ê of a pair: 8 outputs of 5 inputs; sum, product, root, sum and ReLU of 4 columns.
    let state = 8 * 10 + 4 * 5;
    // Logits of 2 heads with bounds and softmax, the sums of V and ê.
    let attend = 2 * 4 + 2 * (2 + 4) + 2 * 4 + 2 * 4;
    // Two quotients, a product with 2 x 2 and a sum, for 4 columns.
    let node = 4 * 2 + 4 * (4 + 1);
    let parameters = 40 + 4 + 8;
    let read = 3 * 12 + 45 + parameters;
    let dropped = run(None, PairOutput::Dropped, false);
    assert_eq!(dropped, work(9 * (state + attend) + 3 * node, read + 12));

    // The map of 4 to 5 with bias, the residual sum and the norm.
    let updated = 5 * (8 + 1) + 5 * (1 + 2);
    let flops = 9 * (state + attend + updated) + 3 * node;
    let both = run(None, PairOutput::New(&update), true);
    let more = 25 + 10;
    assert_eq!(both, work(flops, read + more + 12 + 45 + 18));

    let mask = [true, false, true, true, true, false, false, false, true];
    let kept = run(Some(&mask), PairOutput::Dropped, false);
    assert_eq!(kept, work(5 * (state + attend) + 3 * node, read + 12));
    let all_updated = run(Some(&mask), PairOutput::New(&update), false);
    let flops = 9 * (state + updated) + 5 * attend + 3 * node;
    assert_eq!(all_updated, work(flops, read + more + 12 + 45));
}

#[test]
fn a_sum_over_neighbours_counts_edges() {
    // 4 edges among 3 nodes, width 6.
    let adjacency = &edges(3, &[[0, 1], [2, 1], [1, 0], [2, 2]]);
    let (nodes, states) = (randn(&[3, 6], 1.0), randn(&[4, 6], 1.0));
    let (factors, own) = (randn(&[4, 2], 1.0), randn(&[1], 1.0));
    let run = |edge_states, weights, self_weight| {
        counted(|| {
            neighbour_sum(NeighbourSumInput {
                nodes: &nodes,
                adjacency,
                edge_states,
                weights,
                self_weight,
            })
        })
    };
    assert_eq!(run(None, None, None), work(24, 18 + 18));
    let full = run(Some(&states), Some(&factors), Some(&own));
    assert_eq!(full, work(24 * 4 + 2 * 18, 18 + 24 + 8 + 1 + 18));
}

#[test]
fn a_walk_counts_the_edges_of_its_graph_from_every_node() {
    // 2 nodes with 2 edges, 3 nodes with 1 edge.
    let adjacency = edges(5, &[[0, 1], [1, 0], [2, 3]]);
    let probabilities = &Tensor::new(&[1f32, 1.0, 1.0], &Device::Cpu).unwrap();
    let node_ptr = &Offsets::from_lengths([2, 3], &Device::Cpu).unwrap();
    let input = WalkInput {
        adjacency: &adjacency,
        probabilities,
        node_ptr,
    };
    let step = 2 * (2 * 2 + 3);
    let walks = counted(|| pair_walks(input, 4));
    assert_eq!(walks, work(3 * step, 3 + 13 * 4));
    let returns = counted(|| return_probabilities(input, &[1, 5]));
    assert_eq!(returns, work(5 * step, 3 + 5 * 2));
}

#[test]
fn an_operation_made_of_others_counts_once_and_the_next_one_again() {
    let x = randn(&[7, 4], 1.0);
    let maps = [weights(6, 4, true), weights(4, 6, true)];
    let block = || feed_forward(&x, [&maps[0], &maps[1]], Activation::Relu);
    // The reference runs two maps, which read and write the hidden values too.
    let once = counted(block);
    assert_eq!(
        once,
        work(7 * (6 * 9 + 6 + 4 * 13), 28 + 24 + 6 + 24 + 4 + 28)
    );
    let twice = counted(|| block().and_then(|_| block()));
    assert_eq!(twice, once + once);

    let adjacency = &edges(3, &[[0, 1], [2, 1]]);
    let states = randn(&[2, 5], 1.0);
    let sum = counted(|| sum_by_target(&states, adjacency));
    assert_eq!(sum, work(10, 10 + 15));
}

#[test]
fn nothing_is_counted_outside_and_on_other_threads() {
    let x = &randn(&[5, 4], 1.0);
    let map = &weights(3, 4, false);
    let run = || linear(x, map, Activation::Identity).unwrap();
    run();
    let recorded = record(|| panic!("nobody counts"));
    drop(recorded);
    let ((), elsewhere) = count_work(|| std::thread::scope(|s| drop(s.spawn(run).join().unwrap())));
    assert_eq!(elsewhere, Work::default());
    let (_, one) = count_work(run);
    let (inner, outer) = count_work(|| count_work(run).1);
    assert_eq!((inner, outer), (one, Work::default()));
    run();
    assert_eq!(count_work(|| ()).1, Work::default());
}

#[test]
fn a_failed_operation_leaves_the_counter_outside() {
    let (x, map) = (randn(&[5, 4], 1.0), weights(3, 4, false));
    let narrow = randn(&[5, 3], 1.0);
    let (_, work) = count_work(|| {
        assert!(linear(&narrow, &map, Activation::Identity).is_err());
        linear(&x, &map, Activation::Identity)
    });
    assert_eq!(work.flops, 120);
    let panicked = std::panic::catch_unwind(|| count_work(|| panic!("inside")));
    assert!(panicked.is_err());
    assert!(matches!(COUNTER.get(), Counter::Off));
}
