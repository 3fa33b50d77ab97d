//! NumPy arrays.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use candle_graph::graph::GraphId;
use candle_graph_models::{Output, PredictionLevel};
use candle_graph_weights::atomic_file::AtomicFile;
use npyz::{DType, TypeStr, WriteOptions, WriterBuilder};

use super::arrays::Arrays;
use super::rows::Rows;
use super::{Sink, cannot_write};
use crate::interrupt;

/// Writes the header of a little-endian array of this element type (`<f4`, `<i8`, …).
pub(super) fn write_header(out: &mut impl Write, element: &str, shape: &[u64]) -> io::Result<()> {
    let element: TypeStr = element.parse().map_err(io::Error::other)?;
    WriteOptions::new_header_only()
        .dtype(DType::Plain(element))
        .shape(shape)
        .writer(out)
        .write_header_only()?;
    Ok(())
}

/// Writes rows as an array `[rows, width]`.
pub(super) fn write_rows(out: &mut impl Write, rows: Rows) -> io::Result<()> {
    write_header(out, "<f4", &rows.shape())?;
    rows.copy_to(out)
}

/// One array of all results.
pub(super) struct Npy {
    file: AtomicFile,
    arrays: Arrays,
}

impl Npy {
    pub(super) fn create(
        path: &Path,
        level: PredictionLevel,
        width: usize,
    ) -> anyhow::Result<Self> {
        let file = interrupt::create(path)?;
        let arrays = Arrays::new(path, level, width).with_context(|| cannot_write(&file))?;
        Ok(Self { file, arrays })
    }
}

impl Sink for Npy {
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()> {
        let pushed = self.arrays.push(id, output);
        pushed.with_context(|| cannot_write(&self.file))
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        write_rows(&mut self.file, self.arrays.rows).with_context(|| cannot_write(&self.file))?;
        Ok(self.file.commit()?)
    }
}
