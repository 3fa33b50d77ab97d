//! Options of the official GRIT code to [`GritConfig`].

use candle_graph::encodings::Rrwp;
use candle_graph::nn::{FeatureEncoderConfig, HeadConfig, Pooling};
use candle_graph::ops::Activation;
use candle_graph_models::grit::{GritAttentionConfig, GritConfig};
use serde_json::json;

use super::options::Options;
use crate::error::Result;
use crate::state_dict::StateDict;

/// Translates official options, resolved or as published (the official defaults fill the gaps).
/// `tensors`, under our names, tell what options leave open: table sizes and input widths.
///
/// # Errors
/// Options that rule a model out, that no model of this kind can follow, or that the official code
/// does not know, each by name.
pub(super) fn grit_config(options: &Options, tensors: &StateDict) -> Result<GritConfig> {
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
    let activation = activation(options, "gnn.act", "relu")?;
    let config = GritConfig {
        hidden_dim,
        layers: options.usize("gt.layers", 3)?,
        heads: options.usize("gt.n_heads", 8)?,
        output_dim: output_dim(options, tensors)?,
        rrwp: Rrwp {
            steps,
            shortest_path: options.bool("posenc_RRWP.spd", false)?,
        },
        node_encoder: match options.bool("dataset.node_encoder", false)? {
            true => node_encoder(options, tensors)?,
            false => FeatureEncoderConfig::Raw,
        },
        edge_encoder: match options.bool("dataset.edge_encoder", false)? {
            true => Some(edge_encoder(options, tensors)?),
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
            activation: self::activation(options, "gt.attn.act", "relu")?,
            edge_enhance: options.bool("gt.attn.edge_enhance", true)?,
            use_bias: options.bool("gt.attn.use_bias", false)?,
            full: options.bool("gt.attn.full_attn", true)?,
        },
        activation,
        degree_scaler: options.bool("gt.attn.deg_scaler", true)?,
        update_pairs: options.bool("gt.update_e", true)?,
        pair_output: options.bool("gt.attn.O_e", true)?,
        pair_norm: options.bool("gt.attn.norm_e", true)?,
        layer_norm: options.bool("gt.layer_norm", false)?,
        batch_norm: options.bool("gt.batch_norm", true)?,
        rezero: options.bool("gt.rezero", false)?,
        pooling: pooling(options)?,
        head: head(options, activation)?,
    };
    mark_without_effect(options);
    config
        .check()
        .map_err(|error| options.refuse(&error.option, &error.problem))?;
    Ok(config)
}

/// An activation by its GraphGym name.
pub(super) fn activation(options: &Options, path: &str, default: &str) -> Result<Activation> {
    let Some(name) = (match options.contains(path) {
        true => options.get(path).map(|_| options.text(path, default)),
        false => Some(Ok(default.to_string())),
    }) else {
        return Ok(Activation::Identity);
    };
    let name = name?;
    Ok(match name.as_str() {
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "swish" => Activation::Swish,
        "elu" => Activation::Elu,
        "selu" => Activation::Selu,
        "lrelu_01" => Activation::LeakyRelu01,
        "lrelu_02" => Activation::LeakyRelu02,
        "lrelu_025" => Activation::LeakyRelu025,
        "lrelu_03" => Activation::LeakyRelu03,
        "lrelu_05" => Activation::LeakyRelu05,
        "prelu" => {
            return Err(options.refuse(
                path,
                "activation `prelu` has a learned slope and is not supported",
            ));
        }
        other => {
            return Err(options.refuse(
                path,
                format!(
                    "activation `{other}` is not known to the official code (relu, gelu, swish, \
                     elu, selu, lrelu_01, lrelu_02, lrelu_025, lrelu_03, lrelu_05)"
                ),
            ));
        }
    })
}

fn pooling(options: &Options) -> Result<Pooling> {
    let name = options.text("model.graph_pooling", "add")?;
    Ok(match name.as_str() {
        "add" => Pooling::Add,
        "mean" => Pooling::Mean,
        "max" => Pooling::Max,
        other => {
            return Err(options.refuse(
                "model.graph_pooling",
                format!("`{other}` is not supported (add, mean, max)"),
            ));
        }
    })
}

fn head(options: &Options, activation: Activation) -> Result<HeadConfig> {
    let layers = options.usize("gnn.layers_post_mp", 0)?.max(1);
    let mut name = options.text("gnn.head", "default")?;
    if name == "default" {
        name = options.text("dataset.task", "node")?;
    }
    Ok(match name.as_str() {
        "san_graph" => HeadConfig::SanGraph { activation },
        "graph" => HeadConfig::Graph { layers },
        "inductive_node" => HeadConfig::InductiveNode { layers },
        other => {
            return Err(options.refuse(
                "gnn.head",
                format!("head `{other}` is not supported (san_graph, graph, inductive_node)"),
            ));
        }
    })
}

/// Outputs of the head: `share.dim_out` where the options are resolved, otherwise what the
/// checkpoint's last map has. A classification into two classes has one output.
fn output_dim(options: &Options, tensors: &StateDict) -> Result<usize> {
    let task_type = options.text("dataset.task_type", "classification")?;
    options.without_effect(&["share.num_splits"]);
    match options.usize("share.dim_out", 0)? {
        0 => (0..)
            .map_while(|j| tensors.get(&format!("head.layers.{j}.weight")))
            .last()
            .and_then(|weight| weight.shape().first().copied())
            .ok_or_else(|| {
                options.refuse(
                    "share.dim_out",
                    "absent, and the checkpoint has no head to take it from",
                )
            }),
        2 if task_type.contains("classification") => Ok(1),
        outputs => Ok(outputs),
    }
}

/// Sizes of the embedding tables that the checkpoint holds under `prefix`.
fn tables(
    options: &Options,
    option: &str,
    tensors: &StateDict,
    prefix: &str,
) -> Result<FeatureEncoderConfig> {
    let tables: Vec<usize> = (0..)
        .map_while(|t| tensors.get(&format!("{prefix}.embeddings.{t}.weight")))
        .filter_map(|table| table.shape().first().copied())
        .collect();
    if tables.is_empty() {
        return Err(options.refuse(option, "the checkpoint holds no embedding table for it"));
    }
    Ok(FeatureEncoderConfig::Embedding { tables })
}

/// Inputs of the linear map that the checkpoint holds under `prefix`.
fn linear_inputs(
    options: &Options,
    option: &str,
    tensors: &StateDict,
    prefix: &str,
) -> Result<FeatureEncoderConfig> {
    tensors
        .get(&format!("{prefix}.linear.weight"))
        .and_then(|weight| weight.shape().get(1).copied())
        .map(|width| FeatureEncoderConfig::Linear { width })
        .ok_or_else(|| options.refuse(option, "the checkpoint holds no linear map for it"))
}

fn type_dict(options: &Options, count: &str) -> Result<FeatureEncoderConfig> {
    match options.usize(count, 0)? {
        0 => Err(options.refuse(count, "the type dictionary needs a size of at least 1")),
        rows => Ok(FeatureEncoderConfig::Embedding { tables: vec![rows] }),
    }
}

fn node_encoder(options: &Options, tensors: &StateDict) -> Result<FeatureEncoderConfig> {
    let option = "dataset.node_encoder_name";
    let name = options.text(option, "Atom")?;
    match name.as_str() {
        "TypeDictNode" => type_dict(options, "dataset.node_encoder_num_types"),
        "Atom" => tables(options, option, tensors, "node_encoder"),
        "LinearNode" | "VOCNode" => linear_inputs(options, option, tensors, "node_encoder"),
        "PPANode" => Ok(FeatureEncoderConfig::Dummy),
        other => Err(options.refuse(
            option,
            format!(
                "`{other}` is not supported (TypeDictNode, Atom, LinearNode, VOCNode, PPANode)"
            ),
        )),
    }
}

fn edge_encoder(options: &Options, tensors: &StateDict) -> Result<FeatureEncoderConfig> {
    let option = "dataset.edge_encoder_name";
    let name = options.text(option, "Bond")?;
    match name.as_str() {
        "TypeDictEdge" => type_dict(options, "dataset.edge_encoder_num_types"),
        "Bond" => tables(options, option, tensors, "edge_encoder"),
        "LinearEdge" | "VOCEdge" | "PPAEdge" => {
            linear_inputs(options, option, tensors, "edge_encoder")
        }
        "DummyEdge" => Ok(FeatureEncoderConfig::Dummy),
        other => Err(options.refuse(
            option,
            format!(
                "`{other}` is not supported (TypeDictEdge, Bond, LinearEdge, VOCEdge, PPAEdge, \
                 DummyEdge)"
            ),
        )),
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
        // The generic GNN that these options describe is not part of GRIT, and its head ignores
        // them.
        "gnn.agg",
        "gnn.att_final_linear",
        "gnn.att_final_linear_bn",
        "gnn.att_heads",
        "gnn.batchnorm",
        "gnn.clear_feature",
        "gnn.dim_edge",
        "gnn.dropout",
        "gnn.keep_edge",
        "gnn.l2norm",
        "gnn.layer_type",
        "gnn.layers_mp",
        "gnn.msg_direction",
        "gnn.normalize_adj",
        "gnn.residual",
        "gnn.self_msg",
        "gnn.skip_every",
        "gnn.stage_type",
        "model.edge_decoding",
        "model.loss_fun",
        "model.match_upper",
        "model.size_average",
        "model.thresh",
        "share.dim_in",
        "dataset.edge_dim",
        "dataset.edge_encoder_num_types",
        "dataset.node_encoder_num_types",
        "dataset.node_encoder_name",
        "dataset.edge_encoder_name",
        "dataset.format",
        "dataset.name",
        "dataset.dir",
        "dataset.task",
        "dataset.task_type",
        "dataset.transductive",
        "dataset.split",
        "dataset.split_index",
        "dataset.split_mode",
        "dataset.shuffle_split",
        "dataset.cv_fold",
        "dataset.pe_transform_on_the_fly",
        "dataset.slic_compactness",
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
