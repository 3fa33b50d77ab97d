//! Neighbour sums in one pass over the edges: gather, message and sum together.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};

use super::NeighbourSumInput;
use crate::graph::Adjacency;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::node_blocks::for_node_blocks;
use crate::ops::segment::SUM_BLOCK;
use crate::ops::simd::{self, Columns, column_groups, lanes};
use crate::ops::strided_rows::strided_rows;

/// Values read below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 17;

pub(super) fn forward(input: &NeighbourSumInput<'_>, groups: usize) -> Result<Tensor> {
    let (count, width) = input.nodes.dims2()?;
    let nodes = strided_rows(input.nodes)?;
    let edge_states = input.edge_states.map(Tensor::contiguous).transpose()?;
    let weights = input.weights.map(Tensor::contiguous).transpose()?;
    let own = input.self_weight.map(HostF32::new).transpose()?;
    let shared = Shared {
        adjacency: input.adjacency,
        nodes: HostRows::new(&nodes)?,
        edge_states: edge_states.as_ref().map(HostF32::new).transpose()?,
        weights: weights.as_ref().map(HostF32::new).transpose()?,
        own: own.and_then(|own| own.first().copied()),
        width,
        groups,
    };
    let mut out = vec![0.0f32; count * width];
    let arch = pulp::Arch::new();
    for_node_blocks(
        input.adjacency.ptr(),
        &mut out,
        width,
        (count + input.adjacency.len()) * width,
        THREADS_FROM,
        |range, out| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    for (node, row) in range.clone().zip(out.chunks_exact_mut(width)) {
                        shared.node(node, row);
                    }
                },
            );
        },
    );
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// What every task reads.
struct Shared<'a> {
    adjacency: &'a Adjacency,
    nodes: HostRows<'a>,
    edge_states: Option<HostF32<'a>>,
    weights: Option<HostF32<'a>>,
    own: Option<f32>,
    width: usize,
    groups: usize,
}

impl Shared<'_> {
    /// The result of one node.
    #[inline(always)]
    fn node(&self, node: usize, out: &mut [f32]) {
        let edges = self.adjacency.ptr().range(node);
        let columns = self.width / self.groups;
        for group in 0..self.groups {
            let mut sum = Sum {
                shared: self,
                nodes: &self.nodes,
                node,
                edges: edges.clone(),
                group,
                out,
            };
            column_groups(group * columns..(group + 1) * columns, &mut sum);
        }
    }
}

/// The sums of one node whose columns have common weights.
struct Sum<'a> {
    shared: &'a Shared<'a>,
    nodes: &'a [f32],
    node: usize,
    edges: Range<usize>,
    group: usize,
    out: &'a mut [f32],
}

impl Columns for Sum<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let shared = self.shared;
        let stride = shared.nodes.stride();
        let sources = &shared.adjacency.sources()[self.edges.clone()];
        let mut total = [0.0f32; C];
        let mut edge = self.edges.start;
        for sources in sources.chunks(SUM_BLOCK) {
            let mut partial = [0.0f32; C];
            for &source in sources {
                let mut message = lanes::<C>(self.nodes, source as usize * stride + first);
                if let Some(states) = &shared.edge_states {
                    let state = lanes::<C>(states, edge * shared.width + first);
                    for c in 0..C {
                        message[c] = (message[c] + state[c]).max(0.0);
                    }
                }
                if let Some(weights) = &shared.weights {
                    let weight = weights[edge * shared.groups + self.group];
                    for m in &mut message {
                        *m *= weight;
                    }
                }
                for c in 0..C {
                    partial[c] += message[c];
                }
                edge += 1;
            }
            for c in 0..C {
                total[c] += partial[c];
            }
        }
        if let Some(own) = shared.own {
            let state = lanes::<C>(self.nodes, self.node * stride + first);
            for c in 0..C {
                total[c] += own * state[c];
            }
        }
        self.out[first..first + C].copy_from_slice(&total);
    }
}
