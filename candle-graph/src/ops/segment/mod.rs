//! Reductions and softmax over consecutive segments of rows.

mod cpu;
mod gpu;
mod reference;

use candle_core::{Result, Tensor, bail};

pub(super) use cpu::{SUM_BLOCK, softmax_rows};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::work;
use crate::graph::Offsets;

/// How the rows of a segment become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum; 0 for an empty segment.
    Sum,
    /// Their mean; 0 for an empty segment.
    Mean,
    /// Their largest value, column by column; 0 for an empty segment.
    Max,
}

fn check(values: &Tensor, segments: &Offsets) -> Result<()> {
    let (rows, _) = values.dims2()?;
    if rows != segments.total() {
        bail!("{rows} rows for segments of {} rows", segments.total());
    }
    Ok(())
}

/// Reduces every segment of `values` `[rows, width]` to one row: `[segments, width]`.
///
/// # Errors
/// The segments do not cover the rows.
pub fn segment_reduce(values: &Tensor, segments: &Offsets, reduction: Reduction) -> Result<Tensor> {
    check(values, segments)?;
    let _work = work::record(|| work::segment_reduce(values, segments, reduction));
    if fused_on_cpu([values]) {
        cpu::reduce(values, segments, reduction)
    } else if fused_on_gpu([values]) {
        gpu::reduce(values, segments, reduction)
    } else {
        reference::reduce(values, segments, reduction)
    }
}

/// Softmax over the rows of every segment, column by column: `[rows, width]` to the same shape.
/// The denominator carries GraphGym's 1e-16.
///
/// # Errors
/// The segments do not cover the rows.
pub fn segment_softmax(values: &Tensor, segments: &Offsets) -> Result<Tensor> {
    check(values, segments)?;
    let _work = work::record(|| work::segment_softmax(values));
    if fused_on_cpu([values]) {
        cpu::softmax(values, segments)
    } else if fused_on_gpu([values]) {
        gpu::softmax(values, segments)
    } else {
        reference::softmax(values, segments)
    }
}

/// `base` `[rows, width]` with `rows_to_add[k]` added to row `at[k]` for every `k`; `at`
/// is non-decreasing and may repeat. The fused path works in the storage of `base`, so no other tensor may share it.
///
/// # Errors
/// Shapes that do not fit, a row out of range or out of order.
pub(crate) fn add_rows_at(base: Tensor, rows_to_add: &Tensor, at: &[u32]) -> Result<Tensor> {
    let (rows, width) = base.dims2()?;
    if rows_to_add.dims() != [at.len(), width] {
        bail!(
            "rows of shape {:?} for {} places",
            rows_to_add.dims(),
            at.len()
        );
    }
    if let Some(out) = at.iter().find(|&&r| r as usize >= rows) {
        bail!("row {out} of {rows}");
    }
    if !at.is_sorted() {
        bail!("the rows to add to are not in order");
    }
    if at.is_empty() {
        return Ok(base);
    }
    let _work = work::record(|| work::add_rows_at(rows_to_add, at));
    if fused_on_cpu([&base, rows_to_add]) {
        cpu::add_rows_at(base, rows_to_add, at)
    } else if fused_on_gpu([&base, rows_to_add]) {
        gpu::add_rows_at(&base, rows_to_add, at)
    } else {
        reference::add_rows_at(&base, rows_to_add, at)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::randn;

    fn values(t: &Tensor) -> Vec<f32> {
        t.flatten_all().unwrap().to_vec1().unwrap()
    }

    fn assert_close(a: &Tensor, b: &Tensor) {
        assert_eq!(a.dims(), b.dims());
        for (x, y) in values(a).iter().zip(values(b)) {
            assert!((x - y).abs() <= 2e-6 * y.abs().max(1.0), "{x} {y}");
        }
    }

    #[test]
    fn fused_equals_reference_with_empty_and_uneven_segments() {
        let lengths = [0, 1, 5, 0, 0, 300, 2, 0];
        let segments = Offsets::from_lengths(lengths, &Device::Cpu).unwrap();
        for width in [1, 3, 8, 64] {
            let x = randn(&[308, width], 3.0);
            for reduction in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
                let fused = segment_reduce(&x, &segments, reduction).unwrap();
                let reference =
                    force_reference(|| segment_reduce(&x, &segments, reduction)).unwrap();
                // Sums of 300 terms differ by their order.
                let scale = (reference.abs().unwrap().max_all().unwrap())
                    .to_scalar::<f32>()
                    .unwrap();
                assert_close(
                    &(fused / f64::from(scale)).unwrap(),
                    &(reference / f64::from(scale)).unwrap(),
                );
            }
            let reference = force_reference(|| segment_softmax(&x, &segments)).unwrap();
            assert_close(&segment_softmax(&x, &segments).unwrap(), &reference);
        }
    }

    #[test]
    fn long_segments_are_reduced_in_pieces_that_keep_their_sums_exact() {
        // One term after the other, a sum of a million tenths is 1 % off.
        let lengths = [3, 1_000_001, 0, 1025, 1];
        let rows: usize = lengths.iter().sum();
        let segments = Offsets::from_lengths(lengths, &Device::Cpu).unwrap();
        let x = Tensor::full(0.1f32, (rows, 2), &Device::Cpu).unwrap();
        let mean = segment_reduce(&x, &segments, Reduction::Mean).unwrap();
        let sum = segment_reduce(&x, &segments, Reduction::Sum).unwrap();
        let exact = lengths.map(|length| length as f32 * 0.1);
        for (segment, exact) in exact.into_iter().enumerate() {
            let found = [&mean, &sum].map(|t| t.get(segment).unwrap().to_vec1::<f32>().unwrap());
            for (mean, sum) in found[0].iter().zip(&found[1]) {
                assert!((sum - exact).abs() <= 1e-4 * exact, "{sum} {exact}");
                let expected = if exact == 0.0 { 0.0 } else { 0.1 };
                assert!((mean - expected).abs() <= 1e-5, "{mean}");
            }
        }
        let rising = Tensor::arange(0f32, rows as f32, &Device::Cpu).unwrap();
        let rising = rising.reshape((rows, 1)).unwrap();
        let largest = values(&segment_reduce(&rising, &segments, Reduction::Max).unwrap());
        assert_eq!(largest, [2.0, 1_000_003.0, 0.0, 1_001_028.0, 1_001_029.0]);
    }

    #[test]
    fn softmax_of_every_segment_sums_to_one_even_for_huge_logits() {
        let segments = Offsets::from_lengths([3, 2], &Device::Cpu).unwrap();
        let x = Tensor::new(&[[1e30f32], [1.0], [-1e30], [700.0], [700.0]], &Device::Cpu).unwrap();
        let y = values(&segment_softmax(&x, &segments).unwrap());
        assert_eq!(y, [1.0, 0.0, 0.0, 0.5, 0.5]);
    }

    #[test]
    fn rows_are_added_where_they_belong_and_repeats_add_up() {
        let base = Tensor::zeros((3, 2), candle_core::DType::F32, &Device::Cpu).unwrap();
        let rows = Tensor::new(&[[1f32, 2.0], [10.0, 20.0], [5.0, 5.0]], &Device::Cpu).unwrap();
        let expected = [0.0, 0.0, 11.0, 22.0, 5.0, 5.0];
        let at = [1, 1, 2];
        assert_eq!(
            values(&add_rows_at(base.copy().unwrap(), &rows, &at).unwrap()),
            expected
        );
        let reference = force_reference(|| add_rows_at(base.copy().unwrap(), &rows, &at)).unwrap();
        assert_eq!(values(&reference), expected);
        assert!(add_rows_at(base.copy().unwrap(), &rows, &[1, 1, 3]).is_err());
        assert!(add_rows_at(base, &rows, &[1, 2, 1]).is_err());
    }

    #[test]
    fn gradients_flow_through_the_reference() {
        let segments = Offsets::from_lengths([2, 0, 1], &Device::Cpu).unwrap();
        let x = Var::new(&[[1f32], [3.0], [7.0]], &Device::Cpu).unwrap();
        let mean = segment_reduce(x.as_tensor(), &segments, Reduction::Mean).unwrap();
        let gradients = mean.sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(x.as_tensor()).unwrap();
        assert_eq!(values(gradient), [0.5, 0.5, 1.0]);
        let soft = segment_softmax(x.as_tensor(), &segments).unwrap();
        let gradients = soft.sum_all().unwrap().backward().unwrap();
        let gradient = values(gradients.get(x.as_tensor()).unwrap());
        assert!(gradient.iter().all(|g| g.abs() < 1e-6));
    }
}
