//! `custom_gnn`: plain message passing.

use candle_graph::nn::MessagePassingConfig;
use candle_graph::ops::Activation;
use candle_graph_models::mpnn::MpnnConfig;

use super::inert::mark_graphgps_options;
use super::input::{EdgeUse, input};
use super::output::output;
use crate::convert::shared_options::{Sizes, activation};
use crate::error::Result;

/// Translates the options of a `custom_gnn`, resolved or as published (the official defaults fill
/// the gaps).
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(in crate::convert) fn mpnn_config(sizes: &Sizes<'_>) -> Result<MpnnConfig> {
    let options = sizes.options();
    let hidden_dim = options.width("gnn.dim_inner", 16)?;
    let residual = options.bool("gnn.residual", false)?;
    // Neither layer takes `gnn.act`.
    let act = Activation::Relu;
    let option = "gnn.layer_type";
    let layer = match options.text(option, "generalconv")?.as_str() {
        "gineconv" => MessagePassingConfig::Gine { activation: act },
        "gatedgcnconv" => MessagePassingConfig::GatedGcn {
            activation: act,
            residual,
        },
        other => {
            return Err(options.refuse(
                option,
                format!("`{other}` is not known to custom_gnn (gineconv, gatedgcnconv)"),
            ));
        }
    };
    let input = input(sizes, hidden_dim, EdgeUse::Needed, hidden_dim)?;
    if input.node_encoder.has_positions() {
        return Err(options.refuse(
            "posenc_EquivStableLapPE.enable",
            "the layers of custom_gnn do not read these positions",
        ));
    }
    if input.node_encoder.bias_heads().is_some() {
        return Err(options.refuse(
            "posenc_GraphormerBias.node_degrees_only",
            "off, but custom_gnn has no attention that could use the bias",
        ));
    }
    let config = MpnnConfig {
        hidden_dim,
        layers: options.layers("gnn.layers_mp", 2)?,
        output: output(sizes, &input, activation(options, "gnn.act", "relu")?)?,
        input,
        layer,
        residual,
    };
    mark_graphgps_options(options);
    Ok(config)
}
