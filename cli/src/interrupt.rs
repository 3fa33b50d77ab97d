//! Interruption (Ctrl-C, SIGTERM, SIGHUP): temporary files are removed on the way out.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use candle_graph_weights::atomic_file::AtomicFile;

/// Exit code of an interrupted run, as shells give it for Ctrl-C.
const EXIT_CODE: i32 = 130;

/// Temporary files of this process. Their names are random, so those that are gone do no harm.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// From now on an interruption removes the files made by [`create`] before it ends the process.
pub(crate) fn set_up() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        let paths = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths.iter() {
            // Nobody is left to be told.
            let _ = std::fs::remove_file(path);
        }
        std::process::exit(EXIT_CODE);
    })
    .context("cannot prepare for interruptions")
}

/// [`AtomicFile::create`] for a file that an interruption removes.
pub(crate) fn create(path: &Path) -> anyhow::Result<AtomicFile> {
    // Under the lock, so that no file is made behind the back of the handler.
    let mut paths = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    let file = AtomicFile::create(path)?;
    paths.push(file.temporary_path().to_path_buf());
    Ok(file)
}
