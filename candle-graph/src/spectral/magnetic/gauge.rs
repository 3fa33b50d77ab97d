//! Which of the vectors `c·v`, |c| = 1, stands for an eigenvector.

/// Entries that are this much smaller than the largest one of a vector count as 0, and those that
/// differ by less than this of it as equal.
const SAME: f64 = 1e-8;

/// The largest modulus of the entries of a vector of about unit length.
pub(super) fn largest(real: &[f64], imaginary: &[f64]) -> f64 {
    let squares = real.iter().zip(imaginary).map(|(a, b)| a * a + b * b);
    squares.fold(0.0, f64::max).sqrt()
}

/// The first entry that is not smaller than the largest one, but for rounding on the scale of
/// `scale`.
fn first_of_largest(values: impl Iterator<Item = f64> + Clone, scale: f64) -> Option<usize> {
    let most = values.clone().fold(f64::NEG_INFINITY, f64::max);
    values.into_iter().position(|v| v >= most - SAME * scale)
}

/// Turns a vector so that the entry `at` is real and positive, unless it counts as 0: then the
/// vector stays. Returns whether it was turned.
pub(super) fn turn(real: &mut [f64], imaginary: &mut [f64], at: usize) -> bool {
    let scale = largest(real, imaginary);
    let (Some(&a), Some(&b)) = (real.get(at), imaginary.get(at)) else {
        return false;
    };
    let modulus = a.hypot(b);
    // Not a number for a vector of zeros.
    if modulus <= SAME * scale {
        return false;
    }
    let (cos, sin) = (a / modulus, b / modulus);
    for (re, im) in real.iter_mut().zip(imaginary.iter_mut()) {
        (*re, *im) = (*re * cos + *im * sin, *im * cos - *re * sin);
    }
    real[at] = modulus;
    imaginary[at] = 0.0;
    true
}

/// The gauge of a solver's vector: the entry of the first node is real, as LAPACK returns it (the
/// first entry that does not count as 0, if that of the first node does), and the real part of
/// largest magnitude is positive, the first of equals counting.
pub(super) fn fix(real: &mut [f64], imaginary: &mut [f64]) {
    let anchored = (0..real.len()).any(|at| turn(real, imaginary, at));
    let scale = largest(real, imaginary);
    let at = first_of_largest(real.iter().map(|v| v.abs()), scale);
    if anchored && at.and_then(|at| real.get(at)).is_some_and(|&v| v < 0.0) {
        for part in real.iter_mut().chain(imaginary) {
            // Not −0.
            *part = 0.0 - *part;
        }
    }
}

/// The first node whose imaginary part is the largest, where no root is given.
pub(super) fn root(real: &[f64], imaginary: &[f64]) -> Option<usize> {
    first_of_largest(imaginary.iter().copied(), largest(real, imaginary))
}
