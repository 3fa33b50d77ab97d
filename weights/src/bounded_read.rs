//! Reading files whose stated sizes are not to be trusted.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::limits::Limits;

/// Opens a regular file of at most `limits.file_bytes` and gives its length.
pub(crate) fn open_bounded(path: &Path, limits: &Limits) -> Result<(File, u64)> {
    // Asked before opening: opening a named pipe would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(Error::io("read", path))?;
    if !metadata.is_file() {
        return Err(Error::format(path, "this is not a regular file"));
    }
    let file = File::open(path).map_err(Error::io("read", path))?;
    let size = metadata.len();
    if size > limits.file_bytes {
        return Err(Error::TooLarge {
            path: path.to_path_buf(),
            what: "the file".into(),
            size,
            limit: limits.file_bytes,
            setting: "file_bytes",
        });
    }
    Ok((file, size))
}

/// Reads a whole configuration file of at most `most` bytes.
pub(crate) fn read_small_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    let limits = Limits {
        file_bytes: most,
        ..Limits::default()
    };
    let (mut file, size) = open_bounded(path, &limits)?;
    read_part(&mut file, size).map_err(Error::io("read", path))
}

/// Reads the next `size` bytes, which the caller has compared with the length of the file.
pub(crate) fn read_part(file: &mut File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes
        .try_reserve_exact(length)
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.take(size).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// Reads `size` bytes and then the end of `reader`. Memory grows with the bytes that really arrive, not with `size`.
pub(crate) fn read_exactly(reader: impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .take(size.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size {
        return Ok(bytes);
    }
    let comparison = if (bytes.len() as u64) < size {
        "fewer"
    } else {
        "more"
    };
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it holds {comparison} than the {size} bytes announced"),
    ))
}
