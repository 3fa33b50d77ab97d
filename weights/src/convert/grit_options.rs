//! Options of the official GRIT code to [`GritConfig`].

use candle_graph::encodings::Rrwp;
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::Activation;
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use serde_json::json;

use super::options::Options;
use super::shared_options;
use super::shared_options::{
    Sizes, activation, edge_features, mark_framework_options, node_features, output_dim, pooling,
};
use crate::error::Result;

/// Translates official options, resolved or as published (the official defaults fill the gaps).
/// `sizes` tell what options leave open: table sizes and input widths.
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(super) fn grit_config(sizes: &Sizes<'_>) -> Result<GritConfig> {
    let options = sizes.options();
    if options.contains("posenc_RWPSE") {
        return Err(options.refuse(
            "posenc_RWPSE",
            "the official code does not know this section (the published PCQM4Mv2 configuration \
             misspells `posenc_RRWP`), so it trained with whatever `posenc_RRWP` said; rename it \
             to `posenc_RRWP`, or say that it is meant so (--read-rwpse-as-rrwp)",
        ));
    }
    let expect = |path: &str, default: &str, only: &str| -> Result<()> {
        let found = options.text(path, default)?;
        if found != only {
            return Err(options.refuse(path, format!("`{found}`; only `{only}` is GRIT")));
        }
        Ok(())
    };
    expect("model.type", "GritTransformer", "GritTransformer")?;
    expect("gt.layer_type", "GritTransformer", "GritTransformer")?;
    if !options.bool("posenc_RRWP.enable", false)? {
        return Err(options.refuse(
            "posenc_RRWP.enable",
            "GRIT without its random walk encoding is not supported",
        ));
    }
    let steps = options.usize("posenc_RRWP.ksteps", 21)?;
    if steps < 2 {
        return Err(options.refuse(
            "posenc_RRWP.ksteps",
            format!(
                "{steps}, but it must be at least 2: fewer still give two channels, which no \
                 official model of that size can read"
            ),
        ));
    }
    if options.usize("gnn.layers_pre_mp", 0)? > 0 {
        return Err(options.refuse("gnn.layers_pre_mp", "layers before GRIT are not supported"));
    }
    if options.bool("gt.bn_no_runner", false)? {
        return Err(options.refuse(
            "gt.bn_no_runner",
            "norms without running statistics make a prediction depend on its batch",
        ));
    }
    if options.bool("gt.attn.graphormer_attn", false)? {
        return Err(options.refuse("gt.attn.graphormer_attn", "not supported"));
    }

    let hidden_dim = options.usize("gt.dim_hidden", 64)?;
    let inner = options.usize("gnn.dim_inner", hidden_dim)?;
    if inner != hidden_dim {
        return Err(options.refuse(
            "gnn.dim_inner",
            format!("{inner} must equal gt.dim_hidden {hidden_dim}"),
        ));
    }
    if !options.bool("dataset.edge_encoder", false)? {
        // The options cannot tell whether the data set had such features.
        options.note(format!(
            "`dataset.edge_encoder` is off, so edge features are not read; if the data set had \
             real-valued ones of exactly {hidden_dim} columns, the official code added them as \
             they are, and the configuration needs `raw` as its `edge_encoder`"
        ));
    }
    let node_encoder = match options.bool("dataset.node_encoder", false)? {
        true => {
            let name = options.text("dataset.node_encoder_name", "Atom")?;
            node_features(sizes, &name, "node_encoder")?
        }
        false => FeatureEncoderConfig::Raw,
    };
    let act = activation(options, "gnn.act", "relu")?;
    let head = grit_head(options, act)?;
    let config = GritConfig {
        hidden_dim,
        layers: options.usize("gt.layers", 3)?,
        heads: options.usize("gt.n_heads", 8)?,
        output_dim: output_dim(sizes, &head)?,
        rrwp: Rrwp {
            steps,
            shortest_path: options.bool("posenc_RRWP.spd", false)?,
        },
        node_encoder,
        edge_encoder: match options.bool("dataset.edge_encoder", false)? {
            true => Some(edge_features(sizes)?),
            false => None,
        },
        node_encoder_norm: options.bool("dataset.node_encoder_bn", true)?
            && options.bool("dataset.node_encoder", false)?,
        edge_encoder_norm: options.bool("dataset.edge_encoder_bn", true)?
            && options.bool("dataset.edge_encoder", false)?,
        encoder_norm_eps: options.float("bn.eps", Some(1e-5))?.unwrap_or(1e-5),
        attention: GritAttentionConfig {
            clamp: options
                .float("gt.attn.clamp", Some(5.0))?
                .map(|c| c.abs() as f32),
            activation: activation(options, "gt.attn.act", "relu")?,
            edge_enhance: options.bool("gt.attn.edge_enhance", true)?,
            use_bias: options.bool("gt.attn.use_bias", false)?,
            full: options.bool("gt.attn.full_attn", true)?,
        },
        activation: act,
        degree_scaler: options.bool("gt.attn.deg_scaler", true)?,
        update_pairs: options.bool("gt.update_e", true)?,
        pair_output: options.bool("gt.attn.O_e", true)?,
        pair_norm: options.bool("gt.attn.norm_e", true)?,
        layer_norm: options.bool("gt.layer_norm", false)?,
        batch_norm: options.bool("gt.batch_norm", true)?,
        rezero: options.bool("gt.rezero", false)?,
        pooling: grit_pooling(options)?,
        head,
    };
    mark_framework_options(options);
    mark_without_effect(options);
    config
        .check()
        .map_err(|error| options.refuse(&error.option, &error.problem))?;
    Ok(config)
}

/// The pooling of a model without graph tokens.
fn grit_pooling(options: &Options) -> Result<Pooling> {
    match pooling(options)? {
        Pooling::GraphToken => Err(options.refuse(
            "model.graph_pooling",
            "`graph_token` is not supported: GRIT makes no graph tokens",
        )),
        pooling => Ok(pooling),
    }
}

/// A head that predicts for graphs or nodes.
fn grit_head(options: &Options, act: Activation) -> Result<HeadConfig> {
    match shared_options::head(options, act)? {
        head @ (HeadConfig::SanGraph { .. }
        | HeadConfig::Graph { .. }
        | HeadConfig::InductiveNode { .. }) => Ok(head),
        _ => {
            let name = options.text("gnn.head", "default")?;
            Err(options.refuse(
                "gnn.head",
                format!(
                    "head `{name}` is not supported for GRIT (san_graph, graph, node, \
                     inductive_node)"
                ),
            ))
        }
    }
}

/// Options of the official code that do not reach a GRIT model in evaluation.
fn mark_without_effect(options: &Options) {
    options.without_effect_noted(&[
        ("gt.attn.signed_sqrt", json!(true)),
        ("gt.attn.sqrt_relu", json!(false)),
        ("gt.attn.scaled_attn", json!(false)),
        ("gt.attn.no_qk", json!(false)),
        ("gt.attn.fwl", json!(false)),
        ("gt.attn.sparse", json!(false)),
        ("gt.attn.use", json!(true)),
        ("gt.residual", json!(true)),
        ("posenc_RRWP.add_identity", json!(true)),
    ]);
    options.without_effect(&[
        // Only training sees dropout and the momentum of running statistics.
        "gt.dropout",
        "gt.attn_dropout",
        "gt.bn_momentum",
        "gt.gamma",
        "gt.full_graph",
        "gt.pna_degrees",
        "gt.bigbird",
        // Parts of the shared section layout of positional encodings that RRWP does not read.
        "posenc_RRWP.model",
        "posenc_RRWP.dim_pe",
        "posenc_RRWP.layers",
        "posenc_RRWP.n_heads",
        "posenc_RRWP.post_layers",
        "posenc_RRWP.raw_norm_type",
        "posenc_RRWP.pass_as_var",
        "posenc_RRWP.add_node_attr",
        "posenc_RRWP.add_inverse",
    ]);
    // Other encodings only reach a model through composed node encoders, which are refused above.
    for section in [
        "posenc_LapPE",
        "posenc_SignNet",
        "posenc_RWSE",
        "posenc_HKdiagSE",
        "posenc_ElstaticSE",
        "posenc_EquivStableLapPE",
        "posenc_GraphormerBias",
        "posenc_InterRWSE",
    ] {
        if options.contains(section) {
            options.note(format!("section `{section}` does not reach a GRIT model"));
        }
        options.without_effect(&[section]);
    }
}
