//! Options of GraphGym itself that no model here reads in evaluation.

use crate::convert::options::Options;

/// Marks options of data sets, training, losses and the generic network that do not reach a
/// prediction.
pub(in crate::convert) fn mark_framework_options(options: &Options) {
    options.without_effect(&[
        // The network that GraphGym builds from parts is not this one.
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
        // Losses and link prediction.
        "model.edge_decoding",
        "model.loss_fun",
        "model.match_upper",
        "model.size_average",
        "model.thresh",
        // Heads that do not pool.
        "model.graph_pooling",
        "share.dim_in",
        "share.num_splits",
        // Names and sizes that only some encoders read.
        "dataset.edge_dim",
        "dataset.edge_encoder_num_types",
        "dataset.node_encoder_num_types",
        "dataset.node_encoder_name",
        "dataset.edge_encoder_name",
        "dataset.edge_encoder_bn",
        "dataset.node_encoder_bn",
        // Which graphs are loaded and how they are split.
        "dataset.cache_load",
        "dataset.cache_save",
        "dataset.cv_fold",
        "dataset.dir",
        "dataset.edge_message_ratio",
        "dataset.edge_negative_sampling_ratio",
        "dataset.edge_train_mode",
        "dataset.encoder",
        "dataset.encoder_bn",
        "dataset.encoder_dim",
        "dataset.encoder_name",
        "dataset.format",
        "dataset.infer_link_label",
        "dataset.label_column",
        "dataset.label_table",
        "dataset.location",
        "dataset.name",
        "dataset.pe_transform_on_the_fly",
        "dataset.remove_feature",
        "dataset.resample_disjoint",
        "dataset.resample_negative",
        "dataset.shuffle_split",
        "dataset.slic_compactness",
        "dataset.split",
        "dataset.split_dir",
        "dataset.split_index",
        "dataset.split_mode",
        "dataset.task",
        "dataset.task_type",
        "dataset.to_undirected",
        "dataset.transductive",
        "dataset.transform",
        "dataset.tu_simple",
        // Examples in the official code for options of one's own.
        "example_arg",
        "example_group.example_arg",
    ]);
}
