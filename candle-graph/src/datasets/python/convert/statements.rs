//! Statements.

use ruff_python_ast as py;
use ruff_text_size::Ranged;

use super::{Converter, Result};
use crate::datasets::python::NodeType;
use crate::datasets::python::ast::{NodeId, Place};

impl Converter<'_> {
    fn statements<'s>(
        &mut self,
        node: NodeId,
        name: &'static str,
        statements: impl IntoIterator<Item = &'s py::Stmt>,
    ) -> Result {
        for (position, statement) in (0..).zip(statements) {
            self.statement(Place(node, name, Some(position)), statement)?;
        }
        Ok(())
    }

    pub(super) fn statement(&mut self, place: Place, statement: &py::Stmt) -> Result {
        use py::Stmt;
        let node_type = match statement {
            Stmt::FunctionDef(s) if s.is_async => NodeType::AsyncFunctionDef,
            Stmt::FunctionDef(_) => NodeType::FunctionDef,
            Stmt::ClassDef(_) => NodeType::ClassDef,
            Stmt::Return(_) => NodeType::Return,
            Stmt::Delete(_) => NodeType::Delete,
            Stmt::Assign(_) => NodeType::Assign,
            Stmt::AugAssign(_) => NodeType::AugAssign,
            Stmt::AnnAssign(_) => NodeType::AnnAssign,
            Stmt::For(s) if s.is_async => NodeType::AsyncFor,
            Stmt::For(_) => NodeType::For,
            Stmt::While(_) => NodeType::While,
            Stmt::If(_) => NodeType::If,
            Stmt::With(s) if s.is_async => NodeType::AsyncWith,
            Stmt::With(_) => NodeType::With,
            Stmt::Match(_) => NodeType::Match,
            Stmt::Raise(_) => NodeType::Raise,
            Stmt::Try(s) if s.is_star => NodeType::TryStar,
            Stmt::Try(_) => NodeType::Try,
            Stmt::Assert(_) => NodeType::Assert,
            Stmt::Import(_) => NodeType::Import,
            Stmt::ImportFrom(_) => NodeType::ImportFrom,
            Stmt::Global(_) => NodeType::Global,
            Stmt::Nonlocal(_) => NodeType::Nonlocal,
            Stmt::Expr(_) => NodeType::Expr,
            Stmt::Pass(_) | Stmt::TypeAlias(_) | Stmt::IpyEscapeCommand(_) => NodeType::Pass,
            Stmt::Break(_) => NodeType::Break,
            Stmt::Continue(_) => NodeType::Continue,
        };
        let id = self.add(place, node_type)?;
        self.ast.nodes[id].offset = statement.start().to_usize();
        match statement {
            Stmt::FunctionDef(s) => {
                if s.type_params.is_some() {
                    return Err(self.unsupported("a list of type parameters", id));
                }
                self.text(id, "name", s.name.as_str());
                self.arguments(Place(id, "args", None), Some(&s.parameters))?;
                self.statements(id, "body", &s.body)?;
                self.decorators(id, &s.decorator_list)?;
                self.optional(id, "returns", s.returns.as_deref())?;
                self.nothing(id, "type_comment");
            }
            Stmt::ClassDef(s) => {
                if s.type_params.is_some() {
                    return Err(self.unsupported("a list of type parameters", id));
                }
                self.text(id, "name", s.name.as_str());
                if let Some(arguments) = &s.arguments {
                    self.expressions(id, "bases", &arguments.args)?;
                    self.keywords(id, &arguments.keywords)?;
                }
                self.statements(id, "body", &s.body)?;
                self.decorators(id, &s.decorator_list)?;
            }
            Stmt::Return(s) => self.optional(id, "value", s.value.as_deref())?,
            Stmt::Delete(s) => self.expressions(id, "targets", &s.targets)?,
            Stmt::Assign(s) => {
                self.expressions(id, "targets", &s.targets)?;
                self.expression(Place(id, "value", None), &s.value)?;
                self.nothing(id, "type_comment");
            }
            Stmt::AugAssign(s) => {
                self.expression(Place(id, "target", None), &s.target)?;
                self.operator(id, s.op)?;
                self.expression(Place(id, "value", None), &s.value)?;
            }
            Stmt::AnnAssign(s) => {
                self.expression(Place(id, "target", None), &s.target)?;
                self.expression(Place(id, "annotation", None), &s.annotation)?;
                self.optional(id, "value", s.value.as_deref())?;
                self.text(id, "simple", if s.simple { "1" } else { "0" });
            }
            Stmt::For(s) => {
                self.expression(Place(id, "target", None), &s.target)?;
                self.expression(Place(id, "iter", None), &s.iter)?;
                self.statements(id, "body", &s.body)?;
                self.statements(id, "orelse", &s.orelse)?;
                self.nothing(id, "type_comment");
            }
            Stmt::While(s) => {
                self.expression(Place(id, "test", None), &s.test)?;
                self.statements(id, "body", &s.body)?;
                self.statements(id, "orelse", &s.orelse)?;
            }
            Stmt::If(s) => {
                self.expression(Place(id, "test", None), &s.test)?;
                self.statements(id, "body", &s.body)?;
                self.elif_else(id, &s.elif_else_clauses)?;
            }
            Stmt::With(s) => {
                for (position, item) in (0..).zip(&s.items) {
                    let part = self.add(Place(id, "items", Some(position)), NodeType::WithItem)?;
                    self.expression(Place(part, "context_expr", None), &item.context_expr)?;
                    self.optional(part, "optional_vars", item.optional_vars.as_deref())?;
                }
                self.statements(id, "body", &s.body)?;
                self.nothing(id, "type_comment");
            }
            Stmt::Match(s) => {
                self.expression(Place(id, "subject", None), &s.subject)?;
                for (position, case) in (0..).zip(&s.cases) {
                    let part = self.add(Place(id, "cases", Some(position)), NodeType::MatchCase)?;
                    self.pattern(Place(part, "pattern", None), &case.pattern)?;
                    self.optional(part, "guard", case.guard.as_deref())?;
                    self.statements(part, "body", &case.body)?;
                }
            }
            Stmt::Raise(s) => {
                self.optional(id, "exc", s.exc.as_deref())?;
                self.optional(id, "cause", s.cause.as_deref())?;
            }
            Stmt::Try(s) => {
                self.statements(id, "body", &s.body)?;
                for (position, handler) in (0..).zip(&s.handlers) {
                    self.handler(Place(id, "handlers", Some(position)), handler)?;
                }
                self.statements(id, "orelse", &s.orelse)?;
                self.statements(id, "finalbody", &s.finalbody)?;
            }
            Stmt::Assert(s) => {
                self.expression(Place(id, "test", None), &s.test)?;
                self.optional(id, "msg", s.msg.as_deref())?;
            }
            Stmt::Import(s) => {
                if s.is_lazy {
                    return Err(self.unsupported("a lazy import", id));
                }
                self.aliases(id, &s.names)?;
            }
            Stmt::ImportFrom(s) => {
                if s.is_lazy {
                    return Err(self.unsupported("a lazy import", id));
                }
                self.identifier(id, "module", s.module.as_ref());
                self.aliases(id, &s.names)?;
                self.text(id, "level", s.level.to_string());
            }
            Stmt::Global(s) => self.names(id, "names", &s.names),
            Stmt::Nonlocal(s) => self.names(id, "names", &s.names),
            Stmt::Expr(s) => self.expression(Place(id, "value", None), &s.value)?,
            Stmt::TypeAlias(_) => return Err(self.unsupported("a `type` statement", id)),
            Stmt::IpyEscapeCommand(_) => {
                return Err(self.unsupported("a command of IPython", id));
            }
            Stmt::Pass(_) | Stmt::Break(_) | Stmt::Continue(_) => {}
        }
        Ok(())
    }

    /// Python nests an `elif` as the only statement of the `else` before it.
    fn elif_else(&mut self, node: NodeId, clauses: &[py::ElifElseClause]) -> Result {
        let mut node = node;
        for clause in clauses {
            match &clause.test {
                None => self.statements(node, "orelse", &clause.body)?,
                Some(test) => {
                    node = self.add(Place(node, "orelse", Some(0)), NodeType::If)?;
                    self.ast.nodes[node].offset = clause.range.start().to_usize();
                    self.expression(Place(node, "test", None), test)?;
                    self.statements(node, "body", &clause.body)?;
                }
            }
        }
        Ok(())
    }

    fn handler(
        &mut self,
        place: Place,
        py::ExceptHandler::ExceptHandler(h): &py::ExceptHandler,
    ) -> Result {
        let id = self.add(place, NodeType::ExceptHandler)?;
        self.optional(id, "type", h.type_.as_deref())?;
        match &h.name {
            None => self.nothing(id, "name"),
            Some(name) => {
                let place = Place(id, "name", None);
                self.name(place, name.as_str(), NodeType::Store, None)?;
            }
        }
        self.statements(id, "body", &h.body)
    }

    fn decorators(&mut self, node: NodeId, decorators: &[py::Decorator]) -> Result {
        self.expressions(
            node,
            "decorator_list",
            decorators.iter().map(|d| &d.expression),
        )
    }

    fn aliases(&mut self, node: NodeId, aliases: &[py::Alias]) -> Result {
        for (position, alias) in (0..).zip(aliases) {
            let id = self.add(Place(node, "names", Some(position)), NodeType::Alias)?;
            self.identifier(id, "name", Some(&alias.name));
            self.identifier(id, "asname", alias.asname.as_ref());
        }
        Ok(())
    }
}
