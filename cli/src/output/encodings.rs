//! Encodings of all graphs as safetensors.

use std::io;
use std::path::Path;

use anyhow::Context;
use candle_graph::encodings::{EncodingPlan, GraphEncoding, Level};
use candle_graph::graph::Graph;
use candle_graph_weights::atomic_file::AtomicFile;

use super::ids::Ids;
use super::rows::Rows;
use super::safetensors::{Tensors, Values};
use super::{cannot_write, id};
use crate::interrupt;

/// A file with one tensor for each array of a plan, graph after graph; `node_ptr` and, where an
/// array has a row a pair, `pair_ptr`; ids; and the plan as JSON in the metadata under `encodings`.
pub(crate) struct EncodingsFile {
    file: AtomicFile,
    arrays: Vec<(&'static str, Rows)>,
    ids: Ids,
    node_ptr: Vec<i64>,
    pair_ptr: Option<Vec<i64>>,
    plan: String,
}

impl EncodingsFile {
    /// Opens the file.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub(crate) fn create(path: &Path, plan: &EncodingPlan) -> anyhow::Result<Self> {
        let file = interrupt::create(path)?;
        let arrays = plan.arrays();
        let has_pairs = arrays.iter().any(|(_, level, _)| *level == Level::Pair);
        let rows = |(name, _, width)| Ok((name, Rows::new(path, width)?));
        let arrays: io::Result<_> = arrays.into_iter().map(rows).collect();
        Ok(Self {
            arrays: arrays.with_context(|| cannot_write(&file))?,
            file,
            ids: Ids::default(),
            node_ptr: vec![0],
            pair_ptr: has_pairs.then(|| vec![0]),
            plan: serde_json::to_string(plan)?,
        })
    }

    /// Adds the encodings of the next graph, which stands at `position` of the input.
    pub(crate) fn write(
        &mut self,
        graph: &Graph,
        position: usize,
        encoding: &GraphEncoding,
    ) -> anyhow::Result<()> {
        for (name, rows) in &mut self.arrays {
            if let Some(array) = encoding.get(name) {
                let pushed = rows.push(&array.data);
                pushed.with_context(|| cannot_write(&self.file))?;
            }
        }
        self.ids.push(&id(graph, position));
        extend(&mut self.node_ptr, graph.num_nodes() as u64);
        if let Some(ptr) = &mut self.pair_ptr {
            extend(ptr, graph.num_pairs());
        }
        Ok(())
    }

    /// Gives the file its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        let mut tensors = Tensors::default();
        tensors.add_metadata("encodings", self.plan);
        tensors.add("node_ptr", Values::Whole(self.node_ptr));
        if let Some(ptr) = self.pair_ptr {
            tensors.add("pair_ptr", Values::Whole(ptr));
        }
        for (name, rows) in self.arrays {
            tensors.add(name, Values::Rows(rows));
        }
        tensors
            .add_ids(&self.ids)
            .and_then(|()| tensors.write(&mut self.file))
            .with_context(|| cannot_write(&self.file))?;
        Ok(self.file.commit()?)
    }
}

/// Appends an offset that lies `by` behind the last.
fn extend(ptr: &mut Vec<i64>, by: u64) {
    let last = ptr.last().copied().unwrap_or(0);
    ptr.push(last.saturating_add_unsigned(by));
}
