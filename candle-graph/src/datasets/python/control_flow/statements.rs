//! How statements lead from block to block.

use super::{BlockId, Builder, Effect, Frame, Instruction};
use crate::datasets::python::NodeType;
use crate::datasets::python::ast::NodeId;
use crate::datasets::python::error::PythonError;

type Result<T = (), E = PythonError> = std::result::Result<T, E>;

impl Builder<'_, '_> {
    pub(super) fn module(&mut self) -> Result {
        let start = self.blocks.add_fixed();
        let (exit, raise_to) = (self.blocks.add_fixed(), self.blocks.add_fixed());
        self.frames.push(Frame::Body {
            return_to: None,
            raise_to,
        });
        let end = self.list(0, "body", start)?;
        self.blocks.exit(end, exit);
        self.frames.pop();
        self.blocks.move_to_end(exit);
        self.blocks.move_to_end(raise_to);
        // The official code closes a module of ordered statements with one more exit.
        if self.order.is_some() {
            let exit = self.blocks.add_fixed();
            self.blocks.exit(end, exit);
        }
        Ok(())
    }

    /// The statements in the field `name` of `node`, begun in the block `current`. Gives the block
    /// in which the next statement goes on.
    fn list(&mut self, node: NodeId, name: &'static str, current: BlockId) -> Result<BlockId> {
        let items: Vec<NodeId> = self.ast.children(node, name).collect();
        let order = match (self.order, items.as_slice()) {
            (Some(order), [first, _, ..]) => order.of_list(*first),
            _ => None,
        };
        let Some(order) = order else {
            let mut current = current;
            for item in items {
                current = self.statement(item, current)?;
            }
            return Ok(current);
        };
        let mut ends: Vec<BlockId> = Vec::with_capacity(items.len());
        for (item, predecessors) in items.into_iter().zip(&order.predecessors) {
            let block = self.blocks.add();
            if predecessors.is_empty() {
                self.blocks.exit(current, block);
            }
            for &predecessor in predecessors {
                self.blocks.exit(ends[predecessor], block);
            }
            ends.push(self.statement(item, block)?);
        }
        let after = self.blocks.add();
        for (end, is_last) in ends.into_iter().zip(&order.is_last) {
            if *is_last {
                self.blocks.exit(end, after);
            }
        }
        Ok(after)
    }

    fn instruction(&mut self, block: BlockId, node: NodeId, effect: Effect) {
        let position = self.instructions.len();
        self.instructions.push(Instruction { node, effect });
        self.blocks.push(block, position);
        // Any instruction may raise.
        if !self.blocks.raises(block) {
            self.raise(block, true);
        }
    }

    fn statement(&mut self, node: NodeId, current: BlockId) -> Result<BlockId> {
        let node_type = self.ast.node_type(node);
        match node_type {
            NodeType::Expr
            | NodeType::Assert
            | NodeType::Assign
            | NodeType::AugAssign
            | NodeType::Delete
            | NodeType::Import
            | NodeType::ImportFrom
            | NodeType::Global => self.instruction(current, node, Effect::Own),
            NodeType::Return => {
                self.instruction(current, node, Effect::Own);
                return self.leave(node, current);
            }
            NodeType::Break | NodeType::Continue => return self.leave(node, current),
            NodeType::Raise => {
                self.instruction(current, node, Effect::Own);
                self.raise(current, false);
                return Ok(self.blocks.add());
            }
            NodeType::ClassDef => {
                let current = self.list(node, "body", current)?;
                self.definition(node, current);
                return Ok(current);
            }
            NodeType::FunctionDef => self.function(node, current)?,
            NodeType::If => return self.branches(node, current),
            NodeType::While | NodeType::For => return self.repeat(node, current),
            NodeType::Try => return self.try_statement(node, current),
            _ => {}
        }
        Ok(current)
    }

    /// Decorators, and the assignment of the name.
    fn definition(&mut self, node: NodeId, current: BlockId) {
        for decorator in self.ast.children(node, "decorator_list") {
            self.instruction(current, decorator, Effect::Own);
        }
        self.instruction(current, node, Effect::Definition);
    }

    fn function(&mut self, node: NodeId, current: BlockId) -> Result {
        let arguments = self.ast.child(node, "args");
        for field in ["defaults", "kw_defaults"] {
            for default in arguments.iter().flat_map(|&a| self.ast.children(a, field)) {
                self.instruction(current, default, Effect::Own);
            }
        }
        self.definition(node, current);

        let (return_to, raise_to) = (self.blocks.add_fixed(), self.blocks.add_fixed());
        self.frames.push(Frame::Body {
            return_to: Some(return_to),
            raise_to,
        });
        let (entry, body) = (self.blocks.add_fixed(), self.blocks.add());
        self.blocks.exit(entry, body);
        let assigned = |&arguments: &NodeId| {
            let fields = ["args", "vararg", "kwonlyargs", "kwarg"];
            let count = |field| self.ast.children(arguments, field).count();
            fields.into_iter().any(|field| count(field) > 0)
        };
        if let Some(arguments) = arguments.filter(assigned) {
            self.instruction(body, arguments, Effect::Arguments);
        }
        let end = self.list(node, "body", body)?;
        self.blocks.exit(end, return_to);
        self.frames.pop();
        self.blocks.move_to_end(return_to);
        self.blocks.move_to_end(raise_to);
        Ok(())
    }

    fn branches(&mut self, node: NodeId, current: BlockId) -> Result<BlockId> {
        if let Some(test) = self.ast.child(node, "test") {
            self.instruction(current, test, Effect::Own);
        }
        let (after, body) = (self.blocks.add(), self.blocks.add());
        self.blocks.exit(current, body);
        let end = self.list(node, "body", body)?;
        self.blocks.exit(end, after);
        self.otherwise(node, current, after)?;
        Ok(after)
    }

    /// Leads from `test` through the `else` of `node`, if it has one, to `after`.
    fn otherwise(&mut self, node: NodeId, test: BlockId, after: BlockId) -> Result {
        if self.ast.child(node, "orelse").is_none() {
            self.blocks.exit(test, after);
            return Ok(());
        }
        let block = self.blocks.add();
        self.blocks.exit(test, block);
        let end = self.list(node, "orelse", block)?;
        self.blocks.exit(end, after);
        Ok(())
    }

    /// A loop: the header is the test, or the assignment of the next element.
    fn repeat(&mut self, node: NodeId, current: BlockId) -> Result<BlockId> {
        let (header, effect) = match self.ast.node_type(node) {
            NodeType::While => ("test", Effect::Own),
            _ => {
                if let Some(iterable) = self.ast.child(node, "iter") {
                    self.instruction(current, iterable, Effect::Own);
                }
                ("target", Effect::Target)
            }
        };
        let test = self.blocks.add();
        self.blocks.exit(current, test);
        if let Some(header) = self.ast.child(node, header) {
            self.instruction(test, header, effect);
        }
        let (body, after) = (self.blocks.add(), self.blocks.add());
        self.blocks.exit(test, body);
        self.frames.push(Frame::Loop {
            continue_to: test,
            break_to: after,
        });
        let end = self.list(node, "body", body)?;
        self.blocks.exit(end, test);
        self.frames.pop();
        self.otherwise(node, test, after)?;
        self.blocks.move_to_end(after);
        Ok(after)
    }

    fn try_statement(&mut self, node: NodeId, current: BlockId) -> Result<BlockId> {
        let handlers: Vec<NodeId> = self.ast.children(node, "handlers").collect();
        let has = |field| self.ast.child(node, field).is_some();
        let (has_else, has_finally) = (has("orelse"), has("finalbody"));

        let after = self.blocks.add();
        let headers: Vec<BlockId> = handlers.iter().map(|_| self.blocks.add()).collect();
        let bodies: Vec<BlockId> = handlers.iter().map(|_| self.blocks.add()).collect();
        let mut done = after;
        if has_finally {
            let first = self.blocks.add();
            let last = self.list(node, "finalbody", first)?;
            self.blocks.exit(last, after);
            self.frames.push(Frame::Finally { first, last });
            done = first;
        }
        if let Some(&handler) = headers.first() {
            self.frames.push(Frame::Except { handler });
        }
        let body = self.blocks.add();
        self.blocks.exit(current, body);
        let end = self.list(node, "body", body)?;
        let otherwise = has_else.then(|| self.blocks.add());
        self.blocks.exit(end, otherwise.unwrap_or(done));
        if !handlers.is_empty() {
            self.frames.pop();
        }

        let mut previous = None;
        for ((&handler, &header), &body) in handlers.iter().zip(&headers).zip(&bodies) {
            if let Some(exception) = self.ast.child(handler, "type") {
                self.instruction(header, exception, Effect::Own);
            }
            self.blocks.exit(header, body);
            if let Some(previous) = previous.replace(header) {
                self.blocks.exit(previous, header);
            }
            if let Some(name) = self.ast.child(handler, "name") {
                self.instruction(body, name, Effect::Target);
            }
            let end = self.list(handler, "body", body)?;
            self.blocks.exit(end, done);
        }
        let catches_all = |&handler: &NodeId| self.ast.child(handler, "type").is_none();
        if let (Some(header), false) = (previous, handlers.last().is_some_and(catches_all)) {
            self.raise(header, false);
        }
        if let Some(block) = otherwise {
            let end = self.list(node, "orelse", block)?;
            self.blocks.exit(end, done);
        }
        if has_finally {
            self.frames.pop();
        }
        self.blocks.move_to_end(after);
        Ok(after)
    }

    /// Lets an exception leave `block`, through every `finally` on its way to what catches it.
    fn raise(&mut self, block: BlockId, from_middle: bool) {
        let (mut block, mut from_middle) = (block, from_middle);
        for &frame in self.frames.iter().rev() {
            let (to, finally_end) = match frame {
                Frame::Loop { .. } => continue,
                Frame::Body { raise_to, .. } => (raise_to, None),
                Frame::Except { handler } => (handler, None),
                Frame::Finally { first, last } => (first, Some(last)),
            };
            match from_middle {
                true => self.blocks.interrupt(block, to),
                false => self.blocks.exit(block, to),
            }
            match finally_end {
                Some(last) => (block, from_middle) = (last, false),
                None => return,
            }
        }
    }

    /// `return`, `break` and `continue`: leaves through every `finally` on the way. Gives a block
    /// that nothing leads to.
    fn leave(&mut self, node: NodeId, current: BlockId) -> Result<BlockId> {
        let node_type = self.ast.node_type(node);
        let (mut block, mut through) = (current, Vec::new());
        let target = self.frames.iter().rev().find_map(|&frame| match frame {
            Frame::Finally { first, last } => {
                through.push((first, last));
                None
            }
            Frame::Body { return_to, .. } if node_type == NodeType::Return => return_to,
            Frame::Loop { break_to, .. } if node_type == NodeType::Break => Some(break_to),
            Frame::Loop { continue_to, .. } if node_type == NodeType::Continue => Some(continue_to),
            _ => None,
        });
        let Some(target) = target else {
            let (line, column) = self.ast.place(node);
            let (statement, outside) = match node_type {
                NodeType::Return => ("return", "a function"),
                NodeType::Break => ("break", "a loop"),
                _ => ("continue", "a loop"),
            };
            return Err(PythonError::Misplaced {
                line,
                column,
                statement,
                outside,
            });
        };
        for (first, last) in through {
            self.blocks.exit(block, first);
            block = last;
        }
        self.blocks.exit(block, target);
        Ok(self.blocks.add())
    }
}
