//! Rotation of the features of a block of nodes.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::{BLOCK, Shared};
use crate::ops::RotaryPairs;
use crate::ops::host::HostRows;
use crate::ops::simd;

/// The angles of all nodes.
pub(super) struct Tables<'a> {
    pub(super) query: Angles<'a>,
    pub(super) key: Angles<'a>,
}

impl<'a> Tables<'a> {
    /// From the tables of queries and keys, [readable](crate::ops::RotationTable::readable).
    pub(super) fn new([query, key]: &'a [[Tensor; 2]; 2], pairs: RotaryPairs) -> Result<Self> {
        let angles = |[cos, sin]: &'a [Tensor; 2]| -> Result<Angles<'a>> {
            Ok(Angles {
                cos: HostRows::new(cos)?,
                sin: HostRows::new(sin)?,
                pairs,
            })
        };
        Ok(Self {
            query: angles(query)?,
            key: angles(key)?,
        })
    }
}

/// The angles of queries or keys.
pub(super) struct Angles<'a> {
    cos: HostRows<'a>,
    sin: HostRows<'a>,
    pairs: RotaryPairs,
}

/// The pairs of one head: the first column of its first whole pair, the pair's number, and how many
/// there are.
struct HeadPairs {
    column: usize,
    first: usize,
    count: usize,
}

impl Angles<'_> {
    fn of_head(&self, head: usize, features: usize) -> HeadPairs {
        let count = features / 2;
        match self.pairs {
            RotaryPairs::SharedByHeads => HeadPairs {
                column: 0,
                first: 0,
                count,
            },
            RotaryPairs::PerHead => HeadPairs {
                column: 0,
                first: head * count,
                count,
            },
            RotaryPairs::FullWidth => {
                let before = head * features;
                let column = before % 2;
                HeadPairs {
                    column,
                    first: (before + column) / 2,
                    count: (features - column) / 2,
                }
            }
        }
    }

    /// Turns the features `from` of the nodes of `block` for `heads`, which lie as in
    /// [`Scratch::features`](super::Scratch), by their angles.
    pub(super) fn rotate(
        &self,
        block: &Range<usize>,
        heads: Range<usize>,
        shared: &Shared<'_>,
        from: &[f32],
        to: &mut [f32],
    ) {
        let (features, stride) = (shared.widths.features, shared.stride);
        let arch = pulp::Arch::new();
        for (place, head) in heads.clone().enumerate() {
            let HeadPairs {
                column,
                first,
                count,
            } = self.of_head(head, features);
            let rows = place * BLOCK * stride..(place * BLOCK + block.len()) * stride;
            let (from, to) = (&from[rows.clone()], &mut to[rows]);
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    let cos = self.cos[block.start * self.cos.stride()..].chunks(self.cos.stride());
                    let sin = self.sin[block.start * self.sin.stride()..].chunks(self.sin.stride());
                    let angles = cos.zip(sin);
                    let rows = from.chunks_exact(stride).zip(to.chunks_exact_mut(stride));
                    for ((from, to), (cos, sin)) in rows.zip(angles) {
                        let whole = column..column + 2 * count;
                        to[..column].copy_from_slice(&from[..column]);
                        to[whole.end..].copy_from_slice(&from[whole.end..]);
                        let pairs = (to[whole.clone()].as_chunks_mut::<2>().0.iter_mut())
                            .zip(from[whole].as_chunks::<2>().0);
                        let angles = cos[first..].iter().zip(&sin[first..]);
                        for ((to, from), (cos, sin)) in pairs.zip(angles) {
                            *to = [from[0] * cos - from[1] * sin, from[0] * sin + from[1] * cos];
                        }
                    }
                },
            );
        }
        if self.pairs == RotaryPairs::FullWidth && !features.is_multiple_of(2) {
            for (place, head) in heads.clone().enumerate().skip(1) {
                if (head * features) % 2 == 1 {
                    self.rotate_straddling(block, place, head, shared, from, to);
                }
            }
        }
    }

    /// Turns the pairs of the last feature of the head before `head` and the first one of `head`,
    /// which is the one at `place` of those that lie in `from` and `to`.
    fn rotate_straddling(
        &self,
        block: &Range<usize>,
        place: usize,
        head: usize,
        shared: &Shared<'_>,
        from: &[f32],
        to: &mut [f32],
    ) {
        let (features, stride) = (shared.widths.features, shared.stride);
        let pair = head * features / 2;
        for (row, node) in block.clone().enumerate() {
            let last = ((place - 1) * BLOCK + row) * stride + features - 1;
            let first = (place * BLOCK + row) * stride;
            let cos = self.cos[node * self.cos.stride() + pair];
            let sin = self.sin[node * self.sin.stride() + pair];
            let (x, y) = (from[last], from[first]);
            to[last] = x * cos - y * sin;
            to[first] = x * sin + y * cos;
        }
    }
}
