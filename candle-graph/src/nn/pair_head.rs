//! A perceptron that scores node pairs.

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::mag_lap_net::of_graphs;
use super::{NORM_EPS, layer_norm, linear};
use crate::graph::{LabelPairs, Offsets};
use crate::ops::{self, Activation, LayerNorm, LinearWeights};

/// Sizes of a [`PairHead`].
#[derive(Debug, Clone, Copy)]
pub struct PairHeadSizes {
    /// Width of node states.
    pub nodes: usize,
    /// Width of graph states.
    pub graphs: usize,
    /// Width of the hidden states.
    pub hidden: usize,
    /// Values of a pair.
    pub outputs: usize,
}

/// From the states of both nodes of a pair and of their graph to a prediction: `[x_s ‖ x_t ‖ g]`
/// through two affine maps, each followed by LayerNorm and the activation, and a last one (`adj_mlp`
/// and `adj_out` of "Transformers Meet Directed Graphs").
#[derive(Debug, Clone)]
pub struct PairHead {
    sources: LinearWeights,
    targets: LinearWeights,
    graphs: LinearWeights,
    hidden: LinearWeights,
    norms: [LayerNorm; 2],
    output: LinearWeights,
    activation: Activation,
    softplus: bool,
}

/// Pairs scored at once, which bounds the memory beside the result.
const PAIRS_AT_ONCE: usize = 1 << 14;

impl PairHead {
    /// Loads the maps `layers.0` (from sources, targets and graphs side by side), `layers.1` and
    /// `output`, and the LayerNorms `norms.{0,1}`. With `softplus` the predictions are positive.
    ///
    /// # Errors
    /// Missing or mis-shaped tensors.
    pub fn new(
        sizes: PairHeadSizes,
        activation: Activation,
        softplus: bool,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let PairHeadSizes {
            nodes,
            graphs,
            hidden,
            outputs,
        } = sizes;
        let norm = |j: usize| layer_norm(hidden, NORM_EPS, vb.pp("norms").pp(j));
        // Applied to every node and graph once, and added up where pairs are.
        let first = linear(2 * nodes + graphs, hidden, vb.pp("layers.0"))?;
        let part = |start: usize, width: usize, bias: Option<&Tensor>| {
            let weight = first.weight().narrow(1, start, width)?.contiguous()?;
            LinearWeights::new(weight, bias.cloned())
        };
        Ok(Self {
            sources: part(0, nodes, None)?,
            targets: part(nodes, nodes, None)?,
            graphs: part(2 * nodes, graphs, first.bias())?,
            hidden: linear(hidden, hidden, vb.pp("layers.1"))?,
            norms: [norm(0)?, norm(1)?],
            output: linear(hidden, outputs, vb.pp("output"))?,
            activation,
            softplus,
        })
    }

    /// Predicts `[pairs, outputs]` from node states `[N, nodes]` and graph states `[graphs, …]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(
        &self,
        nodes: &Tensor,
        graphs: &Tensor,
        node_ptr: &Offsets,
        pairs: &LabelPairs,
    ) -> Result<Tensor> {
        if nodes.dim(0)? != node_ptr.total() {
            bail!(
                "pair head: states of shape {:?} for {} nodes",
                nodes.dims(),
                node_ptr.total()
            );
        }
        if pairs.is_empty() {
            let shape = (0, self.output.out_dim());
            return Tensor::zeros(shape, nodes.dtype(), nodes.device());
        }
        let map = |x: &Tensor, map: &LinearWeights| ops::linear(x, map, Activation::Identity);
        let of_graphs = of_graphs(&map(graphs, &self.graphs)?, node_ptr)?;
        let from_sources = (map(nodes, &self.sources)? + of_graphs)?;
        let from_targets = map(nodes, &self.targets)?;
        let (sources, targets) = pairs.tensors()?;
        let mut parts = Vec::with_capacity(pairs.len().div_ceil(PAIRS_AT_ONCE));
        for start in (0..pairs.len()).step_by(PAIRS_AT_ONCE) {
            let length = PAIRS_AT_ONCE.min(pairs.len() - start);
            let rows = |states: &Tensor, ids: &Tensor| {
                states.index_select(&ids.narrow(0, start, length)?, 0)
            };
            let (source, target) = (rows(&from_sources, sources)?, rows(&from_targets, targets)?);
            let [first, second] = &self.norms;
            let states = self
                .activation
                .forward(&first.forward_sum(&source, &target)?)?;
            let states = map(&states, &self.hidden)?;
            let states = self.activation.forward(&second.forward(&states)?)?;
            parts.push(map(&states, &self.output)?);
        }
        let scores = Tensor::cat(&parts, 0)?;
        match self.softplus {
            true => softplus(&scores),
            false => Ok(scores),
        }
    }
}

/// `ln(1 + eˣ)`, without overflow.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let rest = (x.abs()?.neg()?.exp()? + 1.0)?.log()?;
    x.relu()? + rest
}
