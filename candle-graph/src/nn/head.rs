//! Prediction heads.

use candle_core::{D, Result, Tensor, bail};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::{InvalidOption, layer_norm, linear};
use crate::graph::LabelPairs;
use crate::ops::{self, Activation, LayerNorm, LinearWeights, normalise_rows};

/// What a model predicts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PredictionLevel {
    /// One row a graph.
    Graph,
    /// One row a node.
    Node,
    /// One row a node pair of `edge_label_index` (link prediction).
    Edge,
}

/// How the states of two nodes become one prediction (`model.edge_decoding`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EdgeDecoding {
    /// The maps act on every node; the score is the scalar product.
    Dot,
    /// The maps act on every node; the score is the cosine of the angle.
    CosineSimilarity,
    /// The maps act on both states side by side, the source first.
    Concat,
}

/// Which head a model ends with (`gnn.head`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeadConfig {
    /// On pooled states: three linear maps D → D/2 → D/4 → outputs with an activation between
    /// (`san_graph`).
    SanGraph {
        /// Between the maps (`gnn.act`).
        activation: Activation,
    },
    /// On pooled states: `layers` linear maps; every one but the last is followed by ReLU and the
    /// normalisation of every row to length 1 (`graph`).
    Graph {
        /// Number of maps (`gnn.layers_post_mp`).
        layers: usize,
    },
    /// The same maps on node states (`inductive_node`, and `node` for all nodes).
    InductiveNode {
        /// Number of maps (`gnn.layers_post_mp`).
        layers: usize,
    },
    /// On pooled states: one linear map a position of a sequence of sub-tokens, each to the same
    /// vocabulary (`ogb_code_graph`). A prediction row is the scores of position 0, then those of
    /// position 1 and so on; the official code has 5 positions of 5002 scores, a row of 25010.
    OgbCodeGraph {
        /// Number of positions; the vocabulary is the number of outputs divided by it.
        positions: usize,
    },
    /// Layer normalisation of every node state *before* pooling, then one linear map
    /// (`graphormer_graph`).
    GraphormerGraph,
    /// On the node pairs to score: the maps of `Graph`, and a decoding (`inductive_edge`).
    InductiveEdge {
        /// Number of maps (`gnn.layers_post_mp`).
        layers: usize,
        /// How two node states become a prediction (`model.edge_decoding`).
        decoding: EdgeDecoding,
    },
}

impl HeadConfig {
    /// What the head predicts for.
    pub fn level(&self) -> PredictionLevel {
        match self {
            Self::InductiveNode { .. } => PredictionLevel::Node,
            Self::InductiveEdge { .. } => PredictionLevel::Edge,
            Self::SanGraph { .. }
            | Self::Graph { .. }
            | Self::OgbCodeGraph { .. }
            | Self::GraphormerGraph => PredictionLevel::Graph,
        }
    }

    /// Number of maps where the head leaves it open (`layers`), else 1.
    pub fn layers(&self) -> usize {
        match self {
            Self::Graph { layers }
            | Self::InductiveNode { layers }
            | Self::InductiveEdge { layers, .. } => *layers,
            Self::SanGraph { .. } | Self::OgbCodeGraph { .. } | Self::GraphormerGraph => 1,
        }
    }

    /// Checks that there is such a head from states of `width` to `outputs` values.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, width: usize, outputs: usize) -> std::result::Result<(), InvalidOption> {
        const MAX_LAYERS: usize = 1 << 20;
        let layers = self.layers();
        if !(1..=MAX_LAYERS).contains(&layers) {
            let problem = format!("{layers} is out of range, which is 1 to {MAX_LAYERS}");
            return Err(InvalidOption::new("layers", problem));
        }
        match self {
            Self::SanGraph { .. } if width < 4 => Err(InvalidOption::new(
                "",
                format!("san_graph quarters hidden_dim, which must be at least 4 and is {width}"),
            )),
            Self::OgbCodeGraph { positions }
                if *positions == 0 || !outputs.is_multiple_of(*positions) =>
            {
                Err(InvalidOption::new(
                    "positions",
                    format!(
                        "ogb_code_graph shares {outputs} outputs among {positions} positions: a \
                         row is as many scores for each, the official one 5 times 5002"
                    ),
                ))
            }
            Self::InductiveEdge { decoding, .. }
                if *decoding != EdgeDecoding::Concat && outputs != 1 =>
            {
                Err(InvalidOption::new(
                    "decoding",
                    format!(
                        "inductive_edge gives one score a pair with this decoding, not {outputs}: \
                         use the decoding concat"
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Widths from input to output.
    fn widths(&self, width: usize, outputs: usize) -> Vec<usize> {
        let mut widths = vec![width; self.layers().max(1)];
        widths.push(outputs);
        match self {
            Self::SanGraph { .. } => return vec![width, width / 2, width / 4, outputs],
            Self::InductiveEdge { decoding, .. } => match (decoding, widths.as_mut_slice()) {
                (EdgeDecoding::Concat, [first, ..]) => *first = width.saturating_mul(2),
                (_, [.., last]) => *last = width,
                (_, []) => {}
            },
            _ => {}
        }
        widths
    }
}

/// Maps states to predictions.
///
/// Heads of graphs go through [`node_states`](Self::node_states), the model's pooling and
/// [`forward`](Self::forward); heads of nodes through `forward` alone; heads of node pairs through
/// [`forward_pairs`](Self::forward_pairs).
#[derive(Debug, Clone)]
pub struct Head {
    node_norm: Option<LayerNorm>,
    layers: Vec<LinearWeights>,
    activation: Activation,
    normalise_rows: bool,
    decoding: Option<EdgeDecoding>,
    outputs: usize,
}

/// The eps of the norm before pooling.
const NORM_EPS: f64 = 1e-5;
/// Node pairs scored at once, which bounds the memory beside the result.
const PAIRS_AT_ONCE: usize = 1 << 15;

impl Head {
    /// Loads `layers.{j}.{weight,bias}`, for `graphormer_graph` also `norm.{weight,bias}`
    /// `[width]`. The maps of `ogb_code_graph` are one a position, `[outputs / positions, width]`
    /// each.
    ///
    /// # Errors
    /// A head that [`HeadConfig::check`] refuses, missing or mis-shaped tensors.
    pub fn new(
        config: &HeadConfig,
        width: usize,
        outputs: usize,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        if let Err(invalid) = config.check(width, outputs) {
            bail!("head: {invalid}");
        }
        let layer = |j: usize| vb.pp("layers").pp(j);
        let layers = match config {
            HeadConfig::OgbCodeGraph { positions } => {
                vec![side_by_side(*positions, width, outputs, &layer)?]
            }
            _ => config
                .widths(width, outputs)
                .windows(2)
                .enumerate()
                .map(|(j, pair)| linear(pair[0], pair[1], layer(j)))
                .collect::<Result<_>>()?,
        };
        let node_norm = match config {
            HeadConfig::GraphormerGraph => Some(layer_norm(width, NORM_EPS, vb.pp("norm"))?),
            _ => None,
        };
        let (activation, normalise_rows) = match config {
            HeadConfig::SanGraph { activation } => (*activation, false),
            _ => (Activation::Relu, true),
        };
        let decoding = match config {
            HeadConfig::InductiveEdge { decoding, .. } => Some(*decoding),
            _ => None,
        };
        Ok(Self {
            node_norm,
            layers,
            activation,
            normalise_rows,
            decoding,
            outputs,
        })
    }

    /// The node states `[nodes, width]` that a head of graphs wants pooled: normalised by
    /// `graphormer_graph`, as they are by all others.
    ///
    /// # Errors
    /// A tensor operation failed.
    pub fn node_states(&self, nodes: &Tensor) -> Result<Tensor> {
        match &self.node_norm {
            Some(norm) => norm.forward(nodes),
            None => Ok(nodes.clone()),
        }
    }

    /// Predicts `[rows, outputs]` from pooled states or node states `[rows, width]`.
    ///
    /// # Errors
    /// The head scores node pairs, or a tensor operation failed.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.decoding.is_some() {
            bail!("head: inductive_edge scores node pairs and needs them beside the states");
        }
        self.maps(x)
    }

    /// Predicts `[pairs, outputs]` for node pairs from node states `[nodes, width]`.
    ///
    /// # Errors
    /// The head does not score node pairs, or a tensor operation failed.
    pub fn forward_pairs(&self, nodes: &Tensor, pairs: &LabelPairs) -> Result<Tensor> {
        let Some(decoding) = self.decoding else {
            bail!("head: only inductive_edge scores node pairs");
        };
        if pairs.is_empty() {
            return Tensor::zeros((0, self.outputs), nodes.dtype(), nodes.device());
        }
        let states = match decoding {
            EdgeDecoding::Concat => nodes.clone(),
            EdgeDecoding::Dot => self.maps(nodes)?,
            EdgeDecoding::CosineSimilarity => {
                let states = self.maps(nodes)?;
                normalise_rows(&states, COSINE_EPS)?
            }
        };
        let (sources, targets) = pairs.tensors()?;
        let mut parts = Vec::with_capacity(pairs.len().div_ceil(PAIRS_AT_ONCE));
        for start in (0..pairs.len()).step_by(PAIRS_AT_ONCE) {
            let length = PAIRS_AT_ONCE.min(pairs.len() - start);
            let rows = |ids: &Tensor| states.index_select(&ids.narrow(0, start, length)?, 0);
            let (source, target) = (rows(sources)?, rows(targets)?);
            parts.push(match decoding {
                EdgeDecoding::Concat => {
                    let both = Tensor::cat(&[&source, &target], D::Minus1)?;
                    self.maps(&both)?
                }
                EdgeDecoding::Dot | EdgeDecoding::CosineSimilarity => {
                    (source * target)?.sum_keepdim(D::Minus1)?
                }
            });
        }
        Tensor::cat(&parts, 0)
    }

    /// The linear maps and what stands between them.
    fn maps(&self, x: &Tensor) -> Result<Tensor> {
        let last = self.layers.len().saturating_sub(1);
        let mut x = x.clone();
        for (j, layer) in self.layers.iter().enumerate() {
            if j == last {
                return ops::linear(&x, layer, Activation::Identity);
            }
            x = ops::linear(&x, layer, self.activation)?;
            if self.normalise_rows {
                x = normalise_rows(&x, ROW_EPS)?;
            }
        }
        Ok(x)
    }
}

/// The smallest length that a row is divided by, of `torch.nn.functional.normalize`.
const ROW_EPS: f64 = 1e-12;
/// The same of `torch.nn.CosineSimilarity`.
const COSINE_EPS: f64 = 1e-8;

/// The maps of all positions as one.
fn side_by_side<'a>(
    positions: usize,
    width: usize,
    outputs: usize,
    layer: &impl Fn(usize) -> VarBuilder<'a>,
) -> Result<LinearWeights> {
    let vocabulary = outputs / positions;
    let tensors = |shape: &[usize], name: &str| -> Result<Tensor> {
        let parts: Vec<Tensor> = (0..positions)
            .map(|j| layer(j).get(shape, name))
            .collect::<Result<_>>()?;
        Tensor::cat(&parts, 0)
    };
    let weight = tensors(&[vocabulary, width], "weight")?;
    LinearWeights::new(weight, Some(tensors(&[vocabulary], "bias")?))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{DType, Device};

    use super::*;
    use crate::graph::{Graph, GraphBatch, InputSchema};

    fn build(
        config: &HeadConfig,
        width: usize,
        outputs: usize,
        tensors: &[(&str, &[usize], &[f32])],
    ) -> Result<Head> {
        let tensors: HashMap<String, Tensor> = tensors
            .iter()
            .map(|(name, shape, values)| {
                let tensor = Tensor::from_slice(values, *shape, &Device::Cpu).unwrap();
                (name.to_string(), tensor)
            })
            .collect();
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        Head::new(config, width, outputs, vb)
    }

    fn states(rows: &[[f32; 2]]) -> Tensor {
        Tensor::from_slice(rows.as_flattened(), (rows.len(), 2), &Device::Cpu).unwrap()
    }

    #[test]
    fn scores_of_a_code_position_stay_together() {
        let head = build(
            &HeadConfig::OgbCodeGraph { positions: 2 },
            2,
            6,
            &[
                ("layers.0.weight", &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
                ("layers.0.bias", &[3], &[0.0, 0.0, 0.5]),
                (
                    "layers.1.weight",
                    &[3, 2],
                    &[-1.0, 0.0, 0.0, -1.0, 2.0, 2.0],
                ),
                ("layers.1.bias", &[3], &[10.0, 0.0, 0.0]),
            ],
        )
        .unwrap();
        let rows = head.forward(&states(&[[2.0, 3.0], [0.0, 1.0]])).unwrap();
        assert_eq!(
            rows.to_vec2::<f32>().unwrap(),
            [
                [2.0, 3.0, 5.5, 8.0, -3.0, 10.0],
                [0.0, 1.0, 1.5, 10.0, -1.0, 2.0]
            ]
        );
    }

    #[test]
    fn heads_that_cannot_be_are_refused_in_words() {
        let edge = |decoding| HeadConfig::InductiveEdge {
            layers: 1,
            decoding,
        };
        let cases = [
            (
                HeadConfig::OgbCodeGraph { positions: 2 },
                5,
                "5 outputs among 2",
            ),
            (
                HeadConfig::OgbCodeGraph { positions: 0 },
                5,
                "among 0 positions",
            ),
            (edge(EdgeDecoding::Dot), 3, "one score a pair"),
            (edge(EdgeDecoding::CosineSimilarity), 2, "one score a pair"),
        ];
        for (config, outputs, words) in cases {
            let message = build(&config, 2, outputs, &[]).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(edge(EdgeDecoding::Concat).check(2, 3), Ok(()));
    }

    #[test]
    fn pairs_are_scored_across_blocks_and_in_their_order() {
        // The identity map: the score is the product of the two states.
        let dot = HeadConfig::InductiveEdge {
            layers: 1,
            decoding: EdgeDecoding::Dot,
        };
        let identity: [(&str, &[usize], &[f32]); 2] = [
            ("layers.0.weight", &[2, 2], &[1.0, 0.0, 0.0, 1.0]),
            ("layers.0.bias", &[2], &[0.0, 0.0]),
        ];
        let head = build(&dot, 2, 1, &identity).unwrap();
        let many = PAIRS_AT_ONCE + 3;
        let graphs = [
            Graph::builder(2)
                .edge_label_index([[0, 1], [1, 1]])
                .build()
                .unwrap(),
            Graph::builder(1)
                .edge_label_index([[0i64; 2]; 0])
                .build()
                .unwrap(),
            Graph::builder(3)
                .edge_label_index((0..many).map(|k| [(k % 3) as i64, 2]))
                .build()
                .unwrap(),
        ];
        let batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let values = [1.0f32, 2.0, 3.0, 5.0, 7.0, 11.0];
        let nodes = states(&values.map(|v| [v, 0.0]));
        let pairs = batch.edge_label_index().unwrap();
        assert_eq!(pairs.ptr().as_slice(), [0, 2, 2, (many + 2) as u32]);
        let scores = head.forward_pairs(&nodes, pairs).unwrap();
        assert_eq!(scores.dims(), [many + 2, 1]);
        let scores: Vec<f32> = scores.flatten_all().unwrap().to_vec1().unwrap();
        let expected = (0..many).map(|k| values[3 + k % 3] * 11.0);
        assert_eq!(
            scores,
            [2.0, 4.0].into_iter().chain(expected).collect::<Vec<_>>()
        );
        assert!(head.forward(&nodes).is_err());

        let none = &graphs[1..2];
        let batch = GraphBatch::new(none, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let pairs = batch.edge_label_index().unwrap();
        let scores = head.forward_pairs(&states(&[[1.0, 1.0]]), pairs).unwrap();
        assert_eq!(scores.dims(), [0, 1]);
    }
}
