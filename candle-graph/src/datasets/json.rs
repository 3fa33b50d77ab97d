//! JSON records: one a line, or one document with one or several.

use std::io::BufRead;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, IgnoredAny};

use super::Graphs;
use super::locate::{self, Step};
use super::source::{Lines, Source, count_lines, label, without_mark};
use crate::error::{Error, GraphProblem, Result};
use crate::graph::{Graph, GraphId, Record};

/// What a JSON value of a document is read as.
pub(super) trait Schema {
    /// Reads one graph. The outer error is the parser's; the inner one is about the graph whose id
    /// comes with it.
    fn graph<'de, D: serde::Deserializer<'de>>(&self, deserializer: D) -> Result<Parsed, D::Error>;

    /// Where the id of a graph stands.
    fn id_path(&self) -> &'static [&'static str];
}

/// A graph, or its problem, with the graph's id.
pub(super) struct Parsed {
    pub(super) id: Option<GraphId>,
    pub(super) graph: Result<Graph, GraphProblem>,
}

/// The record format of this crate.
pub(super) struct RecordSchema;

impl Schema for RecordSchema {
    fn graph<'de, D: serde::Deserializer<'de>>(&self, deserializer: D) -> Result<Parsed, D::Error> {
        let record = Record::deserialize(deserializer)?;
        Ok(Parsed {
            id: record.id().cloned(),
            graph: record.into_graph(),
        })
    }

    fn id_path(&self) -> &'static [&'static str] {
        &["id"]
    }
}

/// [`Schema`] as a seed.
struct Seed<'a, S>(&'a S);

impl<'de, S: Schema> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = Parsed;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Parsed, D::Error> {
        self.0.graph(deserializer)
    }
}

/// Reads one value at the start of `text`, which begins on line `line` of the source. Gives the
/// graph and the length of the value; without a length the text cannot be followed any further.
fn read_value<S: Schema>(
    schema: &S,
    source: &Source,
    text: &[u8],
    line: u64,
    position: usize,
) -> (Result<Graph>, Option<usize>) {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    match Seed(schema).deserialize(&mut deserializer) {
        Ok(Parsed { id, graph }) => {
            let label = label(id.as_ref(), position);
            // The offset of the parser is only told by way of its stream.
            let length = deserializer.into_iter::<IgnoredAny>().byte_offset();
            (source.graph(Some(line), &label, graph), Some(length))
        }
        Err(error) => {
            let error = explain(&error, text, schema.id_path(), source, line, position);
            (Err(error), None)
        }
    }
}

/// A parser's error with the graph, the field and the value it is about.
fn explain(
    error: &serde_json::Error,
    text: &[u8],
    id_path: &[&str],
    source: &Source,
    first_line: u64,
    position: usize,
) -> Error {
    let id = locate::member(text, id_path)
        .filter(|(_, token)| !token.starts_with(['{', '[']) && token != "null")
        .map_or_else(|| format!("#{position}"), |(_, token)| token);
    let line = first_line + (error.line() as u64).saturating_sub(1);
    let offset = offset_of(text, error.line(), error.column());
    let message = error.to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(message, _)| message);
    let found = locate::value_at(text, offset.saturating_sub(1));
    let place = found
        .as_ref()
        .and_then(|(path, token)| Some((locate::describe(path)?, token)));
    let text = match place {
        Some(((field, place), token)) if is_python_literal(token) => {
            let remedy = if field == "y" {
                "write null for a missing label"
            } else {
                "replace it before writing (json.dumps(..., allow_nan=False) finds it)"
            };
            format!(
                "{field}: {token}{place} is not JSON, though Python's json module writes it: {remedy}"
            )
        }
        Some(((field, place), token)) if message == "number out of range" => {
            format!("{field}: value {token}{place} is not finite as a 32-bit number")
        }
        Some(((field, place), _)) if error.is_data() => format!("{field}: {message}{place}"),
        Some(((field, place), token)) => format!(
            "malformed JSON: {message} (character {}, in or after {field}{place}, value {token})",
            error.column()
        ),
        None if error.is_data() => message.to_string(),
        None => format!("malformed JSON: {message} (character {})", error.column()),
    };
    source.graph_error(Some(line), &id, text)
}

fn is_python_literal(token: &str) -> bool {
    matches!(token, "NaN" | "Infinity" | "-Infinity")
}

/// The offset of a parser's one-based line and column.
fn offset_of(text: &[u8], line: usize, column: usize) -> usize {
    let mut start = 0;
    for _ in 1..line {
        match text
            .get(start..)
            .and_then(|t| t.iter().position(|&b| b == b'\n'))
        {
            Some(end) => start += end + 1,
            None => break,
        }
    }
    start.saturating_add(column)
}

/// Records, one a line. A bad line gives an error and reading goes on with the next; a line beyond
/// the limit or an I/O error ends it.
pub struct JsonLines<R> {
    lines: Lines<R>,
    source: Source,
    position: usize,
    done: bool,
}

impl<R: BufRead> JsonLines<R> {
    /// Reads `reader`; `source_name` stands for it in messages.
    pub fn new(reader: R, source_name: impl Into<String>) -> Self {
        Self::with_limit(reader, source_name, super::ReadOptions::default().max_bytes)
    }

    /// [`new`](Self::new) with lines of at most `max_bytes`.
    pub fn with_limit(reader: R, source_name: impl Into<String>, max_bytes: u64) -> Self {
        Self {
            lines: Lines::new(reader),
            source: Source {
                name: source_name.into(),
                max_bytes,
            },
            position: 0,
            done: false,
        }
    }
}

impl<R: BufRead + Send> Graphs for JsonLines<R> {
    fn line(&self) -> Option<u64> {
        Some(self.lines.number()).filter(|&line| line > 0)
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = Result<Graph>;

    fn next(&mut self) -> Option<Result<Graph>> {
        if self.done {
            return None;
        }
        loop {
            match self.lines.next(&self.source) {
                Ok(Some((_, line))) if line.trim_ascii_start().is_empty() => {}
                Ok(Some((number, line))) => {
                    let position = self.position;
                    self.position += 1;
                    let source = &self.source;
                    let (graph, length) = read_value(&RecordSchema, source, line, number, position);
                    let rest = length.and_then(|l| line.get(l..)).unwrap_or_default();
                    if graph.is_ok() && !rest.trim_ascii_start().is_empty() {
                        return Some(Err(self.source.graph_error(
                            Some(number),
                            &label(graph.ok().as_ref().and_then(Graph::id), position),
                            "more text follows the record on its line; a line holds one record",
                        )));
                    }
                    return Some(graph);
                }
                Ok(None) => {
                    self.done = true;
                    return None;
                }
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Where a document stands.
enum State {
    /// Before the one record.
    Single,
    /// In a list, before an element or the end; `true` before the first.
    List(bool),
    Done,
}

/// The graphs of one JSON document: one value, a list of values, or `{"graphs": [...]}`. The text
/// is held in memory, graphs are made one by one. A bad graph gives an error and reading goes on;
/// malformed text ends it.
pub(super) struct Document<S> {
    schema: S,
    source: Source,
    text: Arc<[u8]>,
    at: usize,
    line: u64,
    /// The line of the value read last.
    value_line: Option<u64>,
    position: usize,
    state: State,
    /// Whether the list is a member of an object.
    wrapped: bool,
}

impl<S: Schema> Document<S> {
    pub(super) fn new(schema: S, source: Source, text: impl Into<Arc<[u8]>>) -> Self {
        let text = text.into();
        let start = text.len() - without_mark(&text).len();
        let (at, state) = match list_start(&text[start..]) {
            Some(list) => (start + list + 1, State::List(true)),
            None => (start, State::Single),
        };
        Self {
            schema,
            source,
            at,
            line: 1 + count_lines(&text[..at]),
            wrapped: without_mark(&text).trim_ascii_start().starts_with(b"{"),
            text,
            value_line: None,
            position: 0,
            state,
        }
    }

    fn advance(&mut self, by: usize) {
        let end = self.at.saturating_add(by).min(self.text.len());
        self.line += count_lines(&self.text[self.at..end]);
        self.at = end;
    }

    fn skip_space(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        let space = rest.len() - rest.trim_ascii_start().len();
        self.advance(space);
        self.text.get(self.at).copied()
    }

    fn fail(&mut self, message: impl Into<String>) -> Option<Result<Graph>> {
        self.state = State::Done;
        Some(Err(self.source.error(Some(self.line), message)))
    }

    fn value(&mut self) -> Option<Result<Graph>> {
        self.value_line = Some(self.line);
        let text = &self.text[self.at..];
        let (graph, length) =
            read_value(&self.schema, &self.source, text, self.line, self.position);
        self.position += 1;
        match length {
            Some(length) => self.advance(length),
            None => self.state = State::Done,
        }
        Some(graph)
    }
}

impl<S: Schema + Send> Graphs for Document<S> {
    fn line(&self) -> Option<u64> {
        self.value_line
    }
}

impl<S: Schema> Iterator for Document<S> {
    type Item = Result<Graph>;

    fn next(&mut self) -> Option<Result<Graph>> {
        match self.state {
            State::Single if self.position == 0 => match self.skip_space() {
                None => self.fail("the document is empty"),
                Some(_) => self.value(),
            },
            State::Single => match self.skip_space() {
                None => {
                    self.state = State::Done;
                    None
                }
                Some(b'{') => self.fail(
                    "another record follows the first; one record a line is the format `jsonl`, a list of records is written [..., ...]",
                ),
                Some(_) => self.fail("more text follows the document"),
            },
            State::List(first) => {
                self.state = State::List(false);
                match self.skip_space() {
                    Some(b']') => {
                        self.state = State::Done;
                        self.advance(1);
                        let rest = self.text[self.at..].trim_ascii();
                        match (self.wrapped, rest.last()) {
                            (false, None) | (true, Some(b'}')) => None,
                            (false, Some(_)) => self.fail("more text follows the list of graphs"),
                            (true, _) => self.fail("malformed JSON: the document ends early"),
                        }
                    }
                    Some(_) if first => self.value(),
                    Some(b',') => {
                        self.advance(1);
                        match self.skip_space() {
                            Some(b']') => self.fail("malformed JSON: a comma before the end of the list"),
                            Some(_) => self.value(),
                            None => self.fail("malformed JSON: the list of graphs ends early"),
                        }
                    }
                    Some(_) => self.fail("malformed JSON: expected a comma or `]` between graphs"),
                    None => self.fail("malformed JSON: the list of graphs ends early"),
                }
            }
            State::Done => None,
        }
    }
}

/// Where the list of graphs of a document opens, `None` for a document of one graph.
fn list_start(text: &[u8]) -> Option<usize> {
    match text.trim_ascii_start().first() {
        Some(b'[') => Some(text.len() - text.trim_ascii_start().len()),
        Some(b'{') => locate::member(text, &["graphs"])
            .filter(|(_, token)| token == "[")
            .map(|(start, _)| start),
        _ => None,
    }
}

/// Whether the first graph of a document has the keys of node-link data: `nodes`, and `links` or
/// `edges`.
pub(super) fn looks_like_node_link(text: &[u8]) -> bool {
    let text = without_mark(text);
    // Past the bracket of a list the walk ends with the first element.
    let first = list_start(text).map_or(0, |bracket| bracket + 1);
    let (mut nodes, mut links) = (false, false);
    locate::walk(&text[first..], |visit| {
        if let [Step::Field(key)] = visit.path {
            nodes |= key == "nodes";
            links |= key == "links" || key == "edges";
        }
        !nodes || !links
    });
    nodes && links
}
