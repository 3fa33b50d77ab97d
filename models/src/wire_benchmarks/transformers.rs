//! Plain transformers: point clouds (Table 3, appendix B.3) and the synthetic tasks (Tables 1 and 2,
//! appendix B.1).

use candle_graph::nn::{
    AttentionConfig, FeatureEncoderConfig, HeadConfig, NodeEncoderConfig, Pooling,
};
use candle_graph::ops::Activation;

use super::{WireDataset, coordinates, rotary};
use crate::sections::{InputConfig, OutputConfig, norm_eps};
use crate::transformer::{NormPlace, TransformerConfig};

/// Eigenvectors for point clouds and, at most, for the synthetic tasks.
const EIGENVECTORS: usize = 10;

/// The point cloud transformer: 4 layers of width 128 with feed-forward blocks of 512 on the k-NN
/// graph of the points (k = 20), reading their coordinates. The paper rotates in a subset of the
/// layers and does not say in which; here it is the first two. Heads, norms and pooling, which it
/// does not state either, are 4, LayerNorm before every block, and the maximum.
pub(super) fn point_cloud(dataset: WireDataset, attention: AttentionConfig) -> TransformerConfig {
    let (classes, head) = match dataset {
        // Parts of all categories of ShapeNet.
        WireDataset::ShapeNet => (50, HeadConfig::InductiveNode { layers: 2 }),
        _ => (40, HeadConfig::Graph { layers: 2 }),
    };
    TransformerConfig {
        hidden_dim: 128,
        layers: 4,
        input: input(3, false),
        attention,
        rotary: Some(rotary(EIGENVECTORS, Some(vec![0, 1]))),
        second_output: false,
        feed_forward_dim: 512,
        activation: Activation::Gelu,
        residual: true,
        norm_place: NormPlace::Before,
        layer_norm: true,
        batch_norm: false,
        output: OutputConfig {
            dim: classes,
            pooling: Pooling::Max,
            head,
        },
    }
}

/// The transformer of the synthetic tasks: 4 layers of width 32 with one head and feed-forward
/// blocks of 32, mean pooling, and one map to a number. It reads the eigenvectors beside the
/// features.
pub(super) fn synthetic(dataset: WireDataset, attention: AttentionConfig) -> TransformerConfig {
    let columns = match dataset {
        // Marks of the two nodes.
        WireDataset::ShortestPath => 2,
        // Colours, as in the weights of the zoo; the paper does not state their number.
        _ => 3,
    };
    TransformerConfig {
        hidden_dim: 32,
        layers: 4,
        input: input(columns, true),
        attention,
        rotary: Some(rotary(EIGENVECTORS, None)),
        second_output: false,
        feed_forward_dim: 32,
        activation: Activation::Relu,
        residual: true,
        norm_place: NormPlace::After,
        layer_norm: true,
        batch_norm: false,
        output: OutputConfig {
            dim: 1,
            pooling: Pooling::Mean,
            head: HeadConfig::Graph { layers: 1 },
        },
    }
}

/// A linear map of the features, and of the coordinates too where they are `read`.
fn input(columns: usize, read: bool) -> InputConfig {
    InputConfig {
        node_encoder: NodeEncoderConfig {
            features: FeatureEncoderConfig::Linear { width: columns },
            prepend: read.then(|| coordinates(EIGENVECTORS)),
            positional: Vec::new(),
        },
        edge_encoder: None,
        node_norm: false,
        edge_norm: false,
        norm_eps: norm_eps(),
        pre_layers: None,
    }
}
