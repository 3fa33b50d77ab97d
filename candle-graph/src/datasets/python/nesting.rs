//! A bound on the depth of a syntax tree, from tokens alone.
//!
//! The parser's tree is released by recursion, so how deep it can get has to be known before it is
//! made.

use ruff_python_ast::token::TokenKind as Kind;
use ruff_python_parser::{Mode, lexer};

use super::error::PythonError;

/// The bound that is let through. Two or three tokens can make one level of the tree, so the tree is
/// compared with its own limit again.
const MAX_TOKENS: usize = 1_000;

/// What has been seen of one bracket, or of one logical line outside brackets.
#[derive(Default)]
struct Frame {
    /// Tokens since the last comma that may make the tree deeper.
    tokens: usize,
    /// Depth of the deepest bracket since the last comma.
    inner: usize,
    /// Depth of the deepest part before the last comma.
    best: usize,
    /// `lambda`s whose colon has not come; a comma within one separates parameters, whose defaults
    /// can hold the next `lambda`.
    lambdas: usize,
}

impl Frame {
    fn depth(&self) -> usize {
        self.best.max(self.tokens + self.inner)
    }

    /// Starts the next element of a list, which is not deeper for what came before.
    fn separate(&mut self) {
        if self.lambdas == 0 {
            self.best = self.depth();
            (self.tokens, self.inner) = (0, 0);
        }
    }
}

/// Refuses source whose tree could be deeper than the parser's own recursion allows.
pub(super) fn check_nesting(source: &str) -> Result<(), PythonError> {
    let mut lexer = lexer::lex(source, Mode::Module);
    // Blocks are not counted: n of them in each other take n²/2 characters of indentation.
    let mut frames = vec![Frame::default()];
    loop {
        let kind = lexer.next_token();
        let Some(frame) = frames.last_mut() else {
            frames.push(Frame::default());
            continue;
        };
        match kind {
            Kind::EndOfFile => return Ok(()),
            Kind::Newline => {
                frames.clear();
                frames.push(Frame::default());
            }
            Kind::Comma | Kind::Semi => frame.separate(),
            Kind::Lpar | Kind::Lsqb | Kind::Lbrace | Kind::FStringStart | Kind::TStringStart => {
                frame.tokens += 1;
                frames.push(Frame::default());
            }
            Kind::Rpar | Kind::Rsqb | Kind::Rbrace | Kind::FStringEnd | Kind::TStringEnd => {
                let depth = frame.depth();
                if frames.len() > 1 {
                    frames.pop();
                }
                if let Some(outer) = frames.last_mut() {
                    outer.inner = outer.inner.max(depth);
                }
            }
            Kind::Lambda => {
                frame.tokens += 1;
                frame.lambdas += 1;
            }
            Kind::Colon => {
                frame.tokens += 1;
                frame.lambdas = frame.lambdas.saturating_sub(1);
            }
            // Chains of these are one node with a list.
            Kind::And | Kind::Or | Kind::Equal => {}
            // These stand at the end of a branch.
            Kind::Name | Kind::Int | Kind::Float | Kind::Complex | Kind::String => {}
            Kind::FStringMiddle | Kind::TStringMiddle | Kind::Ellipsis => {}
            Kind::True | Kind::False | Kind::None => {}
            Kind::Comment | Kind::NonLogicalNewline | Kind::Indent | Kind::Dedent => {}
            _ => frame.tokens += 1,
        }
        // An outer bracket is as deep as what it has so far and the bracket that is open in it.
        let last = frames.len() - 1;
        let outer: usize = match frames.len() {
            0..=MAX_TOKENS => frames.iter().take(last).map(|frame| frame.tokens).sum(),
            deeper => deeper,
        };
        let depth = outer + frames.last().map_or(0, Frame::depth);
        if depth > MAX_TOKENS {
            return Err(PythonError::TooDeep);
        }
    }
}
