//! Memory of this process; only Linux tells.

/// Starts a new measurement of the peak.
pub(super) fn reset_peak() {
    // Where it cannot be reset the figure is the peak since the start, still an upper bound.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident memory since the last reset, in bytes.
pub(super) fn peak() -> Option<u64> {
    bytes("VmHWM:")
}

/// The resident memory now, in bytes.
pub(super) fn resident() -> Option<u64> {
    bytes("VmRSS:")
}

fn bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
