//! The error type of this crate.

use std::path::{Path, PathBuf};

use crate::mismatch::Mismatch;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong while checkpoints are read, converted, loaded or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file or folder.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb: `read`, `write`, `create a file in`.
        action: &'static str,
        /// File or folder concerned.
        path: PathBuf,
        /// The system's own error.
        source: std::io::Error,
    },
    /// A size stated by a file, or the file itself, is over one of the [`Limits`](crate::Limits).
    #[error(
        "{}: {what} takes {size} bytes, more than the {limit} allowed (limit `{setting}`); \
         raise the limit only if the file comes from a source you trust",
        path.display()
    )]
    TooLarge {
        /// File concerned.
        path: PathBuf,
        /// What is too large.
        what: String,
        /// Its stated size in bytes.
        size: u64,
        /// The bound it exceeds.
        limit: u64,
        /// Field of [`Limits`](crate::Limits) that holds the bound.
        setting: &'static str,
    },
    /// The file is not what its reader expects, or is damaged.
    #[error("{}: {problem}", path.display())]
    Format {
        /// File concerned.
        path: PathBuf,
        /// What is wrong and what to do about it.
        problem: String,
    },
    /// A pickle stream is damaged, or uses something that the restricted reader refuses.
    #[error("{}: pickle stream refused at byte {offset}: {problem}", path.display())]
    Pickle {
        /// File concerned.
        path: PathBuf,
        /// Position of the refused opcode in the stream.
        offset: usize,
        /// What is wrong.
        problem: String,
    },
    /// One tensor of a file cannot be used.
    #[error("{}: tensor `{tensor}`: {problem}", path.display())]
    Tensor {
        /// File concerned.
        path: PathBuf,
        /// Name of the tensor as it stands in the file.
        tensor: String,
        /// What is wrong.
        problem: String,
    },
    /// A shard named by an index cannot be used.
    #[error("{}: shard `{shard}`: {problem}", path.display())]
    Shard {
        /// The index file.
        path: PathBuf,
        /// Name of the shard as it stands in the index.
        shard: String,
        /// What is wrong.
        problem: String,
    },
    /// Official tensor names could not be mapped to ours.
    #[error("{source_name}: {problem}")]
    Convert {
        /// File or model whose tensors were mapped.
        source_name: String,
        /// What could not be mapped, and why.
        problem: String,
    },
    /// The tensors do not fit the model: all differences at once.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// The model refused to be built (an invalid configuration, for example).
    #[error("the model could not be built: {0}")]
    Build(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// candle refused an operation.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn format(path: &Path, problem: impl Into<String>) -> Self {
        Self::Format {
            path: path.to_path_buf(),
            problem: problem.into(),
        }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, problem: impl Into<String>) -> Self {
        Self::Tensor {
            path: path.to_path_buf(),
            tensor: tensor.to_string(),
            problem: problem.into(),
        }
    }
}
