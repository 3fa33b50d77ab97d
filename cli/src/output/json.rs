//! JSON: an object a graph, a line each or in a list.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use candle_graph::graph::GraphId;
use candle_graph_models::{Output, PredictionLevel};
use candle_graph_weights::atomic_file::AtomicFile;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Lines, Naming, Sink, cannot_write};
use crate::interrupt;

/// `{"id": …, "prediction": […]}`, results of nodes and of node pairs as a list of rows. Values are written with as many
/// digits as give the same f32 back.
struct Object<'a> {
    naming: Naming,
    id: &'a GraphId,
    output: &'a Output,
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("id", self.id)?;
        match self.output.level {
            PredictionLevel::Graph => {
                map.serialize_entry(self.naming.singular, &self.output.data)?;
            }
            PredictionLevel::Node | PredictionLevel::Edge => {
                let rows: Vec<&[f32]> = self.output.rows().collect();
                map.serialize_entry(self.naming.singular, &rows)?;
            }
        }
        map.end()
    }
}

/// One object a line.
pub(super) struct JsonLines {
    naming: Naming,
    lines: Lines,
}

impl JsonLines {
    pub(super) fn new(lines: Lines, naming: Naming) -> Self {
        Self { naming, lines }
    }
}

impl Sink for JsonLines {
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()> {
        let naming = self.naming;
        self.lines.write(&Object { naming, id, output })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.lines.flush()
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        self.lines.finish()
    }
}

/// A list of the objects.
pub(super) struct JsonList {
    naming: Naming,
    file: AtomicFile,
    empty: bool,
}

impl JsonList {
    pub(super) fn create(path: &Path, naming: Naming) -> anyhow::Result<Self> {
        Ok(Self {
            naming,
            file: interrupt::create(path)?,
            empty: true,
        })
    }

    fn put(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let written = self.file.write_all(text);
        written.with_context(|| cannot_write(&self.file))
    }
}

impl Sink for JsonList {
    fn write(&mut self, id: &GraphId, output: &Output) -> anyhow::Result<()> {
        self.put(if self.empty { b"[\n" } else { b",\n" })?;
        self.empty = false;
        let naming = self.naming;
        let written = serde_json::to_writer(&mut self.file, &Object { naming, id, output });
        written
            .map_err(io::Error::from)
            .with_context(|| cannot_write(&self.file))
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.put(if self.empty { b"[]\n" } else { b"\n]\n" })?;
        Ok(self.file.commit()?)
    }
}
