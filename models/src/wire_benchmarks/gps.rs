//! GraphGPS of Tables 4 to 6, 8 and 9.

use candle_graph::encodings::{EigvecNorm, LapPe, Rwse};
use candle_graph::nn::{
    AttentionConfig, EigenvectorSet, FeatureEncoderConfig, HeadConfig, KernelEncoder,
    LapPeEncoderConfig, MessagePassingConfig, NodeEncoderConfig, Pooling, PositionalEncoderConfig,
};
use candle_graph::ops::Activation;
use candle_graph::spectral::LaplacianNorm;

use super::{WireDataset, rotary};
use crate::gps::{GpsConfig, GpsNorm};
use crate::sections::{InputConfig, OutputConfig, norm_eps};

#[derive(Debug, Clone, Copy)]
enum Local {
    Gine,
    GatedGcn,
}

/// What differs between the data sets.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    hidden_dim: usize,
    pub(super) heads: usize,
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
    pub(super) fn of(dataset: WireDataset) -> Self {
        use FeatureEncoderConfig::{ClampedEmbedding, Dummy, Linear};
        let usual = Self {
            hidden_dim: 64,
            heads: 4,
            local: Local::GatedGcn,
            layers: 3,
            eigenvectors: 10,
            lap_pe: None,
            rwse: None,
            node: FeatureEncoderConfig::embedding(FeatureEncoderConfig::ATOM_TABLES),
            edge: FeatureEncoderConfig::embedding(FeatureEncoderConfig::BOND_TABLES),
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
            // The others are not of GraphGPS and do not come here.
            _ => Self {
                hidden_dim: 256,
                layers: 4,
                eigenvectors: 16,
                node: ClampedEmbedding {
                    tables: FeatureEncoderConfig::SYNTAX_NODE_TABLES.to_vec(),
                    clamped: vec![FeatureEncoderConfig::SYNTAX_DEPTH],
                },
                edge: FeatureEncoderConfig::embedding(FeatureEncoderConfig::SYNTAX_EDGE_TABLES),
                outputs: 25_010,
                head: HeadConfig::OgbCodeGraph { positions: 5 },
                ..usual
            },
        }
    }

    /// The configuration with `attention`.
    pub(super) fn config(self, attention: AttentionConfig) -> GpsConfig {
        let activation = Activation::Relu;
        GpsConfig {
            hidden_dim: self.hidden_dim,
            layers: self.layers,
            input: self.input(),
            local: Some(match self.local {
                Local::Gine => MessagePassingConfig::Gine { activation },
                Local::GatedGcn => MessagePassingConfig::GatedGcn {
                    activation,
                    residual: true,
                },
            }),
            attention: Some(attention),
            rotary: Some(rotary(self.eigenvectors, None)),
            norm: GpsNorm::Batch,
            activation,
            output: self.output(),
        }
    }

    pub(super) fn output(&self) -> OutputConfig {
        OutputConfig {
            dim: self.outputs,
            pooling: self.pooling,
            head: self.head.clone(),
        }
    }

    pub(super) fn input(&self) -> InputConfig {
        let lap_pe = self.lap_pe.map(|dim| {
            PositionalEncoderConfig::LapPe(LapPeEncoderConfig {
                recipe: LapPe {
                    frequencies: self.eigenvectors,
                    laplacian_norm: LaplacianNorm::None,
                    eigvec_norm: EigvecNorm::L2,
                },
                dim,
                set: EigenvectorSet::DeepSet { layers: 2 },
                post_layers: 0,
                raw_norm: false,
            })
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
                prepend: None,
                features: self.node.clone(),
                positional: lap_pe.into_iter().chain(rwse).collect(),
            },
            edge_encoder: Some(self.edge.clone()),
            node_norm: false,
            edge_norm: false,
            norm_eps: norm_eps(),
            pre_layers: None,
        }
    }
}
