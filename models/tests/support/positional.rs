//! Random positional encoders.

use candle_graph::encodings::{EigvecNorm, Electrostatic, Graphormer, HeatKernel, LapPe, Rwse};
use candle_graph::nn::{
    EigenvectorSet, KernelEncoder, LapPeEncoderConfig, PositionalEncoderConfig,
    SignInvariantPooling,
};
use candle_graph::spectral::LaplacianNorm;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// What the positional encoders of one model are made of.
#[derive(Debug, Clone)]
pub(crate) struct Positional {
    lap_pe: PositionalEncoderConfig,
    kernels: [PositionalEncoderConfig; 3],
    sign_net: PositionalEncoderConfig,
    equiv_stable: PositionalEncoderConfig,
    graphormer: PositionalEncoderConfig,
    /// Which of these seven.
    pub(crate) chosen: Vec<usize>,
    turned: bool,
}

/// What a family lets the encoders be.
pub(crate) struct Limits {
    /// EquivStableLapPE.
    pub(crate) positions: bool,
    /// Heads of the softmax attention that reads a bias.
    pub(crate) bias_heads: Option<usize>,
    /// Graph tokens.
    pub(crate) tokens: bool,
}

impl Positional {
    /// The encoders, less what `limits` exclude.
    pub(crate) fn list(&self, limits: &Limits) -> Vec<PositionalEncoderConfig> {
        let [walks, heat, potential] = self.kernels.clone();
        let mut all = [
            self.lap_pe.clone(),
            walks,
            heat,
            potential,
            self.sign_net.clone(),
            self.equiv_stable.clone(),
            self.graphormer.clone(),
        ];
        let positions = limits.positions && self.chosen.contains(&5);
        if let PositionalEncoderConfig::Graphormer {
            recipe,
            heads,
            graph_token,
            ..
        } = &mut all[6]
        {
            *graph_token &= limits.tokens && !positions;
            match limits.bias_heads {
                Some(of_attention) => *heads = of_attention,
                None => recipe.degrees_only = true,
            }
        }
        let chosen = self.chosen.iter().filter(|&&at| at != 5 || positions);
        let mut list: Vec<_> = chosen.map(|&at| all[at].clone()).collect();
        // Behind a graph token there may be no other encoder.
        if self.turned && !has_token(&list) {
            list.reverse();
        }
        list
    }
}

pub(crate) fn has_token(encoders: &[PositionalEncoderConfig]) -> bool {
    let token = |encoder: &_| {
        matches!(
            encoder,
            PositionalEncoderConfig::Graphormer {
                graph_token: true,
                ..
            }
        )
    };
    encoders.iter().any(token)
}

pub(crate) fn any_lap_pe_recipe() -> impl Strategy<Value = LapPe> {
    use LaplacianNorm::{None, Rw, RwLowerTriangle, Sym};
    let laplacian = select(vec![None, Sym, Rw, RwLowerTriangle]);
    let scaling = select(EigvecNorm::ALL.to_vec());
    (1usize..6, laplacian, scaling).prop_map(|(frequencies, laplacian_norm, eigvec_norm)| LapPe {
        frequencies,
        laplacian_norm,
        eigvec_norm,
    })
}

pub(crate) fn any_set() -> impl Strategy<Value = EigenvectorSet> {
    prop_oneof![
        (1usize..4).prop_map(|layers| EigenvectorSet::DeepSet { layers }),
        (0usize..2, 1usize..3)
            .prop_map(|(layers, heads)| EigenvectorSet::Transformer { layers, heads }),
    ]
}

fn any_kernel_encoder() -> impl Strategy<Value = KernelEncoder> {
    prop_oneof![
        Just(KernelEncoder::Linear),
        (1usize..4).prop_map(|layers| KernelEncoder::Mlp { layers }),
    ]
}

/// RWSE, heat kernels, electrostatics.
fn any_kernels() -> impl Strategy<Value = [PositionalEncoderConfig; 3]> {
    let times = proptest::collection::vec(1u32..9, 1..5);
    let part = || (1usize..3, any_kernel_encoder(), any::<bool>());
    (times, [part(), part(), part()]).prop_map(|(times, parts)| {
        let [walks, heat, potential] = parts;
        [
            PositionalEncoderConfig::Rwse {
                recipe: Rwse {
                    times: times.iter().map(|&t| t as usize).collect(),
                },
                dim: walks.0,
                encoder: walks.1,
                raw_norm: walks.2,
            },
            PositionalEncoderConfig::HeatKernel {
                recipe: HeatKernel { times },
                dim: heat.0,
                encoder: heat.1,
                raw_norm: heat.2,
            },
            PositionalEncoderConfig::Electrostatic {
                recipe: Electrostatic {},
                dim: potential.0,
                encoder: potential.1,
                raw_norm: potential.2,
            },
        ]
    })
}

pub(crate) fn any_sign_net() -> impl Strategy<Value = PositionalEncoderConfig> {
    let pooling = prop_oneof![
        Just(SignInvariantPooling::Concatenate),
        Just(SignInvariantPooling::Sum)
    ];
    let sizes = (1usize..3, 1usize..4, 1usize..6, 1usize..4, 1usize..3);
    (any_lap_pe_recipe(), pooling, sizes).prop_map(|(recipe, pooling, sizes)| {
        let (dim, layers, hidden_dim, output_dim, post_layers) = sizes;
        PositionalEncoderConfig::SignNet {
            recipe,
            dim,
            layers,
            hidden_dim,
            output_dim,
            pooling,
            post_layers,
        }
    })
}

fn any_graphormer() -> impl Strategy<Value = PositionalEncoderConfig> {
    let flags = any::<[bool; 3]>();
    (1usize..6, 1usize..4, flags).prop_map(|(spatial_types, edge_types, flags)| {
        PositionalEncoderConfig::Graphormer {
            recipe: Graphormer {
                spatial_types,
                // More than any graph of the tests needs.
                in_degrees: 64,
                out_degrees: 64,
                degrees_only: flags[0],
                edge_types: flags[1],
            },
            heads: 1,
            edge_types,
            graph_token: flags[2],
        }
    })
}

pub(crate) fn any_positional() -> impl Strategy<Value = Positional> {
    let lap_pe = (any_lap_pe_recipe(), any_set(), 0usize..3, any::<bool>());
    let lap_pe = lap_pe.prop_flat_map(|(recipe, set, post_layers, raw_norm)| {
        any::<bool>().prop_map(move |stable_norm| {
            // Both read the same eigenvectors.
            let stable = PositionalEncoderConfig::EquivStable {
                recipe: recipe.clone(),
                raw_norm: stable_norm,
            };
            let lap_pe = PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
                recipe: recipe.clone(),
                dim: 2,
                set: set.clone(),
                post_layers,
                raw_norm,
            });
            (lap_pe, stable)
        })
    });
    let chosen = subsequence((0..7).collect::<Vec<_>>(), 0..4);
    let parts = (lap_pe, any_kernels(), any_sign_net(), any_graphormer());
    (parts, chosen, any::<bool>()).prop_map(|(parts, chosen, turned)| {
        let ((lap_pe, equiv_stable), kernels, sign_net, graphormer) = parts;
        Positional {
            lap_pe,
            kernels,
            sign_net,
            equiv_stable,
            graphormer,
            chosen,
            turned,
        }
    })
}
