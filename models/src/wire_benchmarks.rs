//! The models of the benchmarks of "Rotary Position Encodings for Graphs" as configurations: Tables
//! 4 to 6, 8 and 9 of the paper (Table 7 is [`sgformer`](crate::sgformer)'s).
//!
//! Sizes are those of Table 6. What the paper leaves to GraphGPS is as in the options that GraphGPS
//! published for the data set: encoders of features, poolings, heads, BatchNorm, ReLU. Coordinates
//! are the entries of the Laplacian eigenvectors as they are, with frequencies of the full width in
//! every layer. No trained weights of these models were released.

use std::fmt;
use std::str::FromStr;

use candle_graph::encodings::{EigenvectorScale, EigvecNorm, LapPe, Rotational, Rwse};
use candle_graph::nn::{
    AttentionConfig, BigBirdLayout, EigenvectorSet, FeatureEncoderConfig, FeatureMapConfig,
    HeadConfig, KernelEncoder, MessagePassingConfig, NodeEncoderConfig, Pooling,
    PositionalEncoderConfig, RotaryConfig, RotaryModulation, RotationalFeaturesConfig,
};
use candle_graph::ops::{Activation, RotaryPairs};
use candle_graph::spectral::LaplacianNorm;

use crate::gps::{GpsConfig, GpsNorm};
use crate::sections::{InputConfig, OutputConfig};
use crate::{ConfigError, ModelConfig};

/// Categories of OGB's nine atom features.
const ATOM: [usize; 9] = [119, 5, 12, 12, 10, 6, 6, 2, 2];
/// Categories of OGB's three bond features.
const BOND: [usize; 3] = [5, 6, 2];

/// A model of the paper's benchmarks: a data set and the attention of its GraphGPS layers. Written
/// `mnist/performer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireBenchmark {
    dataset: WireDataset,
    attention: WireAttention,
}

/// The data sets of Table 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum WireDataset {
    Mnist,
    Cifar10,
    Pattern,
    Cluster,
    OgbgMolhiv,
    OgbgMolpcba,
    MalNetTiny,
    PascalVoc,
    PeptidesFunc,
    PeptidesStruct,
    OgbgPpa,
    OgbgCode2,
}

impl WireDataset {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Mnist, "mnist"),
        (Self::Cifar10, "cifar10"),
        (Self::Pattern, "pattern"),
        (Self::Cluster, "cluster"),
        (Self::OgbgMolhiv, "ogbg-molhiv"),
        (Self::OgbgMolpcba, "ogbg-molpcba"),
        (Self::MalNetTiny, "malnet-tiny"),
        (Self::PascalVoc, "pascalvoc-sp"),
        (Self::PeptidesFunc, "peptides-func"),
        (Self::PeptidesStruct, "peptides-struct"),
        (Self::OgbgPpa, "ogbg-ppa"),
        (Self::OgbgCode2, "ogbg-code2"),
    ];
}

/// The attention of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireAttention {
    /// ReLU linear attention (Table 4).
    Performer,
    /// Softmax attention (Table 8).
    Softmax,
    /// Block-sparse attention (Table 9).
    BigBird,
}

impl WireAttention {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Performer, "performer"),
        (Self::Softmax, "softmax"),
        (Self::BigBird, "bigbird"),
    ];
}

impl WireBenchmark {
    /// All models for which the paper reports a result.
    pub fn all() -> impl Iterator<Item = Self> {
        use WireAttention::{BigBird, Performer, Softmax};
        use WireDataset::{Cifar10, Cluster, Mnist, OgbgMolhiv, Pattern};
        let with = |attention| move |dataset| Self { dataset, attention };
        let performers = WireDataset::ALL.into_iter().map(|(dataset, _)| dataset);
        let softmax = [Mnist, Cifar10, Pattern, Cluster, OgbgMolhiv];
        (performers.map(with(Performer)))
            .chain(softmax.into_iter().map(with(Softmax)))
            .chain([Mnist, Cifar10].into_iter().map(with(BigBird)))
    }

    /// The configuration.
    pub fn config(self) -> ModelConfig {
        let sizes = Sizes::of(self.dataset);
        let activation = Activation::Relu;
        let heads = sizes.heads;
        ModelConfig::Gps(GpsConfig {
            hidden_dim: sizes.hidden_dim,
            layers: sizes.layers,
            input: sizes.input(),
            local: Some(match sizes.local {
                Local::Gine => MessagePassingConfig::Gine { activation },
                Local::GatedGcn => MessagePassingConfig::GatedGcn {
                    activation,
                    residual: true,
                },
            }),
            attention: Some(match self.attention {
                WireAttention::Performer => AttentionConfig::Linear {
                    heads,
                    feature_map: FeatureMapConfig::Relu { eps: 1e-3 },
                },
                WireAttention::Softmax => AttentionConfig::Softmax { heads },
                WireAttention::BigBird => AttentionConfig::BigBird {
                    heads,
                    block_size: 3,
                    random_blocks: 3,
                    use_bias: false,
                    activation,
                    norm_eps: 1e-6,
                    layout: BigBirdLayout::Graph,
                },
            }),
            rotary: Some(RotaryConfig {
                features: RotationalFeaturesConfig::Raw {
                    recipe: Rotational::Eigenvectors {
                        count: sizes.eigenvectors,
                        trivial: true,
                        laplacian_norm: LaplacianNorm::None,
                        scale: EigenvectorScale::Unit,
                    },
                },
                pairs: RotaryPairs::FullWidth,
                separate_keys: false,
                share_layers: false,
                layers: None,
                modulation: RotaryModulation::BeforeFeatures,
            }),
            norm: GpsNorm::Batch,
            activation,
            output: OutputConfig {
                dim: sizes.outputs,
                pooling: sizes.pooling,
                head: sizes.head,
            },
        })
    }
}

impl fmt::Display for WireBenchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn name<T: PartialEq>(all: &[(T, &'static str)], wanted: &T) -> &'static str {
            let found = all.iter().find(|(one, _)| one == wanted);
            found.map_or("", |(_, name)| name)
        }
        let dataset = name(&WireDataset::ALL, &self.dataset);
        write!(
            f,
            "{dataset}/{}",
            name(&WireAttention::ALL, &self.attention)
        )
    }
}

impl FromStr for WireBenchmark {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Self::all()
            .find(|benchmark| benchmark.to_string() == text)
            .ok_or_else(|| {
                let known: Vec<String> = Self::all().map(|one| one.to_string()).collect();
                ConfigError::new(
                    text,
                    format!("no benchmark of WIRE; there are {}", known.join(", ")),
                )
            })
    }
}

#[derive(Debug, Clone, Copy)]
enum Local {
    Gine,
    GatedGcn,
}

/// What differs between the data sets.
#[derive(Debug, Clone)]
struct Sizes {
    hidden_dim: usize,
    heads: usize,
    local: Local,
    layers: usize,
    /// Of the rotation, and of LapPE where there is one.
    eigenvectors: usize,
    /// Columns of LapPE (Laplacian Position Encoding Dim).
    lap_pe: Option<usize>,
    /// Columns of RWSE and its longest walk.
    rwse: Option<(usize, usize)>,
    node: FeatureEncoderConfig,
    edge: FeatureEncoderConfig,
    outputs: usize,
    pooling: Pooling,
    head: HeadConfig,
}

impl Sizes {
    fn of(dataset: WireDataset) -> Self {
        use FeatureEncoderConfig::{ClampedEmbedding, Dummy, Embedding, Linear};
        let (atom, bond) = (
            || Embedding {
                tables: ATOM.to_vec(),
            },
            || Embedding {
                tables: BOND.to_vec(),
            },
        );
        let usual = Self {
            hidden_dim: 64,
            heads: 4,
            local: Local::GatedGcn,
            layers: 3,
            eigenvectors: 10,
            lap_pe: None,
            rwse: None,
            node: atom(),
            edge: bond(),
            outputs: 1,
            pooling: Pooling::Mean,
            head: HeadConfig::Graph { layers: 1 },
        };
        let on_nodes = HeadConfig::InductiveNode { layers: 3 };
        match dataset {
            WireDataset::Mnist => Self {
                local: Local::Gine,
                eigenvectors: 16,
                rwse: Some((8, 16)),
                node: Linear { width: 3 },
                edge: Linear { width: 1 },
                outputs: 10,
                head: HeadConfig::Graph { layers: 3 },
                ..usual
            },
            WireDataset::Cifar10 => Self {
                eigenvectors: 8,
                lap_pe: Some(16),
                node: Linear { width: 5 },
                edge: Linear { width: 1 },
                outputs: 10,
                head: HeadConfig::Graph { layers: 2 },
                ..usual
            },
            WireDataset::Pattern => Self {
                local: Local::Gine,
                layers: 6,
                eigenvectors: 16,
                rwse: Some((16, 20)),
                node: Linear { width: 3 },
                edge: Dummy,
                head: on_nodes,
                ..usual
            },
            WireDataset::Cluster => Self {
                hidden_dim: 48,
                heads: 8,
                layers: 16,
                lap_pe: Some(16),
                node: Linear { width: 7 },
                edge: Dummy,
                outputs: 6,
                head: on_nodes,
                ..usual
            },
            WireDataset::PeptidesStruct | WireDataset::PeptidesFunc => Self {
                hidden_dim: 96,
                layers: 4,
                lap_pe: Some(16),
                outputs: match dataset {
                    WireDataset::PeptidesFunc => 10,
                    _ => 11,
                },
                ..usual
            },
            WireDataset::PascalVoc => Self {
                hidden_dim: 96,
                heads: 8,
                layers: 4,
                lap_pe: Some(16),
                node: Linear { width: 14 },
                edge: Linear { width: 2 },
                outputs: 21,
                head: on_nodes,
                ..usual
            },
            WireDataset::MalNetTiny => Self {
                layers: 6,
                eigenvectors: 16,
                rwse: Some((8, 16)),
                node: Linear { width: 5 },
                edge: Dummy,
                outputs: 5,
                pooling: Pooling::Max,
                head: HeadConfig::Graph { layers: 3 },
                ..usual
            },
            WireDataset::OgbgMolhiv => Self {
                local: Local::Gine,
                layers: 10,
                eigenvectors: 8,
                rwse: Some((8, 20)),
                head: HeadConfig::SanGraph {
                    activation: Activation::Relu,
                },
                ..usual
            },
            WireDataset::OgbgMolpcba => Self {
                hidden_dim: 384,
                layers: 5,
                eigenvectors: 16,
                rwse: Some((20, 16)),
                outputs: 128,
                ..usual
            },
            WireDataset::OgbgPpa => Self {
                hidden_dim: 256,
                heads: 8,
                eigenvectors: 16,
                node: Dummy,
                edge: Linear { width: 7 },
                outputs: 37,
                head: HeadConfig::Graph { layers: 2 },
                ..usual
            },
            WireDataset::OgbgCode2 => Self {
                hidden_dim: 256,
                layers: 4,
                eigenvectors: 16,
                node: ClampedEmbedding {
                    tables: vec![98, 10_030, 21],
                    clamped: vec![2],
                },
                edge: Embedding { tables: vec![2, 2] },
                outputs: 25_010,
                head: HeadConfig::OgbCodeGraph { positions: 5 },
                ..usual
            },
        }
    }

    fn input(&self) -> InputConfig {
        let lap_pe = self.lap_pe.map(|dim| PositionalEncoderConfig::LapPe {
            recipe: LapPe {
                frequencies: self.eigenvectors,
                laplacian_norm: LaplacianNorm::None,
                eigvec_norm: EigvecNorm::L2,
            },
            dim,
            set: EigenvectorSet::DeepSet { layers: 2 },
            post_layers: 0,
            raw_norm: false,
        });
        let rwse = (self.rwse).map(|(dim, longest)| PositionalEncoderConfig::Rwse {
            recipe: Rwse {
                times: (1..=longest).collect(),
            },
            dim,
            encoder: KernelEncoder::Linear,
            raw_norm: true,
        });
        InputConfig {
            node_encoder: NodeEncoderConfig {
                features: self.node.clone(),
                positional: lap_pe.into_iter().chain(rwse).collect(),
            },
            edge_encoder: Some(self.edge.clone()),
            node_norm: false,
            edge_norm: false,
            norm_eps: crate::sections::norm_eps(),
            pre_layers: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};
    use candle_nn::VarBuilder;

    use super::*;

    #[test]
    fn every_benchmark_makes_a_model() {
        let all: Vec<WireBenchmark> = WireBenchmark::all().collect();
        assert_eq!(all.len(), 12 + 5 + 2);
        for benchmark in all {
            let config = benchmark.config();
            config
                .check()
                .unwrap_or_else(|e| panic!("{benchmark}: {e}"));
            let vb = VarBuilder::zeros(DType::F32, &Device::Cpu);
            let model = config.build(vb);
            model.unwrap_or_else(|e| panic!("{benchmark}: {e}"));
            assert_eq!(benchmark.to_string().parse(), Ok(benchmark));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let message = "zinc/softmax".parse::<WireBenchmark>().unwrap_err();
        assert!(message.to_string().contains("peptides-func/performer"));
    }
}
