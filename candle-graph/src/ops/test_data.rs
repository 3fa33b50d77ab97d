//! Reproducible test tensors.

use std::cell::Cell;

use candle_core::{DType, Device, Tensor};

use crate::graph::Adjacency;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) };
}

/// Uniform in (0, 1), the same sequence in every run of a test thread.
fn unit() -> f32 {
    let mut z = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(z);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32 + 1e-8
}

/// Normally distributed values with standard deviation `scale`.
pub(crate) fn randn(shape: &[usize], scale: f32) -> Tensor {
    let normal = || (-2.0 * unit().ln()).sqrt() * (std::f32::consts::TAU * unit()).cos();
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| scale * normal())
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Uniformly distributed values.
pub(super) fn uniform(shape: &[usize], low: f32, high: f32) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| low + (high - low) * unit())
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// The edges `[source, target]` of a graph of `nodes`, by target.
pub(crate) fn edges(nodes: usize, edges: &[[u32; 2]]) -> Adjacency {
    let mut sorted = edges.to_vec();
    sorted.sort_by_key(|&[source, target]| (target, source));
    let sources = sorted.iter().map(|e| e[0]).collect();
    let targets = sorted.iter().map(|e| e[1]).collect();
    Adjacency::from_sorted(sources, targets, nodes, &Device::Cpu).unwrap()
}

/// Graphs with what is easily forgotten, with their number of edges below 200: no edges at all,
/// nodes without incoming edges, self loops, repeated edges, a node that all others point to.
pub(super) fn awkward_edges() -> Vec<Adjacency> {
    let hub: Vec<_> = (0..100).map(|s| [s, 7]).collect();
    let ring: Vec<_> = (0..60).map(|s| [s, (s * 7 + 1) % 59]).collect();
    vec![
        edges(3, &[]),
        edges(1, &[[0, 0]]),
        edges(4, &[[0, 1], [1, 1], [3, 1], [3, 1], [2, 3], [3, 3], [3, 3]]),
        edges(100, &hub),
        edges(61, &[ring.as_slice(), &[[60, 60], [0, 0], [5, 1]]].concat()),
    ]
}

/// A small graph with what is easily forgotten: nodes without incoming edges, self loops, repeated
/// edges, and a node with more incoming edges than one block of terms.
pub(super) fn uneven_graph() -> Adjacency {
    let hub: Vec<_> = (0..75).map(|i| [i * i % 9, 7]).collect();
    let others = [
        [0, 1],
        [1, 1],
        [3, 1],
        [3, 1],
        [2, 3],
        [3, 3],
        [3, 3],
        [8, 9],
    ];
    edges(10, &[hub.as_slice(), &others].concat())
}

/// Graphs for kernels that run on the CPU: one without edges, and [`uneven_graph`].
pub(super) fn awkward_graphs() -> [Adjacency; 2] {
    [edges(3, &[]), uneven_graph()]
}

/// Two random matrices that are columns of wider ones, whose rows lie differently far apart.
pub(super) fn packed(rows: usize, width: usize) -> [Tensor; 2] {
    [(); 2].map(|()| {
        if rows == 0 {
            // candle does not read views of nothing.
            return randn(&[0, width], 1.0);
        }
        let beside = 2 + (unit() * 50.0) as usize;
        let wide = randn(&[rows, width + beside], 1.0);
        wide.narrow(1, 1, width).unwrap()
    })
}

/// Widths on both sides of every group of columns, and those of published models.
pub(super) const WIDTHS: [usize; 6] = [1, 7, 12, 52, 64, 96];

/// `found` differs from `expected` by at most `tolerance`, relative for values above 1.
#[track_caller]
pub(crate) fn assert_close(found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.dims(), expected.dims());
    let values = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    for (at, (x, y)) in values(found).into_iter().zip(values(expected)).enumerate() {
        assert!(
            (x - y).abs() <= tolerance * y.abs().max(1.0),
            "{x} instead of {y} at {at} of {:?}",
            found.dims()
        );
    }
}

/// Largest difference of two tensors, relative to the largest magnitude of `expected` (at least 1).
/// Not a number if any value is not.
pub(super) fn difference(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.dims(), expected.dims());
    let values = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let (found, expected) = (values(found), values(expected));
    let scale = expected
        .iter()
        .fold(1f32, |largest, y| largest.max(y.abs()));
    let differences = found
        .iter()
        .zip(&expected)
        .map(|(x, y)| f64::from((x - y).abs() / scale));
    differences.fold(0.0, |largest, d| {
        if d > largest || d.is_nan() {
            d
        } else {
            largest
        }
    })
}

/// Checks that the kernels of GPUs, run on the CPU, give what the reference gives.
#[track_caller]
pub(super) fn agrees(tolerance: f64, body: impl Fn() -> candle_core::Result<Tensor>) {
    let found = super::kernels::host::on_kernels(&body).unwrap();
    let error = difference(&found, &super::force_reference(&body).unwrap());
    assert!(
        error <= tolerance,
        "kernels differ from the reference by {error:e}"
    );
}

/// Checks that the kernels of GPUs, run on the CPU, read and write f16 and bf16, and that results
/// differ by no more than the rounding of the result from the f32 reference for the same operands.
#[track_caller]
pub(super) fn agrees_in_half(
    tensors: &[&Tensor],
    body: impl Fn(&[Tensor]) -> candle_core::Result<Tensor>,
) {
    for dtype in [DType::F16, DType::BF16] {
        agrees_in(dtype, tensors, &body);
    }
}

/// As [`agrees_in_half`], for one of the two.
#[track_caller]
pub(super) fn agrees_in(
    dtype: DType,
    tensors: &[&Tensor],
    body: impl Fn(&[Tensor]) -> candle_core::Result<Tensor>,
) {
    let rounding = match dtype {
        DType::F16 => 1.0 / 1024.0,
        _ => 1.0 / 128.0,
    };
    let as_dtype = |tensors: &[Tensor], dtype| -> Vec<Tensor> {
        let cast = tensors.iter().map(|t| t.to_dtype(dtype).unwrap());
        cast.collect()
    };
    let rounded: Vec<Tensor> = tensors.iter().map(|t| t.to_dtype(dtype).unwrap()).collect();
    let found = super::kernels::host::on_kernels(|| body(&rounded)).unwrap();
    assert_eq!(found.dtype(), dtype);
    let expected = super::force_reference(|| body(&as_dtype(&rounded, DType::F32))).unwrap();
    let error = difference(&found.to_dtype(DType::F32).unwrap(), &expected);
    assert!(error <= rounding, "{dtype:?}: {error:e}");
}
