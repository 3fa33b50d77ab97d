//! From official checkpoints to this project's tensor names, through one declared table a model family.

pub mod gps;
mod graphgps_options;
pub mod graphgym;
pub mod grit;
mod grit_options;
mod key_table;
mod options;
mod pattern;
mod shared_options;
mod shared_rules;

pub use key_table::{Conversion, KeyTable, Presence, Rule, Transform};
pub use options::Options;
