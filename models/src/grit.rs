//! GRIT, "Graph Inductive Biases in Transformers without Message Passing" (Ma et al., ICML 2023).
//!
//! A transformer that keeps a state for every ordered node pair. Pair states start from relative
//! random walk probabilities and edge features, decide the attention logits, travel to the nodes
//! with the values, and are updated in every layer. No message passing, no positional encoding
//! beside the walks; node degrees enter through a learned scaler.
//!
//! Facts of the official implementation (LiamMa/GRIT) that the paper does not show: query and edge
//! maps have a bias, key and value maps none (`use_bias`); there is no 1/√d; the activated pair
//! state itself, not the weighted one, goes to the next layer; nodes have a feed-forward block,
//! pairs have none; norms come after the residual sums; the last layer's pair state is read by
//! nobody, so it is only made when activations are recorded.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.pair` `[pairs, D]`, and for every
//! layer `layers.{i}.node`, `layers.{i}.pair`, `layers.{i}.attention.weights` `[pairs, heads]`,
//! `layers.{i}.attention.value` `[nodes, D]` (before the degree scaler); at the end `pooled` and
//! `prediction`.

mod config;

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{DegreeScaler, FeatureEncoder, RrwpEncoder, linear, linear_no_bias};
use candle_graph::ops::{
    self, Activation, Affine, LinearWeights, PairAttentionInput, PairAttentionWeights, PairOutput,
    PairUpdate, feed_forward, pair_attention,
};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::post_norm::PostNorm;
use crate::sections::{OutputConfig, encoder_norms};
use crate::{NodeStates, Trace};

pub use config::{GritAttentionConfig, GritConfig};

/// One layer.
#[derive(Debug, Clone)]
struct Layer {
    query: LinearWeights,
    key: LinearWeights,
    value: LinearWeights,
    attention: PairAttentionWeights,
    pair_update: PairUpdate,
    update_pairs: bool,
    degree_scaler: Option<DegreeScaler>,
    node_output: LinearWeights,
    norm_attention: PostNorm,
    feed_forward: [LinearWeights; 2],
    activation: Activation,
    norm_feed_forward: PostNorm,
    rezero: Option<[Tensor; 2]>,
}

impl Layer {
    fn new(config: &GritConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        let (heads, head_dim) = (config.heads, width / config.heads);
        let attention = vb.pp("attention");
        let biased = |name: &str| match config.attention.use_bias {
            true => linear(width, width, attention.pp(name)),
            false => linear_no_bias(width, width, attention.pp(name)),
        };
        let edge_value = match config.attention.edge_enhance {
            true => Some(attention.get((head_dim, heads, head_dim), "edge_value")?),
            false => None,
        };
        let weights = PairAttentionWeights::new(
            linear(width, 2 * width, attention.pp("edge"))?,
            attention.get((head_dim, heads, 1), "logit_weight")?,
            edge_value,
            config.attention.activation,
            config.attention.clamp,
        )?;
        let norm = |place| {
            let norms = (config.layer_norm, config.batch_norm);
            PostNorm::new(width, norms, place, &vb)
        };
        let rezero = |place: &str| vb.get((1, 1), &format!("rezero_{place}"));
        let pair_norm = match config.pair_norm {
            true => norm("pair")?,
            false => PostNorm {
                layer: None,
                batch: None,
            },
        };
        let pair_update = PairUpdate::new(
            match config.pair_output {
                true => Some(linear(width, width, vb.pp("pair_output"))?),
                false => None,
            },
            match config.rezero {
                true => Some(rezero("pair")?),
                false => None,
            },
            pair_norm.layer,
            pair_norm.batch,
        );
        Ok(Self {
            query: linear(width, width, attention.pp("query"))?,
            key: biased("key")?,
            value: biased("value")?,
            attention: weights,
            pair_update,
            update_pairs: config.update_pairs,
            degree_scaler: match config.degree_scaler {
                true => Some(DegreeScaler::new(width, vb.clone())?),
                false => None,
            },
            node_output: linear(width, width, vb.pp("node_output"))?,
            norm_attention: norm("attention")?,
            feed_forward: [
                linear(width, 2 * width, vb.pp("feed_forward.input"))?,
                linear(2 * width, width, vb.pp("feed_forward.output"))?,
            ],
            activation: config.activation,
            norm_feed_forward: norm("feed_forward")?,
            rezero: match config.rezero {
                true => Some([rezero("attention")?, rezero("feed_forward")?]),
                false => None,
            },
        })
    }

    /// A residual branch with its ReZero factor, if any.
    fn branch(&self, which: usize, x: Tensor) -> Result<Tensor> {
        match &self.rezero {
            Some(factors) => x.broadcast_mul(&factors[which]),
            None => Ok(x),
        }
    }

    /// Node states `[nodes, D]` and pair states `[pairs, D]` of the next layer; the pair states
    /// are consumed.
    fn forward(
        &self,
        index: usize,
        last: bool,
        nodes: &Tensor,
        pair: Tensor,
        context: &Context<'_>,
        trace: &mut Trace,
    ) -> Result<(Tensor, Tensor)> {
        let plain = |weights| ops::linear(nodes, weights, Activation::Identity);
        let (query, key, value) = (plain(&self.query)?, plain(&self.key)?, plain(&self.value)?);
        let input = PairAttentionInput {
            query: &query,
            key: &key,
            value: &value,
            pair: &pair,
            layout: context.batch.pairs(),
            mask: context.mask.as_deref(),
        };
        let output = match (self.update_pairs, trace.is_on()) {
            (true, true) => PairOutput::New(&self.pair_update),
            (true, false) if !last => PairOutput::InPlace(&self.pair_update),
            _ => PairOutput::Dropped,
        };
        let attended = pair_attention(input, &self.attention, output, trace.is_on())?;
        if let Some(weights) = &attended.weights {
            trace.record(|| format!("layers.{index}.attention.weights"), weights);
        }
        trace.record(
            || format!("layers.{index}.attention.value"),
            &attended.value,
        );

        let scaled = match &self.degree_scaler {
            Some(scaler) => scaler.forward(&attended.value, &context.log_degrees)?,
            None => attended.value,
        };
        let attention = ops::linear(&scaled, &self.node_output, Activation::Identity)?;
        let nodes = (nodes + self.branch(0, attention)?)?;
        let nodes = self.norm_attention.forward(nodes)?;

        let hidden = feed_forward(&nodes, self.feed_forward.each_ref(), self.activation)?;
        let nodes = (nodes + self.branch(1, hidden)?)?;
        let nodes = self.norm_feed_forward.forward(nodes)?;

        let pair = attended.pair.unwrap_or(pair);
        trace.record(|| format!("layers.{index}.node"), &nodes);
        trace.record(|| format!("layers.{index}.pair"), &pair);
        Ok((nodes, pair))
    }
}

/// What all layers read of a batch.
struct Context<'a> {
    batch: &'a GraphBatch,
    log_degrees: Tensor,
    mask: Option<Vec<bool>>,
}

/// The GRIT model.
#[derive(Debug, Clone)]
pub struct Grit {
    config: GritConfig,
    frame: Frame,
    node_encoder: FeatureEncoder,
    edge_encoder: Option<FeatureEncoder>,
    encoder_norms: Vec<Affine>,
    rrwp: RrwpEncoder,
    layers: Vec<Layer>,
}

impl Grit {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &GritConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let output = OutputConfig {
            dim: config.output_dim,
            pooling: config.pooling,
            head: config.head.clone(),
        };
        let encoder = |config, name: &str| FeatureEncoder::new(config, width, vb.pp(name));
        let edge_encoder = match &config.edge_encoder {
            Some(config) => Some(encoder(config, "edge_encoder")?),
            None => None,
        };
        let layers = (0..config.layers)
            .map(|i| Layer::new(config, vb.pp("layers").pp(i)))
            .collect::<Result<_>>()?;
        Ok(Self {
            frame: Frame::new(
                config.input_schema(),
                config.encoding_plan()?,
                &output,
                width,
                &vb,
            )?,
            node_encoder: encoder(&config.node_encoder, "node_encoder")?,
            edge_encoder,
            encoder_norms: encoder_norms(
                (config.node_encoder_norm, config.edge_encoder_norm),
                width,
                config.encoder_norm_eps,
                &vb,
            )?,
            rrwp: RrwpEncoder::new(&config.rrwp, width, vb.clone())?,
            layers,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &GritConfig {
        &self.config
    }

    /// Pairs that take part in sparse attention: edges, pairs with a walk, the node itself.
    fn sparse_mask(&self, batch: &GraphBatch) -> candle_graph::Result<Vec<bool>> {
        let walks = batch.encoding(candle_graph::encodings::RRWP_PAIR)?;
        let reached = walks.ne(0f32)?.max(1)?.to_vec1::<u8>()?;
        let mut mask: Vec<bool> = reached.into_iter().map(|v| v != 0).collect();
        for pair in batch.edge_and_own_pairs()? {
            if let Some(flag) = mask.get_mut(pair) {
                *flag = true;
            }
        }
        Ok(mask)
    }
}

impl Family for Grit {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn has_pair_state(&self) -> bool {
        true
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let mut nodes = self
            .node_encoder
            .forward(batch.node_features(), batch.num_nodes())?;
        for norm in &self.encoder_norms {
            nodes = norm.forward(&nodes)?;
        }
        let edges = match &self.edge_encoder {
            Some(encoder) => Some(encoder.forward(batch.edge_features(), batch.edges().len())?),
            None => None,
        };
        let mut nodes = self.rrwp.nodes(&nodes, batch)?;
        let mut pair = self.rrwp.pairs(edges.as_ref(), batch)?;
        trace.record(|| "encoder.node".to_string(), &nodes);
        trace.record(|| "encoder.pair".to_string(), &pair);

        let context = Context {
            batch,
            log_degrees: DegreeScaler::log_degrees(batch)?,
            mask: match self.config.attention.full {
                true => None,
                false => Some(self.sparse_mask(batch)?),
            },
        };
        let last = self.layers.len() - 1;
        for (i, layer) in self.layers.iter().enumerate() {
            (nodes, pair) = layer.forward(i, i == last, &nodes, pair, &context, trace)?;
        }
        Ok(NodeStates::new(nodes))
    }
}
