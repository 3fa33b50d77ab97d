//! The lowest eigenvalues of a real symmetric tridiagonal matrix and their eigenvectors, without
//! the others: bisection, then inverse iteration.

use rand_mt::Mt64;

use super::block::uniform;
use crate::ops::simd::vectorize;

/// Eigenvalues that are bisected together.
const LANES: usize = 16;

/// Eigenvalues that are closer than this, relative to the norm, have their vectors made orthogonal:
/// those of others are by themselves, up to rounding.
const CLUSTER: f64 = 1e-3;

/// Solutions for one vector. Two are common.
const MAX_SOLUTIONS: usize = 8;

/// Solutions are scaled down by this where they exceed it.
const LARGE: f64 = 1e100;

/// A symmetric tridiagonal matrix of at least one row.
#[derive(Debug, Clone)]
pub(super) struct Tridiagonal {
    diagonal: Vec<f64>,
    /// Beside the diagonal: one entry fewer.
    beside: Vec<f64>,
    norm: f64,
}

impl Tridiagonal {
    /// The matrix of a diagonal and the entries beside it, one fewer. Entries that are rounding
    /// beside the norm are taken as 0, which splits the matrix.
    pub(super) fn new(diagonal: Vec<f64>, mut beside: Vec<f64>) -> Self {
        let mut sums: Vec<f64> = diagonal.iter().map(|v| v.abs()).collect();
        for (i, v) in beside.iter().enumerate() {
            sums[i] += v.abs();
            sums[i + 1] += v.abs();
        }
        let norm = sums.into_iter().fold(f64::MIN_POSITIVE, f64::max);
        for v in &mut beside {
            if v.abs() <= f64::EPSILON * norm {
                *v = 0.0;
            }
        }
        Self {
            diagonal,
            beside,
            norm,
        }
    }

    fn dim(&self) -> usize {
        self.diagonal.len()
    }

    /// The eigenvalues of the numbers `first..first + count` in ascending order, counted from 0, to
    /// the rounding of the largest one.
    pub(super) fn eigenvalues(&self, first: usize, count: usize) -> Vec<f64> {
        let arch = pulp::Arch::new();
        let squares: Vec<f64> = self.beside.iter().map(|v| v * v).collect();
        // A pivot this small is as good as 0.
        let smallest = squares.iter().copied().fold(1.0, f64::max) * f64::MIN_POSITIVE;
        let numbers: Vec<usize> = (first..(first + count).min(self.dim())).collect();
        let mut values = Vec::with_capacity(count);
        for numbers in numbers.chunks(LANES) {
            let last = numbers[numbers.len() - 1];
            let wanted: [f64; LANES] =
                std::array::from_fn(|lane| *numbers.get(lane).unwrap_or(&last) as f64);
            let reach = self.norm * (1.0 + 1e-12);
            let (mut low, mut high) = ([-reach; LANES], [reach; LANES]);
            // Halves an interval of 2 to the rounding of 1.
            for _ in 0..54 {
                let middle: [f64; LANES] =
                    std::array::from_fn(|lane| 0.5 * low[lane] + 0.5 * high[lane]);
                let mut below = [0.0; LANES];
                vectorize(
                    arch,
                    #[inline(always)]
                    || below = count_below(&self.diagonal, &squares, smallest, &middle),
                );
                for lane in 0..LANES {
                    if below[lane] > wanted[lane] {
                        high[lane] = middle[lane];
                    } else {
                        low[lane] = middle[lane];
                    }
                }
            }
            let ends = low.iter().zip(&high).take(numbers.len());
            values.extend(ends.map(|(low, high)| 0.5 * low + 0.5 * high));
        }
        values
    }

    /// Eigenvectors of unit length, one after the other, of these eigenvalues, ascending. None
    /// where inverse iteration fails for one of them.
    pub(super) fn eigenvectors(&self, values: &[f64]) -> Option<Vec<f64>> {
        let n = self.dim();
        let mut generator = Mt64::new(0);
        let mut found: Vec<f64> = Vec::with_capacity(values.len() * n);
        let mut factor = Factor::of_size(n);
        // What rounding leaves of a residual.
        let tolerance = 16.0 * f64::EPSILON * self.norm * (n as f64).sqrt();
        for (at, &value) in values.iter().enumerate() {
            let close = |other: &&f64| value - **other <= CLUSTER * self.norm;
            let cluster = values[..at].iter().rev().take_while(close).count();
            let cluster = &found[(at - cluster) * n..];
            factor.make(self, value);
            let mut vector: Vec<f64> = (0..n).map(|_| uniform(&mut generator) - 0.5).collect();
            // A solution that is good already may be made better by one more.
            let mut good = false;
            for _ in 0..MAX_SOLUTIONS {
                factor.solve(&mut vector);
                let mut fine = normalise(&mut vector);
                // Twice: what is left may be small beside what was taken away.
                for _ in 0..if cluster.is_empty() { 0 } else { 2 } {
                    for other in cluster.chunks_exact(n) {
                        let part: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                        let entries = vector.iter_mut().zip(other);
                        entries.for_each(|(v, other)| *v -= part * other);
                    }
                    fine &= normalise(&mut vector);
                }
                if !fine {
                    vector.fill_with(|| uniform(&mut generator) - 0.5);
                    good = false;
                    continue;
                }
                let was_good = good;
                good = self.residual(value, &vector) <= tolerance;
                if was_good && good {
                    break;
                }
            }
            if !good {
                return None;
            }
            found.extend_from_slice(&vector);
        }
        Some(found)
    }

    /// `‖T·v − λ·v‖`.
    fn residual(&self, value: f64, v: &[f64]) -> f64 {
        let mut sum = 0.0;
        for i in 0..v.len() {
            let mut entry = (self.diagonal[i] - value) * v[i];
            if i > 0 {
                entry += self.beside[i - 1] * v[i - 1];
            }
            if i + 1 < v.len() {
                entry += self.beside[i] * v[i + 1];
            }
            sum += entry * entry;
        }
        sum.sqrt()
    }
}

/// How many eigenvalues are below each of some numbers: the negative pivots of `T − x·I`.
#[inline(always)]
fn count_below(diagonal: &[f64], squares: &[f64], smallest: f64, x: &[f64; LANES]) -> [f64; LANES] {
    let mut pivot = [1.0f64; LANES];
    let mut below = [0.0f64; LANES];
    let squares = std::iter::once(&0.0).chain(squares);
    for (&entry, &square) in diagonal.iter().zip(squares) {
        for lane in 0..LANES {
            let next = (entry - x[lane]) - square / pivot[lane];
            let next = if next.abs() < smallest {
                -smallest
            } else {
                next
            };
            below[lane] += if next < 0.0 { 1.0 } else { 0.0 };
            pivot[lane] = next;
        }
    }
    below
}

/// Unit length; false where there is none.
fn normalise(vector: &mut [f64]) -> bool {
    // Entries may be so large that their squares are not finite.
    let largest = vector.iter().fold(0.0f64, |most, v| most.max(v.abs()));
    if !(largest > 0.0 && largest.is_finite()) {
        return false;
    }
    let scale = largest.recip();
    if !scale.is_finite() {
        return false;
    }
    vector.iter_mut().for_each(|v| *v *= scale);
    let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|v| *v /= length);
    length.is_finite()
}

/// `P·L·U` of `T − λ·I`, with row exchanges.
struct Factor {
    /// Inverse of the diagonal of U, and the two diagonals above it, row by row.
    upper: Vec<[f64; 3]>,
    /// What multiplies a row before it is taken from the next one, and whether they change places.
    lower: Vec<(f64, bool)>,
}

impl Factor {
    fn of_size(n: usize) -> Self {
        Self {
            upper: Vec::with_capacity(n),
            lower: Vec::with_capacity(n),
        }
    }

    fn make(&mut self, matrix: &Tridiagonal, value: f64) {
        self.upper.clear();
        self.lower.clear();
        let n = matrix.dim();
        let tiny = f64::EPSILON * matrix.norm;
        let inverse = |pivot: f64| {
            if pivot.abs() < tiny {
                tiny.copysign(pivot).recip()
            } else {
                pivot.recip()
            }
        };
        let beside = |i: usize| matrix.beside.get(i).copied().unwrap_or(0.0);
        let mut row = [matrix.diagonal[0] - value, beside(0)];
        for i in 0..n - 1 {
            let next = [beside(i), matrix.diagonal[i + 1] - value, beside(i + 1)];
            if row[0].abs() >= next[0].abs() {
                let pivot = inverse(row[0]);
                let factor = next[0] * pivot;
                self.upper.push([pivot, row[1], 0.0]);
                self.lower.push((factor, false));
                row = [next[1] - factor * row[1], next[2]];
            } else {
                let pivot = inverse(next[0]);
                let factor = row[0] * pivot;
                self.upper.push([pivot, next[1], next[2]]);
                self.lower.push((factor, true));
                row = [row[1] - factor * next[1], -factor * next[2]];
            }
        }
        self.upper.push([inverse(row[0]), 0.0, 0.0]);
    }

    fn solve(&self, x: &mut [f64]) {
        for (i, &(factor, exchanged)) in self.lower.iter().enumerate() {
            if exchanged {
                x.swap(i, i + 1);
            }
            x[i + 1] -= factor * x[i];
        }
        let mut after = [0.0; 2];
        for (i, [inverse, first, second]) in self.upper.iter().enumerate().rev() {
            let mut entry = (x[i] - first * after[0] - second * after[1]) * inverse;
            // Almost split matrices raise it again and again. Only the direction matters.
            if entry.abs() > LARGE {
                x.iter_mut().for_each(|x| *x /= LARGE);
                after[0] /= LARGE;
                entry /= LARGE;
            }
            x[i] = entry;
            after = [entry, after[0]];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(matrix: &Tridiagonal, count: usize) {
        let n = matrix.dim();
        let values = matrix.eigenvalues(0, count);
        assert_eq!(values.len(), count.min(n));
        let vectors = matrix.eigenvectors(&values).unwrap();
        let vectors: Vec<&[f64]> = vectors.chunks_exact(n).collect();
        for (i, a) in vectors.iter().enumerate() {
            let residual = matrix.residual(values[i], a);
            assert!(residual <= 1e-14 * matrix.norm * n as f64, "{residual}");
            for (j, b) in vectors.iter().enumerate() {
                let product: f64 = a.iter().zip(*b).map(|(a, b)| a * b).sum();
                let off = (product - f64::from(i == j)).abs();
                assert!(off < 1e-11, "vectors {i} and {j}: {off}");
            }
        }
    }

    #[test]
    fn the_second_difference_has_the_eigenvalues_of_the_textbook() {
        for n in [1usize, 2, 3, 17, 300] {
            let matrix = Tridiagonal::new(vec![2.0; n], vec![-1.0; n - 1]);
            let values = matrix.eigenvalues(0, n);
            for (k, value) in values.iter().enumerate() {
                let angle = std::f64::consts::PI * (k + 1) as f64 / (n + 1) as f64;
                let expected = 2.0 - 2.0 * angle.cos();
                assert!((value - expected).abs() < 1e-14, "{value}, not {expected}");
            }
            assert_eq!(matrix.eigenvalues(n - 1, 5), &values[n - 1..]);
            check(&matrix, n);
            check(&matrix, 1);
        }
    }

    #[test]
    fn split_and_clustered_matrices_have_all_their_vectors() {
        // Copies of one block beside each other: every eigenvalue is multiple.
        let mut diagonal = Vec::new();
        let mut beside = Vec::new();
        for _ in 0..7 {
            diagonal.extend([2.0, 1.0, 3.0, 1.5]);
            beside.extend([-1.0, 0.5, 0.25, 0.0]);
        }
        beside.pop();
        check(&Tridiagonal::new(diagonal, beside), 28);
        // Nothing but a diagonal; and nothing at all.
        check(&Tridiagonal::new(vec![1.0; 40], vec![0.0; 39]), 25);
        check(&Tridiagonal::new(vec![0.0; 5], vec![0.0; 4]), 5);
        // Wilkinson's: pairs that agree to rounding, though no entry is 0.
        let diagonal = (-20i32..=20).map(|i| f64::from(i.abs())).collect();
        check(&Tridiagonal::new(diagonal, vec![1.0; 40]), 41);
        // Entries beside the diagonal that nearly split it.
        let beside = (0..59).map(|i| [1.0, 1e-9, 1e-17][i % 3]).collect();
        check(&Tridiagonal::new(vec![1.0; 60], beside), 60);
    }
}
