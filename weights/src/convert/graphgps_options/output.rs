//! What stands after the layers of every network of GraphGPS.

use candle_graph::nn::{Pooling, PositionalEncoderConfig};
use candle_graph::ops::Activation;
use candle_graph_models::sections::{InputConfig, OutputConfig};

use crate::convert::shared_options::{Sizes, head, output_dim, pooling};
use crate::error::Result;

/// Pooling and head of a network with the encoders `input`.
pub(super) fn output(
    sizes: &Sizes<'_>,
    input: &InputConfig,
    activation: Activation,
) -> Result<OutputConfig> {
    let options = sizes.options();
    let head = head(options, activation)?;
    let pooling = match head.level() == candle_graph::nn::PredictionLevel::Graph {
        true => pooling(options)?,
        false => Pooling::default(),
    };
    if pooling == Pooling::GraphToken && !makes_graph_tokens(input) {
        return Err(options.refuse(
            "model.graph_pooling",
            "`graph_token` needs GraphormerBias with graphormer.use_graph_token; the official code \
             would take the first node of every graph",
        ));
    }
    Ok(OutputConfig {
        dim: output_dim(sizes)?,
        pooling,
        head,
    })
}

/// Whether the node encoder puts a token before the nodes of every graph.
pub(super) fn makes_graph_tokens(input: &InputConfig) -> bool {
    (input.node_encoder.positional.iter()).any(|encoder| {
        matches!(
            encoder,
            PositionalEncoderConfig::Graphormer {
                graph_token: true,
                ..
            }
        )
    })
}
