//! One function of Python source code.

use ruff_python_ast as py;
use ruff_python_parser::parse_module;
use ruff_text_size::Ranged;

use super::convert::convert;
use super::error::{NoFunction, PythonError, line_column};
use super::nesting::check_nesting;
use super::program_graph::ProgramGraph;

/// Most bytes of source text.
const MAX_SOURCE: usize = 4 << 20;

/// A Python function and its data-flow graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonFunction {
    name: String,
    line: usize,
    graph: ProgramGraph,
}

impl PythonFunction {
    /// The function that `source` begins with. What else `source` holds becomes a part of its graph,
    /// as in the official code; it usually holds nothing else.
    ///
    /// # Errors
    /// Source that is no Python, does not begin with a function (decorators belong to it), is too
    /// large or too deeply nested.
    pub fn parse(source: &str) -> Result<Self, PythonError> {
        let module = module(source)?;
        let first = module
            .first()
            .ok_or(PythonError::NoFunction(NoFunction::Empty))?;
        let py::Stmt::FunctionDef(function) = first else {
            let line = line_column(source, first.start().to_usize()).0;
            return Err(PythonError::NoFunction(NoFunction::First { line }));
        };
        Self::new(function, &module, source)
    }

    /// Every function of `source` by itself: those of the module, of classes, and of conditions and
    /// other statements around them, in their order. Functions inside functions are parts of those.
    ///
    /// # Errors
    /// As [`parse`](Self::parse). Source without functions gives none.
    pub fn parse_all(source: &str) -> Result<Vec<Self>, PythonError> {
        let module = module(source)?;
        let (mut found, mut open) = (Vec::new(), vec![module.iter()]);
        while let Some(statements) = open.last_mut() {
            match statements.next() {
                None => {
                    open.pop();
                }
                Some(statement @ py::Stmt::FunctionDef(function)) => {
                    found.push(Self::new(
                        function,
                        std::slice::from_ref(statement),
                        source,
                    )?);
                }
                Some(statement) => open.extend(bodies(statement).into_iter().rev()),
            }
        }
        Ok(found)
    }

    /// The source text in `bytes`.
    ///
    /// # Errors
    /// Bytes that are not UTF-8, with the first bad one.
    pub fn decode(bytes: &[u8]) -> Result<&str, PythonError> {
        std::str::from_utf8(bytes).map_err(|error| {
            let offset = error.valid_up_to();
            let before = bytes.get(..offset).unwrap_or_default();
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            PythonError::NotUtf8 { line, offset }
        })
    }

    fn new(
        function: &py::StmtFunctionDef,
        statements: &[py::Stmt],
        source: &str,
    ) -> Result<Self, PythonError> {
        let ast = convert(statements, source)?;
        Ok(Self {
            name: function.name.to_string(),
            line: line_column(source, function.name.start().to_usize()).0,
            graph: ProgramGraph::of_function(&ast)?,
        })
    }

    /// The function's name, which its graph does not tell.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line of its name in the source, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Its graph.
    pub fn graph(&self) -> &ProgramGraph {
        &self.graph
    }
}

/// The statements of a source text.
fn module(source: &str) -> Result<py::Suite, PythonError> {
    if source.len() > MAX_SOURCE {
        return Err(PythonError::TooLarge {
            what: "bytes of source text",
            found: source.len(),
            limit: MAX_SOURCE,
        });
    }
    check_nesting(source)?;
    let parsed = parse_module(source).map_err(|error| {
        let (line, column) = line_column(source, error.location.start().to_usize());
        PythonError::Syntax {
            line,
            column,
            message: error.error.to_string(),
        }
    })?;
    Ok(parsed.into_suite())
}

/// The lists of statements in a statement that is no function.
fn bodies(statement: &py::Stmt) -> Vec<std::slice::Iter<'_, py::Stmt>> {
    use py::Stmt;
    match statement {
        Stmt::ClassDef(s) => vec![s.body.iter()],
        Stmt::If(s) => {
            let clauses = s.elif_else_clauses.iter().map(|clause| clause.body.iter());
            std::iter::once(s.body.iter()).chain(clauses).collect()
        }
        Stmt::For(s) => vec![s.body.iter(), s.orelse.iter()],
        Stmt::While(s) => vec![s.body.iter(), s.orelse.iter()],
        Stmt::With(s) => vec![s.body.iter()],
        Stmt::Try(s) => {
            let handlers = s
                .handlers
                .iter()
                .map(|py::ExceptHandler::ExceptHandler(h)| h.body.iter());
            let last = [s.orelse.iter(), s.finalbody.iter()];
            std::iter::once(s.body.iter())
                .chain(handlers)
                .chain(last)
                .collect()
        }
        Stmt::Match(s) => s.cases.iter().map(|case| case.body.iter()).collect(),
        _ => Vec::new(),
    }
}
