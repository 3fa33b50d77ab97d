//! Positive random features.

use super::*;

#[test]
fn fused_and_reference_equal_the_formula() {
    let cases = [
        Case::new(&[1], 1, (1, 1, 1)),
        Case::new(&[5, 0, 1, 5, 2], 3, (7, 5, 19)),
        Case::new(&[BLOCK, BLOCK + 1, 2 * BLOCK + 37], 2, (16, 20, 33)),
        Case::new(&[40, 9], 4, (64, 64, 266)),
    ];
    for case in cases {
        let exact = case.exact();
        let what = format!("{:?}", case.sizes);
        assert_close(&case.run(), &exact, 3e-6, &what);
        let reference = force_reference(|| case.run());
        assert_close(&reference, &exact, 3e-6, &what);
    }
}

#[test]
fn the_stabiliser_of_the_keys_is_the_largest_of_all_blocks() {
    // The norm of the keys grows from block to block, so that it is found last, or falls, so that
    // it is found first: what is added to the features tells whether it is right.
    let nodes = 3 * BLOCK;
    for falling in [false, true] {
        let mut case = Case::new(&[nodes], 2, (8, 3, 24));
        let growth = (0..nodes).map(|i| 0.2 + 2.5 * (i / BLOCK) as f32);
        let mut growth: Vec<f32> = growth.collect();
        if falling {
            growth.reverse();
        }
        let growth = Tensor::from_vec(growth, (nodes, 1), &Device::Cpu).unwrap();
        case.key = case.key.broadcast_mul(&growth).unwrap();
        let exact = case.exact();
        assert_close(&case.run(), &exact, 1e-5, "fused");
        assert_close(&force_reference(|| case.run()), &exact, 1e-5, "reference");
    }
}

#[test]
fn large_and_hopeless_inputs_give_means_of_values() {
    // Exponents down to −10⁸ leave nothing but what is added to every feature.
    for scale in [30.0, 1e4] {
        let case = Case::new(&[BLOCK + 3, 1], 2, (16, 4, 33));
        let case = case.map(|t| (t * scale).unwrap());
        for found in [case.run(), force_reference(|| case.run())] {
            let largest = case.value.abs().unwrap().max_all().unwrap();
            let largest = largest.to_scalar::<f32>().unwrap();
            assert!(found.iter().flatten().all(|v| v.abs() <= largest * 1.001));
            let last: Vec<f32> = case.value.get(BLOCK + 3).unwrap().to_vec1().unwrap();
            assert_close(&found[BLOCK + 3..], &widen(&[last]), 1e-5, "a single node");
        }
    }
}

#[test]
fn parts_of_a_packed_projection_and_turned_layouts_are_read_in_place() {
    let case = Case::new(&[6, 3], 2, (4, 4, 10));
    let exact = case.exact();
    let packed = Tensor::cat(&[&case.query, &case.key, &case.value], 1).unwrap();
    let part = |i: usize| packed.narrow(1, i * 8, 8).unwrap();
    let (query, key, value) = (part(0), part(1), part(2));
    let input = LinearAttentionInput {
        query: &query,
        key: &key,
        value: &value,
        ..case.input()
    };
    let found: Vec<Vec<f32>> = linear_attention(input).unwrap().to_vec2().unwrap();
    assert_close(&found, &exact, 3e-6, "packed");
    let turned = case.key.t().unwrap().contiguous().unwrap();
    let input = LinearAttentionInput {
        key: &turned.t().unwrap(),
        ..case.input()
    };
    let found: Vec<Vec<f32>> = linear_attention(input).unwrap().to_vec2().unwrap();
    assert_close(&found, &exact, 3e-6, "turned");
}
