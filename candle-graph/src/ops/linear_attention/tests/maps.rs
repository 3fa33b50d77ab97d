//! ReLU, simple attention, rotation of the features, gradients of all.

use super::*;

#[test]
fn relu_and_simple_attention_equal_the_formula() {
    for map in [Map::Relu(1e-3), Map::Relu(0.0), Map::Simple] {
        for (sizes, heads, widths) in [
            (vec![1], 1, (3, 1)),
            (vec![5, 0, 1, 5, 2], 3, (7, 5)),
            (vec![BLOCK, BLOCK + 1, 2 * CHUNK + 37], 2, (16, 20)),
            (vec![40, 9], 4, (64, 64)),
        ] {
            let case = Case::with_map(&sizes, heads, widths, map.clone());
            let (exact, what) = (case.exact(), format!("{map:?} {sizes:?}"));
            assert_close(&case.run(), &exact, 3e-6, &what);
            let reference = force_reference(|| case.run());
            assert_close(&reference, &exact, 3e-6, &what);
        }
    }
}

#[test]
fn the_numerator_is_rotated_and_the_denominator_is_not() {
    for d in [6, 7] {
        for map in maps(d) {
            for pairs in PAIRS {
                let sizes = [5, 0, 1, BLOCK + 3, 2];
                let case = Case::with_map(&sizes, 3, (d, 5), map.clone()).rotated(pairs);
                let (exact, what) = (case.exact(), format!("{map:?} {pairs:?} {d}"));
                // Terms of both signs over a denominator that may be small.
                let tolerance = 1e-4;
                assert_close(&case.run(), &exact, tolerance, &what);
                let reference = force_reference(|| case.run());
                assert_close(&reference, &exact, tolerance, &what);
                let still = Case {
                    rotation: None,
                    ..case.clone()
                };
                let still = widen(&still.run());
                let moved = exact.iter().flatten().zip(still.iter().flatten());
                let moved = moved.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(moved > 0.1, "{what}: {moved}");
            }
        }
    }
}

#[test]
fn the_levels_of_rotated_random_features_are_those_of_all_blocks() {
    // As `the_stabiliser_of_the_keys_is_the_largest_of_all_blocks`, with chunks.
    let nodes = 2 * CHUNK + 9;
    let mut case = Case::new(&[nodes], 2, (8, 3, 24)).rotated(RotaryPairs::PerHead);
    let growth: Vec<f32> = (0..nodes).map(|i| 0.2 + 2.5 * (i / BLOCK) as f32).collect();
    let growth = Tensor::from_vec(growth, (nodes, 1), &Device::Cpu).unwrap();
    case.key = case.key.broadcast_mul(&growth).unwrap();
    let exact = case.exact();
    assert_close(&case.run(), &exact, 1e-5, "fused");
    assert_close(&force_reference(|| case.run()), &exact, 1e-5, "reference");
}

#[test]
fn simple_attention_rotates_before_as_after_but_for_the_denominator() {
    // Its features are linear: rotated before, they give the same numerator, and the denominator
    // that makes the weights sum to 1.
    let mut after = Case::with_map(&[9, 30], 2, (8, 3), Map::Simple).rotated(RotaryPairs::PerHead);
    let Some(rotation) = after.rotation.clone() else {
        panic!("no rotation");
    };
    let rotate = |x: &Tensor, table: &RotationTable| {
        let rows: Vec<f32> = after
            .rotate(&wide(x), Some(table), 0)
            .into_iter()
            .flatten()
            .map(|x| x as f32)
            .collect();
        Tensor::from_vec(rows, x.shape(), &Device::Cpu).unwrap()
    };
    let before = Case {
        query: rotate(&after.query, &rotation.query),
        key: rotate(&after.key, &rotation.key),
        rotation: None,
        ..after.clone()
    };
    let found = widen(&before.run());
    let numerators = widen(&after.run());
    after.value = after.value.ones_like().unwrap();
    let sums = after.run();
    let expected: Vec<Vec<f32>> = (numerators.iter().zip(&sums))
        .map(|(row, sums)| {
            let values = row.iter().zip(sums);
            values
                .map(|(x, sum)| (x / f64::from(*sum)) as f32)
                .collect()
        })
        .collect();
    assert_close(&expected, &found, 1e-5, "before");
}

#[test]
fn gradients_agree_with_differences() {
    let double = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    for map in maps(3) {
        let map = match map {
            Map::PositiveRandom(projection) => Map::PositiveRandom(double(&projection)),
            other => other,
        };
        for rotated in [false, true] {
            let sizes = [3, 1, 3, 4];
            let case = Case::with_map(&sizes, 2, (3, 2), map.clone());
            let case = match rotated {
                true => case.rotated(RotaryPairs::FullWidth),
                false => case,
            };
            let case = case.map_rows(&sizes, double);
            // The stabiliser of random features is held fixed, which what is added to them, 10⁻⁴,
            // sees; with small exponents it counts for little.
            assert_gradients(&match case.map {
                Map::PositiveRandom(_) => case.map(|x| (x * 0.3).unwrap()),
                _ => case,
            });
        }
    }
}

/// Gradients of a weighted sum of the results of `case`, in double precision.
fn assert_gradients(case: &Case) {
    let double = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
    let tensors = [&case.query, &case.key, &case.value];
    let weights = double(&randn(case.value.dims(), 1.0));
    let loss = |[query, key, value]: [&Tensor; 3]| {
        let out = linear_attention(LinearAttentionInput {
            query,
            key,
            value,
            ..case.input()
        });
        (out.unwrap() * &weights).unwrap().sum_all().unwrap()
    };
    let vars = tensors.map(|t| Var::from_tensor(t).unwrap());
    let gradients = loss([0, 1, 2].map(|i| vars[i].as_tensor()))
        .backward()
        .unwrap();
    let tolerance = match case.map {
        Map::PositiveRandom(_) => 1e-2,
        Map::Relu(_) | Map::Simple => 1e-6,
    };
    for (i, var) in vars.iter().enumerate() {
        let gradient = gradients.get(var.as_tensor()).unwrap();
        let direction = double(&randn(var.dims(), 1.0));
        let along = (gradient * &direction).unwrap().sum_all().unwrap();
        let along = along.to_scalar::<f64>().unwrap();
        let step = 1e-6;
        let at = |sign: f64| {
            let moved = (tensors[i] + (&direction * (sign * step)).unwrap()).unwrap();
            let mut moved_tensors = tensors;
            moved_tensors[i] = &moved;
            loss(moved_tensors).to_scalar::<f64>().unwrap()
        };
        let difference = (at(1.0) - at(-1.0)) / (2.0 * step);
        let what = format!("{:?} {} tensor {i}", case.map, case.rotation.is_some());
        assert!(along.abs() > 1e-3, "{what}: no gradient");
        assert!(
            (along - difference).abs() < tolerance * along.abs().max(1.0),
            "{what}: {along} {difference}"
        );
    }
}
