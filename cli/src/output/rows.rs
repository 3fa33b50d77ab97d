//! Rows of numbers that wait on disk until their number is known, as array formats put the shape
//! first.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// f32 rows in a file without a name, which vanishes with the process.
#[derive(Debug)]
pub(super) struct Rows {
    file: BufWriter<File>,
    width: usize,
    values: u64,
}

impl Rows {
    /// No rows yet, each of `width` values. The file lies in the folder of `beside`, where there
    /// must be room for the result anyhow.
    pub(super) fn new(beside: &Path, width: usize) -> io::Result<Self> {
        let folder = match beside.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self {
            file: BufWriter::new(tempfile::tempfile_in(folder)?),
            width,
            values: 0,
        })
    }

    /// Adds one row or several.
    pub(super) fn push(&mut self, values: &[f32]) -> io::Result<()> {
        for value in values {
            self.file.write_all(&value.to_le_bytes())?;
        }
        self.values += values.len() as u64;
        Ok(())
    }

    /// `[rows, width]`.
    pub(super) fn shape(&self) -> [u64; 2] {
        let width = self.width as u64;
        [self.values.checked_div(width).unwrap_or(0), width]
    }

    /// Bytes of all rows.
    pub(super) fn bytes(&self) -> u64 {
        self.values * 4
    }

    /// Copies all rows, little-endian, to `out`.
    pub(super) fn copy_to(self, out: &mut impl Write) -> io::Result<()> {
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut BufReader::with_capacity(1 << 16, file), out)?;
        Ok(())
    }
}
