//! Shard files: written whole, read by the range.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use super::index::{self, Entry, ShardName, open_regular};
use super::key::EntryKey;
use super::record::{Record, Stored, checksum_of};
use crate::error::{Error, Result};

/// The most entries of one shard. It bounds the index and the header of a shard of tiny entries.
pub(super) const MAX_ENTRIES: usize = 1 << 16;

/// Temporary files are named `.encoding-….tmp`.
pub(super) const TEMPORARY: (&str, &str) = (".encoding-", ".tmp");

/// Bytes read at a time where a range is only hashed.
const BLOCK: usize = 1 << 18;

/// Why an entry was not used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The file does not hold the entry, and will not later either.
    Lost(String),
    /// The system refused; the file may be sound.
    Unreadable(String),
}

impl Damage {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Lost(message) | Self::Unreadable(message) => message,
        }
    }

    fn from_io(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Lost("the shard is missing".to_string()),
            ErrorKind::UnexpectedEof => Self::Lost("the shard ends inside it".to_string()),
            ErrorKind::InvalidData => Self::Lost(error.to_string()),
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// A shard opened for reading.
pub(super) struct Reader {
    file: File,
    length: u64,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, Damage> {
        let open = || {
            let file = open_regular(path)?;
            let length = file.metadata()?.len();
            Ok(Self { file, length })
        };
        open().map_err(|e| Damage::from_io(&e))
    }

    /// Goes to an entry's range, if the file has it.
    fn seek(&mut self, start: u64, bytes: u64) -> Result<(), Damage> {
        if start.checked_add(bytes).is_none_or(|end| end > self.length) {
            return Err(Damage::Lost(format!(
                "{bytes} bytes from {start} are out of range: the shard has {}",
                self.length
            )));
        }
        self.file
            .seek(SeekFrom::Start(start))
            .map_err(|e| Damage::from_io(&e))?;
        Ok(())
    }

    /// The bytes of an entry with these arrays, checked.
    pub(super) fn read(
        &mut self,
        key: &EntryKey,
        arrays: &[Stored],
        (start, bytes): (u64, u64),
        checksum: &[u8; 32],
    ) -> Result<Vec<u8>, Damage> {
        self.seek(start, bytes)?;
        let length = usize::try_from(bytes)
            .map_err(|_| Damage::Unreadable(format!("{bytes} bytes do not fit the memory")))?;
        let mut buffer = vec![0; length];
        self.file
            .read_exact(&mut buffer)
            .map_err(|e| Damage::from_io(&e))?;
        let mut hasher = checksum_of(key, arrays);
        hasher.update(&buffer);
        matches(&hasher, checksum)?;
        Ok(buffer)
    }

    /// Checks an entry without keeping it.
    pub(super) fn check(&mut self, entry: &Entry) -> Result<(), Damage> {
        self.seek(entry.start, entry.bytes)?;
        let mut hasher = checksum_of(&entry.key, &entry.arrays);
        self.hash(entry.bytes, &mut hasher)?;
        matches(&hasher, &entry.checksum)
    }

    fn hash(&mut self, bytes: u64, hasher: &mut blake3::Hasher) -> Result<(), Damage> {
        let mut block = vec![0; BLOCK];
        let mut left = bytes;
        while left > 0 {
            let length = left.min(BLOCK as u64) as usize;
            self.file
                .read_exact(&mut block[..length])
                .map_err(|e| Damage::from_io(&e))?;
            hasher.update(&block[..length]);
            left -= length as u64;
        }
        Ok(())
    }
}

fn matches(hasher: &blake3::Hasher, checksum: &[u8; 32]) -> Result<(), Damage> {
    if hasher.finalize().as_bytes() == checksum {
        Ok(())
    } else {
        Err(Damage::Lost("its checksum does not match".to_string()))
    }
}

/// Writes records as one shard with its index.
///
/// # Errors
/// The folder cannot be written; nothing that a reader would use is left then.
pub(super) fn write(
    dir: &Path,
    records: &BTreeMap<EntryKey, Record>,
) -> Result<(ShardName, Vec<Entry>)> {
    let (content, entries) = serialize(records)?;
    let shard = ShardName::of(&content);
    write_whole(dir, &shard.shard(dir), &content)?;
    drop(content);
    write_index(dir, &shard, &entries)?;
    Ok((shard, entries))
}

/// Writes the index of a shard, in place of an older one.
pub(super) fn write_index(dir: &Path, shard: &ShardName, entries: &[Entry]) -> Result<()> {
    let text = index::write(entries).map_err(|e| unwritable(dir, e.into()))?;
    write_whole(dir, &shard.index(dir), &text)
}

/// Writes a file that is there whole or not at all, also after a crash of the machine.
fn write_whole(dir: &Path, path: &Path, content: &[u8]) -> Result<()> {
    let write = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
        // A cache may be shared between users: leave the mode to the umask, as for other files.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(dir)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        // The new name lasts once the folder is on disk too; only Unix can open a folder for that.
        #[cfg(unix)]
        File::open(dir)?.sync_all()?;
        Ok(())
    };
    write().map_err(|e| unwritable(dir, e))
}

fn unwritable(dir: &Path, source: std::io::Error) -> Error {
    let message = format!("the encoding cache cannot be written: {source}");
    Error::io(dir, std::io::Error::new(source.kind(), message))
}

/// The bytes of a shard and where its entries lie.
fn serialize(records: &BTreeMap<EntryKey, Record>) -> Result<(Vec<u8>, Vec<Entry>)> {
    let failed = |e: safetensors::SafeTensorError| Error::Encoding(format!("cache shard: {e}"));
    let mut views = Vec::new();
    for (key, record) in records {
        let mut rest = record.bytes.as_slice();
        for array in &record.arrays {
            let length = array.bytes().map_or(usize::MAX, |b| b as usize);
            let (part, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            let shape = array.shape.map(|extent| extent as usize).to_vec();
            let view = TensorView::new(Dtype::F32, shape, part).map_err(failed)?;
            views.push((format!("{key}/{}", array.name), view));
        }
    }
    let metadata = HashMap::from([(
        "format".to_string(),
        "candle-graph encoding cache".to_string(),
    )]);
    let content = safetensors::serialize(views, Some(metadata)).map_err(failed)?;
    let (header, placed) = SafeTensors::read_metadata(&content).map_err(failed)?;
    let data = 8 + header as u64;
    let entries = records
        .iter()
        .map(|(key, record)| {
            let first = record
                .arrays
                .first()
                .and_then(|array| placed.info(&format!("{key}/{}", array.name)))
                .ok_or_else(|| Error::Encoding(format!("cache entry {key} has no arrays")))?;
            Ok(Entry {
                key: *key,
                start: data + first.data_offsets.0 as u64,
                bytes: record.bytes.len() as u64,
                checksum: record.checksum,
                arrays: record.arrays.clone(),
            })
        })
        .collect::<Result<_>>()?;
    Ok((content, entries))
}
