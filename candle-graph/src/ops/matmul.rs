//! The one door to the `gemm` crate: f32 products of matrices in row-major or strided memory.

/// A right-hand side `[k, n]`, row-major.
#[derive(Debug, Clone)]
pub(super) struct Rhs {
    k: usize,
    n: usize,
    data: Vec<f32>,
}

impl Rhs {
    /// From row-major `[k, n]` data.
    ///
    /// # Panics
    /// `data` does not fill the shape.
    pub(super) fn new(k: usize, n: usize, data: Vec<f32>) -> Self {
        assert_eq!(data.len(), k * n, "right-hand side of {k} x {n}");
        Self { k, n, data }
    }

    /// From a weight `[n, k]` as linear layers store it.
    ///
    /// # Panics
    /// `weight` does not fill the shape.
    pub(super) fn from_weight(n: usize, k: usize, weight: &[f32]) -> Self {
        assert_eq!(weight.len(), k * n, "weight of {n} x {k}");
        let mut data = vec![0.0; k * n];
        for (column, row) in weight.chunks_exact(k.max(1)).enumerate() {
            for (at, &value) in row.iter().enumerate() {
                data[at * n + column] = value;
            }
        }
        Self { k, n, data }
    }

    /// Rows.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// Columns.
    pub(super) fn n(&self) -> usize {
        self.n
    }
}

/// Whether a product replaces its destination or adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    /// `out = lhs · rhs`.
    Replace,
    /// `out += lhs · rhs`.
    Add,
}

/// A matrix within a slice: element (r, c) is `data[r · row_stride + c · column_stride]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> View<'a> {
    /// `rows` rows of `columns` adjacent values, `row_stride` apart.
    ///
    /// # Panics
    /// The matrix does not fit into `data`.
    pub(super) fn new(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert!(
            fits(data.len(), rows, columns, row_stride),
            "{rows} x {columns} with stride {row_stride} in {} values",
            data.len()
        );
        Self {
            data,
            rows,
            columns,
            row_stride,
            column_stride: 1,
        }
    }

    /// The same memory with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// Whether `len` values hold `rows` rows of `columns` adjacent values, `row_stride` apart.
fn fits(len: usize, rows: usize, columns: usize, row_stride: usize) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    let end = (rows - 1)
        .checked_mul(row_stride)
        .and_then(|start| start.checked_add(columns));
    end.is_some_and(|end| end <= len)
}

/// `out = lhs · rhs` or `out += lhs · rhs` on this thread; `lhs` is `[m, k]`, `out` `[m, n]`,
/// both row-major.
///
/// # Panics
/// `lhs` or `out` does not fill its shape for one common `m`.
pub(super) fn matmul(lhs: &[f32], rhs: &Rhs, out: &mut [f32], into: Into) {
    let (k, n) = (rhs.k, rhs.n);
    if n == 0 {
        return;
    }
    let m = out.len() / n;
    assert_eq!(out.len(), m * n, "product of {n} columns");
    assert_eq!(lhs.len(), m * k, "left-hand side of {m} x {k}");
    let lhs = View::new(lhs, m, k, k);
    matmul_views(lhs, View::new(&rhs.data, k, n, n), 1.0, out, n, into);
}

/// `out = factor · lhs · rhs` or `out += factor · lhs · rhs` on this thread; the rows of `out` are
/// `out_stride` apart, what lies between them is left alone.
///
/// # Panics
/// The inner sizes differ, or `out` has no room for the product.
pub(super) fn matmul_views(
    lhs: View<'_>,
    rhs: View<'_>,
    factor: f32,
    out: &mut [f32],
    out_stride: usize,
    into: Into,
) {
    let (m, k, n) = (lhs.rows, lhs.columns, rhs.columns);
    assert_eq!(k, rhs.rows, "inner sizes of a product");
    assert!(
        fits(out.len(), m, n, out_stride) && (m < 2 || n <= out_stride),
        "product of {m} x {n} with stride {out_stride} into {} values",
        out.len()
    );
    if m == 0 || n == 0 {
        return;
    }
    let keep = match into {
        Into::Replace => 0.0,
        Into::Add => 1.0,
    };
    // SAFETY: `View::new` and the assertions above keep every element that the strides reach for
    // m x k, k x n and m x n within its slice; the rows of `out` do not overlap, and as `out` is
    // borrowed mutably, it overlaps neither input.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            out_stride as isize,
            into == Into::Add,
            lhs.data.as_ptr(),
            lhs.column_stride as isize,
            lhs.row_stride as isize,
            rhs.data.as_ptr(),
            rhs.column_stride as isize,
            rhs.row_stride as isize,
            keep,
            factor,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(lhs: &[f32], weight: &[f32], n: usize, k: usize) -> Vec<f32> {
        lhs.chunks_exact(k)
            .flat_map(|row| {
                (0..n).map(move |c| (0..k).map(|i| row[i] * weight[c * k + i]).sum::<f32>())
            })
            .collect()
    }

    #[test]
    fn products_agree_with_the_naive_ones_in_both_modes() {
        for (m, n, k) in [(1, 1, 1), (5, 7, 3), (23, 128, 64), (64, 6, 52)] {
            let lhs: Vec<f32> = (0..m * k).map(|i| (i as f32 * 0.37).sin()).collect();
            let weight: Vec<f32> = (0..n * k).map(|i| (i as f32 * 0.11).cos()).collect();
            let rhs = Rhs::from_weight(n, k, &weight);
            let expected = naive(&lhs, &weight, n, k);
            let mut out = vec![f32::NAN; m * n];
            matmul(&lhs, &rhs, &mut out, Into::Replace);
            let close = |a: &[f32], scale: f32| {
                a.iter()
                    .zip(&expected)
                    .all(|(x, e)| (x - scale * e).abs() < 1e-4)
            };
            assert!(close(&out, 1.0));
            matmul(&lhs, &rhs, &mut out, Into::Add);
            assert!(close(&out, 2.0));
        }
    }

    #[test]
    #[should_panic(expected = "left-hand side")]
    fn a_short_left_hand_side_is_refused_before_any_pointer_is_used() {
        let rhs = Rhs::from_weight(2, 3, &[0.0; 6]);
        matmul(&[0.0; 5], &rhs, &mut [0.0; 4], Into::Replace);
    }

    #[test]
    #[should_panic(expected = "product of 2 columns")]
    fn a_ragged_destination_is_refused_before_any_pointer_is_used() {
        let rhs = Rhs::from_weight(2, 3, &[0.0; 6]);
        matmul(&[0.0; 6], &rhs, &mut [0.0; 5], Into::Replace);
    }

    #[test]
    fn a_part_times_a_transposed_part_goes_into_a_part() {
        // Columns 2..5 of 4 x 6, times the transpose of columns 1..4 of 3 x 5, into columns 0..3
        // of 4 x 7.
        let lhs: Vec<f32> = (0..24).map(|i| (i as f32 * 0.37).sin()).collect();
        let rhs: Vec<f32> = (0..15).map(|i| (i as f32 * 0.11).cos()).collect();
        let mut out = vec![7.0; 28];
        let views = (
            View::new(&lhs[2..], 4, 3, 6),
            View::new(&rhs[1..], 3, 3, 5).transposed(),
        );
        matmul_views(views.0, views.1, 0.5, &mut out, 7, Into::Replace);
        for (row, values) in out.chunks_exact(7).enumerate() {
            for (column, &value) in values.iter().enumerate() {
                let product = |i: usize| lhs[row * 6 + 2 + i] * rhs[column * 5 + 1 + i];
                let expected = match column {
                    0..3 => 0.5 * (0..3).map(product).sum::<f32>(),
                    _ => 7.0,
                };
                assert!((value - expected).abs() < 1e-6, "{value} {expected}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "3 x 4 with stride 5 in 13 values")]
    fn a_view_past_the_end_is_refused_before_any_pointer_is_used() {
        View::new(&[0.0; 13], 3, 4, 5);
    }

    #[test]
    #[should_panic(expected = "product of 2 x 3 with stride 2")]
    fn overlapping_destination_rows_are_refused() {
        let lhs = View::new(&[0.0; 2], 2, 1, 1);
        let rhs = View::new(&[0.0; 3], 1, 3, 3);
        matmul_views(lhs, rhs, 1.0, &mut [0.0; 9], 2, Into::Replace);
    }
}
