//! Results of all graphs as arrays.

use std::io;
use std::path::Path;

use candle_graph::graph::GraphId;
use candle_graph_models::{Output, PredictionLevel};

use super::ids::Ids;
use super::rows::Rows;

/// What array formats write: rows, ids, and where the rows of a graph are.
#[derive(Debug)]
pub(super) struct Arrays {
    /// Rows of all graphs.
    pub(super) rows: Rows,
    /// One id a graph.
    pub(super) ids: Ids,
    /// Cumulative number of rows, `[graphs + 1]`, and its name, for results with a row a node or
    /// a node pair.
    pub(super) ptr: Option<(&'static str, Vec<i64>)>,
}

impl Arrays {
    pub(super) fn new(beside: &Path, level: PredictionLevel, width: usize) -> io::Result<Self> {
        Ok(Self {
            rows: Rows::new(beside, width)?,
            ids: Ids::default(),
            ptr: match level {
                PredictionLevel::Graph => None,
                PredictionLevel::Node => Some(("node_ptr", vec![0])),
                PredictionLevel::Edge => Some(("edge_label_ptr", vec![0])),
            },
        })
    }

    pub(super) fn push(&mut self, id: &GraphId, output: &Output) -> io::Result<()> {
        self.rows.push(&output.data)?;
        self.ids.push(id);
        if let Some((_, ptr)) = &mut self.ptr {
            ptr.push(self.rows.shape()[0] as i64);
        }
        Ok(())
    }
}
