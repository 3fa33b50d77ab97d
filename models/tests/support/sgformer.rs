//! Random branches of SGFormer.

use candle_graph_models::sgformer::{Aggregation, AttentionBranchConfig, GraphBranchConfig};
use proptest::option;
use proptest::prelude::*;

fn any_attention_branch() -> impl Strategy<Value = AttentionBranchConfig> {
    let flags: [_; 4] = std::array::from_fn(|_| any::<bool>());
    (1usize..4, 1usize..4, 0.0f64..=1.0, flags).prop_map(|(layers, heads, alpha, on)| {
        AttentionBranchConfig {
            layers,
            heads,
            value_map: on[0],
            residual: on[1],
            alpha,
            layer_norm: on[2],
            layer_activation: on[3],
        }
    })
}

fn any_graph_branch() -> impl Strategy<Value = GraphBranchConfig> {
    (1usize..4, any::<[bool; 5]>()).prop_map(|(layers, on)| GraphBranchConfig {
        layers,
        map: on[0],
        initial_states: on[1],
        batch_norm: on[2],
        residual: on[3],
        layer_activation: on[4],
    })
}

/// What is SGFormer's own in a configuration.
pub(crate) type Branches = (
    AttentionBranchConfig,
    Option<GraphBranchConfig>,
    Aggregation,
);

/// Both branches and what makes one of them.
pub(crate) fn any_branches() -> impl Strategy<Value = Branches> {
    let aggregation = prop_oneof![
        (0.0f64..=1.0).prop_map(|graph_weight| Aggregation::Mean { graph_weight }),
        Just(Aggregation::Concatenate),
    ];
    let graph = option::weighted(0.8, any_graph_branch());
    (any_attention_branch(), graph, aggregation)
}
