//! PyTorch checkpoints (`torch.save` in its zip format): tensors only, nothing is executed.
//!
//! Such a file is a zip container with one pickle stream (`data.pkl`), which describes the saved object, and one raw
//! entry per tensor storage (`data/0`, `data/1`, …).

mod archive;
mod state_dict;
mod storage;

pub use state_dict::read_state_dict;
