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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{DType, Device};

    use super::*;
    use crate::graph::{Graph, GraphBatch, InputSchema};
    use crate::ops::test_data::{assert_close, randn};

    const SIZES: PairHeadSizes = PairHeadSizes {
        nodes: 3,
        graphs: 4,
        hidden: 5,
        outputs: 2,
    };

    fn weights() -> HashMap<String, Tensor> {
        let shapes: [(&str, &[usize]); 10] = [
            ("layers.0.weight", &[5, 10]),
            ("layers.0.bias", &[5]),
            ("layers.1.weight", &[5, 5]),
            ("layers.1.bias", &[5]),
            ("norms.0.weight", &[5]),
            ("norms.0.bias", &[5]),
            ("norms.1.weight", &[5]),
            ("norms.1.bias", &[5]),
            ("output.weight", &[2, 5]),
            ("output.bias", &[2]),
        ];
        let random = |(name, shape): &(&str, &[usize])| (name.to_string(), randn(shape, 0.7));
        shapes.iter().map(random).collect()
    }

    #[test]
    fn maps_of_nodes_and_graphs_are_the_map_of_all_three_side_by_side() {
        let tensors = weights();
        let pairs = [vec![[0i64, 1], [2, 2]], vec![], vec![[0, 0]]];
        let graphs = pairs.clone().map(|pairs| {
            let builder = Graph::builder(3).edge_label_index(pairs);
            builder.build().unwrap()
        });
        let batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let pairs = batch.edge_label_index().unwrap();
        let (nodes, of_graphs) = (randn(&[9, 3], 1.0), randn(&[3, 4], 1.0));
        let beside = |source: usize, target: usize, graph: usize| {
            let row = |t: &Tensor, at: usize| t.narrow(0, at, 1).unwrap();
            let parts = [
                row(&nodes, source),
                row(&nodes, target),
                row(&of_graphs, graph),
            ];
            Tensor::cat(&parts, 1).unwrap()
        };
        let inputs = [beside(0, 1, 0), beside(2, 2, 0), beside(6, 6, 2)];
        let inputs = Tensor::cat(&inputs, 0).unwrap();
        let map = |x: &Tensor, name: &str| {
            let part = |part: &str| tensors[&format!("{name}.{part}")].clone();
            let weights = LinearWeights::new(part("weight"), Some(part("bias"))).unwrap();
            ops::linear(x, &weights, Activation::Identity).unwrap()
        };
        let norm = |x: &Tensor, name: &str| {
            let norm = LayerNorm {
                weight: tensors[&format!("{name}.weight")].clone(),
                bias: tensors[&format!("{name}.bias")].clone(),
                eps: NORM_EPS,
            };
            Activation::Gelu.forward(&norm.forward(x).unwrap()).unwrap()
        };
        let states = norm(&map(&inputs, "layers.0"), "norms.0");
        let scores = map(&norm(&map(&states, "layers.1"), "norms.1"), "output");
        for softplus in [false, true] {
            let vb = VarBuilder::from_tensors(tensors.clone(), DType::F32, &Device::Cpu);
            let head = PairHead::new(SIZES, Activation::Gelu, softplus, vb).unwrap();
            let found = head
                .forward(&nodes, &of_graphs, batch.node_ptr(), pairs)
                .unwrap();
            let expected = match softplus {
                true => (scores.exp().unwrap() + 1.0).unwrap().log().unwrap(),
                false => scores.clone(),
            };
            assert_close(&found, &expected, 3e-6);
        }
    }

    #[test]
    fn softplus_neither_overflows_nor_vanishes() {
        let x = Tensor::new(&[-100f32, -1.0, 0.0, 1.0, 100.0], &Device::Cpu).unwrap();
        let found = softplus(&x).unwrap().to_vec1::<f32>().unwrap();
        let expected = [0.0, 0.313_261_7, std::f32::consts::LN_2, 1.313_261_7, 100.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
