//! Random models of directed graphs.

use candle_core::{DType, Device};
use candle_graph::encodings::{DirectedWalk, MagNet, Magnetic, Svd};
use candle_graph::nn::{
    DirectedMessageKind, DirectedMessagePassingConfig, FeatureEncoderConfig, MagLapNetConfig,
};
use candle_graph::ops::Activation;
use candle_graph::spectral::Potential;
use candle_graph_models::digraph::{
    DigraphConfig, DigraphEncoderConfig, DigraphHeadConfig, DigraphInputConfig,
    DirectedPositionalConfig, MagNetConfig, Readout, TransformerEncoderConfig,
};
use candle_graph_models::{ModelConfig, Predictor};
use proptest::option;
use proptest::prelude::*;

use super::Weights;
use super::models::any_encoder;

/// A configuration and the seed of its weights.
#[derive(Debug, Clone)]
pub(crate) struct DigraphSpec {
    pub(crate) config: DigraphConfig,
    pub(crate) seed: u64,
}

impl DigraphSpec {
    /// The model on the CPU.
    pub(crate) fn build(&self, dtype: DType) -> Predictor {
        let vb = Weights::Any.draw(self.seed, 1, dtype);
        let model = ModelConfig::Digraph(self.config.clone()).build(vb).unwrap();
        Predictor::new(model, Device::Cpu)
    }

    /// Whether signs, phases and bases of eigenvectors are free.
    pub(crate) fn has_free_vectors(&self) -> bool {
        matches!(
            self.config.positional,
            Some(DirectedPositionalConfig::Magnetic { .. } | DirectedPositionalConfig::Svd(_))
        )
    }
}

fn any_input(width: usize) -> impl Strategy<Value = DigraphInputConfig> {
    prop_oneof![
        3 => (any_encoder(width), option::weighted(0.7, any_encoder(width)))
            .prop_map(|(node, edge)| DigraphInputConfig::Features { node, edge, edge_dim: None }),
        1 => any::<bool>()
            .prop_map(|order| DigraphInputConfig::Comparators { timescale: 26, order }),
        1 => any::<bool>().prop_map(|ones| DigraphInputConfig::Constant { ones }),
    ]
}

fn any_network(complex: bool) -> impl Strategy<Value = MagLapNetConfig> {
    let elementwise = (1usize..4, any::<[bool; 3]>(), option::of(1usize..3)).prop_map(
        |(element_dim, on, attention_heads)| MagLapNetConfig::Elementwise {
            element_dim: element_dim + 1,
            message_passing: on[0],
            sign_invariant: on[1],
            eigenvalues: on[2],
            attention_heads,
        },
    );
    match complex {
        true => prop_oneof![4 => elementwise, 1 => Just(MagLapNetConfig::Naive)].boxed(),
        false => elementwise.boxed(),
    }
}

fn any_positional(relative: bool) -> impl Strategy<Value = DirectedPositionalConfig> {
    let potential = prop_oneof![
        Just(Potential::Absolute(0.0)),
        (0.01f64..0.3).prop_map(Potential::Absolute),
        (0.05f64..0.5).prop_map(Potential::Relative),
    ];
    let magnetic = (2usize..8, potential, any::<[bool; 2]>()).prop_flat_map(move |(k, q, on)| {
        let eigenvectors = Magnetic {
            k,
            excluded: 0,
            q,
            symmetric_norm: on[0],
            sign_rotate: on[1],
            root: None,
            l2_norm: true,
            separate_parts: false,
        };
        any_network(eigenvectors.is_complex()).prop_map(move |network| {
            let complex = eigenvectors.is_complex() && network != MagLapNetConfig::Naive;
            DirectedPositionalConfig::Magnetic {
                eigenvectors: eigenvectors.clone(),
                network,
                relative: relative && complex,
            }
        })
    });
    let walk = (1usize..4, option::of(0.05f64..0.5), any::<bool>()).prop_map(
        move |(steps, restart, also_reverse)| DirectedPositionalConfig::Walk {
            walks: DirectedWalk {
                steps,
                restart,
                also_reverse,
            },
            relative,
        },
    );
    let svd = (1usize..4).prop_map(|rank| DirectedPositionalConfig::Svd(Svd { rank }));
    prop_oneof![3 => magnetic, 2 => walk, 1 => svd]
}

fn any_messages(edges: bool) -> impl Strategy<Value = DirectedMessagePassingConfig> {
    (1usize..4, 1usize..3, 1usize..3, any::<[bool; 5]>()).prop_map(
        move |(steps, mlp_layers, tightening_factor, on)| {
            let kind = match on[0] && edges {
                true => DirectedMessageKind::Convolution,
                false => DirectedMessageKind::GraphNetwork,
            };
            let convolution = kind == DirectedMessageKind::Convolution;
            DirectedMessagePassingConfig {
                messages: kind,
                steps,
                mlp_layers,
                tightening_factor,
                edge_features: edges && (on[1] || convolution),
                concatenate: on[2],
                residual: on[3] && edges && (on[1] || convolution),
                bidirectional: on[4],
            }
        },
    )
}

fn any_encoder_layers(width: usize, edges: bool) -> impl Strategy<Value = DigraphEncoderConfig> {
    let structure = option::weighted(0.6, any_messages(edges));
    let transformer = (1usize..3, 1usize..3, structure, any::<[bool; 5]>()).prop_map(
        move |(layers, heads, structure, on)| {
            DigraphEncoderConfig::Transformer(TransformerEncoderConfig {
                layers,
                heads,
                feed_forward_dim: 2 * width,
                bias: on[0],
                separate_imaginary: on[1],
                structure,
                degree_scaled_residual: on[2],
                norm_first: on[3],
                batch_norm: on[4],
            })
        },
    );
    let magnet = (1usize..4, 0.0f64..0.3).prop_map(|(layers, q)| {
        DigraphEncoderConfig::MagNet(MagNetConfig {
            layers,
            laplacian: MagNet {
                q: Potential::Absolute(q),
            },
            eigenvalue_of_batch: false,
        })
    });
    let messages = any_messages(edges).prop_map(DigraphEncoderConfig::MessagePassing);
    prop_oneof![5 => transformer, 2 => messages, 1 => magnet]
}

/// Small models over all options but the readout of the second node, which the order of nodes
/// changes, and MagNet with the eigenvalue of the batch.
pub(crate) fn any_digraph_model() -> impl Strategy<Value = DigraphSpec> {
    (2usize..9).prop_flat_map(|half| {
        let width = 2 * half;
        any_input(width).prop_flat_map(move |input| {
            let edges = matches!(&input, DigraphInputConfig::Features { edge: Some(_), .. });
            any_encoder_layers(width, edges).prop_flat_map(move |encoder| {
                let relative = matches!(encoder, DigraphEncoderConfig::Transformer(_));
                let magnet = matches!(encoder, DigraphEncoderConfig::MagNet(_));
                let relative = any::<bool>().prop_map(move |on| on && relative);
                let positional = relative.prop_flat_map(any_positional);
                let head = prop_oneof![
                    2 => (1usize..3).prop_map(|positions| DigraphHeadConfig::Graph { positions }),
                    1 => any::<bool>().prop_map(|softplus| DigraphHeadConfig::Pairs { softplus }),
                ];
                let activations = vec![Activation::Relu, Activation::Gelu, Activation::GeluTanh];
                let parts = (
                    option::weighted(0.8, positional),
                    proptest::sample::select(activations),
                    head,
                    0u8..3,
                    any::<u64>(),
                );
                let input = input.clone();
                parts.prop_map(
                    move |(positional, activation, head, readout, seed)| DigraphSpec {
                        config: DigraphConfig {
                            hidden_dim: width,
                            input: input.clone(),
                            positional,
                            encoder: encoder.clone(),
                            activation,
                            readout: match readout {
                                0 if !magnet => Readout::Token,
                                1 => Readout::SumAndSize,
                                _ => Readout::Mean,
                            },
                            output_dim: match head {
                                DigraphHeadConfig::Graph { positions } => 3 * positions,
                                _ => 2,
                            },
                            head,
                        },
                        seed,
                    },
                )
            })
        })
    })
}
