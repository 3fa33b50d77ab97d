//! Dense decompositions of Hermitian matrices: tridiagonal form, then only what is asked for.

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::{evd, householder, qr};
use faer::traits::ComplexField;
use faer::{Conj, Mat, MatRef, Par, Side, c64};

use super::MagneticLaplacian;
use crate::error::{Error, Result};
use crate::spectral::MAX_DENSE_BYTES;
use crate::spectral::tridiagonal::Tridiagonal;

/// Eigenvalues, ascending, and eigenvectors one after the other: real and imaginary parts.
pub(super) struct Pairs {
    pub(super) values: Vec<f64>,
    pub(super) real: Vec<f64>,
    pub(super) imaginary: Vec<f64>,
}

/// Bytes that a dense decomposition takes: four complex matrices, where all of them are needed.
pub(super) fn bytes(num_nodes: usize) -> u64 {
    let n = num_nodes as u64;
    n.saturating_mul(n).saturating_mul(64)
}

/// Refuses a graph whose dense decomposition takes too much memory.
pub(super) fn check(num_nodes: usize) -> Result<()> {
    let bytes = bytes(num_nodes);
    if bytes > MAX_DENSE_BYTES {
        return Err(Error::Spectrum(format!(
            "the dense Magnetic Laplacian for {num_nodes} nodes takes {bytes} bytes to decompose, \
             more than the limit of {MAX_DENSE_BYTES}: leave the graph out or use a model without it"
        )));
    }
    Ok(())
}

/// An entry of a matrix, real or complex.
trait Entry: ComplexField<Real = f64> {
    fn of(parts: [f64; 2]) -> Self;
    fn parts(&self) -> [f64; 2];
}

impl Entry for f64 {
    fn of([re, _]: [f64; 2]) -> Self {
        re
    }

    fn parts(&self) -> [f64; 2] {
        [*self, 0.0]
    }
}

impl Entry for c64 {
    fn of([re, im]: [f64; 2]) -> Self {
        Self::new(re, im)
    }

    fn parts(&self) -> [f64; 2] {
        [self.re, self.im]
    }
}

/// The `count` smallest eigenvalues and their vectors, on one thread.
pub(super) fn lowest(laplacian: &MagneticLaplacian, count: usize) -> Result<Pairs> {
    check(laplacian.num_nodes())?;
    match laplacian.is_real() {
        true => lowest_of::<f64>(laplacian, count),
        false => lowest_of::<c64>(laplacian, count),
    }
}

/// The largest eigenvalue, on one thread.
pub(super) fn largest(laplacian: &MagneticLaplacian) -> Result<f64> {
    let n = laplacian.num_nodes();
    check(n)?;
    let tridiagonal = match laplacian.is_real() {
        true => Reduced::of(lower_triangle::<f64>(laplacian)).map(|r| r.tridiagonal),
        false => Reduced::of(lower_triangle::<c64>(laplacian)).map(|r| r.tridiagonal),
    };
    let values = tridiagonal?.eigenvalues(n - 1, 1);
    Ok(values.first().copied().unwrap_or(0.0))
}

fn lowest_of<T: Entry>(laplacian: &MagneticLaplacian, count: usize) -> Result<Pairs> {
    let n = laplacian.num_nodes();
    let count = count.min(n);
    // Inverse iteration keeps vectors of close eigenvalues apart one by one: no way for many.
    if count <= 64 || count <= n / 3 {
        let reduced = Reduced::of(lower_triangle::<T>(laplacian))?;
        let values = reduced.tridiagonal.eigenvalues(0, count);
        if let Some(vectors) = reduced.tridiagonal.eigenvectors(&values) {
            let vectors = reduced.back(&vectors, count)?;
            return Ok(pairs(values, vectors.as_ref()));
        }
    }
    let matrix = lower_triangle::<T>(laplacian);
    let decomposed = matrix.self_adjoint_eigen(Side::Lower).map_err(|_| {
        Error::Spectrum(format!(
            "the dense eigendecomposition of the Magnetic Laplacian for {n} nodes did not converge"
        ))
    })?;
    let values = decomposed.S().column_vector();
    let values = (0..count).map(|at| values[at].parts()[0]).collect();
    Ok(pairs(values, decomposed.U().subcols(0, count)))
}

fn pairs<T: Entry>(values: Vec<f64>, vectors: MatRef<'_, T>) -> Pairs {
    let entries = || vectors.col_iter().flat_map(|column| column.iter());
    let part = |which: usize| entries().map(|entry| entry.parts()[which]).collect();
    Pairs {
        values,
        real: part(0),
        imaginary: part(1),
    }
}

/// Diagonal and entries below it.
fn lower_triangle<T: Entry>(laplacian: &MagneticLaplacian) -> Mat<T> {
    let n = laplacian.num_nodes();
    let mut matrix = Mat::<T>::zeros(n, n);
    for (i, &value) in laplacian.diagonal().iter().enumerate() {
        matrix[(i, i)] = T::of([value, 0.0]);
    }
    for (i, j, value) in laplacian.below() {
        matrix[(i, j)] = T::of(value);
    }
    matrix
}

/// A Hermitian matrix as `Q·D·T·Dᴴ·Qᴴ`: T real tridiagonal, D diagonal of modulus 1, Q a product
/// of reflections.
struct Reduced<T> {
    tridiagonal: Tridiagonal,
    phases: Vec<T>,
    /// Below the diagonal: the reflections.
    reflections: Mat<T>,
    factors: Mat<T>,
}

impl<T: Entry> Reduced<T> {
    /// Reduces the matrix whose lower triangle is given.
    fn of(mut matrix: Mat<T>) -> Result<Self> {
        let n = matrix.nrows();
        let width = qr::no_pivoting::factor::recommended_block_size::<T>(n, n);
        let mut factors = Mat::<T>::zeros(width, n.saturating_sub(1));
        let scratch = evd::tridiag::tridiag_in_place_scratch::<T>(n, Par::Seq, Default::default());
        let mut memory = buffer(scratch, n)?;
        evd::tridiag::tridiag_in_place(
            matrix.as_mut(),
            factors.as_mut(),
            Par::Seq,
            MemStack::new(&mut memory),
            Default::default(),
        );
        let diagonal = (0..n).map(|i| matrix[(i, i)].parts()[0]).collect();
        let mut beside = Vec::with_capacity(n);
        let mut phases = vec![T::of([1.0, 0.0]); n];
        let mut phase = [1.0, 0.0];
        for i in 1..n {
            let [re, im] = matrix[(i, i - 1)].parts();
            let modulus = re.hypot(im);
            if modulus > 0.0 {
                let [a, b] = phase;
                let (cos, sin) = (re / modulus, im / modulus);
                phase = [a * cos - b * sin, a * sin + b * cos];
            }
            phases[i] = T::of(phase);
            beside.push(modulus);
        }
        Ok(Self {
            tridiagonal: Tridiagonal::new(diagonal, beside),
            phases,
            reflections: matrix,
            factors,
        })
    }

    /// The vectors of the matrix for `count` ones of T, one after the other.
    fn back(&self, vectors: &[f64], count: usize) -> Result<Mat<T>> {
        let n = self.phases.len();
        let mut out = Mat::from_fn(n, count, |i, j| {
            let [re, im] = self.phases[i].parts();
            let v = vectors[j * n + i];
            T::of([re * v, im * v])
        });
        if n < 2 {
            return Ok(out);
        }
        let scratch = householder::apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(
            n - 1,
            self.factors.nrows(),
            count,
        );
        let mut memory = buffer(scratch, n)?;
        householder::apply_block_householder_sequence_on_the_left_in_place_with_conj(
            self.reflections.as_ref().submatrix(1, 0, n - 1, n - 1),
            self.factors.as_ref(),
            Conj::No,
            out.as_mut().subrows_mut(1, n - 1),
            Par::Seq,
            MemStack::new(&mut memory),
        );
        Ok(out)
    }
}

fn buffer(scratch: StackReq, num_nodes: usize) -> Result<MemBuffer> {
    MemBuffer::try_new(scratch).map_err(|_| {
        Error::Spectrum(format!(
            "no memory is left for the eigendecomposition for {num_nodes} nodes"
        ))
    })
}
