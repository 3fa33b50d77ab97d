//! From official checkpoints to this project's tensor names, through one declared table a model family.

pub mod grit;
mod key_table;
mod pattern;

pub use key_table::{Conversion, KeyTable, Presence, Rule, Transform};
