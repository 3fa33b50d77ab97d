//! The lowest eigenvalues of a symmetric operator by subspace iteration with Chebyshev filters.
//!
//! A random block of more vectors than are asked for passes through polynomials that damp all
//! eigenvalues but the lowest, until Rayleigh-Ritz pairs of the block solve the eigenvalue equation.
//! A space of a multiple eigenvalue is found in full, as the whole block converges at once; a
//! method that builds a space from one vector would find one vector of it.

use rand_mt::Mt64;

use super::block::Block;
use super::inverse::Inverse;
use super::kernel::Kernel;
use super::operator::LANES;
use super::{Lanes, Step, SymmetricOperator};
use crate::error::{Error, Result};

/// How hard an iterative eigensolver tries.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SolverOptions {
    /// The largest residual `‖A·u − λ·u‖` of a vector of unit length, relative to the bound of the
    /// eigenvalues ([`SymmetricOperator::upper_bound`]). An eigenvalue errs by less than the
    /// residual, an eigenvector by about the residual over the distance to the next other
    /// eigenvalue; so the solver goes on to 1e-8 of the largest eigenvalue sought where rounding
    /// lets it.
    pub tolerance: f64,
    /// Seed of the random vectors that the iteration starts from.
    pub seed: u64,
    /// The most products with the operator, or solutions with its factor, a vector.
    pub max_steps: usize,
    /// Whether the matrix of a Laplacian may be factorised where the factor stays sparse.
    pub factorise: bool,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            tolerance: 1e-12,
            seed: 0,
            max_steps: 20_000,
            factorise: true,
        }
    }
}

/// Eigenvalues, ascending, and their orthonormal eigenvectors.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Eigenpairs {
    /// The eigenvalues.
    pub values: Vec<f64>,
    /// The eigenvectors, one after the other.
    pub vectors: Vec<f64>,
    /// `‖A·u − λ·u‖` of every pair.
    pub residuals: Vec<f64>,
    /// An estimate, from above, of the eigenvalue that follows the last one: where they are equal
    /// the space of the last one is cut, and the vectors that stand for it are arbitrary. None where
    /// none follows or it was not sought.
    pub next: Option<f64>,
    /// Products with the operator, or solutions with its factor, a vector.
    pub steps: usize,
}

/// Residuals, relative to the bound of the eigenvalues, below which rounding may stop progress.
const ROUNDING: f64 = 4e-14;

/// Ratio by which a filter raises the last eigenvalue sought over the damped ones.
const GAIN: f64 = 1e5;

/// Ratio by which a filter may raise the lowest eigenvalue: more would drown the others in its
/// rounding errors.
const MAX_GAIN: f64 = 1e11;

/// Steps of a filter after which the null space is projected out again: rounding brings it in, and
/// the filter raises it most.
const PROJECT_EVERY: usize = 16;

/// The `count` lowest eigenvalues of `operator`, with full multiplicity.
///
/// # Errors
/// `count` is 0 or more than a third of the operator's dimension; or what did not converge, with
/// the residual, after [`SolverOptions::max_steps`].
pub fn lowest_eigenpairs(
    operator: &dyn SymmetricOperator,
    count: usize,
    options: &SolverOptions,
) -> Result<Eigenpairs> {
    lowest_beside(
        operator,
        &Kernel::none(operator.dim()),
        None,
        count,
        options,
    )
}

/// Number of vectors that are iterated to find `count`.
pub(super) fn block_width(count: usize) -> usize {
    let guards = (count / 4).max(LANES);
    count.saturating_add(guards).next_multiple_of(LANES)
}

/// The `count` lowest eigenvalues of `operator` on the complement of `kernel`, by its `inverse` if
/// there is one.
pub(super) fn lowest_beside(
    operator: &dyn SymmetricOperator,
    kernel: &Kernel,
    inverse: Option<&Inverse<'_>>,
    count: usize,
    options: &SolverOptions,
) -> Result<Eigenpairs> {
    let n = operator.dim();
    let width = block_width(count);
    if count == 0 || width > n.saturating_sub(kernel.count()) {
        return Err(Error::Spectrum(format!(
            "{count} eigenvalues by iteration on {n} nodes need a block of {width} vectors beside \
             {} trivial ones: ask for fewer, or for a dense decomposition",
            kernel.count()
        )));
    }
    let mut generator = Mt64::new(options.seed);
    let iteration = Iteration {
        operator,
        kernel,
        inverse,
        count,
        options,
    };
    let start = Block::random(n, width, &mut generator);
    iteration.run(start, &mut generator)
}

struct Iteration<'a> {
    operator: &'a dyn SymmetricOperator,
    kernel: &'a Kernel,
    inverse: Option<&'a Inverse<'a>>,
    count: usize,
    options: &'a SolverOptions,
}

/// Rayleigh-Ritz pairs.
struct Ritz {
    values: Vec<f64>,
    vectors: Block,
    residuals: Vec<f64>,
}

/// A polynomial that is at most 1 on the damped interval and large below or above.
struct Filter {
    damped: [f64; 2],
    /// Where it is 1 after scaling, outside the interval.
    anchor: f64,
    degree: usize,
    /// Logarithm of the gain of the last eigenvalue sought for each degree.
    growth: f64,
}

impl Iteration<'_> {
    fn run(&self, mut block: Block, generator: &mut Mt64) -> Result<Eigenpairs> {
        let bound = self.operator.upper_bound();
        let (mut steps, mut cap) = (0, self.first_degree());
        if self.inverse.is_some() {
            for _ in 0..2 {
                self.orthonormalise(&mut block, None)?;
                block = self.product(self.transformed(), &block);
                steps += 1;
            }
        }
        let mut ritz = self.rayleigh_ritz(block)?;
        let mut filter = self.filter(&ritz, cap, true);
        let mut before = f64::INFINITY;
        loop {
            let sought = ritz.residuals.iter().take(self.count).copied();
            let worst = sought.fold(0.0, f64::max);
            let last = ritz.values[self.count - 1];
            let tolerance = self.options.tolerance * bound;
            let fine = tolerance.min(1e-8 * last.abs()).max(ROUNDING * bound);
            if worst <= fine || (worst <= tolerance && worst > 0.5 * before) {
                match self.missed(&ritz, cap, tolerance, generator)? {
                    None => return Ok(self.pairs(&ritz, steps)),
                    Some(found) => {
                        // The first guards make place for what the block had no part of.
                        let panels = ritz.vectors.panels.len();
                        ritz.vectors.panels[panels - 1] = found;
                    }
                }
            }
            if steps >= self.options.max_steps {
                let converged = ritz.residuals.iter().take_while(|&&r| r <= tolerance);
                return Err(Error::Spectrum(format!(
                    "{} of the {} lowest eigenvalues on {} nodes converged in {steps} steps; the \
                     largest residual is {worst:.1e}, the tolerance {tolerance:.1e}: allow more \
                     steps, a larger tolerance, or ask for another number of eigenvalues",
                    converged.count().min(self.count),
                    self.count,
                    self.operator.dim(),
                )));
            }
            before = worst;
            let mut block = ritz.vectors;
            self.apply(&filter, &mut block);
            steps += filter.degree;
            cap = (2 * cap).min(self.largest_degree());
            ritz = self.rayleigh_ritz(block)?;
            filter = self.filter(&ritz, cap, false);
        }
    }

    /// The operator whose extreme eigenvalues are sought.
    fn transformed(&self) -> &dyn SymmetricOperator {
        match self.inverse {
            Some(inverse) => inverse,
            None => self.operator,
        }
    }

    fn first_degree(&self) -> usize {
        if self.inverse.is_some() { 4 } else { 16 }
    }

    fn largest_degree(&self) -> usize {
        if self.inverse.is_some() { 64 } else { 2000 }
    }

    /// The filter for the values of `ritz`, of a degree up to `cap`; `blind` where the values are
    /// those of random vectors.
    fn filter(&self, ritz: &Ritz, cap: usize, blind: bool) -> Filter {
        let bound = self.operator.upper_bound();
        let value = |at: usize| ritz.values[at.min(ritz.values.len() - 1)];
        let (lowest, last) = (value(0), value(self.count - 1));
        // The damped values begin with the guards', but so far from the last one sought that a
        // filter of the largest degree tells them apart.
        let least = ((2e3f64).ln() / self.largest_degree() as f64).cosh();
        match self.inverse {
            Some(inverse) => {
                let transformed = |value: f64| (value.max(0.0) + inverse.shift()).recip();
                let [lowest, last] = [lowest, last].map(transformed);
                let edge = transformed(value(usize::MAX)).min(2.0 * last / (1.0 + least));
                Filter::new([0.0, edge], lowest, last, cap)
            }
            None if blind => {
                // Random vectors know the middle of the spectrum only.
                let edge = (0.5 * lowest).clamp(0.0, 0.9 * bound).max(1e-3 * bound);
                Filter {
                    damped: [edge, bound],
                    anchor: 0.0f64.min(lowest),
                    degree: cap,
                    growth: 0.0,
                }
            }
            None => {
                let apart = (bound * (least - 1.0) + 2.0 * last) / (1.0 + least);
                let edge = value(usize::MAX).max(apart).min(0.999 * bound);
                if last >= edge {
                    // All values are at the upper end: nothing is left to damp.
                    return Filter::new([edge, bound], edge - 0.1 * bound, edge, 1);
                }
                Filter::new([edge, bound], lowest, last, cap)
            }
        }
    }

    /// Applies `filter` to every vector of `block`.
    fn apply(&self, filter: &Filter, block: &mut Block) {
        let operator = self.transformed();
        let [low, high] = filter.damped;
        let (centre, radius) = ((low + high) / 2.0, (high - low) / 2.0);
        let scale = radius / (filter.anchor - centre);
        block.for_each(|_, panel| {
            self.kernel.project_out(panel);
            let mut ratio = scale;
            let mut next = vec![[0.0; LANES]; panel.len()];
            let first = Step {
                alpha: ratio / radius,
                beta: -centre * ratio / radius,
                gamma: 0.0,
            };
            operator.step(first, panel, &mut next);
            std::mem::swap(panel, &mut next);
            for at in 1..filter.degree {
                if at % PROJECT_EVERY == 0 {
                    self.kernel.project_out(panel);
                    self.kernel.project_out(&mut next);
                }
                let following = (2.0 / scale - ratio).recip();
                let step = Step {
                    alpha: 2.0 * following / radius,
                    beta: -2.0 * centre * following / radius,
                    gamma: -ratio * following,
                };
                operator.step(step, panel, &mut next);
                std::mem::swap(panel, &mut next);
                ratio = following;
            }
        });
    }

    fn product(&self, operator: &dyn SymmetricOperator, block: &Block) -> Block {
        let mut out = Block::zeros(block.rows(), block.columns());
        out.for_each(|at, out| operator.step(Step::PRODUCT, &block.panels[at], out));
        out
    }

    fn orthonormalise(&self, block: &mut Block, others: Option<&Block>) -> Result<()> {
        if block.orthonormalise(self.kernel, others) {
            return Ok(());
        }
        Err(Error::Spectrum(format!(
            "the vectors of a subspace iteration on {} nodes lost their independence",
            self.operator.dim()
        )))
    }

    /// The best approximations of eigenvectors within the span of `block`.
    fn rayleigh_ritz(&self, mut block: Block) -> Result<Ritz> {
        self.orthonormalise(&mut block, None)?;
        self.ritz(&block)
    }

    /// As [`rayleigh_ritz`](Self::rayleigh_ritz), for orthonormal vectors.
    fn ritz(&self, block: &Block) -> Result<Ritz> {
        let images = self.product(self.operator, block);
        let projected = block.gram(&images);
        let symmetric = faer::Mat::from_fn(projected.nrows(), projected.ncols(), |i, j| {
            0.5 * (projected[(i, j)] + projected[(j, i)])
        });
        let decomposed = symmetric
            .self_adjoint_eigen(faer::Side::Lower)
            .map_err(|_| {
                Error::Spectrum("a small dense eigendecomposition did not converge".to_string())
            })?;
        let values: Vec<f64> = decomposed.S().column_vector().iter().copied().collect();
        let vectors = block.times(decomposed.U());
        let mut off = images.times(decomposed.U());
        off.for_each(|at, off| {
            for (off, vector) in off.iter_mut().zip(&vectors.panels[at]) {
                for lane in 0..LANES {
                    off[lane] -= values[at * LANES + lane] * vector[lane];
                }
            }
        });
        let norm = |at: usize| off.column(at).map(|x| x * x).sum::<f64>().sqrt();
        let residuals = (0..off.columns()).map(norm).collect();
        Ok(Ritz {
            values,
            vectors,
            residuals,
        })
    }

    /// Looks for eigenvalues below the last one sought in the complement of the vectors found: a
    /// fresh random panel is filtered there. Returns its vectors if there are any.
    fn missed(
        &self,
        ritz: &Ritz,
        cap: usize,
        tolerance: f64,
        generator: &mut Mt64,
    ) -> Result<Option<Vec<Lanes>>> {
        let filter = self.filter(ritz, cap.max(64), false);
        let mut fresh = Block::random(self.operator.dim(), LANES, generator);
        for _ in 0..filter.rounds(1e7) {
            self.orthonormalise(&mut fresh, Some(&ritz.vectors))?;
            self.apply(&filter, &mut fresh);
        }
        self.orthonormalise(&mut fresh, Some(&ritz.vectors))?;
        let lowest = self.ritz(&fresh)?;
        let missed = lowest.values[0] < ritz.values[self.count - 1] - tolerance;
        Ok(missed
            .then(|| lowest.vectors.panels.into_iter().next())
            .flatten())
    }

    fn pairs(&self, ritz: &Ritz, steps: usize) -> Eigenpairs {
        let vectors = (0..self.count).flat_map(|at| ritz.vectors.column(at));
        Eigenpairs {
            vectors: vectors.collect(),
            values: ritz.values[..self.count].to_vec(),
            residuals: ritz.residuals[..self.count].to_vec(),
            next: ritz.values.get(self.count).copied(),
            steps,
        }
    }
}

impl Filter {
    /// The filter that damps an interval and raises `last`, outside of it, by [`GAIN`] and `lowest`,
    /// farther outside, not above [`MAX_GAIN`], if a degree up to `cap` is enough for it.
    fn new(damped: [f64; 2], lowest: f64, last: f64, cap: usize) -> Self {
        let [low, high] = damped;
        let growth = |value: f64| {
            let outside = (2.0 * value - (low + high)).abs() / (high - low);
            outside.max(1.0).acosh()
        };
        let degree = |gain: f64, value: f64| (2.0 * gain).ln() / growth(value).max(1e-9);
        let of_last = growth(last);
        let degree = degree(GAIN, last).min(degree(MAX_GAIN, lowest));
        Self {
            damped,
            anchor: lowest,
            degree: (degree.ceil() as usize).clamp(1, cap),
            growth: of_last,
        }
    }

    /// How often it is to be applied for a gain of the last eigenvalue sought, within reason.
    fn rounds(&self, gain: f64) -> usize {
        let each = (self.growth * self.degree as f64).max(1e-9);
        (((2.0 * gain).ln() / each).ceil() as usize).clamp(2, 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;
    use crate::spectral::inverse::SHIFT;
    use crate::spectral::{Laplacian, LaplacianNorm, LaplacianOperator, MAX_DENSE_BYTES, Spectrum};

    #[test]
    fn an_eigenvalue_that_the_start_has_no_part_of_is_noticed_and_found() {
        let n = 200;
        let ring = Graph::builder(n).edges((0..n as i64).map(|i| [i, (i + 1) % 200]));
        let laplacian = Laplacian::new(&ring.build().unwrap(), LaplacianNorm::None);
        let all = Spectrum::dense(&laplacian, n, MAX_DENSE_BYTES).unwrap();
        let operator = LaplacianOperator::new(&laplacian);
        let kernel = Kernel::none(n);
        for factorise in [true, false] {
            let inverse = factorise.then(|| Inverse::new(&operator, &kernel, SHIFT).unwrap());
            let iteration = Iteration {
                operator: &operator,
                kernel: &kernel,
                inverse: inverse.as_ref(),
                count: 8,
                options: &SolverOptions::default(),
            };
            // Eigenvectors but for one of a pair: all residuals are small from the start.
            let mut start = Block::zeros(n, 16);
            let vectors = all.eigenvectors().enumerate().filter(|(at, _)| *at != 3);
            for (column, (_, vector)) in vectors.take(16).enumerate() {
                let rows = start.panels[column / LANES].iter_mut();
                rows.zip(vector)
                    .for_each(|(row, x)| row[column % LANES] = *x);
            }
            let found = iteration.run(start, &mut Mt64::new(0)).unwrap();
            let pairs = found.values.iter().zip(all.eigenvalues());
            for (a, b) in pairs {
                assert!((a - b).abs() < 1e-11, "{a}, not {b}");
            }
        }
    }
}
