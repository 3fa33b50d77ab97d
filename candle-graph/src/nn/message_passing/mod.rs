//! Message passing over the edges of a batch, a file a kind.

mod config;

pub use config::MessagePassingConfig;
