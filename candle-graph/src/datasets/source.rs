//! What all readers share: where text comes from, and how errors name the place.

use std::io::{BufRead, Read};

use crate::error::{Error, GraphProblem, Result};
use crate::graph::{Graph, GraphId};

/// The name of an input and how much of it may be held in memory at once.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) max_bytes: u64,
}

impl Source {
    /// A parse error at `line` (one-based).
    pub(super) fn error(&self, line: Option<u64>, message: impl Into<String>) -> Error {
        Error::Parse {
            source_name: self.name.clone(),
            line,
            message: message.into(),
        }
    }

    /// A parse error about one graph.
    pub(super) fn graph_error(
        &self,
        line: Option<u64>,
        graph: &str,
        message: impl std::fmt::Display,
    ) -> Error {
        self.error(line, format!("graph {graph}: {message}"))
    }

    /// `graph`, or its problem as an error that names file, line and graph.
    pub(super) fn graph(
        &self,
        line: Option<u64>,
        label: &str,
        graph: Result<Graph, GraphProblem>,
    ) -> Result<Graph> {
        graph.map_err(|problem| self.graph_error(line, label, problem))
    }

    /// An I/O error; the input may have no path, so its name stands for it.
    pub(super) fn io(&self, error: std::io::Error) -> Error {
        Error::io(&self.name, error)
    }

    /// Reads everything, at most `max_bytes`.
    pub(super) fn read_all(&self, reader: impl Read) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader
            .take(self.max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| self.io(e))?;
        if bytes.len() as u64 > self.max_bytes {
            return Err(self.error(
                None,
                format!(
                    "longer than the limit of {} bytes for a document that is read as a whole",
                    self.max_bytes
                ),
            ));
        }
        Ok(bytes)
    }
}

/// The graph's name in messages: its id, or `#position` (zero-based).
pub(super) fn label(id: Option<&GraphId>, position: usize) -> String {
    id.map_or_else(|| format!("#{position}"), GraphId::to_string)
}

/// A whole number as a number id, anything else as text.
pub(super) fn id_from_text(text: &str) -> GraphId {
    text.parse()
        .map_or_else(|_| GraphId::Text(text.to_string()), GraphId::Number)
}

/// Lines of bounded length with their numbers.
pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The one-based number of the line read last, 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end and a leading byte order mark, and its one-based number.
    pub(super) fn next(&mut self, source: &Source) -> Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let read = self
            .reader
            .by_ref()
            .take(source.max_bytes.saturating_add(1))
            .read_until(b'\n', &mut self.line)
            .map_err(|e| source.io(e))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.len() as u64 > source.max_bytes {
            return Err(source.error(
                Some(self.number),
                format!(
                    "the line is longer than the limit of {} bytes",
                    source.max_bytes
                ),
            ));
        }
        let line = if self.number == 1 {
            without_mark(&self.line)
        } else {
            &self.line
        };
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Ok(Some((
            self.number,
            line.strip_suffix(b"\r").unwrap_or(line),
        )))
    }
}

/// `text` without the byte order mark that some editors put first.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Number of line ends in `text`.
pub(super) fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|&&b| b == b'\n').count() as u64
}
