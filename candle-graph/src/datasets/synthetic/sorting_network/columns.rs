//! The 0/1 principle: a network sorts every input if it sorts all 2^p columns of zeros and ones.
//! A word holds the values of 64 columns on one wire, so that a comparator is an AND and an OR.

use std::ops::Range;

use super::{SortingNetwork, SyntheticError};
use crate::error::Result;

/// The most wires of which [`SortingNetwork::sorts`] tests the 2^p columns.
pub const MAX_TESTED_WIRES: usize = 28;

/// Wires 0 to 5 tell the 64 columns of a word apart.
const WIRES_OF_WORD: usize = 6;

/// Words of a wire that are tested at a time: the columns of 28 wires stay in the cache.
const WORDS_AT_A_TIME: usize = 256;

impl SortingNetwork {
    /// Whether the network sorts every input into ascending order, wire 0 first.
    ///
    /// The work grows as 2^p times the number of comparators.
    ///
    /// # Errors
    /// More than [`MAX_TESTED_WIRES`] wires.
    pub fn sorts(&self) -> Result<bool> {
        let wires = self.wires();
        if wires > MAX_TESTED_WIRES {
            return Err(SyntheticError::TooManyWires {
                wires,
                limit: MAX_TESTED_WIRES,
            }
            .into());
        }
        Ok(self.sorts_all_columns())
    }

    /// [`sorts`](Self::sorts) for any number of wires.
    pub(super) fn sorts_all_columns(&self) -> bool {
        let (wires, words) = (self.wires(), words(self.wires()));
        let starts = (0..words).step_by(WORDS_AT_A_TIME);
        let mut parts = starts.map(|start| start..words.min(start + WORDS_AT_A_TIME));
        parts.all(|words| {
            let mut columns = Columns::new(wires, words);
            let comparators = self.comparators().iter();
            comparators.for_each(|&comparator| columns.compare(comparator));
            (0..wires).all(|wire| columns.is_sorted(wire))
        })
    }
}

/// Words that hold all columns of `wires` wires.
pub(super) fn words(wires: usize) -> usize {
    1 << wires.saturating_sub(WIRES_OF_WORD)
}

/// Columns of zeros and ones on their way through a network, with what they are when sorted.
///
/// Column c, bit c % 64 of word c / 64, starts with bit w of its number on wire w. Below 6 wires the
/// columns repeat in the word.
#[derive(Debug)]
pub(super) struct Columns {
    wires: Vec<Vec<u64>>,
    sorted: Vec<Vec<u64>>,
}

impl Columns {
    /// The columns of the given words of the numbers of columns.
    pub(super) fn new(wires: usize, words: Range<usize>) -> Self {
        let start = |wire: usize| {
            let of_word = move |word: usize| match wire.checked_sub(WIRES_OF_WORD) {
                None => bits(|column| column >> wire & 1 == 1),
                Some(bit) if word >> bit & 1 == 1 => u64::MAX,
                Some(_) => 0,
            };
            words.clone().map(of_word).collect()
        };
        // The number of ones does not change on the way: sorted, the last wires have them.
        let in_word = (1u32 << wires.min(WIRES_OF_WORD)) - 1;
        let at_least: Vec<u64> = (0..=WIRES_OF_WORD as u32)
            .map(|ones| bits(|column| (column & in_word).count_ones() >= ones))
            .collect();
        let sorted = |wire: usize| {
            let of_word = |word: usize| {
                let missing = (wires - wire).saturating_sub(word.count_ones() as usize);
                at_least.get(missing).copied().unwrap_or(0)
            };
            words.clone().map(of_word).collect()
        };
        Self {
            wires: (0..wires).map(start).collect(),
            sorted: (0..wires).map(sorted).collect(),
        }
    }

    /// Sends the columns through the comparator `[i, j]`, i < j.
    pub(super) fn compare(&mut self, [i, j]: [u32; 2]) {
        let (lower, upper) = self.wires.split_at_mut(j as usize);
        if let (Some(smaller), Some(larger)) = (lower.get_mut(i as usize), upper.first_mut()) {
            for (smaller, larger) in smaller.iter_mut().zip(larger) {
                (*smaller, *larger) = (*smaller & *larger, *smaller | *larger);
            }
        }
    }

    /// Whether all columns have on `wire` what they have there when sorted.
    pub(super) fn is_sorted(&self, wire: usize) -> bool {
        self.wires.get(wire) == self.sorted.get(wire)
    }
}

/// The word of the columns for which `one` holds.
fn bits(one: impl Fn(u32) -> bool) -> u64 {
    let columns = (0..u64::BITS).filter(|&column| one(column));
    columns.fold(0, |word, column| word | 1 << column)
}
