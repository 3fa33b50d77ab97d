//! `Graphormer`, as GraphGPS ports it.

use candle_graph_models::graphormer::GraphormerConfig;

use super::inert::mark_graphgps_options;
use super::input::{EdgeUse, check_no_positions, input};
use super::output::output;
use crate::convert::shared_options::{Sizes, activation};
use crate::error::Result;

/// Translates the options of a `Graphormer`, resolved or as published (the official defaults fill
/// the gaps).
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(in crate::convert) fn graphormer_config(sizes: &Sizes<'_>) -> Result<GraphormerConfig> {
    let options = sizes.options();
    let hidden_dim = options.width("graphormer.embed_dim", 80)?;
    let inner = options.width("gnn.dim_inner", 16)?;
    if inner != hidden_dim {
        return Err(options.refuse(
            "gnn.dim_inner",
            format!("{inner} must equal graphormer.embed_dim, which is {hidden_dim}"),
        ));
    }
    let heads = options.width("graphormer.num_heads", 4)?;
    if !hidden_dim.is_multiple_of(heads) {
        return Err(options.refuse(
            "graphormer.num_heads",
            format!("{heads} heads do not divide graphormer.embed_dim, which is {hidden_dim}"),
        ));
    }
    let input = input(sizes, hidden_dim, EdgeUse::Unread, hidden_dim)?;
    check_no_positions(options, &input.node_encoder, "Graphormer")?;
    let config = GraphormerConfig {
        hidden_dim,
        layers: options.layers("graphormer.num_layers", 6)?,
        heads,
        output: output(sizes, &input, activation(options, "gnn.act", "relu")?)?,
        input,
    };
    mark_graphgps_options(options);
    Ok(config)
}
