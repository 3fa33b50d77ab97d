//! From official checkpoints to this project's tensor names, through one declared table a model family.

mod converted;
pub mod gps;
mod graphgps_options;
pub mod graphgym;
pub mod grit;
mod grit_options;
pub mod haiku;
mod key_table;
mod options;
mod pattern;
mod shared_options;
mod shared_rules;

pub use converted::{Configured, Converted};
pub use key_table::{Conversion, KeyTable, Presence, Rule, Transform};
pub use options::Options;
