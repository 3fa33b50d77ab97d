//! Timing of repeated runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// A case that has taken so long is not run again.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs before the timed ones, of cases that take less than a second.
const WARM_UPS: usize = 3;

/// How often a case is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Timed runs at least, unless they take too long.
    pub(super) runs: usize,
    /// Seconds of timed runs at least.
    pub(super) seconds: f64,
}

/// What the timed runs took, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) min: f64,
    pub(super) median: f64,
}

/// Times `step`.
///
/// # Errors
/// Those of `step`.
pub(super) fn time(effort: Effort, step: impl Fn() -> Result<()>) -> Result<Times> {
    let once = || -> Result<f64> {
        let start = Instant::now();
        step()?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let begin = Instant::now();
    for _ in 0..WARM_UPS {
        once()?;
        if begin.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    let begin = Instant::now();
    let enough = |runs: usize| {
        let elapsed = begin.elapsed();
        let wanted = runs >= effort.runs && elapsed.as_secs_f64() >= effort.seconds;
        runs > 0 && (wanted || elapsed > LONGEST)
    };
    let mut milliseconds = Vec::new();
    while !enough(milliseconds.len()) {
        milliseconds.push(once()?);
    }
    milliseconds.sort_by(f64::total_cmp);
    let at = |place: usize| milliseconds.get(place).copied();
    Ok(Times {
        min: at(0).context("no run was timed")?,
        median: at(milliseconds.len() / 2).context("no run was timed")?,
    })
}
