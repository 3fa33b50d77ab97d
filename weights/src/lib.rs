//! Checkpoints for candle-graph: reading, converting and strict loading of weights.
//!
//! Files may come from anywhere, so every reader here checks stated sizes against [`Limits`] before it allocates, and
//! none of them executes anything a file names.
//!
//! | module | subject |
//! |---|---|
//! | [`state_dict`] | named tensors in host memory, what every reader yields |
//! | [`torch`] | PyTorch checkpoints (`.ckpt`, `.pt`), tensors only |
//! | [`haiku`] | Haiku checkpoints (`checkpoint.dill`) and flattened parameters, arrays only |
//! | [`pickle`] | the inert pickle parser below both, free of any knowledge of torch or NumPy |
//! | [`safetensors_file`], [`sharded`] | safetensors files, single and sharded |
//! | [`checkpoint`] | a folder with configuration and weights, into a model |
//! | [`strict`] | tensors into a model, all differences in one error |
//! | [`convert`] | declared tables from official tensor names to ours |
//! | [`sub_tokens`] | the words that the classes of a name prediction model stand for |
//! | [`atomic_file`] | files that appear complete or not at all |

pub mod atomic_file;
mod bounded_read;
pub mod checkpoint;
pub mod convert;
pub mod error;
pub mod haiku;
mod limits;
mod mismatch;
pub mod pickle;
pub mod safetensors_file;
pub mod sharded;
pub mod state_dict;
pub mod strict;
mod strided;
pub mod sub_tokens;
pub mod torch;

pub use checkpoint::{Checkpoint, CheckpointConfig, load_model};
pub use error::{Error, Result};
pub use limits::Limits;
pub use safetensors_file::{read_safetensors, write_safetensors};
pub use sharded::{read_sharded, read_weights};
pub use state_dict::{ElementType, StateDict, TensorData};
pub use strict::load_strict;
pub use sub_tokens::SubTokens;
