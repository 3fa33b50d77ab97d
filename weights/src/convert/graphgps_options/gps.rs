//! `GPSModel`.

use candle_graph::nn::{AttentionConfig, BigBirdLayout, MessagePassingConfig};
use candle_graph::ops::Activation;
use candle_graph_models::gps::{GpsConfig, GpsNorm};
use candle_graph_models::sections::InputConfig;
use serde_json::json;

use super::inert::mark_graphgps_options;
use super::input::{EdgeUse, input};
use super::output::{makes_graph_tokens, output};
use super::rotary::{rotary, rotary_attention};
use crate::convert::options::Options;
use crate::convert::shared_options::{Sizes, activation};
use crate::error::Result;

/// `dim_head` of the performer package, which GraphGPS leaves alone.
const PERFORMER_HEAD_DIM: usize = 64;
/// ⌊64·ln 64⌋.
const PERFORMER_FEATURES: usize = 266;

/// Translates the options of a `GPSModel`, resolved or as published (the official defaults fill
/// the gaps).
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(in crate::convert) fn gps_config(sizes: &Sizes<'_>) -> Result<GpsConfig> {
    let options = sizes.options();
    let hidden_dim = hidden_dim(options)?;
    let option = "gt.layer_type";
    let kind = options.text(option, "SANLayer")?;
    let Some((local, attention)) = kind.split_once('+').filter(|(_, a)| !a.contains('+')) else {
        return Err(options.refuse(
            option,
            format!("`{kind}` is not a local and a global model joined by `+`"),
        ));
    };
    let act = activation(options, "gnn.act", "relu")?;
    let heads = options.width("gt.n_heads", 8)?;
    let local = local_model(options, local, act, heads, hidden_dim)?;
    let attention_config = global_model(options, attention, heads, hidden_dim)?;
    let edges = match &local {
        Some(MessagePassingConfig::Gat { .. } | MessagePassingConfig::GenConv) => EdgeUse::Optional,
        Some(local) if local.reads_edges() => EdgeUse::Needed,
        _ => EdgeUse::Unread,
    };
    let edge_width = (local.as_ref()).map_or(hidden_dim, |local| local.edge_width(hidden_dim));
    let input = input(sizes, hidden_dim, edges, edge_width)?;
    check_positions(options, &input, local.as_ref())?;
    check_bias(options, &input, attention, heads)?;
    note_graph_tokens(options, &input, local.is_some());
    let config = GpsConfig {
        hidden_dim,
        layers: options.layers("gt.layers", 3)?,
        output: output(sizes, &input, act)?,
        input,
        local,
        attention: attention_config,
        rotary: match attention {
            "GraphRoPE" => rotary(options)?,
            _ => None,
        },
        norm: norm(options)?,
        activation: act,
    };
    options.without_effect_noted(&[
        ("gt.full_graph", json!(true)),
        ("gt.gamma", json!(1e-5)),
        ("gt.residual", json!(true)),
    ]);
    mark_graphgps_options(options);
    Ok(config)
}

/// The width that the official code wants to find twice.
pub(super) fn hidden_dim(options: &Options) -> Result<usize> {
    let hidden_dim = options.width("gt.dim_hidden", 64)?;
    let inner = options.width("gnn.dim_inner", 16)?;
    if inner != hidden_dim {
        return Err(options.refuse(
            "gnn.dim_inner",
            format!("{inner} must equal gt.dim_hidden, which is {hidden_dim}"),
        ));
    }
    Ok(hidden_dim)
}

fn local_model(
    options: &Options,
    name: &str,
    activation: Activation,
    heads: usize,
    width: usize,
) -> Result<Option<MessagePassingConfig>> {
    Ok(Some(match name {
        "None" => return Ok(None),
        "GINE" => MessagePassingConfig::Gine { activation },
        "GIN" => MessagePassingConfig::Gin { activation },
        "GCN" => MessagePassingConfig::Gcn,
        "GAT" => {
            divides(options, heads, width)?;
            MessagePassingConfig::Gat { heads }
        }
        "GENConv" => MessagePassingConfig::GenConv,
        "PNA" => MessagePassingConfig::Pna,
        "CustomGatedGCN" => MessagePassingConfig::GatedGcn {
            activation,
            residual: true,
        },
        other => {
            return Err(options.refuse(
                "gt.layer_type",
                format!(
                    "local model `{other}` is not known (None, GINE, GIN, GCN, GAT, GENConv, PNA, \
                     CustomGatedGCN)"
                ),
            ));
        }
    }))
}

fn global_model(
    options: &Options,
    name: &str,
    heads: usize,
    width: usize,
) -> Result<Option<AttentionConfig>> {
    Ok(Some(match name {
        "None" => return Ok(None),
        "Transformer" | "BiasedTransformer" => {
            divides(options, heads, width)?;
            AttentionConfig::softmax(heads)
        }
        "Performer" => AttentionConfig::Performer {
            heads,
            head_dim: PERFORMER_HEAD_DIM,
            features: PERFORMER_FEATURES,
        },
        "BigBird" => {
            divides(options, heads, width)?;
            big_bird(options, heads)?
        }
        "GraphRoPE" => {
            divides(options, heads, width)?;
            rotary_attention(options, heads, width)?
        }
        other => {
            return Err(options.refuse(
                "gt.layer_type",
                format!(
                    "global model `{other}` is not known (None, Transformer, BiasedTransformer, \
                     Performer, BigBird, GraphRoPE)"
                ),
            ));
        }
    }))
}

/// Refuses heads that do not divide the width.
pub(super) fn divides(options: &Options, heads: usize, width: usize) -> Result<()> {
    if width.is_multiple_of(heads) {
        return Ok(());
    }
    let problem = format!("{heads} heads do not divide gt.dim_hidden, which is {width}");
    Err(options.refuse("gt.n_heads", problem))
}

fn big_bird(options: &Options, heads: usize) -> Result<AttentionConfig> {
    let only = |path: &str, usual: &str| -> Result<()> {
        let found = options.text(path, usual)?;
        if found == usual {
            return Ok(());
        }
        Err(options.refuse(path, format!("`{found}`; only `{usual}` is supported")))
    };
    only("gt.bigbird.attention_type", "block_sparse")?;
    for path in ["gt.bigbird.is_decoder", "gt.bigbird.add_cross_attention"] {
        if options.bool(path, false)? {
            return Err(options.refuse(path, "decoders are not supported"));
        }
    }
    // Names of the transformers package, which are not all those of GraphGym.
    let act = options.text("gt.bigbird.hidden_act", "relu")?;
    if !["relu", "gelu"].contains(&act.as_str()) {
        return Err(options.refuse(
            "gt.bigbird.hidden_act",
            format!("`{act}` is not supported (relu, gelu)"),
        ));
    }
    Ok(AttentionConfig::BigBird {
        heads,
        block_size: options.width("gt.bigbird.block_size", 3)?,
        random_blocks: options.bounded("gt.bigbird.num_random_blocks", 3, Options::MAX_WIDTH)?,
        use_bias: options.bool("gt.bigbird.use_bias", false)?,
        activation: activation(options, "gt.bigbird.hidden_act", "relu")?,
        norm_eps: options
            .float("gt.bigbird.layer_norm_eps", Some(1e-6))?
            .unwrap_or(1e-6),
        layout: BigBirdLayout::default(),
    })
}

fn norm(options: &Options) -> Result<GpsNorm> {
    let layer_norm = options.bool("gt.layer_norm", false)?;
    Ok(match (layer_norm, options.bool("gt.batch_norm", true)?) {
        (true, true) => {
            return Err(options.refuse(
                "gt.layer_norm",
                "the official code does not take it together with gt.batch_norm, which is on \
                 unless it is switched off",
            ));
        }
        (true, false) => GpsNorm::GraphLayer,
        (false, true) => GpsNorm::Batch,
        (false, false) => GpsNorm::None,
    })
}

/// Positions (`EquivStableLapPE`) scale the messages of two local models; the official code hands
/// them to the others as something else.
fn check_positions(
    options: &Options,
    input: &InputConfig,
    local: Option<&MessagePassingConfig>,
) -> Result<()> {
    let makes_positions = input.node_encoder.has_positions();
    match local {
        Some(MessagePassingConfig::Gine { .. }) if makes_positions => {
            options.note(
                "the official GINE with EquivStableLapPE adds the features of node 1 of the whole \
                 batch to every node; here every node gets its own",
            );
            Ok(())
        }
        Some(MessagePassingConfig::GatedGcn { .. }) => Ok(()),
        _ if makes_positions => Err(options.refuse(
            "posenc_EquivStableLapPE.enable",
            "only the local models GINE and CustomGatedGCN read these positions",
        )),
        _ => Ok(()),
    }
}

/// A bias of the attention logits goes with `BiasedTransformer`, and with nothing else.
fn check_bias(options: &Options, input: &InputConfig, attention: &str, heads: usize) -> Result<()> {
    let option = "gt.layer_type";
    let bias_heads = input.node_encoder.bias_heads();
    match (attention, bias_heads) {
        ("BiasedTransformer", None) => Err(options.refuse(
            option,
            "`BiasedTransformer` needs GraphormerBias with `node_degrees_only` off",
        )),
        ("BiasedTransformer", Some(bias)) if bias != heads => Err(options.refuse(
            "graphormer.num_heads",
            format!("{bias}, but the attention has gt.n_heads {heads}"),
        )),
        ("BiasedTransformer", Some(_)) | (_, None) => Ok(()),
        (other, Some(_)) => Err(options.refuse(
            option,
            format!(
                "`{other}` does not read the attention bias that the node encoder makes; set \
                 posenc_GraphormerBias.node_degrees_only"
            ),
        )),
    }
}

/// Upstream's edges keep the numbers from before the tokens were put in.
fn note_graph_tokens(options: &Options, input: &InputConfig, local: bool) {
    let tokens = makes_graph_tokens(input);
    if tokens && local {
        options.note(
            "the official code puts a token before the nodes of every graph but does not renumber \
             the edges, so that its local model joins other nodes than the edges name, even of \
             other graphs of the batch; here edges join the nodes that they name",
        );
    }
}
