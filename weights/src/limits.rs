//! Upper bounds for what a file may make the readers allocate.

/// Limits applied to files of unknown origin, checked before anything is allocated.
///
/// A file states its own sizes, so every size is compared with these bounds (and, where possible, with the length of
/// the file on disk) first. The defaults fit every published graph transformer with a wide margin; raise a field to
/// read something larger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest file that is opened, in bytes; for sharded weights, the sum of all shards. Default 8 GiB.
    pub file_bytes: u64,
    /// Largest single tensor, in bytes. Default 4 GiB.
    pub tensor_bytes: u64,
    /// All tensors of one file together, in bytes. Default 8 GiB.
    pub total_bytes: u64,
    /// How many times the length of its file the tensors of a PyTorch or Haiku checkpoint may take in memory (16 MiB
    /// are always allowed). Tensors may be views with stride zero, entries may be compressed and arrays shared, so that
    /// a small file can describe enormous tensors. Default 64.
    pub expansion: u64,
    /// Largest pickle stream of a PyTorch checkpoint, which holds no data, in bytes. Default 64 MiB.
    pub pickle_bytes: u64,
    /// Values that one pickle stream may push, counted at every push. Default 2 million.
    pub pickle_values: usize,
    /// Entries of a zip container. Default 1 million.
    pub archive_entries: u64,
    /// Largest header of a safetensors file and largest shard index, in bytes. Default 64 MiB.
    pub header_bytes: u64,
    /// Shards of one checkpoint. Default 4096.
    pub shards: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 8 << 30,
            tensor_bytes: 4 << 30,
            total_bytes: 8 << 30,
            expansion: 64,
            pickle_bytes: 64 << 20,
            pickle_values: 2_000_000,
            archive_entries: 1_000_000,
            header_bytes: 64 << 20,
            shards: 4096,
        }
    }
}

impl Limits {
    /// Bytes that the tensors of a file of `file_bytes` may take together.
    pub(crate) fn expanded_bytes(&self, file_bytes: u64) -> u64 {
        file_bytes
            .saturating_mul(self.expansion)
            .max(16 << 20)
            .min(self.total_bytes)
    }
}
