//! What is wrong with Python source code.

use super::ast::MAX_DEPTH;

/// Why Python source code has no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PythonError {
    /// The source is not Python.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// The bytes are not UTF-8 text.
    #[error(
        "line {line}: byte {offset} of the source is not UTF-8: convert the file (Python reads others only if their first lines declare an encoding)"
    )]
    NotUtf8 {
        /// Line, from 1.
        line: usize,
        /// Position of the first bad byte, from 0.
        offset: usize,
    },
    /// The source has no function where one is needed.
    #[error("{0}")]
    NoFunction(NoFunction),
    /// A kind of syntax that official graphs know no node for.
    #[error(
        "line {line}, column {column}: {what} has no counterpart in graphs of Python 3.11 code"
    )]
    Unsupported {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The syntax.
        what: &'static str,
    },
    /// A statement leaves something that it does not stand in.
    #[error("line {line}, column {column}: `{statement}` outside {outside}")]
    Misplaced {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// `return`, `break` or `continue`.
        statement: &'static str,
        /// `a function` or `a loop`.
        outside: &'static str,
    },
    /// Statements or expressions are nested too deeply.
    #[error(
        "statements and expressions are nested deeper than {MAX_DEPTH} levels (every operator of a chain and every `elif` is one)"
    )]
    TooDeep,
    /// The source or its graph is too large.
    #[error("{found} {what}, more than the supported {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is, or where counting stopped.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A list of a vocabulary is unusable.
    #[error("vocabulary: {0}")]
    Vocabulary(String),
}

/// Where a function was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoFunction {
    /// There is no statement at all.
    #[error("the source holds no statement; a function definition (`def`) is needed")]
    Empty,
    /// The first statement is another one.
    #[error(
        "line {line}: the first statement is no function definition (`def`): pass the source of one function, or read all functions of the source"
    )]
    First {
        /// Line, from 1.
        line: usize,
    },
}

/// Line and column, both from 1, of the byte `offset` of `source`; columns count characters.
pub(super) fn line_column(source: &str, offset: usize) -> (usize, usize) {
    let offset = (0..=offset.min(source.len()))
        .rev()
        .find(|&o| source.is_char_boundary(o));
    let before = offset.and_then(|o| source.get(..o)).unwrap_or_default();
    // Python ends a line at a line feed, a carriage return, or the pair of them.
    let unified = before.replace("\r\n", "\n").replace('\r', "\n");
    let line = unified.matches('\n').count();
    let start = unified.rfind('\n').map_or(0, |at| at + 1);
    (line + 1, unified[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::line_column;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let source = "aé\r\nb\rcd\n";
        let at = |offset| line_column(source, offset);
        assert_eq!((at(0), at(3), at(2)), ((1, 1), (1, 3), (1, 2)));
        assert_eq!((at(5), at(7), at(8)), ((2, 1), (3, 1), (3, 2)));
        assert_eq!((at(10), at(99)), ((4, 1), (4, 1)));
    }
}
