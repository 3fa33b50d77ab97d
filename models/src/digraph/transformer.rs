//! Transformer layers with message passing before queries and keys.

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{
    DirectedMessagePassing, MessageWidths, QueryKeyStates, StructureAwareAttention,
    StructureAwareAttentionConfig, batch_norm, layer_norm, linear,
};
use candle_graph::ops::{Activation, Affine, LayerNorm, LinearWeights, feed_forward};
use candle_nn::VarBuilder;

use super::positional::Relative;
use super::{DigraphConfig, DirectedPositionalConfig, TransformerEncoderConfig};
use crate::Trace;
use crate::sections::NORM_EPS;

/// The norm of a model: one kind everywhere.
#[derive(Debug, Clone)]
enum Norm {
    Layer(LayerNorm),
    Batch(Affine),
}

impl Norm {
    fn new(width: usize, batch: bool, vb: VarBuilder<'_>) -> Result<Self> {
        Ok(match batch {
            true => Self::Batch(batch_norm(width, NORM_EPS, vb)?),
            false => Self::Layer(layer_norm(width, NORM_EPS, vb)?),
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Layer(norm) => norm.forward(x),
            Self::Batch(norm) => norm.forward(x),
        }
    }

    /// Of a residual sum.
    fn forward_sum(&self, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Layer(norm) => norm.forward_sum(residual, x),
            Self::Batch(norm) => norm.forward(&(residual + x)?),
        }
    }
}

/// The layers.
#[derive(Debug, Clone)]
pub(super) struct TransformerLayers {
    layers: Vec<Layer>,
    degree_scaled_residual: bool,
}

#[derive(Debug, Clone)]
struct Layer {
    structure: Option<(DirectedMessagePassing, Norm)>,
    attention: StructureAwareAttention,
    norm_first: Option<Norm>,
    norm_attention: Norm,
    feed_forward: [LinearWeights; 2],
    norm_feed_forward: Option<Norm>,
    activation: Activation,
}

/// What all layers read of a batch.
struct Context<'a> {
    edges: Option<&'a Tensor>,
    batch: &'a GraphBatch,
    relative: Option<&'a Relative>,
    /// Factor of what attention adds, `[nodes, 1]`.
    degree_scale: Option<Tensor>,
}

impl TransformerLayers {
    /// Loads for every layer, under `layers.{i}`: `structure.…` with its norm `structure.norm` where
    /// there is one; `attention.…` ([`StructureAwareAttention::new`]); the norms `norm_first` (where
    /// wanted), `norm_attention` and `norm_feed_forward`; the maps `feed_forward.{input,output}`.
    pub(super) fn new(
        model: &DigraphConfig,
        config: &TransformerEncoderConfig,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let layer = |i: usize| Layer::new(model, config, vb.pp("layers").pp(i));
        Ok(Self {
            layers: (0..config.layers).map(layer).collect::<Result<_>>()?,
            degree_scaled_residual: config.degree_scaled_residual,
        })
    }

    /// Node states `[nodes, D]` to the same shape; tokens are part of `batch`.
    pub(super) fn forward(
        &self,
        mut nodes: Tensor,
        edges: Option<&Tensor>,
        batch: &GraphBatch,
        relative: Option<&Relative>,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let degree_scale = match self.degree_scaled_residual {
            true => {
                let degrees = batch.out_degrees().iter();
                let scale: Vec<f32> = degrees
                    .map(|&degree| (1.0 / (f64::from(degree) + 1.0).sqrt()) as f32)
                    .collect();
                let scale = Tensor::from_vec(scale, (batch.num_nodes(), 1), batch.device())?;
                Some(scale.to_dtype(nodes.dtype())?)
            }
            false => None,
        };
        let context = Context {
            edges,
            batch,
            relative,
            degree_scale,
        };
        for (i, layer) in self.layers.iter().enumerate() {
            nodes = layer.forward(i, nodes, &context, trace)?;
        }
        Ok(nodes)
    }
}

impl Layer {
    fn new(
        model: &DigraphConfig,
        config: &TransformerEncoderConfig,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let (width, hidden) = (model.hidden_dim, config.feed_forward_dim);
        let norm = |name: &str, width: usize| Norm::new(width, config.batch_norm, vb.pp(name));
        let (complex, pair_encoding) = match &model.positional {
            Some(DirectedPositionalConfig::Magnetic { relative: true, .. }) => (true, None),
            Some(DirectedPositionalConfig::Walk {
                walks,
                relative: true,
            }) => (false, Some(walks.channels())),
            _ => (false, None),
        };
        let attention = StructureAwareAttentionConfig {
            width,
            heads: config.heads,
            head_dim: width / config.heads,
            bias: config.bias,
            complex,
            separate_imaginary: config.separate_imaginary,
            pair_encoding,
        };
        let structure = match &config.structure {
            Some(structure) => {
                let widths = MessageWidths {
                    nodes: width,
                    edges: model.input.edge_width(width),
                    out: width,
                };
                let activation = model.activation;
                let inner = DirectedMessagePassing::inner_width(structure, widths);
                Some((
                    DirectedMessagePassing::new(structure, widths, activation, vb.pp("structure"))?,
                    norm("structure.norm", inner)?,
                ))
            }
            None => None,
        };
        Ok(Self {
            structure,
            attention: StructureAwareAttention::new(attention, vb.pp("attention"))?,
            norm_first: match config.norm_first {
                true => Some(norm("norm_first", width)?),
                false => None,
            },
            norm_attention: norm("norm_attention", width)?,
            feed_forward: [
                linear(width, hidden, vb.pp("feed_forward.input"))?,
                linear(hidden, width, vb.pp("feed_forward.output"))?,
            ],
            norm_feed_forward: match config.norm_first {
                true => None,
                false => Some(norm("norm_feed_forward", width)?),
            },
            activation: model.activation,
        })
    }

    fn forward(
        &self,
        index: usize,
        nodes: Tensor,
        context: &Context<'_>,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let batch = context.batch;
        let mut states = match &self.norm_first {
            Some(norm) => norm.forward(&nodes)?,
            None => nodes,
        };
        if let Some(Relative::Complex(encodings)) = context.relative {
            states = (states + &encodings.real)?;
        }
        let structure = match &self.structure {
            Some((layers, norm)) => {
                let (edges, adjacency) = (context.edges, batch.edges().adjacency());
                let made = layers.forward(&states, edges, adjacency, |x| norm.forward(&x))?;
                trace.record(|| format!("layers.{index}.structure"), &made);
                Some(made)
            }
            None => None,
        };
        let (real, imaginary, pairs) = match context.relative {
            Some(Relative::Complex(encodings)) => {
                let of_structure = structure.as_ref().unwrap_or(&states);
                let real = (of_structure + &encodings.real)?;
                (Some(real), encodings.imaginary.as_ref(), None)
            }
            Some(Relative::Pairs(pairs)) => (structure, None, Some(pairs)),
            None => (structure, None, None),
        };
        let of_query_key = QueryKeyStates {
            real: real.as_ref(),
            imaginary,
        };
        let mut attended =
            (self.attention).forward(&states, of_query_key, batch.node_ptr(), pairs)?;
        trace.record(|| format!("layers.{index}.attention"), &attended);
        if let Some(scale) = &context.degree_scale {
            attended = attended.broadcast_mul(scale)?;
        }
        let states = self.norm_attention.forward_sum(&states, &attended)?;
        trace.record(|| format!("layers.{index}.norm_attention"), &states);
        let made = feed_forward(&states, self.feed_forward.each_ref(), self.activation)?;
        let states = match &self.norm_feed_forward {
            Some(norm) => norm.forward_sum(&states, &made)?,
            None => (states + made)?,
        };
        trace.record(|| format!("layers.{index}.node"), &states);
        Ok(states)
    }
}
