//! Neighbour statistics in one pass over the edges.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

use crate::graph::Adjacency;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::node_blocks::for_node_blocks;
use crate::ops::segment::SUM_BLOCK;
use crate::ops::simd::{self, Columns, column_groups, lanes};
use crate::ops::strided_rows::strided_rows;

/// Values read below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 17;

pub(super) fn forward(
    targets: &Tensor,
    sources: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let (count, width) = targets.dims2()?;
    let (targets, sources) = (strided_rows(targets)?, strided_rows(sources)?);
    let (targets, sources) = (HostRows::new(&targets)?, HostRows::new(&sources)?);
    let edge_states = edge_states.contiguous()?;
    let edge_states = HostF32::new(&edge_states)?;
    let mut out = vec![0.0f32; count * 3 * width];
    let arch = pulp::Arch::new();
    for_node_blocks(
        adjacency.ptr(),
        &mut out,
        3 * width,
        (count + adjacency.len()) * width,
        THREADS_FROM,
        |range, out| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    for (node, out) in range.clone().zip(out.chunks_exact_mut(3 * width)) {
                        let edges = adjacency.ptr().range(node);
                        if !edges.is_empty() {
                            let mut one = Node {
                                own: &targets[node * targets.stride()..][..width],
                                sources: &sources,
                                stride: sources.stride(),
                                edge_states: &edge_states,
                                ids: &adjacency.sources()[edges.clone()],
                                edges,
                                out,
                            };
                            column_groups(0..width, &mut one);
                        }
                    }
                },
            );
        },
    );
    Tensor::from_vec(out, (count, 3 * width), &Device::Cpu)
}

/// One node, its incoming edges and where its result goes.
struct Node<'a> {
    own: &'a [f32],
    sources: &'a [f32],
    stride: usize,
    edge_states: &'a [f32],
    ids: &'a [u32],
    edges: Range<usize>,
    out: &'a mut [f32],
}

impl Columns for Node<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let width = self.own.len();
        let own = lanes::<C>(self.own, first);
        let (mut sum, mut largest) = ([0.0f32; C], [f32::NEG_INFINITY; C]);
        let mut edge = self.edges.start;
        for ids in self.ids.chunks(SUM_BLOCK) {
            let mut partial = [0.0f32; C];
            for &source in ids {
                let state = lanes::<C>(self.sources, source as usize * self.stride + first);
                let of_edge = lanes::<C>(self.edge_states, edge * width + first);
                for c in 0..C {
                    let message = own[c] + state[c] + of_edge[c];
                    partial[c] += message;
                    largest[c] = largest[c].max(message);
                }
                edge += 1;
            }
            for c in 0..C {
                sum[c] += partial[c];
            }
        }
        let divisor = 1.0 / self.edges.len() as f32;
        self.out[2 * width + first..][..C].copy_from_slice(&sum);
        for s in &mut sum {
            *s *= divisor;
        }
        self.out[first..][..C].copy_from_slice(&sum);
        self.out[width + first..][..C].copy_from_slice(&largest);
    }
}
