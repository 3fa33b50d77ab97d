//! Where tensors of the official code become more than one of ours, or have another shape.

use candle_graph::nn::DirectedMessageKind;
use candle_graph_models::digraph::{DigraphConfig, DigraphEncoderConfig};

use super::names::AST_EDGE_WEIGHT;
use crate::state_dict::{ElementType, StateDict, TensorData};

/// Steps of graph convolutions. All of them have the same weights: the official code makes the module of
/// a step in a method that it calls once a step, and Haiku then gives it the same name every time.
pub(super) fn shared_steps(model: &DigraphConfig) -> usize {
    let messages = match &model.encoder {
        DigraphEncoderConfig::Transformer(config) => config.structure.as_ref(),
        DigraphEncoderConfig::MessagePassing(config) => Some(config),
        _ => None,
    };
    messages
        .filter(|config| config.messages == DirectedMessageKind::Convolution)
        .map_or(1, |config| config.steps)
}

/// Names of a tensor of the first step in the steps after it.
pub(super) fn further_steps(name: &str, steps: usize) -> Vec<String> {
    match name.split_once(".steps.0.") {
        Some((before, after)) => (1..steps)
            .map(|step| format!("{before}.steps.{step}.{after}"))
            .collect(),
        None => Vec::new(),
    }
}

/// The official map of edge features in syntax trees has no bias, ours has: zeros.
pub(super) fn add_edge_bias(tensors: &mut StateDict) {
    let weight = tensors.get(AST_EDGE_WEIGHT);
    let Some(&rows) = weight.and_then(|weight| weight.shape().first()) else {
        return;
    };
    let bias = AST_EDGE_WEIGHT.replace("weight", "bias");
    if let Some(size) = rows.checked_mul(4)
        && let Some(zeros) = TensorData::new(ElementType::F32, vec![rows], vec![0; size])
    {
        // A bias that is there already is kept.
        drop(tensors.insert(bias, zeros));
    }
}

/// Attention among eigenvectors has heads of width 0 in narrow models, so that only the bias of its output
/// is left: the same as one head with weights of 0, which they become here.
pub(super) fn fill_empty_heads(tensors: StateDict) -> StateDict {
    let mut filled = StateDict::new(tensors.source().to_string());
    for (name, tensor) in tensors {
        let tensor = match (
            name.strip_prefix("positional.network.attention."),
            tensor.shape(),
        ) {
            (Some(_), &[0, width] | &[width, 0]) => width
                .checked_mul(width)
                .and_then(|count| count.checked_mul(4))
                .and_then(|size| TensorData::new(ElementType::F32, vec![width; 2], vec![0; size]))
                .unwrap_or(tensor),
            _ => tensor,
        };
        // The names were distinct before.
        drop(filled.insert(name, tensor));
    }
    filled
}
