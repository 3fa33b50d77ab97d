//! The one door to the `gemm` crate: row-major f32 products with a prepared right-hand side.

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
    let keep = match into {
        Into::Replace => 0.0,
        Into::Add => 1.0,
    };
    // SAFETY: the assertions above and in the constructors of `Rhs` give every pointer exactly the
    // m·k, k·n and m·n elements that its row-major strides reach; `out` is borrowed mutably, so it
    // overlaps neither input.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            into == Into::Add,
            lhs.as_ptr(),
            1,
            k as isize,
            rhs.data.as_ptr(),
            1,
            n as isize,
            keep,
            1.0,
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
}
