//! What the node states start from (`dataset.name`).

use candle_graph::nn::FeatureEncoderConfig;
use candle_graph_models::digraph::DigraphInputConfig;

use crate::convert::options::Options;
use crate::error::Result;

/// Columns of the edge features of `ogbg-code2`'s syntax trees: kind and direction.
const AST_EDGE_COLUMNS: usize = 2;

pub(super) fn input_config(options: &Options, hidden_dim: usize) -> Result<DigraphInputConfig> {
    let name = options.text("dataset.name", "")?;
    let canonical = !options.bool("model.posenc_config.exclude_canonical", false)?;
    let count = |option: &str| -> Result<usize> {
        match options.get(option) {
            Some(_) => options.width(option, 0),
            None => Err(options.refuse(option, "the data set's encoder needs it")),
        }
    };
    if name.is_empty() {
        return Err(options.refuse(
            "dataset.name",
            "it is missing, and decides how graphs are encoded",
        ));
    }
    // The order of the official code: `-df` anywhere in the name comes first.
    if !name.contains("-df") && name.starts_with("sn") {
        return Ok(DigraphInputConfig::Comparators {
            timescale: count("dataset.num_nodeattributes")?,
            order: canonical,
        });
    }
    if !name.contains("-df") && name.starts_with("dist") {
        return Ok(DigraphInputConfig::Constant { ones: canonical });
    }
    let mut tables = vec![
        count("dataset.num_nodetypes")?,
        count("dataset.num_nodeattributes")?,
    ];
    let node = match canonical {
        // Deeper nodes count as the deepest.
        true => {
            tables.push(options.bounded("dataset.ast_depth", 0, Options::MAX_WIDTH)? + 1);
            FeatureEncoderConfig::ClampedEmbedding {
                tables,
                clamped: vec![FeatureEncoderConfig::SYNTAX_DEPTH],
            }
        }
        false => FeatureEncoderConfig::Embedding { tables },
    };
    if name.contains("-df") {
        return Ok(DigraphInputConfig::Features {
            node,
            edge: Some(FeatureEncoderConfig::Embedding {
                tables: vec![
                    count("dataset.edge_df_types")?,
                    count("dataset.edge_ast_types")?,
                ],
            }),
            edge_dim: None,
        });
    }
    // Here an absent option counts as false, for the layers as true.
    let residual = options.bool("model.gnn_config.residual", false)?;
    Ok(DigraphInputConfig::Features {
        node,
        edge: Some(FeatureEncoderConfig::Linear {
            width: AST_EDGE_COLUMNS,
        }),
        edge_dim: (!residual).then_some(hidden_dim / 2),
    })
}
