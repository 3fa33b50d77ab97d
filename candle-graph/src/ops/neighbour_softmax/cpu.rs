//! Softmax aggregation in two passes over the incoming edges of a node, which make the messages
//! anew each time: nothing of the size of all edges is ever made.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

use super::MESSAGE_EPS;
use crate::graph::Adjacency;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::node_blocks::for_node_blocks;
use crate::ops::segment::SUM_BLOCK;
use crate::ops::simd::{self, Columns, column_groups, lanes};
use crate::ops::strided_rows::strided_rows;

/// Values read below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 16;

pub(super) fn forward(
    nodes: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let (count, width) = nodes.dims2()?;
    let nodes = strided_rows(nodes)?;
    let nodes = HostRows::new(&nodes)?;
    let edge_states = edge_states.contiguous()?;
    let edge_states = HostF32::new(&edge_states)?;
    let (nodes, stride, edge_states) = (&*nodes, nodes.stride(), &*edge_states);
    let mut out = vec![0.0f32; count * width];
    let arch = pulp::Arch::new();
    for_node_blocks(
        adjacency.ptr(),
        &mut out,
        width,
        (count + adjacency.len()) * width,
        THREADS_FROM,
        |range, out| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    for (node, out) in range.clone().zip(out.chunks_exact_mut(width)) {
                        let edges = adjacency.ptr().range(node);
                        if !edges.is_empty() {
                            let mut one = Node {
                                nodes,
                                stride,
                                edge_states,
                                sources: &adjacency.sources()[edges.clone()],
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
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// One node, its incoming edges and where its result goes.
struct Node<'a> {
    nodes: &'a [f32],
    stride: usize,
    edge_states: &'a [f32],
    sources: &'a [u32],
    edges: Range<usize>,
    out: &'a mut [f32],
}

impl Node<'_> {
    /// Some columns of the message along one edge.
    #[inline(always)]
    fn message<const C: usize>(&self, source: u32, edge: usize, first: usize) -> [f32; C] {
        let state = lanes::<C>(self.nodes, source as usize * self.stride + first);
        let edge = lanes::<C>(self.edge_states, edge * self.out.len() + first);
        std::array::from_fn(|c| (state[c] + edge[c]).max(0.0) + MESSAGE_EPS)
    }
}

impl Columns for Node<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let mut largest = [0.0f32; C];
        for (edge, &source) in self.edges.clone().zip(self.sources) {
            let message = self.message::<C>(source, edge, first);
            for c in 0..C {
                largest[c] = largest[c].max(message[c]);
            }
        }
        let (mut exponentials, mut weighted) = ([0.0f32; C], [0.0f32; C]);
        let mut edge = self.edges.start;
        for sources in self.sources.chunks(SUM_BLOCK) {
            let (mut part, mut part_weighted) = ([0.0f32; C], [0.0f32; C]);
            for &source in sources {
                let message = self.message::<C>(source, edge, first);
                for c in 0..C {
                    let exponential = simd::exp(message[c] - largest[c]);
                    part[c] += exponential;
                    part_weighted[c] += exponential * message[c];
                }
                edge += 1;
            }
            for c in 0..C {
                exponentials[c] += part[c];
                weighted[c] += part_weighted[c];
            }
        }
        let out = &mut self.out[first..first + C];
        for c in 0..C {
            out[c] = weighted[c] / exponentials[c];
        }
    }
}
