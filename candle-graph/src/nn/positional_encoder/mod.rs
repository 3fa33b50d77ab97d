//! Encoders of positional and structural encodings, a file a kind.

mod config;

pub use config::{EigenvectorSet, KernelEncoder, PositionalEncoderConfig, SignInvariantPooling};
