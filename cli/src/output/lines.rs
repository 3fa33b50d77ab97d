//! JSON lines: to standard output as they come, or to a file that appears when it is complete.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use anyhow::Context;
use candle_graph_weights::atomic_file::AtomicFile;
use serde::Serialize;

use super::cannot_write;
use crate::console;
use crate::interrupt;

/// Takes one JSON value a line.
pub(crate) enum Lines {
    Stdout(BufWriter<Stdout>),
    File(AtomicFile),
}

impl Lines {
    /// To standard output.
    pub(crate) fn stdout() -> Self {
        Self::Stdout(BufWriter::new(io::stdout()))
    }

    /// To a file.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub(crate) fn file(path: &Path) -> anyhow::Result<Self> {
        Ok(Self::File(interrupt::create(path)?))
    }

    /// Takes the next line.
    pub(crate) fn write(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        match self {
            Self::Stdout(out) => console::written(write_line(out, value)),
            Self::File(file) => write_line(file, value).with_context(|| cannot_write(file)),
        }
    }

    /// Who reads along should see the lines so far.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Stdout(out) => console::written(out.flush()),
            // Nobody reads along in a file that has no name yet.
            Self::File(_) => Ok(()),
        }
    }

    /// All lines are there: a file appears under its name now.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.flush()?;
        match self {
            Self::Stdout(_) => Ok(()),
            Self::File(file) => Ok(file.commit()?),
        }
    }
}

fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
