//! The plain graph transformer: attention among all nodes of a graph and no message passing, so
//! that the edges are seen through encodings alone. With rotary encodings it is the transformer of
//! the experiments of "Rotary Position Encodings for Graphs" (Reid et al., ICML 2026): the network
//! of the synthetic tasks (4 layers of width 32), and the point cloud transformer (4 layers of
//! width 128, feed-forward blocks of 512, rotation in some layers).
//!
//! Facts of the official network (`GT` of cederikhoefs/Graph-RoPE): the attention's output goes
//! through a second affine map before the residual sum; norms stand behind the sums, LayerNorm over
//! the channels of a node, or BatchNorm; the feed-forward block is twice as wide. The released
//! softmax attention has its padding mask inverted; this is attention among the nodes of a graph.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.bias` `[pairs, heads]` (Graphormer),
//! `rotary.coordinates` `[nodes, m]`, and for every layer `layers.{i}.attention` and
//! `layers.{i}.node` `[nodes, D]`; at the end `pooled` and `prediction`. Rows of graph tokens are
//! included.

mod config;

use candle_core::{Result, Tensor};
use candle_graph::graph::{GraphBatch, Offsets};
use candle_graph::nn::{Attention, Rotation, linear};
use candle_graph::ops::{self, Activation, LinearWeights, feed_forward};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::post_norm::PostNorm;
use crate::rotations::Rotations;
use crate::sections::Input;
use crate::{NodeStates, Trace};

pub use config::{NormPlace, TransformerConfig};

/// One layer.
#[derive(Debug, Clone)]
struct Layer {
    attention: Attention,
    second_output: Option<LinearWeights>,
    norm_attention: PostNorm,
    feed_forward: [LinearWeights; 2],
    activation: Activation,
    norm_feed_forward: PostNorm,
    residual: bool,
    norm_place: NormPlace,
}

impl Layer {
    fn new(config: &TransformerConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let (width, hidden) = (config.hidden_dim, config.feed_forward_dim);
        let norms = (config.layer_norm, config.batch_norm);
        Ok(Self {
            attention: Attention::new(&config.attention, width, vb.pp("attention"))?,
            second_output: match config.second_output {
                true => Some(linear(width, width, vb.pp("second_output"))?),
                false => None,
            },
            norm_attention: PostNorm::new(width, norms, "attention", &vb)?,
            feed_forward: [
                linear(width, hidden, vb.pp("feed_forward.input"))?,
                linear(hidden, width, vb.pp("feed_forward.output"))?,
            ],
            activation: config.activation,
            norm_feed_forward: PostNorm::new(width, norms, "feed_forward", &vb)?,
            residual: config.residual,
            norm_place: config.norm_place,
        })
    }

    /// The states behind a block.
    fn block(
        &self,
        nodes: &Tensor,
        norm: &PostNorm,
        block: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let made = match self.norm_place {
            NormPlace::After => block(nodes)?,
            NormPlace::Before => block(&norm.forward(nodes.clone())?)?,
        };
        let sum = match self.residual {
            true => (nodes + made)?,
            false => made,
        };
        match self.norm_place {
            NormPlace::After => norm.forward(sum),
            NormPlace::Before => Ok(sum),
        }
    }

    /// The states of the next layer.
    fn forward(
        &self,
        index: usize,
        nodes: &Tensor,
        context: &Context<'_>,
        rotation: Option<&Rotation>,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let nodes = self.block(nodes, &self.norm_attention, |nodes| {
            let (node_ptr, bias) = (context.node_ptr, context.bias);
            let attended = self.attention.forward(nodes, node_ptr, bias, rotation)?;
            trace.record(|| format!("layers.{index}.attention"), &attended);
            match &self.second_output {
                Some(map) => ops::linear(&attended, map, Activation::Identity),
                None => Ok(attended),
            }
        })?;
        let nodes = self.block(&nodes, &self.norm_feed_forward, |nodes| {
            feed_forward(nodes, self.feed_forward.each_ref(), self.activation)
        })?;
        trace.record(|| format!("layers.{index}.node"), &nodes);
        Ok(nodes)
    }
}

/// What all layers read of a batch.
struct Context<'a> {
    node_ptr: &'a Offsets,
    bias: Option<&'a Tensor>,
}

/// The plain graph transformer.
#[derive(Debug, Clone)]
pub struct Transformer {
    config: TransformerConfig,
    frame: Frame,
    input: Input,
    rotations: Rotations,
    layers: Vec<Layer>,
    /// Behind the last layer, where norms stand before the blocks.
    norm: Option<PostNorm>,
}

impl Transformer {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &TransformerConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let layers = (0..config.layers)
            .map(|i| Layer::new(config, vb.pp("layers").pp(i)))
            .collect::<Result<_>>()?;
        let norms = (config.layer_norm, config.batch_norm);
        Ok(Self {
            frame: Frame::new(
                config.input_schema(),
                config.encoding_plan()?,
                &config.output,
                width,
                &vb,
            )?,
            input: Input::new(&config.input, width, width, &vb)?,
            rotations: Rotations::new(
                config.rotary.as_ref(),
                Some(&config.attention),
                width,
                config.layers,
                &vb,
            )?,
            layers,
            norm: match config.norm_place {
                NormPlace::Before => Some(PostNorm::new(width, norms, "output", &vb)?),
                NormPlace::After => None,
            },
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }
}

impl Family for Transformer {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn has_pair_state(&self) -> bool {
        self.config.input.node_encoder.bias_heads().is_some()
    }

    fn depends_on_batch(&self) -> bool {
        self.config.attention.depends_on_batch()
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let encoded = self.input.forward(batch, trace)?;
        let rotations = self.rotations.for_batch(batch, trace)?;
        let context = Context {
            node_ptr: encoded.with_tokens.as_ref().unwrap_or(batch).node_ptr(),
            bias: encoded.bias.as_ref(),
        };
        let mut nodes = encoded.nodes;
        for (i, layer) in self.layers.iter().enumerate() {
            let rotation = rotations.of_layer(i)?;
            nodes = layer.forward(i, &nodes, &context, rotation.as_deref(), trace)?;
        }
        if let Some(norm) = &self.norm {
            nodes = norm.forward(nodes)?;
        }
        Ok(NodeStates::with_tokens(nodes, encoded.with_tokens))
    }
}
