//! The parser's tree as a tree with the nodes and fields of the official code.
//!
//! Fields are set in the order of the package `gast` 0.5, which numbers the nodes.

mod expressions;
mod patterns;
mod statements;

use ruff_python_ast as py;

use super::NodeType;
use super::ast::{Ast, NodeId, Place};
use super::error::{PythonError, line_column};

type Result<T = (), E = PythonError> = std::result::Result<T, E>;

/// Builds one tree.
struct Converter<'a> {
    ast: Ast<'a>,
    source: &'a str,
}

/// The tree of a module with these statements; `source` is where their places count from.
pub(super) fn convert<'a>(
    statements: impl IntoIterator<Item = &'a py::Stmt>,
    source: &'a str,
) -> Result<Ast<'a>> {
    let ast = Ast::new(source);
    let mut converter = Converter { ast, source };
    for (position, statement) in (0..).zip(statements) {
        converter.statement(Place(0, "body", Some(position)), statement)?;
    }
    converter.ast.close();
    Ok(converter.ast)
}

impl Converter<'_> {
    fn add(&mut self, place: Place, node_type: NodeType) -> Result<NodeId> {
        self.ast.add(place, node_type)
    }

    /// Sets a text field.
    fn text(&mut self, node: NodeId, name: &'static str, text: impl Into<String>) {
        self.ast.set(Place(node, name, None), Some(text));
    }

    /// Sets a text field that may be `None`.
    fn identifier(&mut self, node: NodeId, name: &'static str, text: Option<&py::Identifier>) {
        let text = text.map(|identifier| identifier.id.as_str());
        self.ast.set(Place(node, name, None), text);
    }

    /// Sets a field to `None`.
    fn nothing(&mut self, node: NodeId, name: &'static str) {
        self.ast.set(Place(node, name, None), None::<String>);
    }

    /// Sets a list of names.
    fn names<'n>(
        &mut self,
        node: NodeId,
        name: &'static str,
        names: impl IntoIterator<Item = &'n py::Identifier>,
    ) {
        for (position, identifier) in (0..).zip(names) {
            let place = Place(node, name, Some(position));
            self.ast.set(place, Some(identifier.id.as_str()));
        }
    }

    fn unsupported(&self, what: &'static str, node: NodeId) -> PythonError {
        let (line, column) = line_column(self.source, self.ast.nodes[node].offset);
        PythonError::Unsupported { line, column, what }
    }
}
