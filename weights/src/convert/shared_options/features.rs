//! Encoders of node and edge features by their official names.

use candle_graph::nn::FeatureEncoderConfig;

use super::Sizes;
use crate::convert::options::Options;
use crate::error::Result;

/// The official encoders of node features alone.
pub(in crate::convert) const NODE_FEATURE_ENCODERS: &[&str] = &[
    "TypeDictNode",
    "Atom",
    "LinearNode",
    "VOCNode",
    "ASTNode",
    "PPANode",
];

/// The encoder of node features `name`, a part of `dataset.node_encoder_name`, whose tensors stand
/// under `prefix`.
pub(in crate::convert) fn node_features(
    sizes: &Sizes<'_>,
    name: &str,
    prefix: &str,
) -> Result<FeatureEncoderConfig> {
    let option = "dataset.node_encoder_name";
    match name {
        "TypeDictNode" => type_dict(sizes.options(), "dataset.node_encoder_num_types"),
        "Atom" => Ok(FeatureEncoderConfig::Embedding {
            tables: tables(
                sizes,
                option,
                name,
                prefix,
                FeatureEncoderConfig::ATOM_TABLES,
            )?,
        }),
        "ASTNode" => Ok(FeatureEncoderConfig::ClampedEmbedding {
            tables: tables(
                sizes,
                option,
                name,
                prefix,
                FeatureEncoderConfig::SYNTAX_NODE_TABLES,
            )?,
            clamped: vec![FeatureEncoderConfig::SYNTAX_DEPTH],
        }),
        "LinearNode" => sizes.linear(option, prefix, || sizes.dim_in(option)),
        "VOCNode" => sizes.linear(option, prefix, || Ok(14)),
        "PPANode" => Ok(FeatureEncoderConfig::Dummy),
        other => Err(sizes.options().refuse(
            option,
            format!(
                "`{other}` is not supported ({})",
                NODE_FEATURE_ENCODERS.join(", ")
            ),
        )),
    }
}

/// The encoder of edge features that `dataset.edge_encoder_name` names; its tensors stand under
/// `edge_encoder`.
pub(in crate::convert) fn edge_features(sizes: &Sizes<'_>) -> Result<FeatureEncoderConfig> {
    let (options, option, prefix) = (sizes.options(), "dataset.edge_encoder_name", "edge_encoder");
    let name = options.text(option, "Bond")?;
    let dataset = options.text("dataset.name", "none")?;
    match name.as_str() {
        "TypeDictEdge" => type_dict(options, "dataset.edge_encoder_num_types"),
        "Bond" => Ok(FeatureEncoderConfig::Embedding {
            tables: tables(
                sizes,
                option,
                &name,
                prefix,
                FeatureEncoderConfig::BOND_TABLES,
            )?,
        }),
        "ASTEdge" => Ok(FeatureEncoderConfig::Embedding {
            tables: tables(
                sizes,
                option,
                &name,
                prefix,
                FeatureEncoderConfig::SYNTAX_EDGE_TABLES,
            )?,
        }),
        "LinearEdge" => sizes.linear(option, prefix, || match dataset.as_str() {
            "MNIST" | "CIFAR10" => Ok(1),
            _ => Err(options.refuse(
                option,
                "the official `LinearEdge` knows the edge features of MNIST and CIFAR10 only",
            )),
        }),
        "VOCEdge" => sizes.linear(option, prefix, || match dataset.as_str() {
            "edge_wt_region_boundary" => Ok(2),
            _ => Ok(1),
        }),
        "PPAEdge" => sizes.linear(option, prefix, || Ok(7)),
        "DummyEdge" => Ok(FeatureEncoderConfig::Dummy),
        other => Err(options.refuse(
            option,
            format!(
                "`{other}` is not supported (TypeDictEdge, Bond, LinearEdge, VOCEdge, ASTEdge, \
                 PPAEdge, DummyEdge)"
            ),
        )),
    }
}

/// Sizes of the embedding tables that the checkpoint holds under `prefix`, or the `usual` ones.
fn tables(
    sizes: &Sizes<'_>,
    option: &str,
    name: &str,
    prefix: &str,
    usual: &[usize],
) -> Result<Vec<usize>> {
    if !sizes.has_tensors() {
        return Ok(usual.to_vec());
    }
    let tables = sizes.of_list(&format!("{prefix}.embeddings"));
    if tables.len() != usual.len() {
        return Err(sizes.options().refuse(
            option,
            format!(
                "the checkpoint holds {} embedding tables, `{name}` has {}",
                tables.len(),
                usual.len()
            ),
        ));
    }
    if tables != usual {
        sizes.options().note(format!(
            "the tables of `{name}` have {tables:?} rows in this checkpoint, {usual:?} in the \
             current release of the official packages; graphs must be prepared with features of \
             the checkpoint's release"
        ));
    }
    Ok(tables)
}

/// One embedding table with as many rows as the option `count` says.
fn type_dict(options: &Options, count: &str) -> Result<FeatureEncoderConfig> {
    match options.bounded(count, 0, Options::MAX_WIDTH)? {
        0 => Err(options.refuse(count, "the type dictionary needs a size of at least 1")),
        rows => Ok(FeatureEncoderConfig::Embedding { tables: vec![rows] }),
    }
}
