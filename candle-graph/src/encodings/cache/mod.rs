//! Precomputed encodings on disk.
//!
//! A cache is a folder. Every entry is one recipe's arrays for one graph, found by its
//! [`EntryKey`]: a hash of the graph's structure, the recipe and the version of its algorithm. Two
//! models that share a recipe share its entries.
//!
//! | file | content |
//! |---|---|
//! | `<hash>.safetensors` | a *shard*: tensors `<key>/<array>`, f32 `[rows, width]`; named by the blake3 hash of the file as written |
//! | `<hash>.index.jsonl` | its *index*: a header line with the hash of what follows, then one line an entry with key, place, shapes and checksum |
//! | `.encoding-….tmp` | a file being written, or what is left of one |
//!
//! Files are written under a temporary name, synchronised and renamed, the shard before its index,
//! and no process ever adds to a file: a torn write leaves nothing that an index speaks of, and
//! any number of processes may fill one folder at once. Both may then store the same entry, which
//! costs space and nothing else.
//!
//! Nothing read is trusted. An index must match its own hash, and its name alone says which shard
//! it describes; an entry must have the shapes that the graph and the recipe imply, lie inside its
//! shard, and match its checksum, which covers key, names, shapes and values. What fails is
//! computed again, reported, struck from the index and stored anew.

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
