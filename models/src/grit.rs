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

use candle_core::{Result, Tensor};
use candle_graph::encodings::{EncodingPlan, EncodingRecipe, Rrwp};
use candle_graph::graph::{GraphBatch, InputSchema};
use candle_graph::nn::{
    DegreeScaler, FeatureEncoder, FeatureEncoderConfig, Head, HeadConfig, Pooling, RrwpEncoder,
    batch_norm, layer_norm, linear, linear_no_bias, pool,
};
use candle_graph::ops::{
    self, Activation, Affine, LayerNorm, LinearWeights, PairAttentionInput, PairAttentionWeights,
    PairOutput, PairUpdate, pair_attention,
};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use crate::{ConfigError, GraphModel, PredictionLevel, Trace};

/// Everything that shapes a GRIT model. The official option stands behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GritConfig {
    /// Width D of node and pair states (`gt.dim_hidden`).
    pub hidden_dim: usize,
    /// Number of layers (`gt.layers`).
    pub layers: usize,
    /// Number of attention heads, a divisor of D (`gt.n_heads`).
    pub heads: usize,
    /// Values of one prediction (`share.dim_out`).
    pub output_dim: usize,
    /// Random walk encoding (`posenc_RRWP`).
    pub rrwp: Rrwp,
    /// Encoder of node features (`dataset.node_encoder_name`).
    pub node_encoder: FeatureEncoderConfig,
    /// Encoder of edge features; without one, edges count only through the walks
    /// (`dataset.edge_encoder_name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_encoder: Option<FeatureEncoderConfig>,
    /// BatchNorm on the encoded node features (`dataset.node_encoder_bn`).
    #[serde(default)]
    pub node_encoder_norm: bool,
    /// A second BatchNorm, which the official code applies to the *nodes* as well
    /// (`dataset.edge_encoder_bn`).
    #[serde(default)]
    pub edge_encoder_norm: bool,
    /// The eps of these two norms (`bn.eps`); the norms of the layers have a fixed one.
    #[serde(default = "norm_eps")]
    pub encoder_norm_eps: f64,
    /// The attention.
    pub attention: GritAttentionConfig,
    /// Activation of the nodes' feed-forward block (`gnn.act`).
    #[serde(default)]
    pub activation: Activation,
    /// Scale the attention's result by learned functions of the degree (`gt.attn.deg_scaler`).
    #[serde(default = "yes")]
    pub degree_scaler: bool,
    /// Whether pair states change from layer to layer (`gt.update_e`).
    #[serde(default = "yes")]
    pub update_pairs: bool,
    /// Linear map after the pair state's activation (`gt.attn.O_e`).
    #[serde(default = "yes")]
    pub pair_output: bool,
    /// Norms on the pair states too (`gt.attn.norm_e`).
    #[serde(default = "yes")]
    pub pair_norm: bool,
    /// LayerNorm after every residual sum, before the BatchNorm if both are on (`gt.layer_norm`).
    #[serde(default)]
    pub layer_norm: bool,
    /// BatchNorm after every residual sum (`gt.batch_norm`).
    #[serde(default = "yes")]
    pub batch_norm: bool,
    /// Learned factors on the residual branches (`gt.rezero`).
    #[serde(default)]
    pub rezero: bool,
    /// How nodes become a graph (`model.graph_pooling`).
    #[serde(default)]
    pub pooling: Pooling,
    /// The head (`gnn.head`).
    pub head: HeadConfig,
}

/// Options of GRIT's attention (`gt.attn`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GritAttentionConfig {
    /// Bound of the logits' magnitude; none if absent (`clamp`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clamp: Option<f32>,
    /// Activation of the pair state (`act`).
    #[serde(default)]
    pub activation: Activation,
    /// Bring the aggregated pair states to the nodes (`edge_enhance`).
    #[serde(default = "yes")]
    pub edge_enhance: bool,
    /// Give keys and values a bias (`use_bias`).
    #[serde(default)]
    pub use_bias: bool,
    /// Attend to all pairs of a graph; otherwise to edges, to pairs that some walk of the encoding
    /// connects, and to the node itself (`full_attn`).
    #[serde(default = "yes")]
    pub full: bool,
}

fn yes() -> bool {
    true
}

/// The largest width or count that a configuration may ask for.
const MAX_SIZE: usize = 1 << 20;

/// The eps of every norm in the official layers.
const NORM_EPS: f64 = 1e-5;

fn norm_eps() -> f64 {
    NORM_EPS
}

impl GritConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> std::result::Result<(), ConfigError> {
        let head_layers = match self.head {
            HeadConfig::Graph { layers } | HeadConfig::InductiveNode { layers } => layers,
            _ => 1,
        };
        let positive = [
            ("hidden_dim", self.hidden_dim),
            ("layers", self.layers),
            ("heads", self.heads),
            ("output_dim", self.output_dim),
            ("head.layers", head_layers),
        ];
        for (option, value) in positive {
            if !(1..=MAX_SIZE).contains(&value) {
                return Err(ConfigError::new(
                    option,
                    format!("{value} is out of range, which is 1 to {MAX_SIZE}"),
                ));
            }
        }
        if let Err(error) = self.encoding_plan() {
            return Err(ConfigError::new("rrwp.steps", error.to_string()));
        }
        if !self.hidden_dim.is_multiple_of(self.heads) {
            return Err(ConfigError::new(
                "heads",
                format!(
                    "{} does not divide hidden_dim {}",
                    self.heads, self.hidden_dim
                ),
            ));
        }
        if self.attention.clamp.is_some_and(|c| !c.is_finite()) {
            return Err(ConfigError::new("attention.clamp", "it must be finite"));
        }
        if !(self.encoder_norm_eps.is_finite() && self.encoder_norm_eps >= 0.0) {
            return Err(ConfigError::new(
                "encoder_norm_eps",
                "it must be finite and not negative",
            ));
        }
        if matches!(self.head, HeadConfig::SanGraph { .. }) && self.hidden_dim < 4 {
            return Err(ConfigError::new(
                "head",
                "san_graph quarters hidden_dim, which must be at least 4",
            ));
        }
        for (option, encoder) in [
            ("node_encoder", Some(&self.node_encoder)),
            ("edge_encoder", self.edge_encoder.as_ref()),
        ] {
            let sizes = match encoder {
                Some(FeatureEncoderConfig::Embedding { tables }) => tables.as_slice(),
                Some(FeatureEncoderConfig::Linear { width }) => std::slice::from_ref(width),
                _ => continue,
            };
            if sizes.is_empty() || sizes.contains(&0) {
                return Err(ConfigError::new(option, "a table or input of size 0"));
            }
            if let Some(size) = sizes.iter().find(|&&size| u32::try_from(size).is_err()) {
                return Err(ConfigError::new(
                    option,
                    format!("a table or input of size {size} passes 32 bits"),
                ));
            }
        }
        Ok(())
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        InputSchema {
            node: self.node_encoder.schema(self.hidden_dim),
            edge: self
                .edge_encoder
                .as_ref()
                .map(|e| e.schema(self.hidden_dim))
                .unwrap_or_default(),
        }
    }

    /// The encodings that the model needs: RRWP.
    ///
    /// # Errors
    /// A number of walk steps out of range.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        EncodingPlan::new(vec![EncodingRecipe::Rrwp(self.rrwp.clone())])
    }
}

/// The norms after a residual sum: LayerNorm, then BatchNorm, each optional.
#[derive(Debug, Clone)]
struct PostNorm {
    layer: Option<LayerNorm>,
    batch: Option<Affine>,
}

impl PostNorm {
    fn new(config: &GritConfig, place: &str, vb: &VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        let layer = match config.layer_norm {
            true => Some(layer_norm(
                width,
                NORM_EPS,
                vb.pp(format!("layer_norm_{place}")),
            )?),
            false => None,
        };
        let batch = match config.batch_norm {
            true => Some(batch_norm(
                width,
                NORM_EPS,
                vb.pp(format!("batch_norm_{place}")),
            )?),
            false => None,
        };
        Ok(Self { layer, batch })
    }

    fn forward(&self, x: Tensor) -> Result<Tensor> {
        let x = match &self.layer {
            Some(norm) => norm.forward(&x)?,
            None => x,
        };
        match &self.batch {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}

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
        let rezero = |place: &str| vb.get((1, 1), &format!("rezero_{place}"));
        let pair_norm = match config.pair_norm {
            true => PostNorm::new(config, "pair", &vb)?,
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
            norm_attention: PostNorm::new(config, "attention", &vb)?,
            feed_forward: [
                linear(width, 2 * width, vb.pp("feed_forward.input"))?,
                linear(2 * width, width, vb.pp("feed_forward.output"))?,
            ],
            activation: config.activation,
            norm_feed_forward: PostNorm::new(config, "feed_forward", &vb)?,
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
            trace.record(|| format!("layers.{index}.attention.weights"), weights)?;
        }
        trace.record(
            || format!("layers.{index}.attention.value"),
            &attended.value,
        )?;

        let scaled = match &self.degree_scaler {
            Some(scaler) => scaler.forward(&attended.value, &context.log_degrees)?,
            None => attended.value,
        };
        let attention = ops::linear(&scaled, &self.node_output, Activation::Identity)?;
        let nodes = (nodes + self.branch(0, attention)?)?;
        let nodes = self.norm_attention.forward(nodes)?;

        let [input, output] = &self.feed_forward;
        let hidden = ops::linear(&nodes, input, self.activation)?;
        let hidden = ops::linear(&hidden, output, Activation::Identity)?;
        let nodes = (nodes + self.branch(1, hidden)?)?;
        let nodes = self.norm_feed_forward.forward(nodes)?;

        let pair = attended.pair.unwrap_or(pair);
        trace.record(|| format!("layers.{index}.node"), &nodes)?;
        trace.record(|| format!("layers.{index}.pair"), &pair)?;
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
    schema: InputSchema,
    plan: EncodingPlan,
    node_encoder: FeatureEncoder,
    edge_encoder: Option<FeatureEncoder>,
    encoder_norms: Vec<Affine>,
    rrwp: RrwpEncoder,
    layers: Vec<Layer>,
    head: Head,
}

impl Grit {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &GritConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let mut encoder_norms = Vec::new();
        for (on, name) in [
            (config.node_encoder_norm, "node_encoder_norm"),
            (config.edge_encoder_norm, "edge_encoder_norm"),
        ] {
            if on {
                encoder_norms.push(batch_norm(width, config.encoder_norm_eps, vb.pp(name))?);
            }
        }
        let encoder = |config, name: &str| FeatureEncoder::new(config, width, vb.pp(name));
        let edge_encoder = match &config.edge_encoder {
            Some(config) => Some(encoder(config, "edge_encoder")?),
            None => None,
        };
        let layers = (0..config.layers)
            .map(|i| Layer::new(config, vb.pp("layers").pp(i)))
            .collect::<Result<_>>()?;
        Ok(Self {
            schema: config.input_schema(),
            plan: config.encoding_plan()?,
            node_encoder: encoder(&config.node_encoder, "node_encoder")?,
            edge_encoder,
            encoder_norms,
            rrwp: RrwpEncoder::new(&config.rrwp, width, vb.clone())?,
            layers,
            head: Head::new(&config.head, width, config.output_dim, vb.pp("head"))?,
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
        for &pair in batch.edge_pairs() {
            if let Some(flag) = mask.get_mut(pair as usize) {
                *flag = true;
            }
        }
        let blocks = batch.node_ptr().lengths().zip(batch.pair_ptr().ranges());
        for (n, block) in blocks {
            let block = mask.get_mut(block).unwrap_or_default();
            for flag in block.iter_mut().step_by(n + 1) {
                *flag = true;
            }
        }
        Ok(mask)
    }
}

impl GraphModel for Grit {
    fn input_schema(&self) -> &InputSchema {
        &self.schema
    }

    fn encoding_plan(&self) -> &EncodingPlan {
        &self.plan
    }

    fn has_pair_state(&self) -> bool {
        true
    }

    fn prediction_level(&self) -> PredictionLevel {
        match self.config.head.is_graph_level() {
            true => PredictionLevel::Graph,
            false => PredictionLevel::Node,
        }
    }

    fn output_dim(&self) -> usize {
        self.config.output_dim
    }

    fn embedding_dim(&self) -> usize {
        self.config.hidden_dim
    }

    fn node_embeddings(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
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
        trace.record(|| "encoder.node".to_string(), &nodes)?;
        trace.record(|| "encoder.pair".to_string(), &pair)?;

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
        Ok(nodes)
    }

    fn pool(&self, nodes: &Tensor, batch: &GraphBatch) -> candle_graph::Result<Tensor> {
        Ok(pool(nodes, batch, self.config.pooling)?)
    }

    fn head(
        &self,
        nodes: &Tensor,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
        let prediction = if self.config.head.is_graph_level() {
            let pooled = self.pool(nodes, batch)?;
            trace.record(|| "pooled".to_string(), &pooled)?;
            self.head.forward(&pooled)?
        } else {
            self.head.forward(nodes)?
        };
        trace.record(|| "prediction".to_string(), &prediction)?;
        Ok(prediction)
    }
}
