//! The zip container of a PyTorch checkpoint.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::bounded_read::{open_bounded, read_exactly};
use crate::error::{Error, Result};
use crate::limits::Limits;

const RESAVE: &str = "load it with the PyTorch that wrote it and save it again: \
    `torch.save(torch.load(old, map_location='cpu'), new)` (PyTorch 1.6 or later)";

/// An open checkpoint whose container is sound: one pickle stream, unique names, little-endian data.
pub(super) struct Archive {
    path: PathBuf,
    file_bytes: u64,
    zip: ZipArchive<BufReader<File>>,
    /// What stands before `data.pkl` and `data/…` in entry names, with its slash.
    prefix: String,
}

impl Archive {
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self> {
        let (mut file, file_bytes) = open_bounded(path, limits)?;
        check_format(path, &mut file)?;
        check_end_record(path, &mut file, file_bytes, limits)?;
        file.rewind().map_err(Error::io("read", path))?;
        let zip = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(path, &error))?;
        if zip.has_duplicate_names() {
            return Err(Error::format(
                path,
                "the zip container holds two entries of the same name; PyTorch writes no such file",
            ));
        }
        let prefix = find_prefix(path, &zip)?;
        if zip
            .index_for_name(&format!("{prefix}constants.pkl"))
            .is_some()
        {
            return Err(Error::format(
                path,
                "this is a TorchScript archive (a program), not a checkpoint; \
                 save the weights alone: `torch.save(model.state_dict(), path)`",
            ));
        }
        let mut archive = Self {
            path: path.to_path_buf(),
            file_bytes,
            zip,
            prefix,
        };
        archive.check_byte_order()?;
        Ok(archive)
    }

    /// Length of the file on disk.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    pub(super) fn pickle(&mut self, limits: &Limits) -> Result<Vec<u8>> {
        self.entry("data.pkl", limits.pickle_bytes, "pickle_bytes")
    }

    /// Bytes that the raw entry of a storage states, `None` if there is no such entry.
    pub(super) fn storage_bytes(&mut self, key: &str) -> Result<Option<u64>> {
        let Some(index) = self.zip.index_for_name(&self.storage_name(key)) else {
            return Ok(None);
        };
        let entry = self
            .zip
            .by_index_raw(index)
            .map_err(|error| damaged(&self.path, &error))?;
        Ok(Some(entry.size()))
    }

    pub(super) fn storage(&mut self, key: &str, limits: &Limits) -> Result<Vec<u8>> {
        self.entry(&format!("data/{key}"), limits.tensor_bytes, "tensor_bytes")
    }

    fn storage_name(&self, key: &str) -> String {
        format!("{}data/{key}", self.prefix)
    }

    fn check_byte_order(&mut self) -> Result<()> {
        let name = format!("{}byteorder", self.prefix);
        if self.zip.index_for_name(&name).is_none() {
            // Written since PyTorch 2.1; before, files were little-endian in practice.
            return Ok(());
        }
        let order = self.entry("byteorder", 64, "byteorder entry")?;
        match order.as_slice() {
            b"little" => Ok(()),
            b"big" => Err(Error::format(
                &self.path,
                "the tensors are big-endian; save the file again on a little-endian machine",
            )),
            _ => Err(Error::format(
                &self.path,
                "the `byteorder` entry says neither `little` nor `big`",
            )),
        }
    }

    fn entry(&mut self, name: &str, limit: u64, setting: &'static str) -> Result<Vec<u8>> {
        let full_name = format!("{}{name}", self.prefix);
        let index = self.zip.index_for_name(&full_name).ok_or_else(|| {
            Error::format(
                &self.path,
                format!("entry `{full_name}` is missing from the zip container"),
            )
        })?;
        let entry = self
            .zip
            .by_index(index)
            .map_err(|error| damaged(&self.path, &error))?;
        let size = entry.size();
        if size > limit {
            return Err(Error::TooLarge {
                path: self.path.clone(),
                what: format!("entry `{full_name}`"),
                size,
                limit,
                setting,
            });
        }
        read_exactly(entry, size).map_err(|error| {
            Error::format(
                &self.path,
                format!(
                    "entry `{full_name}` is damaged ({error}); copy or download the file again"
                ),
            )
        })
    }
}

/// Tells the formats that `torch.save` and others have used apart by their first bytes.
fn check_format(path: &Path, file: &mut File) -> Result<()> {
    let mut head = Vec::new();
    file.by_ref()
        .take(512)
        .read_to_end(&mut head)
        .map_err(Error::io("read", path))?;
    if head.starts_with(b"PK") {
        return Ok(());
    }
    // Protocol 2, then the long integer 0x1950a86a20f9469cfc6c with which the format before 1.6 begins.
    let legacy = [0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20];
    let problem = if head.get(2..10) == Some(legacy.as_slice()) {
        format!(
            "this is a legacy PyTorch checkpoint (a bare pickle, before PyTorch 1.6), which is not read; {RESAVE}"
        )
    } else if head.get(257..262) == Some(b"ustar".as_slice()) {
        format!("this is a tar file, the PyTorch format before 0.2, which is not read; {RESAVE}")
    } else if head.starts_with(b"\x89HDF") {
        "this is an HDF5 file, not a PyTorch checkpoint".into()
    } else if head.first() == Some(&0x80) {
        format!(
            "this is a bare pickle, not a PyTorch zip checkpoint; if PyTorch wrote it, {RESAVE}"
        )
    } else if head.is_empty() {
        "the file is empty".into()
    } else {
        "this is not a PyTorch checkpoint: it does not begin as a zip file does".into()
    };
    Err(Error::format(path, problem))
}

/// Requires the end record where PyTorch puts it (the last 22 bytes, no comment) and bounds its entry count, because the
/// zip reader reserves memory for as many entries as the record states.
fn check_end_record(path: &Path, file: &mut File, file_bytes: u64, limits: &Limits) -> Result<()> {
    let truncated = || {
        Error::format(
            path,
            "the zip container has no end record, so the file is truncated; copy or download it again",
        )
    };
    let read = |file: &mut File, at: u64| -> Result<[u8; 56]> {
        let mut bytes = [0; 56];
        file.seek(SeekFrom::Start(at))
            .map_err(Error::io("read", path))?;
        let mut filled = Vec::new();
        file.take(56)
            .read_to_end(&mut filled)
            .map_err(Error::io("read", path))?;
        for (to, from) in bytes.iter_mut().zip(filled) {
            *to = from;
        }
        Ok(bytes)
    };
    let end_at = file_bytes.checked_sub(22).ok_or_else(truncated)?;
    let end = read(file, end_at)?;
    let [b'P', b'K', 5, 6, ..] = end else {
        return Err(truncated());
    };
    let mut entries = u64::from(u16::from_le_bytes([end[10], end[11]]));
    if let Some(locator_at) = end_at.checked_sub(20) {
        let locator = read(file, locator_at)?;
        if let [b'P', b'K', 6, 7, _, _, _, _, a, b, c, d, e, f, g, h, ..] = locator {
            let record = read(file, u64::from_le_bytes([a, b, c, d, e, f, g, h]))?;
            if let Some((_, count)) = record.split_first_chunk::<32>() {
                let count = count.first_chunk().copied().unwrap_or_default();
                entries = entries.max(u64::from_le_bytes(count));
            }
        }
    }
    if entries > limits.archive_entries {
        return Err(Error::format(
            path,
            format!(
                "the zip container claims {entries} entries, more than the {} allowed (limit `archive_entries`)",
                limits.archive_entries
            ),
        ));
    }
    Ok(())
}

fn find_prefix(path: &Path, zip: &ZipArchive<BufReader<File>>) -> Result<String> {
    let mut prefixes = Vec::new();
    for name in zip.file_names() {
        let name = name.map_err(|error| damaged(path, &error))?;
        if let Some(prefix) = name.strip_suffix("data.pkl")
            && (prefix.is_empty() || prefix.ends_with('/'))
        {
            prefixes.push(prefix.to_string());
        }
    }
    match prefixes.len() {
        1 => Ok(prefixes.swap_remove(0)),
        0 => Err(Error::format(
            path,
            "this zip file is not a PyTorch checkpoint: it has no entry `data.pkl`",
        )),
        _ => Err(Error::format(
            path,
            "the zip container holds several `data.pkl`; PyTorch writes exactly one",
        )),
    }
}

fn damaged(path: &Path, error: &ZipError) -> Error {
    Error::format(
        path,
        format!("the zip container is damaged ({error}); copy or download the file again"),
    )
}
