//! Fused and reference against the definition written out in double precision, and what rotations
//! keep.

use candle_core::{DType, Device, Var};
use proptest::prelude::*;

use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::{assert_close, randn, uniform};

const LAYOUTS: [RotaryPairs; 3] = [
    RotaryPairs::FullWidth,
    RotaryPairs::SharedByHeads,
    RotaryPairs::PerHead,
];

/// The first column of every pair, and its angle.
fn pairs_of(layout: RotaryPairs, heads: usize, head_dim: usize) -> Vec<(usize, usize)> {
    let half = head_dim / 2;
    let by_head = |step: usize| {
        let pair = move |h, i| (h * head_dim + 2 * i, h * step + i);
        (0..heads).flat_map(move |h| (0..half).map(move |i| pair(h, i)))
    };
    match layout {
        RotaryPairs::FullWidth => (0..heads * head_dim / 2).map(|i| (2 * i, i)).collect(),
        RotaryPairs::SharedByHeads => by_head(0).collect(),
        RotaryPairs::PerHead => by_head(half).collect(),
    }
}

fn rows(tensor: &Tensor) -> Vec<Vec<f64>> {
    tensor.to_dtype(DType::F64).unwrap().to_vec2().unwrap()
}

/// The rotation of `x` by the definition.
fn written_out(
    x: &Tensor,
    t: &Tensor,
    frequencies: &Tensor,
    layout: RotaryPairs,
    heads: usize,
) -> Tensor {
    let head_dim = x.dim(1).unwrap() / heads;
    let frequencies = rows(frequencies);
    let rotated = rows(x).into_iter().zip(rows(t)).flat_map(|(mut x, t)| {
        for (column, angle) in pairs_of(layout, heads, head_dim) {
            let products = t.iter().zip(&frequencies[angle]).map(|(t, f)| t * f);
            let (sin, cos) = products.sum::<f64>().sin_cos();
            let (a, b) = (x[column], x[column + 1]);
            (x[column], x[column + 1]) = (a * cos - b * sin, a * sin + b * cos);
        }
        x
    });
    let rotated: Vec<f32> = rotated.map(|x| x as f32).collect();
    Tensor::from_vec(rotated, x.dims(), &Device::Cpu).unwrap()
}

/// `tensor` as some columns of a wider matrix.
fn as_view(tensor: &Tensor) -> Tensor {
    let (rows, columns) = tensor.dims2().unwrap();
    let beside = randn(&[rows, 2], 1.0);
    let wide = Tensor::cat(&[&beside, tensor, &beside], 1).unwrap();
    wide.narrow(1, 2, columns).unwrap()
}

/// `tensor` with columns that are not adjacent.
fn turned(tensor: &Tensor) -> Tensor {
    tensor.t().unwrap().contiguous().unwrap().t().unwrap()
}

fn max_difference(a: &Tensor, b: &Tensor) -> f64 {
    let differences = rows(&(a - b).unwrap()).into_iter().flatten();
    differences.fold(0.0, |largest, d| largest.max(d.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fused_and_reference_are_the_definition(
        nodes in prop_oneof![Just(0usize), 1..40usize],
        heads in 1..5usize,
        head_dim in 2..20usize,
        m in 1..6usize,
        layout in prop::sample::select(&LAYOUTS[..]),
    ) {
        // Small angles: f32 rounds large ones by more than the tolerance.
        let (t, x) = (randn(&[nodes, m], 1.0), randn(&[nodes, heads * head_dim], 0.5));
        let count = layout.count(heads, head_dim);
        prop_assert_eq!(count, pairs_of(layout, heads, head_dim).iter().map(|p| p.1 + 1).max().unwrap());
        let frequencies = randn(&[count, m], 0.25);
        let expected = written_out(&x, &t, &frequencies, layout, heads);
        let run = || {
            let table = rotation_table(&t, &frequencies).unwrap();
            rotate(&x, &table, layout, heads).unwrap()
        };
        assert_close(&run(), &expected, 2e-6);
        assert_close(&force_reference(run), &expected, 2e-6);
        let table = rotation_table(&as_view(&t), &turned(&frequencies)).unwrap();
        let table = RotationTable { cos: as_view(&table.cos), sin: turned(&table.sin) };
        assert_close(&rotate(&as_view(&x), &table, layout, heads).unwrap(), &expected, 2e-6);
        assert_close(&rotate(&turned(&x), &table, layout, heads).unwrap(), &expected, 2e-6);
    }

    /// A map to queries, keys and values, of which the keys have other frequencies.
    #[test]
    fn a_rotated_projection_is_a_projection_then_a_rotation(
        nodes in prop_oneof![Just(0usize), 1..40usize, 250..600usize],
        heads in 1..4usize,
        head_dim in 2..12usize,
        bias in any::<bool>(),
        layout in prop::sample::select(&LAYOUTS[..]),
    ) {
        let width = heads * head_dim;
        let count = layout.count(heads, head_dim);
        let x = randn(&[nodes, 7], 0.5);
        let weights = randn(&[3 * width, 7], 0.5);
        let weights =
            LinearWeights::new(weights, bias.then(|| randn(&[3 * width], 0.5))).unwrap();
        let t = randn(&[nodes, 2], 1.0);
        let tables = [(); 2].map(|()| rotation_table(&t, &randn(&[count, 2], 1.0)).unwrap());
        let of = |i: usize| ColumnRotation {
            columns: i * width..(i + 1) * width,
            heads,
            pairs: layout,
            table: &tables[i],
        };
        let projected = force_reference(|| linear(&x, &weights, Activation::Identity)).unwrap();
        let part = |i: usize| projected.narrow(1, i * width, width).unwrap();
        let by_hand = |i: usize| {
            force_reference(|| rotate(&part(i), &tables[i], layout, heads)).unwrap()
        };
        let expected = Tensor::cat(&[by_hand(0), by_hand(1), part(2)], 1).unwrap();
        let run = || rotated_linear(&x, &weights, &[of(0), of(1)]).unwrap();
        assert_close(&run(), &expected, 2e-6);
        assert_close(&force_reference(run), &expected, 2e-6);
        let plain = rotated_linear(&x, &weights, &[]).unwrap();
        assert_close(&plain, &projected, 2e-6);
    }

    /// Logits see differences of coordinates, unless a pair straddles two heads.
    #[test]
    fn logits_depend_on_differences_of_coordinates(
        heads in 1..4usize,
        head_dim in 2..8usize,
        layout in prop::sample::select(&LAYOUTS[..]),
        shift in 0.5..2.0f64,
    ) {
        let count = layout.count(heads, head_dim);
        let frequencies = uniform(&[count, 2], 0.5, 1.0);
        let (query, key) = (randn(&[6, heads * head_dim], 1.0), randn(&[6, heads * head_dim], 1.0));
        let logits = |t: &Tensor| {
            let table = rotation_table(t, &frequencies).unwrap();
            let by_head = |x: &Tensor| {
                let rotated = rotate(x, &table, layout, heads).unwrap();
                let by_head = rotated.reshape((6, heads, head_dim)).unwrap();
                by_head.transpose(0, 1).unwrap().contiguous().unwrap()
            };
            let keys = by_head(&key).t().unwrap().contiguous().unwrap();
            by_head(&query).matmul(&keys).unwrap().reshape((heads * 6, 6)).unwrap()
        };
        let t = randn(&[6, 2], 1.0);
        let change = max_difference(&logits(&t), &logits(&(&t + shift).unwrap()));
        let straddles = layout == RotaryPairs::FullWidth && heads > 1 && head_dim % 2 == 1;
        if straddles {
            prop_assert!(change > 1e-2, "{change}");
        } else {
            prop_assert!(change < 5e-5, "{change}");
        }
        // Turning by other differences does change them.
        let change = max_difference(&logits(&t), &logits(&(&t * (1.0 + shift)).unwrap()));
        prop_assert!(change > 1e-2, "{change}");
    }
}

#[test]
fn a_hand_computed_row() {
    let quarter = std::f32::consts::FRAC_PI_2;
    let new = |row: &[f32]| {
        Tensor::new(row, &Device::Cpu)
            .unwrap()
            .unsqueeze(0)
            .unwrap()
    };
    let x = new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Two heads of three columns: pairs of angles 90°, 180° and 270° straddle the heads.
    for (layout, angles, expected) in [
        (
            RotaryPairs::FullWidth,
            &[quarter, 2.0 * quarter, 3.0 * quarter][..],
            [-2.0f32, 1.0, -3.0, -4.0, 6.0, -5.0],
        ),
        (
            RotaryPairs::SharedByHeads,
            &[quarter],
            [-2.0, 1.0, 3.0, -5.0, 4.0, 6.0],
        ),
        (
            RotaryPairs::PerHead,
            &[quarter, 2.0 * quarter],
            [-2.0, 1.0, 3.0, -4.0, -5.0, 6.0],
        ),
    ] {
        let frequencies = Tensor::new(angles, &Device::Cpu).unwrap();
        let frequencies = frequencies.unsqueeze(1).unwrap();
        let run = || {
            let table = rotation_table(&new(&[1.0]), &frequencies).unwrap();
            rotate(&x, &table, layout, 2).unwrap()
        };
        assert_close(&run(), &new(&expected), 1e-6);
        assert_close(&force_reference(run), &new(&expected), 1e-6);
    }
}

#[test]
fn the_angle_zero_changes_nothing_at_all() {
    for layout in LAYOUTS {
        let x = randn(&[5, 21], 1.0);
        let t = Tensor::zeros((5, 2), DType::F32, &Device::Cpu).unwrap();
        let frequencies = randn(&[layout.count(3, 7), 2], 1.0);
        let table = rotation_table(&t, &frequencies).unwrap();
        assert_eq!(rows(&rotate(&x, &table, layout, 3).unwrap()), rows(&x));
        let reference = force_reference(|| rotate(&x, &table, layout, 3)).unwrap();
        assert_eq!(rows(&reference), rows(&x));
    }
}

/// So large that the work is cut into tasks, whose last one is short.
#[test]
fn many_rows_are_rotated_like_few() {
    let (nodes, heads, head_dim, m) = (3001, 4, 24, 16);
    let (t, x) = (
        randn(&[nodes, m], 1.0),
        randn(&[nodes, heads * head_dim], 0.5),
    );
    for layout in LAYOUTS {
        let frequencies = randn(&[layout.count(heads, head_dim), m], 0.1);
        let table = rotation_table(&t, &frequencies).unwrap();
        let all = rotate(&x, &table, layout, heads).unwrap();
        let expected = written_out(&x, &t, &frequencies, layout, heads);
        assert_close(&all, &expected, 2e-6);
    }
}

#[test]
fn gradients_agree_with_differences() {
    let wide = |shape: &[usize], scale| randn(shape, scale).to_dtype(DType::F64).unwrap();
    for layout in LAYOUTS {
        let (heads, head_dim) = (2, 5);
        let count = layout.count(heads, head_dim);
        let inputs = [
            wide(&[3, 4], 1.0),
            wide(&[20, 4], 0.5),
            wide(&[20], 1.0),
            wide(&[3, 2], 1.0),
            wide(&[count, 2], 1.0),
        ];
        let factors = wide(&[3, 20], 1.0);
        // Queries and keys of one table, and `rotate` on top.
        let loss = |inputs: &[Tensor]| {
            let [x, weight, bias, t, frequencies] = inputs else {
                panic!("five inputs")
            };
            let table = rotation_table(t, frequencies).unwrap();
            let weights = LinearWeights::new(weight.clone(), Some(bias.clone())).unwrap();
            let of = |columns| ColumnRotation {
                columns,
                heads,
                pairs: layout,
                table: &table,
            };
            let made = rotated_linear(x, &weights, &[of(0..10), of(10..20)]).unwrap();
            let again = rotate(&made.narrow(1, 5, 10).unwrap(), &table, layout, heads).unwrap();
            let sum = (made * &factors).unwrap().sum_all().unwrap();
            (sum + again.sqr().unwrap().sum_all().unwrap()).unwrap()
        };
        let vars: Vec<Var> = (inputs.iter())
            .map(|input| Var::from_tensor(input).unwrap())
            .collect();
        let tracked: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
        let gradients = loss(&tracked).backward().unwrap();
        let value = |inputs: &[Tensor]| loss(inputs).to_scalar::<f64>().unwrap();
        for (i, var) in vars.iter().enumerate() {
            let gradient = gradients.get(var.as_tensor()).unwrap();
            let gradient: Vec<f64> = gradient.flatten_all().unwrap().to_vec1().unwrap();
            assert!(gradient.iter().any(|g| g.abs() > 0.1), "input {i}");
            for (at, &found) in gradient.iter().enumerate() {
                let moved = |by: f64| {
                    let mut values: Vec<f64> = inputs[i].flatten_all().unwrap().to_vec1().unwrap();
                    values[at] += by;
                    let mut inputs = inputs.clone();
                    inputs[i] = Tensor::from_vec(values, inputs[i].dims(), &Device::Cpu).unwrap();
                    value(&inputs)
                };
                let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!(
                    (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
                    "{layout:?}, input {i} at {at}: {found} instead of {expected}"
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let refused = |result: Result<Tensor>, words: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    };
    let table = |t: &[usize], frequencies: &[usize]| {
        rotation_table(&randn(t, 1.0), &randn(frequencies, 1.0)).map(|table| table.cos)
    };
    refused(
        table(&[3, 2], &[5, 4]),
        "frequencies of shape [5, 4] for coordinates of shape [3, 2], expected [pairs, 2]",
    );
    refused(table(&[3, 0], &[5, 0]), "frequencies of shape [5, 0]");
    refused(table(&[3, 2], &[0, 2]), "frequencies of shape [0, 2]");

    let good = rotation_table(&randn(&[3, 2], 1.0), &randn(&[4, 2], 1.0)).unwrap();
    let full = RotaryPairs::FullWidth;
    let x = randn(&[3, 8], 1.0);
    assert!(rotate(&x, &good, full, 2).is_ok());
    refused(rotate(&x, &good, full, 3), "3 heads in columns 0..8 of 8");
    refused(rotate(&x, &good, full, 0), "0 heads in columns 0..8 of 8");
    let wrong = "cosines of shape [3, 4] for 2 nodes and the 4 pairs of 2 heads of width 4";
    refused(rotate(&randn(&[2, 8], 1.0), &good, full, 2), wrong);
    let wrong = "cosines of shape [3, 4] for 3 nodes and the 2 pairs of 2 heads of width 4";
    refused(rotate(&x, &good, RotaryPairs::SharedByHeads, 2), wrong);
    let uneven = RotationTable {
        sin: randn(&[3, 3], 1.0),
        ..good.clone()
    };
    refused(rotate(&x, &uneven, full, 2), "sines of shape [3, 3]");

    let weights = LinearWeights::new(randn(&[10, 8], 1.0), None).unwrap();
    let of = |columns| ColumnRotation {
        columns,
        heads: 2,
        pairs: full,
        table: &good,
    };
    assert!(rotated_linear(&x, &weights, &[of(2..10)]).is_ok());
    for columns in [3..11, 4..4] {
        let words = format!("2 heads in columns {columns:?} of 10");
        refused(rotated_linear(&x, &weights, &[of(columns)]), &words);
    }
    let narrow = rotated_linear(&randn(&[3, 7], 1.0), &weights, &[]);
    refused(narrow, "input of width 7 for a linear map of 8");
}
