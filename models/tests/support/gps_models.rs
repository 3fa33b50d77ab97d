//! Random configurations of the families of GraphGPS.

use candle_core::{DType, Device};
use candle_graph::graph::FeatureSchema;
use candle_graph::nn::{
    AttentionConfig, BigBirdLayout, FeatureEncoderConfig, FeatureMapConfig, MessagePassingConfig,
    NodeEncoderConfig, Pooling, PositionalEncoderConfig, RotaryConfig, SanWeighting,
};
use candle_graph::ops::Activation;
use candle_graph_models::gps::{GpsConfig, GpsNorm};
use candle_graph_models::graphormer::GraphormerConfig;
use candle_graph_models::mpnn::MpnnConfig;
use candle_graph_models::san::SanConfig;
use candle_graph_models::sections::{InputConfig, OutputConfig, PreLayersConfig};
use candle_graph_models::sgformer::SgFormerConfig;
use candle_graph_models::transformer::{NormPlace, TransformerConfig};
use candle_graph_models::{ModelConfig, Predictor};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::Weights;
use super::models::{any_activation, any_encoder, any_head};
use super::positional::{Limits, Positional, any_positional, has_token};
use super::rotary::{any_rotary, fitted};
use super::sgformer::{Branches, any_branches};

/// A configuration and the seed of its weights.
#[derive(Debug, Clone)]
pub(crate) struct GpsSpec {
    pub(crate) config: ModelConfig,
    pub(crate) seed: u64,
}

impl GpsSpec {
    /// The model on the CPU.
    pub(crate) fn build(&self, dtype: DType) -> Predictor {
        let vb = Weights::Any.draw(self.seed, 1, dtype);
        Predictor::new(self.config.build(vb).unwrap(), Device::Cpu)
    }

    pub(crate) fn input(&mut self) -> &mut InputConfig {
        match &mut self.config {
            ModelConfig::Gps(config) => &mut config.input,
            ModelConfig::Mpnn(config) => &mut config.input,
            ModelConfig::San(config) => &mut config.input,
            ModelConfig::Graphormer(config) => &mut config.input,
            ModelConfig::Transformer(config) => &mut config.input,
            ModelConfig::SgFormer(config) => &mut config.input,
            other => panic!("{} is another family", other.model_type()),
        }
    }

    pub(crate) fn output(&mut self) -> &mut OutputConfig {
        match &mut self.config {
            ModelConfig::Gps(config) => &mut config.output,
            ModelConfig::Mpnn(config) => &mut config.output,
            ModelConfig::San(config) => &mut config.output,
            ModelConfig::Graphormer(config) => &mut config.output,
            ModelConfig::Transformer(config) => &mut config.output,
            ModelConfig::SgFormer(config) => &mut config.output,
            other => panic!("{} is another family", other.model_type()),
        }
    }

    /// The same with one kind of edge along the shortest paths of Graphormer: which of several
    /// shortest paths counts depends on the order of the edges, as documented, and then makes no
    /// difference.
    pub(crate) fn with_one_edge_type(mut self) -> Self {
        let input = self.input();
        for encoder in &mut input.node_encoder.positional {
            if let PositionalEncoderConfig::Graphormer { edge_types, .. } = encoder {
                *edge_types = 1;
                if let Some(FeatureEncoderConfig::Embedding { tables }) = &mut input.edge_encoder {
                    *tables = vec![1];
                }
            }
        }
        self
    }

    /// The same with blocks of BigBird that hold every graph of the tests. The nodes of a graph are
    /// cut into blocks in their order, so that otherwise the result depends on it.
    pub(crate) fn with_one_block(mut self) -> Self {
        let attention = match &mut self.config {
            ModelConfig::Gps(config) => config.attention.as_mut(),
            ModelConfig::Transformer(config) => Some(&mut config.attention),
            _ => None,
        };
        if let Some(AttentionConfig::BigBird { block_size, .. }) = attention {
            *block_size = 64;
        }
        self
    }
}

fn any_local(heads: usize) -> impl Strategy<Value = MessagePassingConfig> {
    use MessagePassingConfig::{Gat, GatedGcn, Gcn, GenConv, Gin, Gine, Pna};
    prop_oneof![
        2 => any_activation().prop_map(|activation| Gine { activation }),
        1 => any_activation().prop_map(|activation| Gin { activation }),
        1 => Just(Gcn),
        1 => Just(Gat { heads }),
        1 => Just(GenConv),
        1 => Just(Pna),
        2 => (any_activation(), any::<bool>())
            .prop_map(|(activation, residual)| GatedGcn { activation, residual }),
    ]
}

fn any_attention(heads: usize) -> impl Strategy<Value = AttentionConfig> {
    let performer = (1usize..4, 1usize..9, 1usize..12);
    let performer = performer.prop_map(|(heads, head_dim, features)| AttentionConfig::Performer {
        heads,
        head_dim,
        features,
    });
    let big_bird = (1usize..4, 1usize..3, any::<bool>(), any_activation());
    let big_bird = big_bird.prop_map(move |(block_size, random_blocks, use_bias, activation)| {
        AttentionConfig::BigBird {
            heads,
            block_size,
            random_blocks,
            use_bias,
            activation,
            norm_eps: 1e-6,
            // The other layout makes a result depend on the rest of the batch.
            layout: BigBirdLayout::Graph,
        }
    });
    let feature_map = prop_oneof![
        (1usize..12).prop_map(|features| FeatureMapConfig::PositiveRandom { features }),
        select(vec![1e-3, 0.25]).prop_map(|eps| FeatureMapConfig::Relu { eps }),
        Just(FeatureMapConfig::Simple),
    ];
    let linear =
        feature_map.prop_map(move |feature_map| AttentionConfig::Linear { heads, feature_map });
    prop_oneof![
        3 => Just(AttentionConfig::softmax(heads)),
        2 => performer,
        2 => big_bird,
        3 => linear,
    ]
}

/// What stands around the layers, before a family's limits are known.
#[derive(Debug, Clone)]
struct Surroundings {
    positional: Positional,
    /// A narrow table for what the positional encoders leave.
    features: FeatureEncoderConfig,
    edge_encoder: Option<FeatureEncoderConfig>,
    node_norm: bool,
    edge_norm: bool,
    pre_layers: Option<PreLayersConfig>,
    output: OutputConfig,
    /// Pool by the graph token where there is one.
    pool_token: bool,
}

fn any_surroundings(width: usize) -> impl Strategy<Value = Surroundings> {
    let pre = (8usize..14, 1usize..3, any_activation(), any::<[bool; 2]>());
    let pre = pre.prop_map(|(input_dim, layers, activation, on)| PreLayersConfig {
        input_dim,
        layers,
        batch_norm: on[0],
        activation,
        normalise_rows: on[1],
    });
    let pooling = select(vec![Pooling::Add, Pooling::Mean, Pooling::Max]);
    let output = (1usize..4, pooling, any_head(width))
        .prop_map(|(dim, pooling, head)| OutputConfig { dim, pooling, head });
    let encoders = (any_encoder(8), option::of(any_encoder(width)));
    let pre = option::weighted(0.3, pre);
    (any_positional(), encoders, pre, output, any::<[bool; 3]>()).prop_map(
        |(positional, encoders, pre_layers, output, on)| Surroundings {
            positional,
            features: encoders.0,
            edge_encoder: encoders.1,
            node_norm: on[0],
            edge_norm: on[1],
            pre_layers,
            output,
            pool_token: on[2],
        },
    )
}

impl Surroundings {
    /// The sections within `limits`; `edges` tells that a layer reads edge states.
    fn sections(&self, limits: &Limits, edges: bool) -> (InputConfig, OutputConfig) {
        let positional = self.positional.list(limits);
        let token = has_token(&positional);
        let node_encoder = NodeEncoderConfig {
            features: self.features.clone(),
            prepend: None,
            positional,
        };
        let mut edge_encoder = self.edge_encoder.clone();
        if edges && edge_encoder.is_none() {
            edge_encoder = Some(FeatureEncoderConfig::Dummy);
        }
        if let Some(FeatureSchema::Categorical { tables }) = node_encoder.edge_schema()
            && edge_encoder
                .as_ref()
                .is_some_and(|e| *e != FeatureEncoderConfig::Dummy)
        {
            // The bias and the encoder read the same column.
            edge_encoder = Some(FeatureEncoderConfig::Embedding { tables });
        }
        let mut output = self.output.clone();
        if self.pool_token && token {
            output.pooling = Pooling::GraphToken;
        }
        let input = InputConfig {
            node_encoder,
            edge_encoder,
            node_norm: self.node_norm,
            edge_norm: self.edge_norm,
            norm_eps: 1e-5,
            pre_layers: self.pre_layers.clone(),
        };
        (input, output)
    }
}

/// What the families differ in.
#[derive(Debug, Clone)]
enum Family {
    Gps(
        Option<MessagePassingConfig>,
        Option<AttentionConfig>,
        GpsNorm,
        Option<RotaryConfig>,
    ),
    Transformer {
        attention: AttentionConfig,
        rotary: Option<RotaryConfig>,
        feed_forward_dim: usize,
        norm_place: NormPlace,
        /// Second output map, residual sums, LayerNorm, BatchNorm.
        on: [bool; 4],
    },
    SgFormer(Branches, Option<RotaryConfig>),
    Mpnn(MessagePassingConfig, bool),
    San(SanWeighting, [bool; 4]),
    Graphormer,
}

fn any_family(heads: usize) -> impl Strategy<Value = Family> {
    let parts = prop_oneof![
        3 => (any_local(heads), any_attention(heads)).prop_map(|(l, a)| (Some(l), Some(a))),
        1 => any_local(heads).prop_map(|l| (Some(l), None)),
        1 => any_attention(heads).prop_map(|a| (None, Some(a))),
    ];
    let norm = select(vec![GpsNorm::None, GpsNorm::Batch, GpsNorm::GraphLayer]);
    let place = select(vec![NormPlace::After, NormPlace::Before]);
    let rotary = option::weighted(0.7, any_rotary());
    let transformer = (
        any_attention(heads),
        rotary,
        1usize..20,
        place,
        any::<[bool; 4]>(),
    );
    let transformer =
        transformer.prop_map(|(attention, rotary, feed_forward_dim, norm_place, on)| {
            Family::Transformer {
                attention,
                rotary,
                feed_forward_dim,
                norm_place,
                on,
            }
        });
    let weighting = prop_oneof![
        Just(SanWeighting::Separate),
        select(vec![0.0, 1e-5, 0.5]).prop_map(|gamma| SanWeighting::Shared { gamma }),
    ];
    prop_oneof![
        5 => (parts, norm, option::of(any_rotary())).prop_map(
            |((local, attention), norm, rotary)| Family::Gps(local, attention, norm, rotary)
        ),
        3 => transformer,
        3 => (any_branches(), option::of(any_rotary()))
            .prop_map(|(branches, rotary)| Family::SgFormer(branches, rotary)),
        2 => (any_local(heads), any::<bool>())
            .prop_map(|(layer, residual)| Family::Mpnn(layer, residual)),
        2 => (weighting, any::<[bool; 4]>()).prop_map(|(w, on)| Family::San(w, on)),
        1 => Just(Family::Graphormer),
    ]
}

/// Small models of all families over all options.
pub(crate) fn any_gps_model() -> impl Strategy<Value = GpsSpec> {
    let widths = vec![
        (8usize, 1usize),
        (8, 2),
        (8, 8),
        (9, 3),
        (11, 1),
        (12, 4),
        (16, 2),
        (20, 4),
        (24, 3),
    ];
    select(widths).prop_flat_map(|(width, heads)| {
        let parts = (any_family(heads), any_surroundings(width));
        (parts, 1usize..4, any_activation(), any::<u64>()).prop_map(
            move |((family, around), layers, activation, seed)| {
                let config = model(family, &around, [width, heads, layers], activation);
                GpsSpec { config, seed }
            },
        )
    })
}

fn model(
    family: Family,
    around: &Surroundings,
    [hidden_dim, heads, layers]: [usize; 3],
    activation: Activation,
) -> ModelConfig {
    let mut limits = Limits {
        positions: false,
        bias_heads: None,
        tokens: false,
    };
    match family {
        Family::Gps(local, attention, norm, rotary) => {
            limits.positions = local.as_ref().is_some_and(|l| l.takes_positions());
            if let Some(AttentionConfig::Softmax { heads, .. }) = attention {
                limits.bias_heads = Some(heads);
            }
            let rotary = attention.as_ref().and(rotary);
            limits.tokens = rotary.is_none();
            let edges = local.as_ref().is_some_and(|l| l.reads_edges());
            let (input, output) = around.sections(&limits, edges);
            let rotary = rotary
                .zip(attention.as_ref())
                .and_then(|(rotary, attention)| {
                    let positional = &input.node_encoder.positional;
                    fitted(rotary, attention, hidden_dim, layers, positional)
                });
            ModelConfig::Gps(GpsConfig {
                hidden_dim,
                layers,
                input,
                local,
                attention,
                rotary,
                norm,
                activation,
                output,
            })
        }
        Family::Transformer {
            attention,
            rotary,
            feed_forward_dim,
            norm_place,
            on: [second_output, residual, layer_norm, batch_norm],
        } => {
            if let AttentionConfig::Softmax { heads, .. } = attention {
                limits.bias_heads = Some(heads);
            }
            limits.tokens = rotary.is_none();
            let (mut input, output) = around.sections(&limits, false);
            input.edge_encoder = None;
            let rotary = rotary.and_then(|rotary| {
                let positional = &input.node_encoder.positional;
                fitted(rotary, &attention, hidden_dim, layers, positional)
            });
            ModelConfig::Transformer(TransformerConfig {
                hidden_dim,
                layers,
                input,
                attention,
                rotary,
                second_output,
                feed_forward_dim,
                activation,
                residual,
                norm_place,
                layer_norm,
                batch_norm,
                output,
            })
        }
        Family::SgFormer((attention, message_passing, aggregation), rotary) => {
            let (mut input, output) = around.sections(&limits, false);
            input.edge_encoder = None;
            let heads = AttentionConfig::Linear {
                heads: attention.heads,
                feature_map: FeatureMapConfig::Simple,
            };
            let rotary = rotary.and_then(|rotary| {
                let (width, layers) = (attention.heads * hidden_dim, attention.layers);
                let positional = &input.node_encoder.positional;
                fitted(rotary, &heads, width, layers, positional)
            });
            ModelConfig::SgFormer(SgFormerConfig {
                hidden_dim,
                input,
                attention,
                rotary,
                message_passing,
                aggregation,
                activation,
                output,
            })
        }
        Family::Mpnn(layer, residual) => {
            limits.positions = layer.takes_positions();
            let (input, output) = around.sections(&limits, layer.reads_edges());
            let residual = match layer {
                MessagePassingConfig::GatedGcn { residual, .. } => residual,
                _ => residual,
            };
            ModelConfig::Mpnn(MpnnConfig {
                hidden_dim,
                layers,
                input,
                layer,
                residual,
                output,
            })
        }
        Family::San(weighting, [full_graph, residual, layer_norm, batch_norm]) => {
            let (input, output) = around.sections(&limits, true);
            ModelConfig::San(SanConfig {
                hidden_dim,
                layers,
                heads,
                input,
                full_graph,
                weighting,
                residual,
                layer_norm,
                batch_norm,
                output,
            })
        }
        Family::Graphormer => {
            limits.bias_heads = Some(heads);
            limits.tokens = true;
            let mut around = around.clone();
            if !around.positional.chosen.contains(&6) {
                around.positional.chosen.push(6);
            }
            let (input, output) = around.sections(&limits, false);
            ModelConfig::Graphormer(GraphormerConfig {
                hidden_dim,
                layers,
                heads,
                input,
                output,
            })
        }
    }
}
