//! The inverse of a shifted Laplacian by a sparse Cholesky factorisation.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::perm::PermRef;
use faer::sparse::linalg::SupernodalThreshold;
use faer::sparse::linalg::amd;
use faer::sparse::linalg::cholesky::{
    CholeskySymbolicParams, SymbolicCholeskyRaw, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Par, Side};

use super::kernel::Kernel;
use super::operator::{LANES, LaplacianOperator};
use super::{Lanes, Step, SymmetricOperator};
use crate::ops::simd::vectorize;

/// The shift, relative to the bound of the eigenvalues, where the null space is known and left out.
/// The factorisation needs it for a matrix that is not singular; it must be small beside the
/// eigenvalues sought.
pub(super) const SHIFT: f64 = 1e-12;

/// The shift where the null space is not known: the inverse must not raise what is there so far
/// above the rest that the rest drowns in rounding.
pub(super) const SHIFT_BESIDE_NOTHING: f64 = 1e-6;

/// The most entries that a factor may have for each one of the matrix. Measured: grids and surfaces
/// in space stay below it and gain from the factor, solids and random graphs are far above it, and
/// for them Chebyshev polynomials are ten times faster.
const MAX_FILL: f64 = 16.0;

/// The most multiplications of a factorisation that is tried.
const MAX_MULTIPLICATIONS: f64 = 2e10;

/// `(A + shift·I)⁻¹` on the complement of the null space of `A`.
pub(super) struct Inverse<'a> {
    kernel: &'a Kernel,
    shift: f64,
    /// The node in the place of each row of the factor.
    order: Vec<u32>,
    /// Where the columns of the factor begin, and where the last one ends.
    starts: Vec<u32>,
    /// Rows of the entries of each column, the diagonal first.
    rows: Vec<u32>,
    /// The entries; for the diagonal ones their inverses.
    values: Vec<f64>,
}

impl<'a> Inverse<'a> {
    /// Factorises `operator`, whose null space is `kernel`, after adding `shift`, relative to the
    /// bound of the eigenvalues. None where the factor would fill up too much, or the factorisation
    /// fails: then there are other ways.
    pub(super) fn new(
        operator: &LaplacianOperator,
        kernel: &'a Kernel,
        shift: f64,
    ) -> Option<Self> {
        let n = operator.dim();
        let shift = shift * operator.upper_bound();
        // The upper triangle, column by column: in a symmetric matrix the rows left of the diagonal.
        let mut starts = vec![0u32];
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        for (i, &diagonal) in operator.diagonal().iter().enumerate() {
            let row = operator.row(i).iter();
            for &(j, value) in row.take_while(|&&(j, _)| (j as usize) < i) {
                rows.push(j);
                values.push(value);
            }
            rows.push(i as u32);
            values.push(diagonal + shift);
            starts.push(u32::try_from(rows.len()).ok()?);
        }
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &starts, None, &rows);

        let (mut forward, mut backward) = (vec![0u32; n], vec![0u32; n]);
        let scratch = amd::order_maybe_unsorted_scratch::<u32>(n, rows.len());
        let mut memory = MemBuffer::try_new(scratch).ok()?;
        let work = amd::order_maybe_unsorted(
            &mut forward,
            &mut backward,
            pattern,
            amd::Control::default(),
            MemStack::new(&mut memory),
        );
        let work = work.ok()?;
        let most = MAX_FILL * rows.len() as f64;
        if work.n_mult_subs_ldl > MAX_MULTIPLICATIONS || work.n_div > most {
            return None;
        }
        let symbolic = factorize_symbolic_cholesky(
            pattern,
            Side::Upper,
            SymmetricOrdering::Custom(PermRef::new_checked(&forward, &backward, n)),
            CholeskySymbolicParams {
                // Blocks of columns would be factorised faster, but solved with more slowly.
                supernodal_flop_ratio_threshold: SupernodalThreshold::FORCE_SIMPLICIAL,
                ..Default::default()
            },
        );
        let symbolic = symbolic.ok()?;
        let mut factor = vec![0.0; symbolic.len_val()];
        let scratch = symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
        let mut memory = MemBuffer::try_new(scratch).ok()?;
        let factorised = symbolic.factorize_numeric_llt(
            &mut factor,
            SparseColMatRef::new(pattern, &values),
            Side::Upper,
            Default::default(),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        );
        factorised.ok()?;
        let SymbolicCholeskyRaw::Simplicial(symbolic) = symbolic.raw() else {
            return None;
        };
        for &start in symbolic.col_ptr().iter().take(n) {
            let diagonal = &mut factor[start as usize];
            *diagonal = diagonal.recip();
        }
        Some(Self {
            kernel,
            shift,
            order: forward,
            starts: symbolic.col_ptr().to_vec(),
            rows: symbolic.row_idx().to_vec(),
            values: factor,
        })
    }

    /// Row numbers and entries of column `j`, the diagonal first.
    #[inline(always)]
    fn column(&self, j: usize) -> impl Iterator<Item = (usize, f64)> {
        let entries = self.starts[j] as usize..self.starts[j + 1] as usize;
        let rows = self.rows[entries.clone()].iter();
        rows.zip(&self.values[entries])
            .map(|(&row, &value)| (row as usize, value))
    }

    /// Solves with the factor, then with its transpose.
    #[inline(always)]
    fn solve(&self, x: &mut [Lanes]) {
        for j in 0..x.len() {
            let mut column = self.column(j);
            let Some((_, inverse)) = column.next() else {
                continue;
            };
            let pivot = x[j].map(|x| x * inverse);
            x[j] = pivot;
            for (row, value) in column {
                let x = &mut x[row];
                for lane in 0..LANES {
                    x[lane] -= value * pivot[lane];
                }
            }
        }
        for j in (0..x.len()).rev() {
            let mut column = self.column(j);
            let Some((_, inverse)) = column.next() else {
                continue;
            };
            let mut sum = x[j];
            for (row, value) in column {
                let x = &x[row];
                for lane in 0..LANES {
                    sum[lane] -= value * x[lane];
                }
            }
            x[j] = sum.map(|x| x * inverse);
        }
    }

    /// What is added to every eigenvalue before it is inverted.
    pub(super) fn shift(&self) -> f64 {
        self.shift
    }
}

impl SymmetricOperator for Inverse<'_> {
    fn dim(&self) -> usize {
        self.order.len()
    }

    fn upper_bound(&self) -> f64 {
        self.shift.recip()
    }

    fn step(&self, step: Step, block: &[Lanes], out: &mut [Lanes]) {
        let mut ordered: Vec<Lanes> = self.order.iter().map(|&at| block[at as usize]).collect();
        vectorize(
            pulp::Arch::new(),
            #[inline(always)]
            || self.solve(&mut ordered),
        );
        let mut solved = vec![[0.0; LANES]; block.len()];
        for (&at, x) in self.order.iter().zip(ordered) {
            solved[at as usize] = x;
        }
        // The shift lets rounding errors grow most in the null space.
        self.kernel.project_out(&mut solved);
        for ((out, x), y) in out.iter_mut().zip(block).zip(&solved) {
            for lane in 0..LANES {
                out[lane] = step.alpha * y[lane] + step.beta * x[lane] + step.gamma * out[lane];
            }
        }
    }
}
