//! The rows (node, frequency) of a batch of spectra.

use candle_core::{Result, Tensor};

use crate::error::Result as EngineResult;
use crate::graph::{GraphBatch, Offsets};

/// Which of the rows (node, slot), `slots` a node, stand for a frequency of the node's graph: a
/// graph of n nodes has n, the slots from there on are empty.
pub(super) struct Frequencies {
    /// The rows of every node that are not empty.
    pub(super) ptr: Offsets,
    /// Their numbers among all rows; none when no slot is empty.
    rows: Option<Tensor>,
}

impl Frequencies {
    pub(super) fn new(batch: &GraphBatch, slots: usize) -> EngineResult<Self> {
        let device = batch.device();
        let sizes = || batch.node_ptr().lengths();
        let of_nodes = sizes().flat_map(|n| std::iter::repeat_n(n.min(slots), n));
        let ptr = Offsets::from_lengths(of_nodes, device)?;
        if sizes().all(|n| n >= slots) {
            return Ok(Self { ptr, rows: None });
        }
        let mut rows = Vec::with_capacity(ptr.total());
        for (node, used) in ptr.lengths().enumerate() {
            rows.extend((node * slots..node * slots + used).map(|row| row as u32));
        }
        let count = rows.len();
        Ok(Self {
            ptr,
            rows: Some(Tensor::from_vec(rows, count, device)?),
        })
    }

    /// The rows of `values` `[nodes · slots, width]` that are not empty.
    pub(super) fn select(&self, values: Tensor) -> Result<Tensor> {
        match &self.rows {
            Some(rows) => values.index_select(rows, 0),
            None => Ok(values),
        }
    }
}
