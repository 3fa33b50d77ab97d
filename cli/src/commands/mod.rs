//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod configure;
pub(crate) mod convert;
pub(crate) mod embed;
pub(crate) mod encode;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod predict;
mod run_model;
