//! The index file of a shard.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::{EntryKey, parse_hash};
use super::record::{Stored, total_bytes};

const SHARD_ENDING: &str = ".safetensors";
const INDEX_ENDING: &str = ".index.jsonl";
const FORMAT: &str = "candle-graph encoding index";
const VERSION: u32 = 1;

/// The most that is read of an index file. The limit on the entries of a shard keeps honest ones
/// far below.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// Name of a shard: the hash of its file as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ShardName([u8; 32]);

/// What a file of a cache folder is, by its name alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Shard(ShardName),
    Index(ShardName),
    /// It ends like an index but is not named like one.
    ForeignIndex,
    Other,
}

impl ShardName {
    /// The name of a shard with this content.
    pub(super) fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).into())
    }

    /// Path of the shard in `dir`. The name is made of digits only, so it cannot lead elsewhere.
    pub(super) fn shard(&self, dir: &Path) -> PathBuf {
        dir.join(self.hex() + SHARD_ENDING)
    }

    /// Path of the shard's index in `dir`.
    pub(super) fn index(&self, dir: &Path) -> PathBuf {
        dir.join(self.hex() + INDEX_ENDING)
    }

    fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// Sorts a file by its name.
pub(super) fn kind(file_name: &str) -> FileKind {
    let parsed = |stem: &str| parse_hash(stem).map(ShardName);
    if let Some(stem) = file_name.strip_suffix(INDEX_ENDING) {
        parsed(stem).map_or(FileKind::ForeignIndex, FileKind::Index)
    } else {
        let stem = file_name.strip_suffix(SHARD_ENDING);
        stem.and_then(parsed)
            .map_or(FileKind::Other, FileKind::Shard)
    }
}

/// One entry as its index describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: EntryKey,
    /// First byte in the shard file.
    pub(super) start: u64,
    /// Number of bytes.
    pub(super) bytes: u64,
    /// See [`checksum_of`](super::record::checksum_of).
    pub(super) checksum: [u8; 32],
    /// Names and shapes, in stored order.
    pub(super) arrays: Vec<Stored>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    entries: u64,
    blake3: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    start: u64,
    checksum: String,
    arrays: Vec<Stored>,
}

/// The text of an index file.
pub(super) fn write(entries: &[Entry]) -> serde_json::Result<Vec<u8>> {
    let mut body = Vec::new();
    for entry in entries {
        let line = Line {
            key: entry.key.to_string(),
            start: entry.start,
            checksum: blake3::Hash::from_bytes(entry.checksum)
                .to_hex()
                .to_string(),
            arrays: entry.arrays.clone(),
        };
        serde_json::to_writer(&mut body, &line)?;
        body.push(b'\n');
    }
    let mut text = serde_json::to_vec(&Header {
        format: FORMAT.to_string(),
        version: VERSION,
        entries: entries.len() as u64,
        blake3: blake3::hash(&body).to_hex().to_string(),
    })?;
    text.push(b'\n');
    text.append(&mut body);
    Ok(text)
}

/// Reads an index file; an error says why it cannot be trusted.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, String> {
    parse(&read_text(path).map_err(|e| format!("it cannot be read: {e}"))?)
}

fn read_text(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open_regular(path)?
        .take(MAX_INDEX_BYTES + 1)
        .read_to_end(&mut text)?;
    if text.len() as u64 > MAX_INDEX_BYTES {
        return Err(std::io::Error::other(format!(
            "it has more than {MAX_INDEX_BYTES} bytes"
        )));
    }
    Ok(text)
}

/// Opens a regular file only: opening a pipe would wait, and a link could lead out of the folder.
pub(super) fn open_regular(path: &Path) -> std::io::Result<File> {
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "not a regular file",
        ));
    }
    File::open(path)
}

fn parse(text: &[u8]) -> Result<Vec<Entry>, String> {
    let end = text
        .iter()
        .position(|&b| b == b'\n')
        .ok_or("it is not an index: it has no header line")?;
    let (header, body) = (&text[..end], &text[end + 1..]);
    let header: Header =
        serde_json::from_slice(header).map_err(|e| format!("it is not an index: {e}"))?;
    if header.format != FORMAT || header.version != VERSION {
        return Err(format!(
            "it is an index of format `{}` version {}, this program reads `{FORMAT}` version {VERSION}",
            header.format, header.version
        ));
    }
    if *blake3::hash(body).to_hex() != *header.blake3 {
        return Err("its entries do not match the hash in its header".to_string());
    }
    let entries = body
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(at, line)| entry(line).map_err(|problem| format!("line {}: {problem}", at + 2)))
        .collect::<Result<Vec<_>, _>>()?;
    if entries.len() as u64 != header.entries {
        return Err(format!(
            "it has {} entries and announces {}",
            entries.len(),
            header.entries
        ));
    }
    Ok(entries)
}

fn entry(line: &[u8]) -> Result<Entry, String> {
    let line: Line = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let bytes = total_bytes(&line.arrays).ok_or("its sizes cannot be represented")?;
    Ok(Entry {
        key: EntryKey::from_hex(&line.key).ok_or("`key` is not a hash")?,
        start: line.start,
        bytes,
        checksum: parse_hash(&line.checksum).ok_or("`checksum` is not a hash")?,
        arrays: line.arrays,
    })
}
