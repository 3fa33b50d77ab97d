//! Gated sums in blocks of nodes: the edge map of a block is written where its edge states will
//! stand, and everything else happens while it is in cache.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::{GATE_EPS, GatedSumInput, GatedSumOutput};
use crate::graph::Adjacency;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::linear::Prepared;
use crate::ops::matmul::{Into, matmul};
use crate::ops::node_blocks::{edges_of, node_blocks, split_rows};
use crate::ops::segment::SUM_BLOCK;
use crate::ops::simd::{self, Columns, column_groups, lanes};
use crate::ops::strided_rows::strided_rows;
use crate::ops::{Activation, Affine};

/// Nodes and edges of one block: enough to pay for packing the weights, few enough to stay in cache.
const BLOCK: usize = 256;

/// Multiplications below which threads cost more than they save.
const THREADS_FROM: usize = 500_000;

pub(super) fn forward(input: &GatedSumInput<'_>) -> Result<GatedSumOutput> {
    let (count, width) = input.own.dims2()?;
    let edges = input.adjacency.len();
    let own = strided_rows(input.own)?;
    let sent = strided_rows(input.sent)?;
    let gate_target = strided_rows(input.gate_target)?;
    let gate_source = strided_rows(input.gate_source)?;
    let edge_states = input.edge_states.contiguous()?;
    let weights = input.weights.map(Tensor::contiguous).transpose()?;
    let residual = input.residual.map(strided_rows).transpose()?;
    let (norm_node, norm_edge) = (contiguous(input.norm_node)?, contiguous(input.norm_edge)?);
    let shared = Shared {
        adjacency: input.adjacency,
        own: HostRows::new(&own)?,
        sent: HostRows::new(&sent)?,
        gate_target: HostRows::new(&gate_target)?,
        gate_source: HostRows::new(&gate_source)?,
        edge_states: HostF32::new(&edge_states)?,
        gate_edge: input.gate_edge.prepared()?,
        weights: weights.as_ref().map(HostF32::new).transpose()?,
        norm_node: HostAffine::new(&norm_node)?,
        norm_edge: HostAffine::new(&norm_edge)?,
        activation: input.activation,
        residual: residual.as_ref().map(HostRows::new).transpose()?,
        width,
    };
    let mut nodes_out = vec![0.0f32; count * width];
    let mut edges_out = vec![0.0f32; edges * width];
    if width > 0 {
        let ptr = input.adjacency.ptr();
        let blocks = node_blocks(ptr, BLOCK);
        let of_nodes = split_rows(&mut nodes_out, blocks.iter().map(Range::len), width);
        let lengths = blocks.iter().map(|nodes| edges_of(ptr, nodes).len());
        let of_edges = split_rows(&mut edges_out, lengths, width);
        let work = edges.saturating_mul(width).saturating_mul(width + 32);
        if work < THREADS_FROM {
            let outs = of_nodes.into_iter().zip(of_edges);
            for (nodes, (nodes_out, edges_out)) in blocks.into_iter().zip(outs) {
                shared.block(nodes, nodes_out, edges_out);
            }
        } else {
            let outs = of_nodes.into_par_iter().zip(of_edges);
            blocks
                .into_par_iter()
                .zip(outs)
                .for_each(|(nodes, (nodes_out, edges_out))| {
                    shared.block(nodes, nodes_out, edges_out);
                });
        }
    }
    Ok(GatedSumOutput {
        nodes: Tensor::from_vec(nodes_out, (count, width), &Device::Cpu)?,
        edge_states: Tensor::from_vec(edges_out, (edges, width), &Device::Cpu)?,
    })
}

fn contiguous(affine: &Affine) -> Result<Affine> {
    Ok(Affine {
        scale: affine.scale.contiguous()?,
        shift: affine.shift.contiguous()?,
    })
}

/// An affine map of columns as slices.
struct HostAffine<'a> {
    scale: HostF32<'a>,
    shift: HostF32<'a>,
}

impl<'a> HostAffine<'a> {
    fn new(affine: &'a Affine) -> Result<Self> {
        Ok(Self {
            scale: HostF32::new(&affine.scale)?,
            shift: HostF32::new(&affine.shift)?,
        })
    }

    /// Applies the map to the columns from `first`.
    #[inline(always)]
    fn apply<const C: usize>(&self, values: [f32; C], first: usize) -> [f32; C] {
        let scale = lanes::<C>(&self.scale, first);
        let shift = lanes::<C>(&self.shift, first);
        std::array::from_fn(|c| values[c] * scale[c] + shift[c])
    }
}

/// What every task reads.
struct Shared<'a> {
    adjacency: &'a Adjacency,
    own: HostRows<'a>,
    sent: HostRows<'a>,
    gate_target: HostRows<'a>,
    gate_source: HostRows<'a>,
    edge_states: HostF32<'a>,
    gate_edge: &'a Prepared,
    weights: Option<HostF32<'a>>,
    norm_node: HostAffine<'a>,
    norm_edge: HostAffine<'a>,
    activation: Activation,
    residual: Option<HostRows<'a>>,
    width: usize,
}

impl Shared<'_> {
    /// New states of the nodes of a block and of their incoming edges.
    fn block(&self, nodes: Range<usize>, nodes_out: &mut [f32], edges_out: &mut [f32]) {
        let width = self.width;
        let block_edges = edges_of(self.adjacency.ptr(), &nodes);
        if !block_edges.is_empty() {
            let into = match &self.gate_edge.bias {
                Some(bias) => {
                    for row in edges_out.chunks_exact_mut(width) {
                        row.copy_from_slice(bias);
                    }
                    Into::Add
                }
                None => Into::Replace,
            };
            let states = &self.edge_states[block_edges.start * width..block_edges.end * width];
            matmul(states, &self.gate_edge.rhs, edges_out, into);
        }
        simd::vectorize(
            pulp::Arch::new(),
            #[inline(always)]
            || {
                for (node, out) in nodes.clone().zip(nodes_out.chunks_exact_mut(width)) {
                    let edges = self.adjacency.ptr().range(node);
                    let first = (edges.start - block_edges.start) * width;
                    let edges_out = &mut edges_out[first..first + edges.len() * width];
                    self.node(node, edges, out, edges_out);
                }
            },
        );
    }

    /// New states of one node and of its incoming edges, whose share in the gate stands in
    /// `edges_out`.
    #[inline(always)]
    fn node(&self, node: usize, edges: Range<usize>, out: &mut [f32], edges_out: &mut [f32]) {
        let start = edges.start * self.width;
        let mut one = Node {
            shared: self,
            node,
            edges,
            out,
            edges_out,
        };
        column_groups(0..self.width, &mut one);
        let Node { out, edges_out, .. } = one;
        self.activation.apply(out);
        self.activation.apply(edges_out);
        if let Some(residual) = &self.residual {
            add(out, &residual[node * residual.stride()..]);
            add(edges_out, &self.edge_states[start..]);
        }
    }
}

/// Adds the first values of `addends` to `values`.
#[inline(always)]
fn add(values: &mut [f32], addends: &[f32]) {
    for (value, addend) in values.iter_mut().zip(addends) {
        *value += addend;
    }
}

/// One node with its incoming edges.
struct Node<'a> {
    shared: &'a Shared<'a>,
    node: usize,
    edges: Range<usize>,
    out: &'a mut [f32],
    edges_out: &'a mut [f32],
}

impl Columns for Node<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let shared = self.shared;
        let row = |rows: &HostRows<'_>, node: usize| -> [f32; C] {
            lanes(rows, node * rows.stride() + first)
        };
        let of_target = row(&shared.gate_target, self.node);
        let (mut sums, mut gates) = ([0.0f32; C], [0.0f32; C]);
        let mut edge = self.edges.start;
        let mut rows = self.edges_out.chunks_exact_mut(shared.width);
        for sources in shared.adjacency.sources()[self.edges.clone()].chunks(SUM_BLOCK) {
            let (mut part_sums, mut part_gates) = ([0.0f32; C], [0.0f32; C]);
            for (&source, edge_row) in sources.iter().zip(&mut rows) {
                let of_source = row(&shared.gate_source, source as usize);
                let sent = row(&shared.sent, source as usize);
                let mut state = lanes::<C>(edge_row, first);
                for c in 0..C {
                    state[c] += of_target[c] + of_source[c];
                }
                let weight = shared.weights.as_ref().map_or(1.0, |w| w[edge]);
                for c in 0..C {
                    let gate = weight / (1.0 + simd::exp(-state[c]));
                    part_sums[c] += gate * sent[c];
                    part_gates[c] += gate;
                }
                let normed = shared.norm_edge.apply(state, first);
                edge_row[first..first + C].copy_from_slice(&normed);
                edge += 1;
            }
            for c in 0..C {
                sums[c] += part_sums[c];
                gates[c] += part_gates[c];
            }
        }
        let mut state = row(&shared.own, self.node);
        for c in 0..C {
            state[c] += sums[c] / (gates[c] + GATE_EPS);
        }
        let normed = shared.norm_node.apply(state, first);
        self.out[first..first + C].copy_from_slice(&normed);
    }
}
