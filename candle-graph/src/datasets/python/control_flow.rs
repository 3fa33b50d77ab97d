//! Which instruction can follow which.
//!
//! An instruction is a simple statement, or a part of a compound one that is evaluated by itself (a
//! test, an iterable, a default, the assignment that a `def` is). As in the official code, `with`
//! and `match` statements, asynchronous functions and loops, and annotated assignments are none, and
//! what stands inside them has no instructions either; lambdas are not entered.

mod blocks;
mod statements;

use super::ast::{Ast, NodeId};
use super::error::PythonError;
use super::order::StatementOrder;
use blocks::{BlockId, Blocks};

/// What an instruction does to names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// What its expressions say.
    Own,
    /// The name of a function or class is assigned.
    Definition,
    /// A function's arguments are assigned.
    Arguments,
    /// Every name in it is assigned (by a `for` or an `except`).
    Target,
}

/// A step of execution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub(super) node: NodeId,
    pub(super) effect: Effect,
}

/// All instructions of a tree and their possible successions.
#[derive(Debug)]
pub(super) struct ControlFlow {
    pub(super) instructions: Vec<Instruction>,
    /// Pairs of positions in `instructions`.
    pub(super) next: Vec<[usize; 2]>,
}

impl ControlFlow {
    /// The control flow of a module: statement after statement, or, with `order`, without an order
    /// among statements that do not depend on each other.
    pub(super) fn new(ast: &Ast<'_>, order: Option<&StatementOrder>) -> Result<Self, PythonError> {
        let mut builder = Builder {
            ast,
            order,
            blocks: Blocks::default(),
            instructions: Vec::new(),
            frames: Vec::new(),
        };
        builder.module()?;
        let Builder {
            mut blocks,
            instructions,
            ..
        } = builder;
        blocks.prune()?;
        blocks.merge();
        Ok(Self {
            next: blocks.successions()?,
            instructions,
        })
    }
}

/// What a statement can leave.
#[derive(Debug, Clone, Copy)]
enum Frame {
    /// The module or a function; `return_to` is absent for the module.
    Body {
        return_to: Option<BlockId>,
        raise_to: BlockId,
    },
    Loop {
        continue_to: BlockId,
        break_to: BlockId,
    },
    /// The body of a `try` with handlers.
    Except { handler: BlockId },
    /// The body and the handlers of a `try` with a `finally`, which runs from `first` to `last`.
    Finally { first: BlockId, last: BlockId },
}

/// Builds the blocks of a tree.
struct Builder<'a, 's> {
    ast: &'a Ast<'s>,
    order: Option<&'a StatementOrder>,
    blocks: Blocks,
    instructions: Vec<Instruction>,
    frames: Vec<Frame>,
}
