//! `GT` of cederikhoefs/Graph-RoPE.

use candle_graph::nn::AttentionConfig;
use candle_graph::ops::Activation;
use candle_graph_models::sections::InputConfig;
use candle_graph_models::transformer::{NormPlace, TransformerConfig};

use super::gps::{divides, hidden_dim};
use super::inert::mark_graphgps_options;
use super::input::{check_no_bias, check_no_positions};
use super::node_encoder::node_encoder;
use super::output::output;
use super::rotary::{rotary, rotary_attention};
use crate::convert::shared_options::{Sizes, activation};
use crate::error::Result;

/// Translates the options of a `GT`, resolved or as published (the official defaults fill the
/// gaps). The network has a node encoder whatever `dataset.node_encoder` says, and neither norms
/// after it nor an edge encoder nor layers before its own.
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(in crate::convert) fn transformer_config(sizes: &Sizes<'_>) -> Result<TransformerConfig> {
    let options = sizes.options();
    let hidden_dim = hidden_dim(options)?;
    let heads = options.width("gt.n_heads", 8)?;
    divides(options, heads, hidden_dim)?;
    let option = "gt.layer_type";
    let (attention, rotary) = match options.text(option, "SANLayer")?.as_str() {
        "GraphRoPE" => (
            rotary_attention(options, heads, hidden_dim)?,
            rotary(options)?,
        ),
        "Multihead" => {
            let use_bias = false;
            (AttentionConfig::Softmax { heads, use_bias }, None)
        }
        other => {
            return Err(options.refuse(
                option,
                format!("`{other}` is not known to GT (GraphRoPE, Multihead)"),
            ));
        }
    };
    let input = InputConfig {
        node_encoder: node_encoder(sizes, hidden_dim)?,
        edge_encoder: None,
        node_norm: false,
        edge_norm: false,
        norm_eps: 1e-5,
        pre_layers: None,
    };
    check_no_positions(options, &input.node_encoder, "GT")?;
    check_no_bias(options, &input.node_encoder, "GT")?;
    let config = TransformerConfig {
        hidden_dim,
        layers: options.layers("gt.layers", 3)?,
        attention,
        rotary,
        second_output: true,
        feed_forward_dim: hidden_dim.saturating_mul(2),
        activation: Activation::Relu,
        residual: options.bool("gt.residual", true)?,
        norm_place: NormPlace::After,
        layer_norm: options.bool("gt.layer_norm", false)?,
        batch_norm: options.bool("gt.batch_norm", true)?,
        output: output(sizes, &input, activation(options, "gnn.act", "relu")?)?,
        input,
    };
    options.without_effect_noted(&[
        ("dataset.node_encoder", true.into()),
        ("dataset.edge_encoder", false.into()),
        ("gnn.layers_pre_mp", 0.into()),
    ]);
    mark_graphgps_options(options);
    Ok(config)
}
