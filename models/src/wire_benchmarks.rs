//! The models of the experiments of "Rotary Position Encodings for Graphs" as configurations: Tables
//! 1 to 9 of the paper.
//!
//! Sizes are those of the paper. What it leaves to GraphGPS is as in the options that GraphGPS
//! published for the data set: encoders of features, poolings, heads, BatchNorm, ReLU. Coordinates
//! are the entries of the Laplacian eigenvectors as they are, with frequencies of the full width. No
//! trained weights of these models were released.

mod gps;
mod sgformer;
mod transformers;

use std::fmt;
use std::str::FromStr;

use candle_graph::encodings::{EigenvectorScale, Rotational};
use candle_graph::nn::{
    AttentionConfig, BigBirdLayout, FeatureMapConfig, RotaryConfig, RotationalFeaturesConfig,
};
use candle_graph::ops::Activation;
use candle_graph::spectral::LaplacianNorm;

use crate::{ConfigError, ModelConfig};

/// A model of the paper's experiments: a data set and the attention of the layers. Written
/// `mnist/performer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireBenchmark {
    dataset: WireDataset,
    attention: WireAttention,
}

/// The data sets of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireDataset {
    /// MNIST superpixels.
    Mnist,
    /// CIFAR10 superpixels.
    Cifar10,
    /// PATTERN.
    Pattern,
    /// CLUSTER.
    Cluster,
    /// ogbg-molhiv.
    OgbgMolhiv,
    /// ogbg-molpcba.
    OgbgMolpcba,
    /// MalNet-Tiny.
    MalNetTiny,
    /// PascalVOC-SP.
    PascalVoc,
    /// Peptides-func.
    PeptidesFunc,
    /// Peptides-struct.
    PeptidesStruct,
    /// ogbg-ppa.
    OgbgPpa,
    /// ogbg-code2.
    OgbgCode2,
    /// Classification of point clouds.
    ModelNet40,
    /// Segmentation of point clouds.
    ShapeNet,
    /// The largest one-coloured connected subgraph.
    Monochromatic,
    /// The distance of two nodes.
    ShortestPath,
}

impl WireDataset {
    /// The name in [`WireBenchmark`]'s.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mnist => "mnist",
            Self::Cifar10 => "cifar10",
            Self::Pattern => "pattern",
            Self::Cluster => "cluster",
            Self::OgbgMolhiv => "ogbg-molhiv",
            Self::OgbgMolpcba => "ogbg-molpcba",
            Self::MalNetTiny => "malnet-tiny",
            Self::PascalVoc => "pascalvoc-sp",
            Self::PeptidesFunc => "peptides-func",
            Self::PeptidesStruct => "peptides-struct",
            Self::OgbgPpa => "ogbg-ppa",
            Self::OgbgCode2 => "ogbg-code2",
            Self::ModelNet40 => "modelnet40",
            Self::ShapeNet => "shapenet",
            Self::Monochromatic => "monochromatic",
            Self::ShortestPath => "shortest-path",
        }
    }
}

/// The attention of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireAttention {
    /// ReLU linear attention (Tables 3 and 4).
    Performer,
    /// Softmax attention (Tables 1, 2, 3 and 8).
    Softmax,
    /// Block-sparse attention (Table 9).
    BigBird,
    /// SGFormer, its simple attention beside graph convolutions (Tables 7 and 9).
    SgFormer,
}

impl WireAttention {
    /// The name in [`WireBenchmark`]'s.
    pub fn name(self) -> &'static str {
        match self {
            Self::Performer => "performer",
            Self::Softmax => "softmax",
            Self::BigBird => "bigbird",
            Self::SgFormer => "sgformer",
        }
    }
}

impl WireBenchmark {
    /// All models for which the paper reports a result.
    pub fn all() -> impl Iterator<Item = Self> {
        use WireAttention::{BigBird, Performer, SgFormer, Softmax};
        use WireDataset::{
            Cifar10, Cluster, MalNetTiny, Mnist, ModelNet40, Monochromatic, OgbgCode2, OgbgMolhiv,
            OgbgMolpcba, OgbgPpa, PascalVoc, Pattern, PeptidesFunc, PeptidesStruct, ShapeNet,
            ShortestPath,
        };
        let of = |datasets: &[WireDataset], attention| {
            let models = datasets.iter();
            let models = models.map(move |&dataset| Self { dataset, attention });
            models.collect::<Vec<_>>()
        };
        let linear = [
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
            ModelNet40,
            ShapeNet,
        ];
        let softmax = [
            Mnist,
            Cifar10,
            Pattern,
            Cluster,
            OgbgMolhiv,
            ModelNet40,
            ShapeNet,
            Monochromatic,
            ShortestPath,
        ];
        (of(&linear, Performer).into_iter())
            .chain(of(&softmax, Softmax))
            .chain(of(&[Mnist, Cifar10], BigBird))
            .chain(of(&[Mnist, Cifar10, Pattern], SgFormer))
    }

    /// The data set.
    pub fn dataset(self) -> WireDataset {
        self.dataset
    }

    /// The attention of the layers.
    pub fn attention(self) -> WireAttention {
        self.attention
    }

    /// The configuration.
    pub fn config(self) -> ModelConfig {
        let attention = |heads| match self.attention {
            WireAttention::Performer => AttentionConfig::Linear {
                heads,
                feature_map: FeatureMapConfig::Relu { eps: 1e-3 },
            },
            WireAttention::Softmax => AttentionConfig::softmax(heads),
            WireAttention::BigBird => AttentionConfig::BigBird {
                heads,
                block_size: 3,
                random_blocks: 3,
                use_bias: false,
                activation: Activation::Relu,
                norm_eps: 1e-6,
                layout: BigBirdLayout::Graph,
            },
            WireAttention::SgFormer => AttentionConfig::Linear {
                heads,
                feature_map: FeatureMapConfig::Simple,
            },
        };
        match self.dataset {
            dataset if self.attention == WireAttention::SgFormer => {
                ModelConfig::SgFormer(sgformer::config(dataset))
            }
            WireDataset::ModelNet40 | WireDataset::ShapeNet => {
                ModelConfig::Transformer(transformers::point_cloud(self.dataset, attention(4)))
            }
            WireDataset::Monochromatic | WireDataset::ShortestPath => {
                ModelConfig::Transformer(transformers::synthetic(self.dataset, attention(1)))
            }
            dataset => {
                let sizes = gps::Sizes::of(dataset);
                let heads = sizes.heads;
                ModelConfig::Gps(sizes.config(attention(heads)))
            }
        }
    }
}

/// The entries of the `count` Laplacian eigenvectors of smallest eigenvalue.
fn coordinates(count: usize) -> Rotational {
    Rotational::Eigenvectors {
        count,
        trivial: true,
        laplacian_norm: LaplacianNorm::None,
        scale: EigenvectorScale::Unit,
    }
}

/// Rotation by eigenvectors, in `layers` or in all of them.
fn rotary(count: usize, layers: Option<Vec<usize>>) -> RotaryConfig {
    let recipe = coordinates(count);
    RotaryConfig {
        layers,
        ..RotaryConfig::new(RotationalFeaturesConfig::Raw { recipe })
    }
}

impl fmt::Display for WireBenchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dataset.name(), self.attention.name())
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
                    format!("no such model; there are {}", known.join(", ")),
                )
            })
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
        assert_eq!(all.len(), 14 + 9 + 2 + 3);
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
