//! Numbers at the ends of the range, graphs of many nodes, batches of many graphs.

use super::*;

/// Fused, then reference.
fn both(case: &Case) -> [Vec<Vec<f32>>; 2] {
    [case.run(), force_reference(|| case.run())]
}

#[test]
fn the_size_of_queries_and_keys_cancels_at_both_ends_of_the_range() {
    for map in [Map::Relu(0.0), Map::Simple] {
        let case = Case::with_map(&[BLOCK + 3, 1, 7], 2, (8, 4), map.clone());
        let exact = case.exact();
        for (of_query, of_key) in [(1e-30, 1e-30), (1e25, 1e30), (1e30, 1e-30)] {
            let scaled = Case {
                query: (&case.query * of_query).unwrap(),
                key: (&case.key * of_key).unwrap(),
                ..case.clone()
            };
            for found in both(&scaled) {
                assert_close(
                    &found,
                    &exact,
                    1e-5,
                    &format!("{map:?} {of_query} {of_key}"),
                );
            }
        }
    }
}

#[test]
fn keys_of_all_sizes_count_by_their_size() {
    // Levels rise and fall from block to block, by more than the range of numbers.
    let nodes = 2 * CHUNK;
    for [first, second] in [[1e-30, 1e30], [1e30, 1e-30], [1e-12, 1e12]] {
        let mut case = Case::with_map(&[nodes], 1, (4, 3), Map::Relu(0.0));
        let size = |i: usize| {
            if (i / BLOCK).is_multiple_of(3) {
                first
            } else {
                second
            }
        };
        let sizes: Vec<f32> = (0..nodes).map(size).collect();
        let sizes = Tensor::from_vec(sizes, (nodes, 1), &Device::Cpu).unwrap();
        case.key = case.key.broadcast_mul(&sizes).unwrap();
        let exact = case.exact();
        for found in both(&case) {
            assert_close(&found, &exact, 1e-5, &format!("{first} {second}"));
        }
    }
}

#[test]
fn zeros_give_zeros_or_the_own_value_and_never_nan() {
    for rotated in [false, true] {
        for map in [Map::Relu(0.0), Map::Simple] {
            let case = Case::with_map(&[4, 1], 2, (6, 3), map.clone());
            let case = match rotated {
                true => case.rotated(RotaryPairs::SharedByHeads),
                false => case,
            };
            let zeros = case.query.zeros_like().unwrap();
            let (query, key) = (case.query.clone(), case.key.clone());
            for (query, key) in [(&zeros, &key), (&query, &zeros), (&zeros, &zeros)] {
                let case = Case {
                    query: query.clone(),
                    key: key.clone(),
                    ..case.clone()
                };
                let expected: Vec<Vec<f32>> = match map {
                    Map::Simple => case.value.to_vec2().unwrap(),
                    _ => vec![vec![0.0; 6]; 5],
                };
                for found in both(&case) {
                    assert_close(&found, &widen(&expected), 1e-6, &format!("{map:?}"));
                }
            }
        }
    }
}

#[test]
fn a_query_without_a_common_feature_gets_zeros_even_when_rotated() {
    // The rotated features are no longer disjoint: the numerator is not 0, the denominator is.
    let mut case = Case::with_map(&[2], 1, (2, 2), Map::Relu(0.0));
    let rows = |rows: [[f32; 2]; 2]| Tensor::new(&rows, &Device::Cpu).unwrap();
    case.query = rows([[1.0, 0.0], [1.0, 1.0]]);
    case.key = rows([[0.0, 1.0], [0.0, 2.0]]);
    let case = case.rotated(RotaryPairs::FullWidth);
    for found in both(&case) {
        assert_eq!(found[0], [0.0; 2]);
        assert!(found[1].iter().all(|x| x.is_finite() && *x != 0.0));
    }
}

#[test]
fn a_single_node_keeps_its_value_in_simple_attention() {
    // Opposite directions: 0/0 in the formula.
    let mut case = Case::with_map(&[1], 1, (1, 2), Map::Simple);
    case.key = (&case.query * -3.0).unwrap();
    let expected: Vec<Vec<f32>> = case.value.to_vec2().unwrap();
    for found in both(&case) {
        assert_eq!(found, expected);
    }
}

#[test]
fn chunks_of_a_large_graph_and_waves_of_graphs_give_what_the_reference_gives() {
    for map in maps(2) {
        let case = Case::with_map(&[3, 45_000], 2, (2, 3), map.clone());
        for case in [case.clone(), case.rotated(RotaryPairs::FullWidth)] {
            let reference = widen(&force_reference(|| case.run()));
            // The reference adds in another order.
            assert_close(&case.run(), &reference, 1e-4, &format!("{map:?}"));
        }
    }
    // More sums over keys than are kept at one time, and one graph that alone has too many.
    let sizes: Vec<usize> = (0..30)
        .map(|i| 1 + i % 7)
        .chain([9 * CHUNK, 2, 3])
        .collect();
    let case = Case::new(&sizes, 4, (4, 64, 500));
    let reference = widen(&force_reference(|| case.run()));
    assert_close(&case.run(), &reference, 2e-5, "waves");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let pool = |threads| {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        builder.build().unwrap()
    };
    let (one, three) = (pool(1), pool(3));
    for map in maps(6) {
        let sizes = [3 * CHUNK + 5, 1, 40, 0, 2 * BLOCK];
        let case = Case::with_map(&sizes, 2, (6, 8), map.clone());
        for case in [case.clone(), case.rotated(RotaryPairs::PerHead)] {
            let alone = one.install(|| case.run());
            assert_eq!(alone, three.install(|| case.run()), "{map:?}");
            assert_eq!(alone, case.run(), "{map:?}");
        }
    }
}
