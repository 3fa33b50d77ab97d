//! Random numbers that a seed fixes on every machine.

use rand_mt::Mt;

/// The numbers of Python's `random.Random(seed)`, so that generators which are defined by Python
/// code can be compared with it draw by draw.
#[derive(Debug, Clone)]
pub(super) struct Random(Mt);

impl Random {
    /// As `random.Random(seed)`.
    pub(super) fn new(seed: u64) -> Self {
        let words = [seed as u32, (seed >> 32) as u32];
        let length = if words[1] == 0 { 1 } else { 2 };
        Self(Mt::new_with_key(words.into_iter().take(length)))
    }

    /// Uniform in [0, 1), a multiple of 2⁻⁵³, as `random()`.
    pub(super) fn unit(&mut self) -> f64 {
        unit(&mut self.0)
    }

    /// Uniform in 0 to `bound` − 1, as `randrange(bound)` and the position that `choice` takes; 0
    /// for a bound of 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 {
            return 0;
        }
        let unused = bound.leading_zeros();
        loop {
            let drawn = self.0.next_u32() >> unused;
            if drawn < bound {
                return drawn;
            }
        }
    }

    /// Moves `count` items, uniformly chosen and in random order, to the front of `items`.
    pub(super) fn choose_to_front<T>(&mut self, items: &mut [T], count: usize) {
        for at in 0..count.min(items.len()) {
            let left = (items.len() - at) as u32;
            items.swap(at, at + self.below(left) as usize);
        }
    }
}

/// Uniform in [0, 1), a multiple of 2⁻⁵³.
pub(super) fn unit(generator: &mut Mt) -> f64 {
    let high = f64::from(generator.next_u32() >> 5);
    let low = f64::from(generator.next_u32() >> 6);
    (high * f64::from(1 << 26) + low) / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_python() {
        // Recorded from CPython 3.11: random.Random(seed), then random() twice and randrange(bound)
        // for the bounds below.
        let bounds = [1, 2, 3, 10, 1 << 16, (1 << 16) + 1, u32::MAX];
        for (seed, units, below) in RECORDED {
            let mut random = Random::new(seed);
            assert_eq!([random.unit(), random.unit()], units, "seed {seed}");
            assert_eq!(
                bounds.map(|bound| random.below(bound)),
                below,
                "seed {seed}"
            );
        }
    }

    #[test]
    fn every_choice_is_equally_likely() {
        let mut random = Random::new(5);
        let mut counts = [0u32; 20];
        for _ in 0..20_000 {
            let mut items = [0, 1, 2, 3, 4];
            random.choose_to_front(&mut items, 2);
            // The 20 ordered pairs of different items.
            let second = items[1] - usize::from(items[1] > items[0]);
            counts[items[0] * 4 + second] += 1;
            let mut all = items;
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
        // 1000 ± 31 each.
        let far = counts.iter().filter(|count| count.abs_diff(1000) > 124);
        assert_eq!(far.count(), 0, "{counts:?}");
    }

    const RECORDED: [(u64, [f64; 2], [u32; 7]); 4] = [
        (
            0,
            [0.8444218515250481, 0.7579544029403025],
            [0, 0, 1, 8, 63691, 53075, 3943786419],
        ),
        (
            7,
            [0.32383276483316237, 0.15084917392450192],
            [0, 0, 2, 1, 47931, 7602, 3907149204],
        ),
        (
            4294967295,
            [0.6353574441341173, 0.20319993954407756],
            [0, 1, 1, 4, 46541, 65172, 1762836277],
        ),
        (
            9223372036854788153,
            [0.30477471939133105, 0.21243216957860434],
            [0, 0, 2, 0, 42258, 50730, 1096889780],
        ),
    ];
}
