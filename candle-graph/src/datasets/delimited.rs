//! Delimited text: records with their line numbers, an optional header, and cells as numbers.

use std::io::{BufRead, Chain, Cursor, Read};

use csv::StringRecord;

use super::source::{Lines, Source, without_mark};
use crate::error::Result;
use crate::graph::Number;

/// What separates the columns of an edge list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delimiter {
    /// `,`
    Comma,
    /// A tab.
    Tab,
    /// `;`
    Semicolon,
    /// Runs of spaces and tabs.
    Whitespace,
}

impl Delimiter {
    /// The separating byte, `None` for runs of spaces.
    fn byte(self) -> Option<u8> {
        match self {
            Self::Comma => Some(b','),
            Self::Tab => Some(b'\t'),
            Self::Semicolon => Some(b';'),
            Self::Whitespace => None,
        }
    }
}

/// Reads the records of a delimited text and knows their lines.
struct Records<R> {
    lines: Lines<Chain<Cursor<Vec<u8>>, R>>,
    delimiter: Delimiter,
}

impl<R: BufRead> Records<R> {
    fn new(mut reader: R, delimiter: Option<Delimiter>, source: &Source) -> Result<Self> {
        let mut head = Vec::new();
        let mut start = 0;
        // The first line that is neither blank nor a comment decides about the delimiter.
        let first = loop {
            let read = reader
                .by_ref()
                .take(source.max_bytes.saturating_add(1))
                .read_until(b'\n', &mut head)
                .map_err(|e| source.io(e))?;
            if head.len() as u64 > source.max_bytes {
                return Err(source.error(
                    None,
                    format!("no edge within the limit of {} bytes", source.max_bytes),
                ));
            }
            if start == 0 && without_mark(&head).len() < head.len() {
                head.drain(..3);
            }
            let line = head.get(start..).unwrap_or_default().trim_ascii();
            if read == 0 || !(line.is_empty() || line.starts_with(b"#")) {
                break line;
            }
            start = head.len();
        };
        let occurs = |d: &Delimiter| d.byte().is_some_and(|byte| first.contains(&byte));
        let delimiter = delimiter
            .or_else(|| {
                [Delimiter::Tab, Delimiter::Comma, Delimiter::Semicolon]
                    .into_iter()
                    .find(occurs)
            })
            .unwrap_or(Delimiter::Whitespace);
        Ok(Self {
            lines: Lines::new(Cursor::new(head).chain(reader)),
            delimiter,
        })
    }

    /// Reads the next record that is neither blank nor a comment into `record` and gives its line.
    fn next(&mut self, source: &Source, record: &mut StringRecord) -> Result<Option<u64>> {
        while let Some((number, line)) = self.lines.next(source)? {
            let line = std::str::from_utf8(line)
                .map_err(|e| source.error(Some(number), format!("not UTF-8: {e}")))?;
            if line.trim_start().starts_with('#') {
                continue;
            }
            record.clear();
            match self.delimiter.byte() {
                None => record.extend(line.split_whitespace()),
                // Quotes are rare in numbers; lines without any need no csv reader of their own.
                Some(byte) if !line.contains('"') => {
                    record.extend(line.split(char::from(byte)).map(str::trim));
                }
                Some(byte) => {
                    csv::ReaderBuilder::new()
                        .delimiter(byte)
                        .has_headers(false)
                        .trim(csv::Trim::All)
                        .buffer_capacity(line.len())
                        .from_reader(line.as_bytes())
                        .read_record(record)
                        .map_err(|e| source.error(Some(number), e.to_string()))?;
                }
            }
            if record.iter().any(|field| !field.is_empty()) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// A delimited text whose first record has been looked at.
pub(super) struct Table<R> {
    pub(super) source: Source,
    records: Records<R>,
    record: StringRecord,
    /// The line of the record that was read to find out about a header but is data.
    waiting: Option<u64>,
    /// The line of the first record.
    pub(super) first_line: Option<u64>,
    /// Column names, lower case, empty without a header.
    pub(super) names: Vec<String>,
    pub(super) width: usize,
}

impl<R: BufRead> Table<R> {
    /// Opens the table and reads its first record.
    pub(super) fn new(
        reader: R,
        source: Source,
        delimiter: Option<Delimiter>,
        header: Option<bool>,
    ) -> Result<Self> {
        let mut records = Records::new(reader, delimiter, &source)?;
        let mut record = StringRecord::new();
        let line = records.next(&source, &mut record)?;
        let numeric = record.get(0).is_some_and(|f| Number::parse(f).is_some());
        let named = line.is_some() && header.unwrap_or(!numeric);
        let names = if named {
            record.iter().map(str::to_lowercase).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            source,
            records,
            width: record.len(),
            waiting: line.filter(|_| !named),
            first_line: line,
            record,
            names,
        })
    }

    /// The column that has one of `names`.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        self.names.iter().position(|n| names.contains(&n.as_str()))
    }

    /// A column's name in messages.
    fn name(&self, column: usize) -> String {
        self.names.get(column).map_or_else(
            || format!("column {}", column + 1),
            |name| format!("column `{name}`"),
        )
    }

    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        let line = match self.waiting.take() {
            Some(line) => line,
            None => match self.records.next(&self.source, &mut self.record)? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        if self.record.len() != self.width {
            return Err(self.source.error(
                Some(line),
                format!(
                    "{} field(s), the lines before have {}",
                    self.record.len(),
                    self.width
                ),
            ));
        }
        Ok(Some(line))
    }

    pub(super) fn field(&self, column: usize) -> &str {
        self.record.get(column).unwrap_or_default()
    }

    /// A feature value of the present record.
    pub(super) fn value(&self, line: u64, column: usize) -> Result<Number> {
        let text = self.field(column);
        let problem = match Number::parse(text) {
            Some(number) if (number.as_f64() as f32).is_finite() => return Ok(number),
            Some(_) => "not finite as a 32-bit number",
            None => "not a number",
        };
        Err(self.source.error(
            Some(line),
            format!("{}: value \"{text}\" is {problem}", self.name(column)),
        ))
    }

    /// A node number of the present record.
    pub(super) fn node(&self, line: u64, column: usize) -> Result<i64> {
        let text = self.field(column);
        Number::parse(text)
            .and_then(Number::as_node)
            .filter(|&node| node >= 0)
            .ok_or_else(|| {
                self.source.error(
                    Some(line),
                    format!(
                        "{}: \"{text}\" is not a node number (a whole number from 0)",
                        self.name(column)
                    ),
                )
            })
    }
}
