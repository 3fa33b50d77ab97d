//! What stands before the layers of every network of GraphGPS.

use candle_graph::nn::{FeatureEncoderConfig, NodeEncoderConfig};
use candle_graph_models::sections::{InputConfig, PreLayersConfig};

use super::node_encoder::node_encoder;
use crate::convert::options::Options;
use crate::convert::shared_options::{Sizes, activation, edge_features};
use crate::error::Result;

/// How the layers read edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeUse {
    /// They do not.
    Unread,
    /// They cannot do without.
    Needed,
    /// They read edge features where the graphs have some.
    Optional,
}

/// The encoders before a network of width `width` whose edge states have `edge_width` columns.
pub(super) fn input(
    sizes: &Sizes<'_>,
    width: usize,
    edges: EdgeUse,
    edge_width: usize,
) -> Result<InputConfig> {
    let options = sizes.options();
    let on = |path| options.bool(path, false);
    let norm = |path| options.bool(path, true);
    let (has_node_encoder, has_edge_encoder) =
        (on("dataset.node_encoder")?, on("dataset.edge_encoder")?);
    let pre_layers = options.layers("gnn.layers_pre_mp", 0)?;
    let (node_encoder, encoded) = match has_node_encoder {
        true => (node_encoder(sizes, width)?, width),
        false => {
            let option = "dataset.node_encoder";
            let dim_in = match sizes.of_tensor("pre_layers.0.weight", 1) {
                Some(dim_in) => dim_in,
                None => sizes.dim_in(option)?,
            };
            if pre_layers == 0 && dim_in != width {
                return Err(options.refuse(
                    option,
                    format!(
                        "off, with node features of {dim_in} columns and no `gnn.layers_pre_mp` for \
                         a model of width {width}"
                    ),
                ));
            }
            let raw = NodeEncoderConfig {
                features: FeatureEncoderConfig::Raw,
                prepend: None,
                positional: Vec::new(),
            };
            (raw, dim_in)
        }
    };
    let edge_norm = has_edge_encoder && norm("dataset.edge_encoder_bn")?;
    if edge_norm && edge_width != encoded {
        return Err(options.refuse(
            "dataset.edge_encoder_bn",
            format!(
                "the official code applies this norm of {edge_width} columns to the {encoded} of \
                 the nodes"
            ),
        ));
    }
    Ok(InputConfig {
        node_encoder,
        edge_encoder: edge_encoder(sizes, has_edge_encoder, edges)?,
        node_norm: has_node_encoder && norm("dataset.node_encoder_bn")?,
        edge_norm,
        norm_eps: options.float("bn.eps", Some(1e-5))?.unwrap_or(1e-5),
        pre_layers: match pre_layers {
            0 => None,
            layers => Some(PreLayersConfig {
                input_dim: encoded,
                layers,
                batch_norm: options.bool("gnn.batchnorm", true)?,
                activation: activation(options, "gnn.act", "relu")?,
                normalise_rows: options.bool("gnn.l2norm", true)?,
            }),
        },
    })
}

/// Refuses positions that scale messages, of which `network` passes none.
pub(super) fn check_no_positions(
    options: &Options,
    encoder: &NodeEncoderConfig,
    network: &str,
) -> Result<()> {
    match encoder.has_positions() {
        true => Err(options.refuse(
            "posenc_EquivStableLapPE.enable",
            format!("{network} passes no messages that these positions could scale"),
        )),
        false => Ok(()),
    }
}

/// Refuses a bias of the attention logits, which that of `network` does not take.
pub(super) fn check_no_bias(
    options: &Options,
    encoder: &NodeEncoderConfig,
    network: &str,
) -> Result<()> {
    match encoder.bias_heads() {
        Some(_) => Err(options.refuse(
            "posenc_GraphormerBias.node_degrees_only",
            format!("off, but the attention of {network} takes no bias"),
        )),
        None => Ok(()),
    }
}

fn edge_encoder(
    sizes: &Sizes<'_>,
    on: bool,
    edges: EdgeUse,
) -> Result<Option<FeatureEncoderConfig>> {
    let options = sizes.options();
    let option = "dataset.edge_encoder";
    match (on, edges) {
        (true, EdgeUse::Unread) => {
            options.note(format!(
                "option `{option}`: no layer reads the encoded edges; the encoder stays part of \
                 the model, as in the official code"
            ));
            Ok(Some(edge_features(sizes)?))
        }
        (true, _) => Ok(Some(edge_features(sizes)?)),
        (false, EdgeUse::Unread) => Ok(None),
        (false, EdgeUse::Needed) => {
            options.note(format!(
                "`{option}` is off, so the layers read the edge features as they are: real values, \
                 as many as the model is wide"
            ));
            Ok(Some(FeatureEncoderConfig::Raw))
        }
        (false, EdgeUse::Optional) => Err(options.refuse(
            option,
            "off; whether the layers then read edge features depends on the graphs, which is not \
             supported",
        )),
    }
}
