//! Safetensors: rows, ids, and `node_ptr` or `edge_label_ptr` for results with a row a node or a node
//! pair.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use candle_graph::graph::GraphId;
use candle_graph_models::{Output, PredictionLevel};
use candle_graph_weights::atomic_file::AtomicFile;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::arrays::Arrays;
use super::ids::Ids;
use super::rows::Rows;
use super::{Naming, Sink, cannot_write};
use crate::interrupt;

/// Values of a tensor.
pub(super) enum Values {
    /// f32 `[rows, width]`.
    Rows(Rows),
    /// i64 `[length]`.
    Whole(Vec<i64>),
}

/// A file under construction.
#[derive(Default)]
pub(super) struct Tensors {
    tensors: Vec<(String, Values)>,
    metadata: HashMap<String, String>,
}

impl Tensors {
    pub(super) fn add(&mut self, name: &str, values: Values) {
        self.tensors.push((name.to_string(), values));
    }

    pub(super) fn add_metadata(&mut self, key: &str, value: String) {
        self.metadata.insert(key.to_string(), value);
    }

    /// Ids as a tensor when all are numbers, else in the metadata: the format has no text.
    pub(super) fn add_ids(&mut self, ids: &Ids) -> io::Result<()> {
        match ids.numbers() {
            Some(numbers) => self.add("ids", Values::Whole(numbers)),
            None => self.add_metadata("ids", ids.json()?),
        }
        Ok(())
    }

    /// Writes everything; the largest element type comes first, so that all tensors are aligned.
    pub(super) fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        self.tensors
            .sort_by_key(|(_, values)| matches!(values, Values::Rows(_)));
        let mut end = 0usize;
        let infos = self.tensors.iter().map(|(name, values)| {
            let (dtype, shape, bytes) = match values {
                Values::Whole(values) => (Dtype::I64, vec![values.len()], values.len() * 8),
                Values::Rows(rows) => (
                    Dtype::F32,
                    rows.shape().map(|d| d as usize).to_vec(),
                    rows.bytes() as usize,
                ),
            };
            let start = end;
            end += bytes;
            let info = TensorInfo {
                dtype,
                shape,
                data_offsets: (start, end),
            };
            (name.clone(), info)
        });
        let metadata = Some(self.metadata).filter(|metadata| !metadata.is_empty());
        let header = Metadata::new(metadata, infos.collect()).map_err(io::Error::other)?;
        let mut header = serde_json::to_vec(&header)?;
        header.resize(header.len().next_multiple_of(8), b' ');
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        for (_, values) in self.tensors {
            match values {
                Values::Rows(rows) => rows.copy_to(out)?,
                Values::Whole(values) => {
                    for value in values {
                        out.write_all(&value.to_le_bytes())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The tensors of all results.
pub(super) struct Safetensors {
    file: AtomicFile,
    naming: Naming,
    arrays: Arrays,
}

impl Safetensors {
    pub(super) fn create(
        path: &Path,
        naming: Naming,
        level: PredictionLevel,
        width: usize,
    ) -> anyhow::Result<Self> {
        let file = interrupt::create(path)?;
        let arrays = Arrays::new(path, level, width).with_context(|| cannot_write(&file))?;
        Ok(Self {
            file,
            naming,
            arrays,
        })
    }
}

impl Sink for Safetensors {
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()> {
        let pushed = self.arrays.push(id, output);
        pushed.with_context(|| cannot_write(&self.file))
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        let Self {
            mut file,
            naming,
            arrays,
        } = *self;
        let mut tensors = Tensors::default();
        tensors.add(naming.plural, Values::Rows(arrays.rows));
        if let Some((name, ptr)) = arrays.ptr {
            tensors.add(name, Values::Whole(ptr));
        }
        tensors
            .add_ids(&arrays.ids)
            .and_then(|()| tensors.write(&mut file))
            .with_context(|| cannot_write(&file))?;
        Ok(file.commit()?)
    }
}
