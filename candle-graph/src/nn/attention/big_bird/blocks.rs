//! Which blocks of keys every block of queries sees.

use std::ops::Range;

use rand_mt::Mt;

/// The blocks that every block of queries but the first and the last sees, for every head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyBlocks {
    blocks: usize,
    seen: usize,
    /// `[heads, blocks − 2, seen]`; a `None` fills a shorter list.
    lists: Vec<Option<usize>>,
}

/// Blocks that every block sees beside the random ones: the first, the last, its own and its two
/// neighbours.
const FIXED: usize = 5;

/// The smallest number of blocks with a pattern: the second and the last but one are two blocks.
const FEWEST: usize = 4;

impl KeyBlocks {
    /// The pattern of a graph of `blocks` blocks; none where the official code has none.
    pub(super) fn new(blocks: usize, heads: usize, random: usize) -> Option<Self> {
        if blocks < FEWEST || random > blocks {
            return None;
        }
        let random_blocks = random_blocks(blocks, heads, random)?;
        let last = blocks - 1;
        let mut lists = Vec::with_capacity(heads * (blocks - 2) * (FIXED + random));
        for head in random_blocks {
            for (block, random) in (1..last).zip(head) {
                // The second block and the last but one have the first or the last as neighbour.
                let beyond = |edge: usize| (edge.abs_diff(block) > 1).then_some(edge);
                lists.push(beyond(0));
                lists.extend((block - 1..=block + 1).map(Some));
                lists.push(beyond(last));
                lists.extend(random.into_iter().map(Some));
            }
        }
        Some(Self {
            blocks,
            seen: FIXED + random,
            lists,
        })
    }

    /// Number of blocks of the graph.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Length of every list of blocks.
    pub(super) fn seen(&self) -> usize {
        self.seen
    }

    /// The lists of every head, one after the other.
    pub(super) fn of_heads(&self) -> impl Iterator<Item = &[Option<usize>]> {
        self.lists.chunks_exact((self.blocks - 2) * self.seen)
    }
}

/// The random blocks of every head, for all blocks but the first and the last, as the official code
/// draws them after `numpy.random.seed(0)`. None where it fails: where it would have to draw more
/// blocks than there are.
///
/// The blocks fall into one or two ranges, with a number of draws from each. It is two where the
/// graph is large: then all draws are from the first `2·random + 5` blocks, or, in between, half of
/// them from the first `random + 5` and half from the rest. No block is excluded.
fn random_blocks(blocks: usize, heads: usize, random: usize) -> Option<Vec<Vec<Vec<usize>>>> {
    let half = random / 2;
    let ranges = if 2 * random + 5 < blocks {
        let end = 2 * random + 5;
        vec![(0..end, random), (end..blocks, 0)]
    } else if random + 5 < blocks {
        let end = random + 5;
        vec![(0..end, half), (end..blocks, random - half)]
    } else {
        vec![(0..blocks, random)]
    };

    // The order of the draws is that of the official loops: it decides which numbers fall to whom.
    let mut draws = Vec::new();
    for (i, (range, _)) in ranges.iter().enumerate() {
        if i > 0 {
            draws.push((1..range.start, i));
            draws.extend((0..i).map(|earlier| (range.clone(), earlier)));
        }
        draws.push((range.start.max(1)..range.end, i));
    }

    let mut generator = Mt::new(0);
    let mut chosen = vec![vec![vec![]; blocks]; heads];
    for (of_blocks, i) in draws {
        let (range, count) = &ranges[i];
        if *count == 0 {
            continue;
        }
        for block in of_blocks {
            for head in &mut chosen {
                head[block].push((i, pick(&mut generator, range.clone(), *count)?));
            }
        }
    }
    let in_order = |mut parts: Vec<(usize, Vec<usize>)>| {
        parts.sort_by_key(|&(range, _)| range);
        parts.into_iter().flat_map(|(_, blocks)| blocks).collect()
    };
    let inner = |head: Vec<_>| {
        head.into_iter()
            .map(in_order)
            .skip(1)
            .take(blocks - 2)
            .collect()
    };
    Some(chosen.into_iter().map(inner).collect())
}

/// The first `count` of the blocks of `range` in a random order. A range of one block gives it as
/// often as asked for, as numpy broadcasts it.
fn pick(generator: &mut Mt, range: Range<usize>, count: usize) -> Option<Vec<usize>> {
    let mut order = permutation(generator, range);
    match *order.as_slice() {
        [single] => Some(vec![single; count]),
        _ if order.len() < count => None,
        _ => {
            order.truncate(count);
            Some(order)
        }
    }
}

/// `numpy.random.permutation` of the legacy generator: Fisher–Yates from the last element down,
/// each time with the lowest bits of one output, drawn again while they are too large.
fn permutation(generator: &mut Mt, range: Range<usize>) -> Vec<usize> {
    let mut order: Vec<usize> = range.collect();
    for last in (1..order.len()).rev() {
        let mask = (last + 1).next_power_of_two() - 1;
        let other = loop {
            let drawn = generator.next_u32() as usize & mask;
            if drawn <= last {
                break drawn;
            }
        };
        order.swap(last, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the official code draws with numpy 1.26 for some numbers of blocks, heads and random
    /// blocks: one, two and two ranges of which the second has one block or none to draw from.
    #[test]
    fn draws_are_those_of_numpy() {
        let drawn = |blocks, heads, random| random_blocks(blocks, heads, random).unwrap();
        assert_eq!(drawn(4, 1, 3), [[[2, 3, 1], [0, 2, 1]]]);
        assert_eq!(drawn(6, 2, 1), [[[5], [3], [2], [0]], [[1], [5], [3], [5]]]);
        assert_eq!(drawn(7, 1, 1), [[[6], [6], [6], [6], [6]]]);
        assert_eq!(
            drawn(9, 2, 3)[1],
            [
                [1, 8, 8],
                [2, 8, 8],
                [4, 8, 8],
                [5, 8, 8],
                [5, 8, 8],
                [7, 8, 8],
                [6, 8, 8]
            ]
        );
        assert_eq!(
            drawn(10, 2, 3)[1],
            [
                [1, 9, 8],
                [2, 8, 9],
                [4, 8, 9],
                [5, 8, 9],
                [5, 9, 8],
                [7, 8, 9],
                [6, 9, 8],
                [4, 8, 9]
            ]
        );
        assert_eq!(drawn(12, 1, 3)[0][8..], [[8, 1, 5], [2, 4, 6]]);
        // The choice that was recorded of an official model: 17 blocks, 8 heads.
        let recorded = drawn(17, 8, 3);
        assert_eq!(recorded[0][..3], [[4, 9, 2], [8, 1, 5], [4, 1, 7]]);
        assert_eq!(recorded[3][13..], [[10, 4, 8], [10, 5, 1]]);
        assert_eq!(recorded[7][12..], [[6, 0, 9], [3, 8, 6], [3, 9, 10]]);
    }

    /// For which numbers of blocks, from 1, the official code gives a result (`+`).
    #[test]
    fn a_pattern_is_where_the_official_code_has_one() {
        let official = [
            "...++++++++++++++++++++++++++",
            "...++++++++++++++++++++++++++",
            "...++++++++++++++++++++++++++",
            "...++++++++++++++++++++++++++",
            "....+++++++.+++++++++++++++++",
            ".....+++++++.++++++++++++++++",
            "......+++++++..++++++++++++++",
            ".......+++++++..+++++++++++++",
        ];
        for (random, row) in (1..).zip(official) {
            for (blocks, present) in (1..).zip(row.chars()) {
                let found = KeyBlocks::new(blocks, 2, random).is_some();
                assert_eq!(found, present == '+', "{blocks} blocks, {random} random");
            }
        }
        assert_eq!(KeyBlocks::new(100, 2, usize::MAX), None);
    }

    #[test]
    fn every_block_sees_the_edges_its_neighbours_and_its_random_blocks() {
        let pattern = KeyBlocks::new(6, 2, 1).unwrap();
        let (seen, heads) = (pattern.seen(), pattern.of_heads().collect::<Vec<_>>());
        let lists: Vec<Vec<_>> = (heads[1].chunks_exact(seen))
            .map(|list| list.iter().flatten().copied().collect())
            .collect();
        let expected = [
            vec![0, 1, 2, 5, 1],
            vec![0, 1, 2, 3, 5, 5],
            vec![0, 2, 3, 4, 5, 3],
            vec![0, 3, 4, 5, 5],
        ];
        assert_eq!(lists, expected);
        // Without random blocks there is nothing to draw.
        assert_eq!(KeyBlocks::new(40, 3, 0).unwrap().seen(), FIXED);
    }
}
