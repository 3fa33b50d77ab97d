//! What is known of a cache folder.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::index::{self, Entry, FileKind, ShardName};
use super::key::EntryKey;
use super::report::CacheFault;
use super::shard::{self, TEMPORARY};
use crate::error::{Error, Result};

/// Age from which a file that no index speaks of belongs to no running process.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder changed more recently than this may change again without a new time stamp.
const SETTLED: Duration = Duration::from_secs(2);

/// Where an entry lies. Small, because a data set has millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) shard: u32,
    pub(super) start: u64,
    pub(super) bytes: u64,
    pub(super) checksum: [u8; 32],
}

/// The files of a cache folder, by kind.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) indices: Vec<ShardName>,
    pub(super) shards: Vec<ShardName>,
    pub(super) foreign: Vec<String>,
    pub(super) temporary: Vec<String>,
}

impl Listing {
    /// Lists the folder.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let mut out = Self::default();
        for file in std::fs::read_dir(dir).map_err(|e| Error::io(dir, e))? {
            let file = file.map_err(|e| Error::io(dir, e))?;
            // Names that are not Unicode are not ours.
            let Ok(name) = file.file_name().into_string() else {
                continue;
            };
            match index::kind(&name) {
                FileKind::Index(shard) => out.indices.push(shard),
                FileKind::Shard(shard) => out.shards.push(shard),
                FileKind::ForeignIndex => out.foreign.push(name),
                FileKind::Other => {
                    if name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1) {
                        out.temporary.push(name);
                    }
                }
            }
        }
        out.indices.sort_unstable();
        Ok(out)
    }

    /// Shards without an index.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &ShardName> {
        self.shards
            .iter()
            .filter(|s| self.indices.binary_search(s).is_err())
    }

    /// Faults of files that only look like an index.
    pub(super) fn foreign_faults(&self, dir: &Path) -> impl Iterator<Item = CacheFault> {
        self.foreign.iter().map(move |name| CacheFault {
            file: dir.join(name),
            key: None,
            problem: "it is not named like an index of this cache".to_string(),
        })
    }

    /// Removes what interrupted processes left, once it is old enough to belong to none that runs.
    /// Failing to is harmless.
    pub(super) fn remove_stale(&self, dir: &Path) {
        let shards = self.orphans().map(|shard| shard.shard(dir));
        for path in self.temporary.iter().map(|n| dir.join(n)).chain(shards) {
            let stale = std::fs::symlink_metadata(&path)
                .ok()
                .filter(std::fs::Metadata::is_file)
                .and_then(|m| m.modified().ok()?.elapsed().ok())
                .is_some_and(|age| age > STALE);
            if stale {
                std::fs::remove_file(&path).ok();
            }
        }
    }
}

/// The entries that the indices of a folder name.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    entries: HashMap<EntryKey, Location>,
    shards: Vec<ShardName>,
    /// Indices that were read, good or not.
    seen: HashSet<ShardName>,
    foreign_seen: HashSet<String>,
    bytes: u64,
    /// Time stamp of the folder when it was last listed, if it can be relied on.
    listed: Option<SystemTime>,
}

impl Catalogue {
    pub(super) fn get(&self, key: &EntryKey) -> Option<Location> {
        self.entries.get(key).copied()
    }

    pub(super) fn contains(&self, key: &EntryKey) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn shard(&self, location: &Location) -> Option<ShardName> {
        self.shards.get(location.shard as usize).copied()
    }

    /// Number of entries, their bytes, number of shards.
    pub(super) fn totals(&self) -> (usize, u64, usize) {
        (self.entries.len(), self.bytes, self.shards.len())
    }

    /// Takes in the entries of a shard. Of several copies of an entry the last counts.
    pub(super) fn add(&mut self, shard: ShardName, entries: Vec<Entry>) {
        self.seen.insert(shard);
        let Ok(number) = u32::try_from(self.shards.len()) else {
            return;
        };
        self.shards.push(shard);
        for entry in entries {
            let location = Location {
                shard: number,
                start: entry.start,
                bytes: entry.bytes,
                checksum: entry.checksum,
            };
            self.bytes = self.bytes.saturating_add(entry.bytes);
            if let Some(old) = self.entries.insert(entry.key, location) {
                self.bytes = self.bytes.saturating_sub(old.bytes);
            }
        }
    }

    /// Forgets an entry, unless it has moved from `location` meanwhile.
    pub(super) fn forget(&mut self, key: &EntryKey, location: &Location) {
        if self.entries.get(key) == Some(location) {
            self.entries.remove(key);
            self.bytes = self.bytes.saturating_sub(location.bytes);
        }
    }

    /// Takes in the indices of `listing` that are new, and reports those that cannot be used.
    pub(super) fn read(&mut self, dir: &Path, listing: &Listing) -> Vec<CacheFault> {
        let mut faults: Vec<_> = listing.foreign_faults(dir).collect();
        faults.retain(|f| {
            let name = f.file.to_string_lossy().into_owned();
            self.foreign_seen.insert(name)
        });
        for shard in &listing.indices {
            if self.seen.contains(shard) {
                continue;
            }
            let path = shard.index(dir);
            match index::read(&path) {
                Ok(entries) => self.add(*shard, entries),
                // Another process has struck its last entry since the folder was listed.
                Err(_) if path.symlink_metadata().is_err() => {}
                Err(problem) => {
                    self.seen.insert(*shard);
                    faults.push(CacheFault {
                        file: path,
                        key: None,
                        problem,
                    });
                }
            }
        }
        faults
    }

    /// Takes in what other processes have added since the folder was last listed.
    pub(super) fn refresh(&mut self, dir: &Path) -> Vec<CacheFault> {
        let stamp = std::fs::metadata(dir).and_then(|m| m.modified()).ok();
        if stamp.is_some() && stamp == self.listed {
            return Vec::new();
        }
        self.listed = stamp.filter(|s| s.elapsed().is_ok_and(|age| age > SETTLED));
        // A folder that cannot be listed has nothing new; storing will say what is wrong with it.
        Listing::new(dir)
            .map(|listing| self.read(dir, &listing))
            .unwrap_or_default()
    }
}

/// Strikes entries from the index of a shard, so that they are not found corrupt again.
/// When two do so at once, the later one wins and the other's entries are found corrupt once more;
/// no sound entry is ever invented by it.
pub(super) fn strike(dir: &Path, shard: &ShardName, keys: &HashSet<EntryKey>) -> Result<()> {
    let Ok(mut entries) = index::read(&shard.index(dir)) else {
        return Ok(());
    };
    entries.retain(|e| !keys.contains(&e.key));
    if entries.is_empty() {
        let path = shard.index(dir);
        return std::fs::remove_file(&path).map_err(|e| Error::io(path, e));
    }
    shard::write_index(dir, shard, &entries)
}
