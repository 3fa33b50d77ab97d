//! Files that appear under their name complete or not at all.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file through `write` into a temporary neighbour, syncs it and renames it to `path`.
///
/// An existing file is replaced in one step; on any error it stays as it was and the temporary file is removed.
///
/// # Errors
/// A folder that is missing, full or not writable, `path` being a folder, or an error of `write`.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return Err(Error::format(path, "a folder of this name is in the way"));
    }
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".writing-").suffix(".tmp");
    // A private temporary file would keep its mode; what ordinary files get is wanted here.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        temporary.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = temporary
        .tempfile_in(folder)
        .map_err(Error::io("create a file in", folder))?;
    let mut buffered = BufWriter::new(temporary.as_file_mut());
    write(&mut buffered).map_err(Error::io("write", path))?;
    buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("write", path))?;
    temporary
        .persist(path)
        .map_err(|error| Error::io("write", path)(error.error))?;
    // Without this the rename itself may be lost in a power cut. Folders cannot be synced on every system.
    #[cfg(unix)]
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}
