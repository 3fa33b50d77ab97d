//! The segments of one length together, so that a reference runs them as one batch without padding.

use std::collections::BTreeMap;

use candle_core::{Device, Result, Tensor};

use crate::graph::Offsets;

/// The segments of one length, at least one row each.
pub(super) struct SameSize {
    /// Rows of every segment.
    pub(super) size: usize,
    /// Numbers of the segments, ascending.
    pub(super) segments: Vec<usize>,
}

impl SameSize {
    /// The rows of all these segments, one segment after the other: u32 `[segments · size]`.
    pub(super) fn rows(&self, ptr: &Offsets, device: &Device) -> Result<Tensor> {
        let rows = self.segments.iter().flat_map(|&s| ptr.range(s));
        let rows: Vec<u32> = rows.map(|row| row as u32).collect();
        let count = rows.len();
        Tensor::from_vec(rows, count, device)
    }
}

/// All segments that are not empty, by ascending length.
pub(super) fn by_size(ptr: &Offsets) -> Vec<SameSize> {
    let mut groups = BTreeMap::<usize, Vec<usize>>::new();
    for (segment, size) in ptr.lengths().enumerate().filter(|&(_, size)| size > 0) {
        groups.entry(size).or_default().push(segment);
    }
    let of_size = |(size, segments)| SameSize { size, segments };
    groups.into_iter().map(of_size).collect()
}

/// Puts rows that stand in the order of `groups` back into the order of the segments; `results` has
/// one tensor a group, and at least one.
pub(super) fn restore_order(
    results: &[Tensor],
    groups: &[SameSize],
    ptr: &Offsets,
) -> Result<Tensor> {
    let joined = Tensor::cat(results, 0)?;
    let mut place = vec![0u32; ptr.total()];
    let rows = groups.iter().flat_map(|group| &group.segments);
    for (at, row) in rows.flat_map(|&s| ptr.range(s)).enumerate() {
        place[row] = at as u32;
    }
    joined.index_select(&Tensor::from_vec(place, ptr.total(), joined.device())?, 0)
}
