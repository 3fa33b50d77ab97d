//! Segment operations by the kernels of GPUs.

use candle_core::{DType, Result, Shape, Tensor};

use super::Reduction;
use crate::graph::Offsets;
use crate::ops::kernels::columns::{THREADS, columns, groups_of_rows, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value};

/// Rows that one group reduces; longer segments are cut into pieces of so many, so that they keep
/// many groups busy and sums stay exact.
const ROWS_OF_PIECE: usize = 1024;

static REDUCE: Kernel = kernel_of_columns!("segment_reduce");
static PIECES: Kernel = kernel_of_columns!("segment_pieces");
static JOIN: Kernel = kernel_of_columns!("segment_join");
static SOFTMAX: Kernel = kernel_of_columns!("segment_softmax");
static ADD_ROWS_AT: Kernel = kernel_of_columns!("add_rows_at");

pub(super) fn reduce(values: &Tensor, segments: &Offsets, reduction: Reduction) -> Result<Tensor> {
    let (_, width) = values.dims2()?;
    let (values, dtype) = (values.contiguous()?, values.dtype());
    let (count, ptr) = (segments.num_segments(), segments.cumulative()?);
    let columns = columns(width);
    let reduction = match reduction {
        Reduction::Sum => 0,
        Reduction::Mean => 1,
        Reduction::Max => 2,
    };
    let constants = [("COLUMNS", columns), ("REDUCTION", reduction)];
    let tiles = width.div_ceil(columns);
    let whole = Launch {
        kernel: &REDUCE,
        dtype,
        constants: &constants,
        outputs: &[(Shape::from((count, width)), dtype)],
        inputs: &[&values, ptr],
        values: &[Value::count(width)?],
        groups: [count, tiles],
        threads: THREADS,
    };
    let pieces = segments.max_length().div_ceil(ROWS_OF_PIECE);
    if pieces < 2 {
        return whole.run_for_one();
    }
    let parts = Launch {
        kernel: &PIECES,
        outputs: &[(Shape::from((count, pieces, width)), DType::F32)],
        values: &[
            Value::count(width)?,
            Value::count(pieces)?,
            Value::count(ROWS_OF_PIECE)?,
        ],
        groups: [count * pieces, tiles],
        ..whole
    };
    let parts = parts.run_for_one()?;
    let join = Launch {
        kernel: &JOIN,
        inputs: &[&parts, ptr],
        values: &[Value::count(width)?, Value::count(pieces)?],
        groups: [count, width.div_ceil(THREADS)],
        ..whole
    };
    join.run_for_one()
}

pub(super) fn softmax(values: &Tensor, segments: &Offsets) -> Result<Tensor> {
    let (_, width) = values.dims2()?;
    let columns = columns(width);
    let launch = Launch {
        kernel: &SOFTMAX,
        dtype: values.dtype(),
        constants: &[("COLUMNS", columns), ("REDUCTION", 0)],
        outputs: &[(values.shape().clone(), values.dtype())],
        inputs: &[&values.contiguous()?, segments.cumulative()?],
        values: &[Value::count(width)?],
        groups: [segments.num_segments(), width.div_ceil(columns)],
        threads: THREADS,
    };
    launch.run_for_one()
}

pub(super) fn add_rows_at(base: &Tensor, rows_to_add: &Tensor, at: &[u32]) -> Result<Tensor> {
    let (rows, width) = base.dims2()?;
    let columns = columns(width);
    let at = Tensor::new(at, base.device())?;
    let launch = Launch {
        kernel: &ADD_ROWS_AT,
        dtype: base.dtype(),
        constants: &[("COLUMNS", columns), ("REDUCTION", 0)],
        outputs: &[(base.shape().clone(), base.dtype())],
        inputs: &[&base.contiguous()?, &rows_to_add.contiguous()?, &at],
        values: &[
            Value::count(rows)?,
            Value::count(width)?,
            Value::count(at.elem_count())?,
        ],
        groups: groups_of_rows(rows, width),
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{agrees, difference, randn};
    use crate::ops::{force_reference, segment_reduce, segment_softmax};

    const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Mean, Reduction::Max];

    fn ragged() -> Offsets {
        Offsets::from_lengths([0, 1, 5, 0, 0, 40, 2, 0], &Device::Cpu).unwrap()
    }

    #[test]
    fn reductions_of_ragged_segments_of_any_width() {
        let segments = ragged();
        for width in [1, 3, 64, 130] {
            let x = randn(&[48, width], 3.0);
            for reduction in REDUCTIONS {
                agrees(2e-6, || segment_reduce(&x, &segments, reduction));
            }
            agrees(2e-6, || segment_softmax(&x, &segments));
        }
    }

    #[test]
    fn long_segments_are_cut_into_pieces() {
        let segments = Offsets::from_lengths([2500, 0, 3], &Device::Cpu).unwrap();
        let x = randn(&[2503, 5], 1.0);
        for reduction in REDUCTIONS {
            agrees(2e-6, || segment_reduce(&x, &segments, reduction));
        }
    }

    #[test]
    fn half_precision_is_read_and_written_with_sums_in_single() {
        let segments = ragged();
        for (dtype, tolerance) in [(DType::F16, 1e-3), (DType::BF16, 8e-3)] {
            let x = randn(&[48, 6], 1.0).to_dtype(dtype).unwrap();
            let found = on_kernels(|| segment_reduce(&x, &segments, Reduction::Sum)).unwrap();
            assert_eq!(found.dtype(), dtype);
            let exact = x.to_dtype(DType::F32).unwrap();
            let exact =
                force_reference(|| segment_reduce(&exact, &segments, Reduction::Sum)).unwrap();
            let error = difference(&found.to_dtype(DType::F32).unwrap(), &exact);
            assert!(error <= tolerance, "{error}");
        }
    }

    #[test]
    fn rows_are_added_where_they_belong() {
        let (base, rows) = (randn(&[9, 7], 1.0), randn(&[5, 7], 1.0));
        agrees(1e-6, || {
            super::super::add_rows_at(base.copy()?, &rows, &[0, 3, 3, 3, 8])
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let segments = ragged();
        let x = randn(&[48, 6], 1.0);
        let reduced = |reduction| {
            let expected = force_reference(|| segment_reduce(&x, &segments, reduction)).unwrap();
            Ok(difference(
                &segment_reduce(&x, &segments, reduction)?,
                &expected,
            ))
        };
        let soft = || {
            let expected = force_reference(|| segment_softmax(&x, &segments)).unwrap();
            Ok(difference(&segment_softmax(&x, &segments)?, &expected))
        };
        assert_caught("        BARRIER(); ", "", || reduced(Reduction::Sum));
        assert_caught("    BARRIER();\n", "\n", soft);
        assert_caught("row < (to)", "row <= (to)", || reduced(Reduction::Max));
        assert_caught("LANE < half_of", "LANE <= half_of", || {
            reduced(Reduction::Sum)
        });
        assert_caught("column < width", "column <= width", || {
            reduced(Reduction::Sum)
        });
    }
}
