//! Batcher's odd–even mergesort.

use super::{MAX_WIRES, SortingNetwork, in_range};
use crate::error::Result;

impl SortingNetwork {
    /// Batcher's odd–even mergesort of `wires` wires, any number of them: that of the next power of
    /// two without the comparators that touch a missing wire. About p·log₂(p)²/4 comparators; it
    /// sorts.
    ///
    /// # Errors
    /// No wire or more than [`MAX_WIRES`].
    pub fn odd_even_merge_sort(wires: usize) -> Result<Self> {
        in_range("wires", wires, (1, MAX_WIRES))?;
        let powers = |end: usize| {
            (0..)
                .map(|power| 1usize << power)
                .take_while(move |&p| p < end)
        };
        let mut comparators = Vec::new();
        // Sorted runs of `run` wires are merged two by two, first wires far apart, then near ones.
        for run in powers(wires) {
            let mut distance = run;
            while distance > 0 {
                for first in (distance % run..wires).step_by(2 * distance) {
                    let pairs = first..(first + distance).min(wires.saturating_sub(distance));
                    let in_one_merge = |&i: &usize| i / (2 * run) == (i + distance) / (2 * run);
                    comparators.extend(
                        pairs
                            .filter(in_one_merge)
                            .map(|i| [i as u32, (i + distance) as u32]),
                    );
                }
                distance /= 2;
            }
        }
        Self::new(wires, comparators)
    }
}
