//! Graphs on the host and ragged batches on the device.
//!
//! [`Graph`] is owned and validated once, at the border; [`GraphBatch`] is the concatenation of
//! graphs on a device, nothing padded. [`Offsets`] is the one type that says where a segment
//! (a graph's nodes, a node's incoming edges, a graph's node pairs) begins and ends.

mod adjacency;
mod batch;
mod budget;
mod by_source;
mod features;
mod host;
mod index_tensors;
mod label_pairs;
mod offsets;
mod pairs;
mod petgraph;
mod point_cloud;
#[cfg(test)]
mod point_cloud_tests;
mod record;
mod record_edges;
mod record_write;
mod schema;
mod table;

pub use adjacency::{Adjacency, SelfLooped};
pub use batch::{BatchEdges, BatchFeatures, GraphBatch};
pub use budget::{BatchBudget, BatchFill};
pub use features::Features;
pub use host::{Graph, GraphBuilder, GraphId, MAX_INDEX, Targets};
pub use label_pairs::LabelPairs;
pub use offsets::Offsets;
pub use pairs::PairLayout;
pub use petgraph::FeatureValue;
pub use point_cloud::PointCloud;
pub(crate) use record::{Id, Record, table_field, targets_from_table};
pub use schema::{ConformedFeatures, FeatureSchema, InputSchema};
pub(crate) use table::{Number, Rows, Scalars, TableBuilder};
