//! Random configurations of GRIT.

use candle_core::{DType, Device};
use candle_graph::encodings::Rrwp;
use candle_graph::nn::{EdgeDecoding, FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::Activation;
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use candle_graph_models::{ModelConfig, Predictor};
use proptest::prelude::*;

use super::Weights;

/// A configuration and the seed of its weights.
#[derive(Debug, Clone)]
pub(crate) struct ModelSpec {
    pub(crate) config: GritConfig,
    pub(crate) seed: u64,
}

impl ModelSpec {
    /// The model on the CPU.
    pub(crate) fn build(&self, dtype: DType, weights: Weights) -> Predictor {
        let head_dim = self.config.hidden_dim / self.config.heads;
        let vb = weights.draw(self.seed, head_dim, dtype);
        let model = ModelConfig::Grit(self.config.clone()).build(vb).unwrap();
        Predictor::new(model, Device::Cpu)
    }
}

pub(crate) fn any_activation() -> impl Strategy<Value = Activation> {
    proptest::sample::select(vec![
        Activation::Identity,
        Activation::Relu,
        Activation::Gelu,
        Activation::Swish,
        Activation::Elu,
        Activation::Selu,
        Activation::LeakyRelu01,
        Activation::LeakyRelu02,
        Activation::LeakyRelu025,
        Activation::LeakyRelu03,
        Activation::LeakyRelu05,
    ])
}

pub(crate) fn any_encoder(width: usize) -> impl Strategy<Value = FeatureEncoderConfig> {
    prop_oneof![
        3 => proptest::collection::vec(2usize..6, 1..4)
            .prop_map(|tables| FeatureEncoderConfig::Embedding { tables }),
        2 => (1usize..4).prop_map(|width| FeatureEncoderConfig::Linear { width }),
        1 => Just(FeatureEncoderConfig::Dummy),
        1 => Just(match width {
            // A raw table as wide as the model, as long as that stays small.
            ..=16 => FeatureEncoderConfig::Raw,
            _ => FeatureEncoderConfig::Dummy,
        }),
    ]
}

pub(crate) fn any_head(width: usize) -> impl Strategy<Value = HeadConfig> {
    (0..6u8, 1usize..4, any_activation()).prop_map(move |(kind, layers, activation)| match kind {
        0 if width >= 4 => HeadConfig::SanGraph { activation },
        0 | 1 => HeadConfig::Graph { layers },
        2 => HeadConfig::InductiveNode { layers },
        3 => HeadConfig::GraphormerGraph,
        4 => HeadConfig::OgbCodeGraph { positions: 1 },
        _ => HeadConfig::InductiveEdge {
            layers,
            decoding: EdgeDecoding::Concat,
        },
    })
}

fn any_attention() -> impl Strategy<Value = GritAttentionConfig> {
    let clamp = proptest::option::of(proptest::sample::select(vec![0.5f32, 2.0, 5.0]));
    let flags: [_; 3] = [any::<bool>(), any::<bool>(), any::<bool>()];
    (clamp, any_activation(), flags).prop_map(|(clamp, activation, flags)| GritAttentionConfig {
        clamp,
        activation,
        edge_enhance: flags[0],
        use_bias: flags[1],
        full: flags[2],
    })
}

/// Small models over all options. Head widths include those that have code of their own.
pub(crate) fn any_model() -> impl Strategy<Value = ModelSpec> {
    let head_dim = proptest::sample::select(vec![1usize, 2, 3, 4, 6, 8, 13]);
    (1usize..5, head_dim).prop_flat_map(|(heads, head_dim)| {
        let width = heads * head_dim;
        let shape = (1usize..4, 1usize..4, 1usize..6, any::<bool>());
        let encoders = (any_encoder(width), proptest::option::of(any_encoder(width)));
        let pooling = proptest::sample::select(vec![Pooling::Add, Pooling::Mean, Pooling::Max]);
        let parts = (any_attention(), any_activation(), any_head(width), pooling);
        (shape, encoders, parts, any::<[bool; 9]>(), any::<u64>()).prop_map(
            move |(shape, encoders, parts, on, seed)| {
                let (layers, output_dim, steps, shortest_path) = shape;
                let (attention, activation, head, pooling) = parts;
                let config = GritConfig {
                    hidden_dim: width,
                    layers,
                    heads,
                    output_dim,
                    rrwp: Rrwp {
                        steps,
                        shortest_path,
                    },
                    node_encoder: encoders.0,
                    edge_encoder: encoders.1,
                    node_encoder_norm: on[0],
                    edge_encoder_norm: on[1],
                    encoder_norm_eps: 1e-5,
                    attention,
                    activation,
                    degree_scaler: on[2],
                    update_pairs: on[3],
                    pair_output: on[4],
                    pair_norm: on[5],
                    layer_norm: on[6],
                    batch_norm: on[7],
                    rezero: on[8],
                    pooling,
                    head,
                };
                ModelSpec { config, seed }
            },
        )
    })
}
