//! What holds for all shapes.

use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Fused equals reference; every graph alone gives its rows of the batch; the nodes of a graph
    /// in another order give the rows in that order; where weights are positive, they sum to 1.
    #[test]
    fn results_depend_on_the_own_graph_and_not_on_orders(
        sizes in prop::collection::vec(prop_oneof![1..4usize, 1..200usize], 1..5),
        heads in 1..9usize,
        widths in (1..20usize, 1..20usize, 1..40usize),
        scale in 0.1..4.0f64,
        map in 0..3usize,
        pairs in prop::option::of(prop::sample::select(PAIRS.to_vec())),
    ) {
        let (d, v, features) = widths;
        let map = match map {
            0 => Map::PositiveRandom(randn(&[features, d], 1.0)),
            1 => Map::Relu(1e-3),
            _ => Map::Simple,
        };
        let random = matches!(map, Map::PositiveRandom(_));
        let positive = pairs.is_none() && !matches!(map, Map::Simple);
        let case = Case::with_map(&sizes, heads, (d, v), map);
        let mut case = case.map(|t| (t * scale).unwrap());
        let features = if random { features } else { d };
        if let Some(pairs) = pairs && pairs.count(heads, features) > 0 {
            case = case.rotated(pairs);
        }
        let found = case.run();
        // Exponents are differences of squares, whose rounding they inherit.
        let tolerance = match random {
            true => 1e-5 * scale.max(1.0).powi(2),
            false => 1e-5,
        };
        // Terms of both signs, over a denominator that may be smaller.
        let tolerance = if case.rotation.is_some() { 20.0 * tolerance } else { tolerance };
        let reference = widen(&force_reference(|| case.run()));
        assert_close(&found, &reference, tolerance * scale.max(1.0), "reference");

        let found_wide = widen(&found);
        for (graph, nodes) in case.node_ptr.ranges().enumerate() {
            let size = [nodes.len()];
            let alone = case.map_rows(&size, |t| t.narrow(0, nodes.start, nodes.len()).unwrap());
            prop_assert_eq!(&alone.run(), &found[nodes.clone()].to_vec(), "graph {}", graph);

            let reversed: Vec<u32> = nodes.clone().rev().map(|node| node as u32).collect();
            let reversed = Tensor::new(reversed, &Device::Cpu).unwrap();
            let turned = case.map_rows(&size, |t| t.index_select(&reversed, 0).unwrap());
            let mut turned = turned.run();
            turned.reverse();
            assert_close(&turned, &found_wide[nodes.clone()], tolerance * scale.max(1.0), "reversed");

            if !positive {
                continue;
            }
            let values: Vec<Vec<f32>> = alone.value.to_vec2().unwrap();
            for column in 0..values[0].len() {
                let all = values.iter().map(|row| row[column]);
                let low = all.clone().fold(f32::INFINITY, f32::min);
                let high = all.fold(f32::NEG_INFINITY, f32::max);
                let slack = 1e-5 * high.abs().max(low.abs());
                for row in &found[nodes.clone()] {
                    prop_assert!(row[column] >= low - slack && row[column] <= high + slack);
                }
            }
        }
    }
}
