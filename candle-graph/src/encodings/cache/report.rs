//! What the cache tells about its work.

use std::fmt;
use std::path::PathBuf;

use super::key::EntryKey;

/// Something in the cache folder that could not be trusted and was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFault {
    /// The shard or index file.
    pub file: PathBuf,
    /// The entry, or none where the whole file is meant.
    pub key: Option<EntryKey>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for CacheFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if let Some(key) = &self.key {
            write!(f, "entry {key}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// Where the encodings of one call came from. An entry is one recipe of one graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// Entries that were read, from disk or from what waits to be written.
    pub hits: usize,
    /// Entries that were computed, those that replace a corrupt one included.
    pub computed: usize,
    /// Corrupt entries (with key; computed again) and files that are no index of this cache
    /// (without key; left alone), found since the last report.
    pub faults: Vec<CacheFault>,
    /// Why computed entries could not be stored, under [`OnWriteError::Report`].
    ///
    /// [`OnWriteError::Report`]: super::OnWriteError::Report
    pub write_error: Option<String>,
}

impl CacheReport {
    /// Adds another call's report.
    pub fn merge(&mut self, other: Self) {
        self.hits += other.hits;
        self.computed += other.computed;
        self.faults.extend(other.faults);
        self.write_error = self.write_error.take().or(other.write_error);
    }
}

/// How much a cache holds, as far as this process knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries on disk.
    pub entries: usize,
    /// Bytes of their values.
    pub bytes: u64,
    /// Shards on disk.
    pub shards: usize,
    /// Entries waiting to be written.
    pub pending_entries: usize,
    /// Bytes of their values.
    pub pending_bytes: u64,
}

/// Result of checking a whole cache folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Shards that an index describes.
    pub shards: usize,
    /// Entries that are sound; an entry stored twice counts twice.
    pub entries: usize,
    /// Bytes of their values.
    pub bytes: u64,
    /// Shards without an index and temporary files: what an interrupted process left, or what
    /// another is writing just now. They are never read, and removed by a later
    /// [`open`](super::EncodingCache::open) when they are a day old.
    pub leftovers: usize,
    /// Everything that is not sound; empty for a sound cache.
    pub faults: Vec<CacheFault>,
}
