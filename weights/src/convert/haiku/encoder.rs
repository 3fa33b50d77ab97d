//! The layers (`model.model_type`).

use candle_graph::encodings::MagNet;
use candle_graph::nn::{DirectedMessageKind, DirectedMessagePassingConfig};
use candle_graph_models::digraph::{DigraphEncoderConfig, MagNetConfig, TransformerEncoderConfig};

use super::positional::potential;
use crate::convert::options::Options;
use crate::error::Result;

const ATTENTION: [&str; 5] = [
    "model.attention_config.dense_widening_factor",
    "model.attention_config.num_heads",
    "model.attention_config.pre_norm",
    "model.attention_config.re_im_separate_projection",
    "model.attention_config.with_bias",
];

const MESSAGES: [&str; 8] = [
    "model.gnn_config.bidirectional",
    "model.gnn_config.concat",
    "model.gnn_config.gnn_type",
    "model.gnn_config.k_hop",
    "model.gnn_config.mlp_layers",
    "model.gnn_config.residual",
    "model.gnn_config.tightening_factor",
    "model.gnn_config.use_edge_attr",
];

pub(super) fn encoder_config(options: &Options, hidden_dim: usize) -> Result<DigraphEncoderConfig> {
    let model_type = options.text("model.model_type", "sat")?;
    // Every kind of layers leaves some of these unread.
    options.without_effect(&ATTENTION);
    options.without_effect(&MESSAGES);
    options.without_effect(&[
        "model.gnn_config.se",
        "model.num_layers",
        "model.deg_sensitive_residual",
        "model.batch_norm",
    ]);
    match model_type.as_str() {
        "sat" => transformer(options, hidden_dim).map(DigraphEncoderConfig::Transformer),
        "magnet" => {
            let layers = layers(options, "model.gnn_config.k_hop", 2)?;
            options.note(
                "MagNet scales the Laplacian of a graph by its own largest eigenvalue and reads all \
                 edges; the official code takes the largest eigenvalue of all graphs of a batch, and \
                 loses edges in padded batches",
            );
            Ok(DigraphEncoderConfig::MagNet(MagNetConfig {
                layers,
                laplacian: MagNet {
                    q: potential(options)?,
                },
                eigenvalue_of_batch: false,
            }))
        }
        other => {
            if other != "gnn" {
                options.note(format!(
                    "option `model.model_type`: `{other}` is not known and read as `gnn`, as the \
                     official code does"
                ));
            }
            layers(options, "model.gnn_config.k_hop", 2)?;
            message_passing(options).map(DigraphEncoderConfig::MessagePassing)
        }
    }
}

/// A number of layers, at least one.
fn layers(options: &Options, option: &str, default: usize) -> Result<usize> {
    match options.layers(option, default)? {
        0 => Err(options.refuse(option, "must be at least 1")),
        layers => Ok(layers),
    }
}

fn transformer(options: &Options, hidden_dim: usize) -> Result<TransformerEncoderConfig> {
    let batch_norm = options.bool("model.batch_norm", false)?;
    let option = "model.attention_config.dense_widening_factor";
    let factor = options.float(option, Some(4.0))?.unwrap_or(4.0);
    // The official code cuts the product off.
    let feed_forward = hidden_dim as f64 * factor;
    if !(1.0..=Options::MAX_WIDTH as f64).contains(&feed_forward) {
        return Err(options.refuse(
            option,
            format!("{factor} for a width of {hidden_dim} is out of range"),
        ));
    }
    let option = "model.gnn_config.se";
    // Without steps, queries and keys are made from the states as they are.
    let structure = match options.text(option, "gnn")?.as_str() {
        "" => None,
        "gnn" if options.layers("model.gnn_config.k_hop", 2)? == 0 => None,
        "gnn" => Some(message_passing(options)?),
        other => {
            return Err(options.refuse(option, format!("`{other}` is not known (gnn, or empty)")));
        }
    };
    Ok(TransformerEncoderConfig {
        layers: layers(options, "model.num_layers", 4)?,
        heads: options.width("model.attention_config.num_heads", 4)?,
        feed_forward_dim: feed_forward as usize,
        bias: options.bool("model.attention_config.with_bias", false)?,
        separate_imaginary: options
            .bool("model.attention_config.re_im_separate_projection", false)?,
        structure,
        degree_scaled_residual: options.bool("model.deg_sensitive_residual", true)?,
        norm_first: options.bool("model.attention_config.pre_norm", false)?,
        batch_norm,
    })
}

fn message_passing(options: &Options) -> Result<DirectedMessagePassingConfig> {
    let option = "model.gnn_config.gnn_type";
    let kind = match options.text(option, "gcn")?.as_str() {
        "gnn" => DirectedMessageKind::GraphNetwork,
        "gcn" => DirectedMessageKind::Convolution,
        other => {
            return Err(options.refuse(option, format!("`{other}` is not known (gnn, gcn)")));
        }
    };
    let edge_features = options.bool("model.gnn_config.use_edge_attr", true)?;
    if kind == DirectedMessageKind::Convolution && !edge_features {
        return Err(options.refuse(
            "model.gnn_config.use_edge_attr",
            "false, but the graph convolution (`gcn`) reads edge features",
        ));
    }
    Ok(DirectedMessagePassingConfig {
        messages: kind,
        steps: options.layers("model.gnn_config.k_hop", 2)?,
        mlp_layers: match kind {
            DirectedMessageKind::Convolution => 1,
            _ => layers(options, "model.gnn_config.mlp_layers", 2)?,
        },
        tightening_factor: options.width("model.gnn_config.tightening_factor", 1)?,
        edge_features,
        concatenate: options.bool("model.gnn_config.concat", false)?,
        residual: options.bool("model.gnn_config.residual", true)?,
        bidirectional: options.bool("model.gnn_config.bidirectional", true)?,
    })
}
