//! Consecutive nodes with their incoming edges, as tasks for threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::graph::Offsets;

/// Runs `body` on consecutive ranges of nodes that together cover all of them, each with its part of
/// `out` (`width` values a node). Above `threads_from` values of `work` the ranges are spread over
/// threads; below it there is one range, on this thread.
pub(super) fn for_node_blocks(
    incoming: &Offsets,
    out: &mut [f32],
    width: usize,
    work: usize,
    threads_from: usize,
    body: impl Fn(Range<usize>, &mut [f32]) + Sync,
) {
    if width == 0 {
        return;
    }
    if work < threads_from {
        body(0..incoming.num_segments(), out);
        return;
    }
    // Several blocks a thread even out unequal ones.
    let parts = 4 * rayon::current_num_threads();
    let size = (incoming.total() + incoming.num_segments()).div_ceil(parts.max(1));
    let blocks = node_blocks(incoming, size);
    let outs = split_rows(out, blocks.iter().map(Range::len), width);
    blocks
        .into_par_iter()
        .zip(outs)
        .for_each(|(nodes, out)| body(nodes, out));
}

/// Consecutive ranges of nodes that cover all, each closed once its nodes and incoming edges
/// together reach `size`.
pub(super) fn node_blocks(incoming: &Offsets, size: usize) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let (mut first, mut weight) = (0, 0);
    for (node, degree) in incoming.lengths().enumerate() {
        weight += degree + 1;
        if weight >= size {
            blocks.push(first..node + 1);
            (first, weight) = (node + 1, 0);
        }
    }
    if first < incoming.num_segments() {
        blocks.push(first..incoming.num_segments());
    }
    blocks
}

/// The parts of `values` that hold so many rows each.
pub(super) fn split_rows(
    values: &mut [f32],
    rows: impl IntoIterator<Item = usize>,
    width: usize,
) -> Vec<&mut [f32]> {
    let mut rest = values;
    rows.into_iter()
        .map(|rows| {
            let (front, back) = std::mem::take(&mut rest).split_at_mut(rows * width);
            rest = back;
            front
        })
        .collect()
}

/// All incoming edges of the nodes of a range.
pub(super) fn edges_of(incoming: &Offsets, nodes: &Range<usize>) -> Range<usize> {
    let ptr = incoming.as_slice();
    ptr[nodes.start] as usize..ptr[nodes.end] as usize
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn blocks_cover_all_nodes_once_and_a_hub_stands_for_many() {
        let incoming = Offsets::from_lengths([0, 2, 0, 9, 1, 0, 0], &Device::Cpu).unwrap();
        assert_eq!(node_blocks(&incoming, 4), [0..2, 2..4, 4..7]);
        assert_eq!(node_blocks(&incoming, 100).len(), 1);
        assert_eq!(edges_of(&incoming, &(2..4)), 2..11);
        let none = Offsets::from_lengths([], &Device::Cpu).unwrap();
        assert!(node_blocks(&none, 4).is_empty());
    }

    #[test]
    fn every_node_gets_its_rows_whatever_the_work() {
        let incoming = Offsets::from_lengths([3, 0, 50, 1, 1, 0], &Device::Cpu).unwrap();
        for work in [0, 1000] {
            let mut out = [0.0f32; 12];
            for_node_blocks(&incoming, &mut out, 2, work, 1000, |nodes, out| {
                for (node, row) in nodes.zip(out.chunks_exact_mut(2)) {
                    row.fill(node as f32);
                }
            });
            assert_eq!(out, [0., 0., 1., 1., 2., 2., 3., 3., 4., 4., 5., 5.]);
        }
    }
}
