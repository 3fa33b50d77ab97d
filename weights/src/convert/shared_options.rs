//! Options that mean the same in every model of GraphGym's descendants (GRIT, GraphGPS).

mod activation;
mod dataset;
mod features;
mod inert;
mod output;
mod sizes;

pub(super) use activation::activation;
pub(super) use dataset::dataset_title;
pub(super) use features::{NODE_FEATURE_ENCODERS, edge_features, node_features};
pub(super) use inert::mark_framework_options;
pub(super) use output::{head, output_dim, pooling};
pub(super) use sizes::Sizes;
