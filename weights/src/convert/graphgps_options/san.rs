//! `SANTransformer`.

use candle_graph::nn::SanWeighting;
use candle_graph_models::san::SanConfig;

use super::gps::{divides, hidden_dim};
use super::inert::mark_graphgps_options;
use super::input::{EdgeUse, check_no_bias, check_no_positions, input};
use super::output::output;
use crate::convert::shared_options::{Sizes, activation};
use crate::error::Result;

/// Translates the options of a `SANTransformer`, resolved or as published (the official defaults
/// fill the gaps).
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(in crate::convert) fn san_config(sizes: &Sizes<'_>) -> Result<SanConfig> {
    let options = sizes.options();
    let hidden_dim = hidden_dim(options)?;
    let heads = options.width("gt.n_heads", 8)?;
    divides(options, heads, hidden_dim)?;
    let option = "gt.layer_type";
    let weighting = match options.text(option, "SANLayer")?.as_str() {
        "SANLayer" => SanWeighting::Shared {
            gamma: options.float("gt.gamma", Some(1e-5))?.unwrap_or(1e-5),
        },
        // Its share is learned, whatever `gt.gamma` says.
        "SAN2Layer" => SanWeighting::Separate,
        other => {
            return Err(options.refuse(
                option,
                format!("`{other}` is not known to SANTransformer (SANLayer, SAN2Layer)"),
            ));
        }
    };
    let input = input(sizes, hidden_dim, EdgeUse::Needed, hidden_dim)?;
    check_no_positions(options, &input.node_encoder, "SAN")?;
    check_no_bias(options, &input.node_encoder, "SAN")?;
    let config = SanConfig {
        hidden_dim,
        layers: options.layers("gt.layers", 3)?,
        heads,
        full_graph: options.bool("gt.full_graph", true)?,
        weighting,
        residual: options.bool("gt.residual", true)?,
        layer_norm: options.bool("gt.layer_norm", false)?,
        batch_norm: options.bool("gt.batch_norm", true)?,
        output: output(sizes, &input, activation(options, "gnn.act", "relu")?)?,
        input,
    };
    mark_graphgps_options(options);
    Ok(config)
}
