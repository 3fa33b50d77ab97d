//! One number of threads for everything.

use anyhow::{Context, bail};

/// The variables that rayon and candle read.
const VARIABLES: [&str; 2] = ["RAYON_NUM_THREADS", "CANDLE_NUM_THREADS"];

/// Sees to it that rayon's and candle's thread pools have `threads` threads.
///
/// candle knows no other way than its environment variables, and a process cannot change its own
/// environment soundly; so the program starts itself once more with them set. Nothing has been read
/// from standard input by then.
pub(crate) fn set_up(threads: Option<usize>) -> anyhow::Result<()> {
    let Some(threads) = threads.map(|n| n.to_string()) else {
        return Ok(());
    };
    if VARIABLES
        .iter()
        .all(|name| std::env::var(name).is_ok_and(|value| value == threads))
    {
        return Ok(());
    }
    let program = std::env::current_exe()
        .with_context(|| format!("--threads: set {} instead", VARIABLES.join(" and ")))?;
    let mut command = std::process::Command::new(program);
    command
        .args(std::env::args_os().skip(1))
        .envs(VARIABLES.map(|name| (name, &threads)));
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // Only returns when it failed.
        let error = command.exec();
        bail!("--threads: the program cannot be started again: {error}");
    }
    #[cfg(not(unix))]
    {
        let status = command.status().context("--threads")?;
        std::process::exit(status.code().unwrap_or(1));
    }
}
