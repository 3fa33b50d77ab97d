//! Rows of a matrix, as tasks for threads.

use rayon::prelude::*;

use super::simd;

/// When [`for_row_blocks`] uses threads, and for how much.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowTasks {
    /// Values of one task.
    pub(super) values: usize,
    /// Values below which threads cost more than they save.
    pub(super) threads_from: usize,
}

/// Runs `body` on consecutive blocks of the rows of `out`, `width` values each, with the number of
/// the first row, compiled for the best vector instructions: `body` and what it calls must be
/// inlined ([`simd::vectorize`]). The blocks do not depend on the number of threads.
#[inline(always)]
pub(super) fn for_row_blocks(
    out: &mut [f32],
    width: usize,
    tasks: RowTasks,
    body: impl Fn(usize, &mut [f32]) + Sync,
) {
    if width == 0 {
        return;
    }
    let rows = tasks.values.div_ceil(width);
    let arch = pulp::Arch::new();
    let task = |(task, out): (usize, &mut [f32])| {
        simd::vectorize(
            arch,
            #[inline(always)]
            || body(task * rows, out),
        );
    };
    if out.len() < tasks.threads_from {
        out.chunks_mut(rows * width).enumerate().for_each(task);
    } else {
        out.par_chunks_mut(rows * width).enumerate().for_each(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_visited_once_with_its_number() {
        for threads_from in [0, 1000] {
            let tasks = RowTasks {
                values: 7,
                threads_from,
            };
            let mut out = [0.0f32; 33];
            for_row_blocks(&mut out, 3, tasks, |first, out| {
                for (row, values) in (first..).zip(out.chunks_exact_mut(3)) {
                    values.iter_mut().for_each(|v| *v += row as f32);
                }
            });
            let expected: Vec<f32> = (0..33).map(|at| (at / 3) as f32).collect();
            assert_eq!(out.as_slice(), expected);
            for_row_blocks(&mut [], 0, tasks, |_, _| panic!("no rows"));
        }
    }
}
