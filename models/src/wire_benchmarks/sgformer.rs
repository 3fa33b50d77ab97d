//! SGFormer of Tables 7 and 9.

use candle_graph::ops::Activation;

use super::gps::Sizes;
use super::{WireDataset, rotary};
use crate::sections::InputConfig;
use crate::sgformer::{Aggregation, AttentionBranchConfig, GraphBranchConfig, SgFormerConfig};

/// One layer of simple attention beside graph convolutions. Shares of the branches, norms and
/// residual sums, which the paper does not state, are the defaults of the official code.
pub(super) fn config(dataset: WireDataset) -> SgFormerConfig {
    let (hidden_dim, heads, convolutions, eigenvectors) = match dataset {
        WireDataset::Cifar10 => (256, 1, 2, 8),
        WireDataset::Pattern => (128, 8, 3, 10),
        _ => (128, 2, 3, 16),
    };
    let sizes = Sizes::of(dataset);
    SgFormerConfig {
        hidden_dim,
        // No layer reads edge states.
        input: InputConfig {
            edge_encoder: None,
            ..sizes.input()
        },
        attention: AttentionBranchConfig {
            layers: 1,
            heads,
            value_map: true,
            residual: true,
            alpha: 0.5,
            layer_norm: true,
            layer_activation: true,
        },
        rotary: Some(rotary(eigenvectors, None)),
        message_passing: Some(GraphBranchConfig {
            layers: convolutions,
            map: true,
            initial_states: false,
            batch_norm: true,
            residual: true,
            layer_activation: true,
        }),
        aggregation: Aggregation::default(),
        activation: Activation::Relu,
        output: sizes.output(),
    }
}
