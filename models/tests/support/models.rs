//! Random configurations and weights of GRIT.

use candle_core::{DType, Device, Shape, Tensor};
use candle_graph::encodings::Rrwp;
use candle_graph::nn::{EdgeDecoding, FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::Activation;
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use candle_graph_models::{ModelConfig, Predictor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};
use proptest::prelude::*;

use super::Stream;

/// How random weights are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// Every tensor at random. Attention scores come near 0, where the slope of the signed root is
    /// infinite and rounding grows from 1e-7 to 1e-4: for comparisons in f64, or bit by bit.
    Any,
    /// Query and edge maps with a large bias and small factors, so that scores keep away from 0 and
    /// f32 results differ by a moderate multiple of the rounding error.
    FarFromZero,
}

/// A configuration and the seed of its weights.
#[derive(Debug, Clone)]
pub(crate) struct ModelSpec {
    pub(crate) config: GritConfig,
    pub(crate) seed: u64,
}

impl ModelSpec {
    /// The model on the CPU.
    pub(crate) fn build(&self, dtype: DType, weights: Weights) -> Predictor {
        let backend = RandomWeights {
            seed: self.seed,
            weights,
            head_dim: self.config.hidden_dim / self.config.heads,
        };
        let vb = VarBuilder::from_backend(Box::new(backend), dtype, Device::Cpu);
        let model = ModelConfig::Grit(self.config.clone()).build(vb).unwrap();
        Predictor::new(model, Device::Cpu)
    }
}

struct RandomWeights {
    seed: u64,
    weights: Weights,
    head_dim: usize,
}

impl SimpleBackend for RandomWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let hash = |h: u64, b: u8| h.wrapping_mul(31).wrapping_add(u64::from(b));
        let mut stream = Stream::new(name.bytes().fold(self.seed, hash));
        let far = self.weights == Weights::FarFromZero;
        let fan_in = (shape.dims().last().copied().unwrap_or(1) as f64).sqrt();
        let ends = |end: &str| name.ends_with(end);
        let (centre, spread) = match name {
            _ if ends("running_var") => (1.0, 0.5),
            _ if name.contains("norm") && ends("weight") => (1.0, 0.3),
            _ if name.contains("rezero") => (0.5, 0.5),
            _ if far && ends("attention.query.bias") => (4.0, 0.5),
            _ if far && (ends("attention.query.weight") || ends("attention.key.weight")) => {
                (0.0, 0.2 / fan_in)
            }
            _ if far && ends("attention.edge.weight") => (0.0, 0.2 / fan_in),
            _ if ends("bias") || ends("running_mean") => (0.0, 0.5),
            _ if ends("degree_scaler") => (0.0, 1.0),
            _ => (0.0, 1.5 / fan_in),
        };
        let of_row = |row: usize| match row % (2 * self.head_dim) < self.head_dim {
            true if row.is_multiple_of(3) => -3.0,
            true => 3.0,
            false => 0.0,
        };
        let factors = far && ends("attention.edge.bias");
        let values: Vec<f64> = (0..shape.elem_count())
            .map(|at| centre + spread * stream.signed() + if factors { of_row(at) } else { 0.0 })
            .collect();
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("the shape of {name} must be known")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}

fn any_activation() -> impl Strategy<Value = Activation> {
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

fn any_encoder(width: usize) -> impl Strategy<Value = FeatureEncoderConfig> {
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

fn any_head(width: usize) -> impl Strategy<Value = HeadConfig> {
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
