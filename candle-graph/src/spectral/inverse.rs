//! The inverse of a shifted Laplacian by a sparse Cholesky factorisation.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::perm::PermRef;
use faer::sparse::linalg::amd;
use faer::sparse::linalg::cholesky::{
    LltRef, SymbolicCholesky, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Par, Side};

use super::kernel::Kernel;
use super::operator::{LANES, LaplacianOperator};
use super::{Lanes, Step, SymmetricOperator};

/// The shift, relative to the bound of the eigenvalues. The factorisation needs it for a matrix
/// that is not singular; it must be small beside the eigenvalues sought.
const SHIFT: f64 = 1e-12;

/// The most multiplications of a factorisation that is tried.
const MAX_MULTIPLICATIONS: f64 = 2e10;

/// The most entries that a factor may have.
const MAX_ENTRIES: f64 = 1e8;

/// `(A + shift·I)⁻¹` on the complement of the null space of `A`.
pub(super) struct Inverse<'a> {
    kernel: &'a Kernel,
    symbolic: SymbolicCholesky<u32>,
    values: Vec<f64>,
    shift: f64,
}

impl<'a> Inverse<'a> {
    /// Factorises `operator`, whose null space is `kernel`. None where the factor would fill up too
    /// much, or the factorisation fails: then there are other ways.
    pub(super) fn new(operator: &LaplacianOperator, kernel: &'a Kernel) -> Option<Self> {
        let n = operator.dim();
        let shift = SHIFT * operator.upper_bound();
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
        if work.n_mult_subs_ldl > MAX_MULTIPLICATIONS || work.n_div > MAX_ENTRIES {
            return None;
        }
        let order = PermRef::new_checked(&forward, &backward, n);
        let symbolic = factorize_symbolic_cholesky(
            pattern,
            Side::Upper,
            SymmetricOrdering::Custom(order),
            Default::default(),
        );
        let symbolic = symbolic.ok()?;
        let mut factor = vec![0.0; symbolic.len_val()];
        let scratch =
            symbolic.factorize_numeric_llt_scratch::<f64>(Par::Seq, Default::default());
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
        Some(Self {
            kernel,
            symbolic,
            values: factor,
            shift,
        })
    }

    /// What is added to every eigenvalue before it is inverted.
    pub(super) fn shift(&self) -> f64 {
        self.shift
    }
}

impl SymmetricOperator for Inverse<'_> {
    fn dim(&self) -> usize {
        self.symbolic.nrows()
    }

    fn upper_bound(&self) -> f64 {
        self.shift.recip()
    }

    fn step(&self, step: Step, block: &[Lanes], out: &mut [Lanes]) {
        let mut solved = block.to_vec();
        let scratch = self
            .symbolic
            .solve_in_place_scratch::<f64>(LANES, Par::Seq);
        let mut memory = MemBuffer::new(scratch);
        LltRef::new(&self.symbolic, &self.values).solve_in_place_with_conj(
            Conj::No,
            MatMut::from_row_major_slice_mut(solved.as_flattened_mut(), block.len(), LANES),
            Par::Seq,
            MemStack::new(&mut memory),
        );
        // The shift lets rounding errors grow most in the null space.
        self.kernel.project_out(&mut solved);
        for ((out, x), y) in out.iter_mut().zip(block).zip(&solved) {
            for lane in 0..LANES {
                out[lane] = step.alpha * y[lane] + step.beta * x[lane] + step.gamma * out[lane];
            }
        }
    }
}
