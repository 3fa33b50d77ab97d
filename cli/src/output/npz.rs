//! NumPy archives: rows, ids, and `node_ptr` or `edge_label_ptr` for results with a row a node or a
//! node pair.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use candle_graph::graph::GraphId;
use candle_graph_models::{Output, PredictionLevel};
use candle_graph_weights::atomic_file::AtomicFile;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::arrays::Arrays;
use super::ids::Ids;
use super::npy::{write_header, write_rows};
use super::{Naming, Sink, cannot_write};
use crate::interrupt;

/// An archive of all results.
pub(super) struct Npz {
    file: AtomicFile,
    naming: Naming,
    arrays: Arrays,
}

impl Npz {
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

impl Sink for Npz {
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()> {
        let pushed = self.arrays.push(id, output);
        pushed.with_context(|| cannot_write(&self.file))
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        let archive = write_archive(&mut self.file, self.naming, self.arrays);
        archive.with_context(|| cannot_write(&self.file))?;
        Ok(self.file.commit()?)
    }
}

fn write_archive(file: &mut AtomicFile, naming: Naming, arrays: Arrays) -> io::Result<()> {
    let mut zip = ZipWriter::new(file);
    // A fixed time: the same results give the same bytes.
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    let large = arrays.rows.bytes() >= u64::from(u32::MAX);
    let start = |zip: &mut ZipWriter<_>, name: &str| {
        zip.start_file(format!("{name}.npy"), options.large_file(large))
            .map_err(io::Error::from)
    };
    start(&mut zip, naming.plural)?;
    write_rows(&mut zip, arrays.rows)?;
    start(&mut zip, "ids")?;
    write_ids(&mut zip, &arrays.ids)?;
    if let Some((name, ptr)) = &arrays.ptr {
        start(&mut zip, name)?;
        write_whole(&mut zip, ptr)?;
    }
    zip.finish()?;
    Ok(())
}

fn write_whole(out: &mut impl Write, values: &[i64]) -> io::Result<()> {
    write_header(out, "<i8", &[values.len() as u64])?;
    for value in values {
        out.write_all(&value.to_le_bytes())?;
    }
    Ok(())
}

/// Whole numbers, or text when one id is text.
fn write_ids(out: &mut impl Write, ids: &Ids) -> io::Result<()> {
    if let Some(numbers) = ids.numbers() {
        return write_whole(out, &numbers);
    }
    // NumPy's text has one length for all, four bytes a character, zeros at the end.
    let texts = ids.texts();
    let length = texts.iter().map(|text| text.chars().count()).max();
    let length = length.unwrap_or(0).max(1);
    write_header(out, &format!("<U{length}"), &[texts.len() as u64])?;
    for text in &texts {
        let padding = std::iter::repeat('\0');
        for character in text.chars().chain(padding).take(length) {
            out.write_all(&u32::from(character).to_le_bytes())?;
        }
    }
    Ok(())
}
