//! The kernels of GPUs, run on the CPU.

use super::*;
use crate::ops::kernels::host::{assert_caught, on_kernels};
use crate::ops::test_data::{agrees, difference};

const SIZES: [usize; 5] = [1, 23, 0, 40, 2];

fn every_case(sizes: &[usize], heads: usize, (d, v): (usize, usize)) -> Vec<Case> {
    maps(d)
        .into_iter()
        .map(|map| Case::with_map(sizes, heads, (d, v), map))
        .collect()
}

#[test]
fn every_map_with_and_without_a_rotation() {
    for case in every_case(&SIZES, 2, (6, 5)) {
        agrees(4e-6, || linear_attention(case.input()));
        for pairs in PAIRS {
            let case = case.clone().rotated(pairs);
            // Turned features may cancel in the numerator, not in the denominator.
            agrees(2e-5, || linear_attention(case.input()));
        }
    }
}

#[test]
fn large_graphs_are_summed_in_tiles() {
    let case = Case::new(&[1100, 3], 1, (8, 8, 40));
    agrees(1e-5, || linear_attention(case.input()));
}

#[test]
fn packed_columns_are_read_in_place() {
    for mut case in every_case(&[5, 9], 2, (4, 4)) {
        let nodes = 14;
        let packed = randn(&[nodes, 24], 1.0);
        case.query = packed.narrow(1, 0, 8).unwrap();
        case.key = packed.narrow(1, 8, 8).unwrap();
        case.value = packed.narrow(1, 16, 8).unwrap();
        agrees(4e-6, || linear_attention(case.input()));
    }
}

#[test]
fn half_precision_differs_by_the_rounding_of_inputs_and_outputs() {
    for case in every_case(&[9, 20], 2, (4, 4)) {
        let exact = force_reference(|| linear_attention(case.input())).unwrap();
        for (dtype, tolerance) in [(DType::F16, 4e-3), (DType::BF16, 3e-2)] {
            let mut half = case.map(|x| x.to_dtype(dtype).unwrap());
            if let Map::PositiveRandom(projection) = &case.map {
                half.map = Map::PositiveRandom(projection.to_dtype(dtype).unwrap());
            }
            let found = on_kernels(|| linear_attention(half.input())).unwrap();
            let error = difference(&found.to_dtype(DType::F32).unwrap(), &exact);
            assert!(error <= tolerance, "{dtype:?}: {error}");
        }
    }
}

#[test]
fn broken_kernels_are_caught() {
    let case = Case::new(&[1, 40], 2, (6, 5, 13)).rotated(RotaryPairs::PerHead);
    let error = || {
        let expected = force_reference(|| linear_attention(case.input())).unwrap();
        Ok(difference(&linear_attention(case.input())?, &expected))
    };
    let staged = "        BARRIER();\n        for (uint n = 0u";
    assert_caught(staged, "        for (uint n = 0u", error);
    let before = "        BARRIER();\n        for (uint i = THREAD; i < TILE_NODES";
    assert_caught(
        before,
        "        for (uint i = THREAD; i < TILE_NODES",
        error,
    );
    let weighted = "        BARRIER();\n        for (uint f = 0u; f < 8u";
    assert_caught(weighted, "        for (uint f = 0u; f < 8u", error);
    let divisors = "    BARRIER();\n    UNROLL\n    for (uint c = 0u; c < VALUES";
    assert_caught(divisors, &divisors[15..], error);
    assert_caught(
        "row < end && f < FEATURES",
        "row <= end && f < FEATURES",
        error,
    );
    assert_caught("f < 8u && from", "f < 7u && from", error);
    assert_caught("WARP_MAX(found)", "", error);
    assert_caught("WARP_SUM(square)", "", error);
    assert_caught("+ FEATURE_EPS", "", error);
}
