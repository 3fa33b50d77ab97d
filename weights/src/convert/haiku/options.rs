//! Options of the official code to [`DigraphConfig`].

use candle_graph::ops::Activation;
use candle_graph_models::digraph::{
    DigraphConfig, DigraphEncoderConfig, DigraphHeadConfig, Readout,
};
use serde_json::Value;

use super::encoder::encoder_config;
use super::input::input_config;
use super::positional::positional_config;
use crate::checkpoint::Training;
use crate::convert::options::Options;
use crate::error::Result;

/// Translates official options; the official defaults fill the gaps.
///
/// # Errors
/// Options that rule a model out or that the official code does not know, each by name.
pub(super) fn digraph_config(options: &Options) -> Result<DigraphConfig> {
    mark_without_effect(options);
    if options.bool("model.with_pre_gnn", false)? {
        return Err(options.refuse(
            "model.with_pre_gnn",
            "message passing before the encodings is not supported",
        ));
    }
    let hidden_dim = options.width("model.d_model", 256)?;
    let activation = activation(options)?;
    let encoder = encoder_config(options, hidden_dim)?;
    let positional = positional_config(options, hidden_dim, &encoder)?;
    let readout = readout(options)?;
    if readout == Readout::Token && matches!(encoder, DigraphEncoderConfig::MagNet(_)) {
        return Err(options.refuse(
            "model.global_readout",
            "`cls`: a token has no place in the Laplacian of MagNet",
        ));
    }
    let (head, output_dim) = head(options)?;
    Ok(DigraphConfig {
        hidden_dim,
        input: input_config(options, hidden_dim)?,
        positional,
        readout,
        encoder,
        activation,
        output_dim,
        head,
    })
}

/// What the checkpoint was trained on.
pub(super) fn training(options: &Options) -> Result<Training> {
    let name = options.text("dataset.name", "")?;
    let title = match name.as_str() {
        "" => None,
        "sn" => Some("sorting networks"),
        "dist" => Some("distances in directed graphs"),
        "dist_u" => Some("undirected distances in directed graphs"),
        "dist_adj" => Some("adjacency in directed graphs"),
        "dist_con" => Some("reachability in directed graphs"),
        other => Some(other),
    };
    let classes = options.integer("dataset.num_classes", -1)?;
    let task = if classes > 0 {
        "classification"
    } else {
        "regression"
    };
    Ok(Training {
        dataset: title.map(str::to_string),
        task: Some(task.to_string()),
    })
}

fn activation(options: &Options) -> Result<Activation> {
    let option = "model.activation";
    match options.text(option, "relu")?.as_str() {
        "relu" => Ok(Activation::Relu),
        "gelu" => Ok(Activation::GeluTanh),
        other => Err(options.refuse(option, format!("`{other}` is not known (relu, gelu)"))),
    }
}

fn readout(options: &Options) -> Result<Readout> {
    let option = "model.global_readout";
    // The official option is the number 1 or a text.
    if let Some(Value::Number(number)) = options.get(option) {
        return match number.as_u64() {
            Some(1) => Ok(Readout::SecondNode),
            _ => Err(options.refuse(option, format!("{number} is not known, only 1 is"))),
        };
    }
    match options.text(option, "mean")?.as_str() {
        "cls" => Ok(Readout::Token),
        "mean" => Ok(Readout::Mean),
        "sum_n" => Ok(Readout::SumAndSize),
        "1" => Ok(Readout::SecondNode),
        other => Err(options.refuse(
            option,
            format!("`{other}` is not known (cls, mean, sum_n, 1)"),
        )),
    }
}

/// The head and the values of one prediction. Without classes or without a sequence, pairs of nodes are
/// predicted; without classes, positive numbers.
fn head(options: &Options) -> Result<(DigraphHeadConfig, usize)> {
    let size = |option: &str| -> Result<Option<usize>> {
        match options.integer(option, -1)? {
            number if number <= 0 => Ok(None),
            _ => options.width(option, 1).map(Some),
        }
    };
    let classes = size("dataset.num_classes")?;
    let positions = size("dataset.sequence_length")?;
    match (classes, positions) {
        (Some(classes), Some(positions)) => {
            let outputs = classes
                .checked_mul(positions)
                .filter(|&outputs| outputs <= Options::MAX_WIDTH)
                .ok_or_else(|| {
                    options.refuse(
                        "dataset.num_classes",
                        format!("{classes} classes at {positions} positions are too many outputs"),
                    )
                })?;
            Ok((DigraphHeadConfig::Graph { positions }, outputs))
        }
        (classes, _) => Ok((
            DigraphHeadConfig::Pairs {
                softplus: classes.is_none(),
            },
            classes.unwrap_or(1),
        )),
    }
}

/// Marks what never reaches a prediction: data loading, training, losses and dropout.
fn mark_without_effect(options: &Options) {
    options.without_effect(&[
        "data_root",
        "dataset_config",
        "dataset_name",
        "debug",
        "evaluation",
        "optimizer",
        "overrides",
        "overrides_note",
        "pmap_axis",
        "preset",
        "training",
        "dataset.idx2vocab",
        "dataset.num_train_samples",
        "dataset.path",
        "dataset.vocab2idx",
        // Sizes that only some encoders read.
        "dataset.ast_depth",
        "dataset.edge_ast_types",
        "dataset.edge_df_types",
        "dataset.num_nodeattributes",
        "dataset.num_nodetypes",
        "model.attention_config.dropout_p",
        "model.attention_config.with_attn_dropout",
        "model.encoder_config.attribute_dropout",
        "model.loss_kwargs.only_punish_first_end_of_sequence_token",
        "model.posenc_config.maglap_dropout_p",
    ]);
}
