//! How much work operations do, so that their time can be set beside what a machine could do.
//!
//! Every public operation of [`ops`](super) says what it costs where it is entered, whichever
//! implementation then runs: the counts belong to the mathematics, not to a kernel. [`count_work`]
//! says what counts; `costs` has the formulas.

mod costs;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ops::{Add, AddAssign};

pub(super) use costs::*;

/// Arithmetic and traffic of operations; [`count_work`] says what is counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes that must at least be read and written.
    pub bytes: u64,
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What this thread does with the work of operations.
#[derive(Debug, Clone, Copy)]
enum Counter {
    Off,
    /// Outside of any operation, with the work so far.
    On(Work),
    /// Inside an operation that has been counted.
    Within(Work),
}

thread_local! {
    static COUNTER: Cell<Counter> = const { Cell::new(Counter::Off) };
}

/// Puts a state back, on a panic too.
struct Restore(Counter);

impl Drop for Restore {
    fn drop(&mut self) {
        COUNTER.set(self.0);
    }
}

/// Runs `body` and gives the work of the operations that this thread did in it:
///
/// * FLOP: a sum, difference, product, quotient, comparison, square root, exponential function, sine,
///   cosine or error function is one, a multiply-add two; signs and magnitudes are free. A softmax
///   takes four for every logit (its share in the maximum, the difference to it, the exponential
///   function, its share in the sum) and one for every value that is then divided.
/// * Bytes: every floating-point tensor that goes into an operation, weights included, is read once,
///   and every result is written once. What stays inside an operation is free, and so is the
///   structure (offsets, edges, masks). Operations that follow each other in cache can thus move
///   fewer bytes to and from memory than are counted.
///
/// An operation made of others counts once, with what it takes and gives itself. Plain candle
/// operations of the models (lookups in tables, concatenations, sums outside of a fused operation) are
/// not counted, nor is work that is handed to other threads: to count what spreads over rayon's
/// threads, run it in a pool of one thread and call this function in there. What a count inside of
/// `body` takes belongs to that one alone.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_graph::ops::{Activation, LinearWeights, count_work, linear};
/// let zeros = |shape| Tensor::zeros(shape, DType::F32, &Device::Cpu);
/// let weights = LinearWeights::new(zeros((3, 4))?, None)?;
/// let (_, work) = count_work(|| linear(&zeros((5, 4))?, &weights, Activation::Relu));
/// assert_eq!(work.flops, 5 * 3 * (2 * 4 + 1));
/// assert_eq!(work.bytes, 4 * (5 * 4 + 3 * 4 + 5 * 3));
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn count_work<R>(body: impl FnOnce() -> R) -> (R, Work) {
    let _restore = Restore(COUNTER.replace(Counter::On(Work::default())));
    let result = body();
    let work = match COUNTER.get() {
        Counter::Off => Work::default(),
        Counter::On(work) | Counter::Within(work) => work,
    };
    (result, work)
}

/// Until it is dropped, operations on this thread belong to the one that was recorded.
#[must_use = "the operation ends where this is dropped"]
pub(super) struct Recorded {
    /// What follows the operation, if it was counted.
    after: Option<Work>,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Some(work) = self.after {
            COUNTER.set(Counter::On(work));
        }
    }
}

/// Says what an operation costs, at its entry. `work` is not called unless somebody counts and no
/// other operation surrounds this one.
pub(super) fn record(work: impl FnOnce() -> Work) -> Recorded {
    let after = match COUNTER.get() {
        Counter::On(before) => Some(before + work()),
        Counter::Off | Counter::Within(_) => None,
    };
    if let Some(work) = after {
        COUNTER.set(Counter::Within(work));
    }
    Recorded { after }
}
