//! The random numbers of numpy's legacy generator.

use rand_mt::Mt;

use super::random::unit;

/// The numbers that the functions of `numpy.random` give after `numpy.random.seed(seed)`, so that
/// graphs which are defined by numpy code come out as there.
#[derive(Debug, Clone)]
pub(super) struct NumpyRandom(Mt);

impl NumpyRandom {
    /// As `numpy.random.seed(seed)`; numpy takes no seed of more than 32 bits, so such a one counts
    /// as the list of its two halves, the lower one first.
    pub(super) fn new(seed: u64) -> Self {
        Self(match u32::try_from(seed) {
            Ok(seed) => Mt::new(seed),
            Err(_) => Mt::new_with_key([seed as u32, (seed >> 32) as u32]),
        })
    }

    /// Uniform in 0 to `count` − 1, as `randint(count)` and the position that `choice` takes; 0 for
    /// a count of 0 or 1, which draws nothing.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let largest = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
        if largest == 0 {
            return 0;
        }
        // numpy keeps the low bits, Python's `random` the high ones.
        let mask = u32::MAX >> largest.leading_zeros();
        loop {
            let drawn = self.0.next_u32() & mask;
            if drawn <= largest {
                return drawn as usize;
            }
        }
    }

    /// The numbers 0 to `count` − 1 in random order, as `permutation(count)`.
    pub(super) fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut items: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            items.swap(last, self.below(last + 1));
        }
        items
    }

    /// True with `probability`, as `binomial(1, probability)`.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        // numpy inverts the distribution of the rarer outcome.
        match probability <= 0.5 {
            true => unit(&mut self.0) > 1.0 - probability,
            false => unit(&mut self.0) <= 1.0 - (1.0 - probability),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_numpy() {
        // Recorded from numpy 2.4.6: randint of the bounds, permutation(9), choice([5, 6, 7, 8, 9],
        // 2, replace=False), twelve times binomial(1, p) of every p, randint(1000).
        let bounds = [1, 2, 3, 10, 1 << 16, (1 << 16) + 1, (1 << 31) - 1];
        for (seed, below, permutation, choice, chances, last) in RECORDED {
            let mut random = NumpyRandom::new(seed);
            assert_eq!(bounds.map(|bound| random.below(bound)), below, "{seed}");
            assert_eq!(random.permutation(9), permutation, "{seed}");
            let chosen = random.permutation(5);
            assert_eq!([5 + chosen[0], 5 + chosen[1]], choice, "{seed}");
            for (probability, expected) in [0.3, 0.0, 0.5, 0.8, 1.0].into_iter().zip(chances) {
                let drawn = (0..12).map(|_| u64::from(random.chance(probability)));
                let digits = drawn.fold(0, |digits, drawn| 10 * digits + drawn);
                assert_eq!(digits, expected, "{seed} {probability}");
            }
            assert_eq!(random.below(1000), last, "{seed}");
        }
    }

    type Case = (u64, [usize; 7], [usize; 9], [usize; 2], [u64; 5], usize);

    // The last seed is numpy's [1, 2].
    const RECORDED: [Case; 4] = [
        (
            0,
            [0, 0, 1, 0, 45891, 21243, 192771779],
            [8, 6, 4, 0, 2, 5, 3, 1, 7],
            [8, 6],
            [100100011111, 0, 11111001011, 111111011111, 111111111111],
            861,
        ),
        (
            7,
            [0, 1, 0, 9, 10742, 53459, 959775639],
            [8, 5, 3, 2, 6, 0, 1, 4, 7],
            [6, 9],
            [100000010101, 0, 1000100100, 11111111111, 111111111111],
            413,
        ),
        (
            4294967295,
            [0, 1, 2, 7, 14260, 65088, 1202606294],
            [8, 1, 5, 4, 6, 2, 3, 7, 0],
            [7, 5],
            [111001001000, 0, 11001101, 101110111111, 111111111111],
            41,
        ),
        (
            8589934593,
            [0, 1, 0, 3, 20656, 53895, 982806745],
            [1, 2, 8, 4, 3, 0, 7, 5, 6],
            [7, 5],
            [0, 0, 1101001001, 111110110011, 111111111111],
            755,
        ),
    ];
}
