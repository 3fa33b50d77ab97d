//! Graph attention along edges.

use candle_core::{DType, Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::MessageInput;
use crate::ops::{
    self, Activation, LinearWeights, NeighbourSumInput, Reduction, neighbour_sum, segment_reduce,
    segment_softmax,
};

/// `Σ_j α_ij·W·x_j + b` over the incoming edges and one self loop a node, head by head, with α the
/// softmax of `leaky_relu(a_s·W·x_j + a_t·W·x_i + a_e·V·e_ij)`, slope 0.2 (PyG's `GATConv` with
/// `edge_dim`). Self loops of the graph are left out; the added one has the mean of the states of
/// the node's other incoming edges, zero where there are none.
#[derive(Debug, Clone)]
pub struct Gat {
    heads: usize,
    width: usize,
    /// To the values, then to the logits' shares of source and target, `[width + 2·heads, width]`.
    nodes: LinearWeights,
    /// To the logits' share of the edge, `[heads, width]`: the map to edge values is used for
    /// nothing else.
    edges: LinearWeights,
    bias: Tensor,
}

impl Gat {
    /// Loads `node.weight` and `edge.weight` `[width, width]` (`lin_src`, which PyG also writes as
    /// `lin_dst`, and `lin_edge`), `attention.source`, `attention.target` and `attention.edge`
    /// `[1, heads, width / heads]` (`att_src`, `att_dst`, `att_edge`) and `bias` `[width]`.
    ///
    /// # Errors
    /// A width that the heads do not divide, tensors that are missing or of another shape.
    pub(super) fn new(width: usize, heads: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let Some(0) = width.checked_rem(heads) else {
            bail!("graph attention: a width of {width} for {heads} heads");
        };
        let head = width / heads;
        let weight = |name: &str| vb.get((width, width), &format!("{name}.weight"));
        let (node, edge) = (weight("node")?, weight("edge")?);
        let logits = |weight: &Tensor, name: &str| {
            let attention = vb.get((1, heads, head), &format!("attention.{name}"))?;
            let attention = attention.reshape((heads, head, 1))?.to_dtype(DType::F64)?;
            let weight = weight.to_dtype(DType::F64)?;
            let products = weight
                .reshape((heads, head, width))?
                .broadcast_mul(&attention);
            products?.sum(1)?.to_dtype(vb.dtype())
        };
        let shares = [logits(&node, "source")?, logits(&node, "target")?];
        let packed = Tensor::cat(&[&node, &shares[0], &shares[1]], 0)?;
        Ok(Self {
            heads,
            width,
            nodes: LinearWeights::new(packed, None)?,
            edges: LinearWeights::new(logits(&edge, "edge")?, None)?,
            bias: vb.get(width, "bias")?,
        })
    }

    /// New node states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<Tensor> {
        let heads = self.heads;
        let looped = input.edges.self_looped()?;
        let (adjacency, rows) = (looped.adjacency(), looped.rows());
        let (sources, targets) = adjacency.tensors()?;
        let packed = ops::linear(input.nodes, &self.nodes, Activation::Identity)?;
        let share = |first: usize| packed.narrow(1, first, heads)?.contiguous();
        let of_source = share(self.width)?.index_select(sources, 0)?;
        let of_target = share(self.width + heads)?.index_select(targets, 0)?;

        // The share of the edge is linear in its state, so that of a mean is the mean of shares.
        let of_edge = ops::linear(input.edge_states("GAT")?, &self.edges, Activation::Identity)?;
        let with_loops = |loops: &Tensor| Tensor::cat(&[&of_edge, loops], 0)?.index_select(rows, 0);
        let nodes = adjacency.num_nodes();
        let none = Tensor::zeros((nodes, heads), of_edge.dtype(), of_edge.device())?;
        let sums = segment_reduce(&with_loops(&none)?, adjacency.ptr(), Reduction::Sum)?;
        let others: Vec<f32> = (adjacency.ptr().lengths())
            .map(|length| length.saturating_sub(1).max(1) as f32)
            .collect();
        let others = Tensor::from_vec(others, (nodes, 1), sums.device())?.to_dtype(sums.dtype())?;
        let of_edge = with_loops(&sums.broadcast_div(&others)?)?;

        let logits = Activation::LeakyRelu02.forward(&((of_source + of_target)? + of_edge)?)?;
        let shares = segment_softmax(&logits, adjacency.ptr())?;
        let sums = neighbour_sum(NeighbourSumInput {
            nodes: &packed.narrow(1, 0, self.width)?,
            adjacency,
            edge_states: None,
            weights: Some(&shares),
            self_weight: None,
        })?;
        sums.broadcast_add(&self.bias)
    }
}
