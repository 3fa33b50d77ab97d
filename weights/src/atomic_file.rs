//! Files that appear under their name complete or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A file that is written under a temporary name and takes its own with [`commit`](Self::commit).
///
/// An existing file of the name stays as it was until then and is replaced in one step. Without
/// `commit` the temporary file is removed; a process that is killed may leave it behind
/// (`.writing-*.tmp` in the same folder).
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl AtomicFile {
    /// Opens the temporary file, so that a place that cannot be written shows at once.
    ///
    /// # Errors
    /// A folder that is missing, full or not writable; `path` being something else than an
    /// ordinary file.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let folder = folder_of(&path);
        if path.is_dir() {
            return Err(Error::format(&path, "a folder of this name is in the way"));
        }
        // A rename would put an ordinary file in the place of a device or a pipe.
        if path.exists() && !path.is_file() {
            return Err(Error::format(
                &path,
                "it is no ordinary file and cannot be replaced by one",
            ));
        }
        let mut temporary = tempfile::Builder::new();
        temporary.prefix(".writing-").suffix(".tmp");
        // A private temporary file would keep its mode; what ordinary files get is wanted here.
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            temporary.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = temporary
            .tempfile_in(folder)
            .map_err(Error::io("create a file in", folder))?;
        Ok(Self {
            file: BufWriter::new(file),
            path,
        })
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name that it has until then, for who must remove it when the process is interrupted.
    pub fn temporary_path(&self) -> &Path {
        self.file.get_ref().path()
    }

    /// Writes what is buffered, syncs the file and gives it its name.
    ///
    /// # Errors
    /// A full disk, or a folder that does not let the file be renamed.
    pub fn commit(self) -> Result<()> {
        let path = self.path;
        let temporary = self
            .file
            .into_inner()
            .map_err(|error| Error::io("write", &path)(error.into_error()))?;
        temporary
            .as_file()
            .sync_all()
            .map_err(Error::io("write", &path))?;
        temporary
            .persist(&path)
            .map_err(|error| Error::io("write", &path)(error.error))?;
        // Without this the rename itself may be lost in a power cut. Folders cannot be synced on every system.
        #[cfg(unix)]
        if let Ok(folder) = File::open(folder_of(&path)) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The folder that holds `path`.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a file through `write` as an [`AtomicFile`].
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::commit`], or an error of `write`.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut AtomicFile) -> io::Result<()>,
) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    write(&mut file).map_err(Error::io("write", path))?;
    file.commit()
}
