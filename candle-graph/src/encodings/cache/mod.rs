//! Precomputed encodings on disk.
//!
//! [`EncodingCache`] tells what is on disk and what is promised.

mod directory;
mod encoding_cache;
mod index;
mod key;
mod record;
mod report;
mod shard;
#[cfg(test)]
mod tests;
mod verify;

pub use encoding_cache::{CacheOptions, EncodingCache, OnWriteError};
pub use key::EntryKey;
pub use report::{CacheFault, CacheReport, CacheStats, VerifyReport};
