//! What the node states of a directed graph model start from.

use candle_core::{DType, Tensor};
use candle_graph::graph::{BatchFeatures, GraphBatch};
use candle_graph::nn::{FeatureEncoder, Sinusoids, linear};
use candle_graph::ops::{self, Activation, LinearWeights};
use candle_graph::{Error, Result};
use candle_nn::VarBuilder;

use super::DigraphInputConfig;
use crate::Trace;

/// Largest timescale of the sinusoids of a comparator's place.
const ORDER_TIMESCALE: f64 = 1e4;

/// The built input.
#[derive(Debug, Clone)]
pub(super) struct DigraphInput {
    width: usize,
    edge_width: Option<usize>,
    dtype: DType,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Features {
        node: FeatureEncoder,
        edge: Option<FeatureEncoder>,
    },
    Comparators {
        wires: Sinusoids,
        map: LinearWeights,
        order: Option<Sinusoids>,
    },
    Constant {
        ones: bool,
    },
}

/// What the layers start from.
pub(super) struct Encoded {
    /// `[nodes, D]`.
    pub(super) nodes: Tensor,
    /// `[edges, edge width]`.
    pub(super) edges: Option<Tensor>,
}

impl DigraphInput {
    /// Loads `node_encoder.…` and `edge_encoder.…` of features; of comparators
    /// `node_encoder.linear.{weight,bias}`, from the sinusoids of both wires.
    pub(super) fn new(
        config: &DigraphInputConfig,
        width: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let edge_width = config.edge_width(width);
        let kind = match config {
            DigraphInputConfig::Features { node, edge, .. } => Kind::Features {
                node: FeatureEncoder::new(node, width, vb.pp("node_encoder"))?,
                edge: match (edge, edge_width) {
                    (Some(edge), Some(width)) => {
                        Some(FeatureEncoder::new(edge, width, vb.pp("edge_encoder"))?)
                    }
                    _ => None,
                },
            },
            DigraphInputConfig::Comparators { timescale, order } => {
                let sinusoids = |width: usize, timescale: f64| {
                    Sinusoids::new(width, timescale, vb.dtype(), vb.device())
                };
                let half = width / 2;
                // An odd half has one value more.
                let of_wires = 2 * half.next_multiple_of(2);
                Kind::Comparators {
                    wires: sinusoids(half, *timescale as f64)?,
                    map: linear(of_wires, width, vb.pp("node_encoder.linear"))?,
                    order: match order {
                        true => Some(sinusoids(width, ORDER_TIMESCALE)?),
                        false => None,
                    },
                }
            }
            DigraphInputConfig::Constant { ones } => Kind::Constant { ones: *ones },
        };
        Ok(Self {
            width,
            edge_width,
            dtype: vb.dtype(),
            kind,
        })
    }

    /// Encodes the features of `batch`.
    pub(super) fn forward(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<Encoded> {
        let count = batch.num_nodes();
        let mut edges = None;
        let nodes = match &self.kind {
            Kind::Features { node, edge } => {
                edges = match (edge, self.edge_width) {
                    // A tensor of no rows has no place in a matrix product.
                    (Some(_), Some(width)) if batch.edges().is_empty() => {
                        Some(Tensor::zeros((0, width), self.dtype, batch.device())?)
                    }
                    (Some(edge), _) => {
                        Some(edge.forward(batch.edge_features(), batch.edges().len())?)
                    }
                    (None, _) => None,
                };
                node.forward(batch.node_features(), count)?
            }
            Kind::Comparators { wires, map, order } => {
                let Some(BatchFeatures::Float(features)) = batch.node_features() else {
                    return Err(Error::Batch(
                        "the batch was not made with the schema of sorting networks".to_string(),
                    ));
                };
                let column = |at: usize| features.narrow(1, at, 1)?.squeeze(1);
                let both = [wires.forward(&column(1)?)?, wires.forward(&column(2)?)?];
                let states = ops::linear(&Tensor::cat(&both, 1)?, map, Activation::Identity)?;
                match order {
                    Some(order) => (states + order.forward(&column(0)?)?)?,
                    None => states,
                }
            }
            Kind::Constant { ones } => {
                let zeros = Tensor::zeros((count, self.width), self.dtype, batch.device())?;
                match ones {
                    true => {
                        let sines = self.width.div_ceil(2);
                        let first = zeros.narrow(1, 0, sines)?;
                        let rest = (zeros.narrow(1, sines, self.width - sines)? + 1.0)?;
                        Tensor::cat(&[first, rest], 1)?
                    }
                    false => zeros,
                }
            }
        };
        trace.record(|| "encoder.node".to_string(), &nodes);
        if let Some(edges) = &edges {
            trace.record(|| "encoder.edge".to_string(), edges);
        }
        Ok(Encoded { nodes, edges })
    }
}
