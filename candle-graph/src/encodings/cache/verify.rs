//! The check of a whole cache folder.

use std::path::Path;

use rayon::prelude::*;

use super::directory::Listing;
use super::index::{self, ShardName};
use super::report::{CacheFault, VerifyReport};
use super::shard::{Damage, Reader};
use crate::error::Result;

/// Checks every index, shard and entry of the folder.
pub(super) fn verify(dir: &Path) -> Result<VerifyReport> {
    let listing = Listing::new(dir)?;
    let mut report = VerifyReport {
        shards: listing.indices.len(),
        leftovers: listing.temporary.len() + listing.orphans().count(),
        faults: listing.foreign_faults(dir).collect(),
        ..VerifyReport::default()
    };
    let parts: Vec<VerifyReport> = listing
        .indices
        .par_iter()
        .map(|shard| verify_shard(dir, shard))
        .collect();
    for part in parts {
        report.entries += part.entries;
        report.bytes = report.bytes.saturating_add(part.bytes);
        report.faults.extend(part.faults);
    }
    Ok(report)
}

fn verify_shard(dir: &Path, shard: &ShardName) -> VerifyReport {
    let mut report = VerifyReport::default();
    let mut fault = |file, key, problem: &str| {
        report.faults.push(CacheFault {
            file,
            key,
            problem: problem.to_string(),
        });
    };
    let entries = match index::read(&shard.index(dir)) {
        Ok(entries) => entries,
        // Another process has struck its last entry since the folder was listed.
        Err(_) if shard.index(dir).symlink_metadata().is_err() => return report,
        Err(problem) => {
            fault(shard.index(dir), None, &problem);
            return report;
        }
    };
    let path = shard.shard(dir);
    let mut reader = match Reader::open(&path) {
        Ok(reader) => reader,
        Err(damage) => {
            fault(path, None, damage.message());
            return report;
        }
    };
    let checked: Vec<Result<(), Damage>> = entries.iter().map(|e| reader.check(e)).collect();
    for (entry, result) in entries.iter().zip(checked) {
        match result {
            Ok(()) => {
                report.entries += 1;
                report.bytes = report.bytes.saturating_add(entry.bytes);
            }
            Err(damage) => report.faults.push(CacheFault {
                file: path.clone(),
                key: Some(entry.key),
                problem: damage.message().to_string(),
            }),
        }
    }
    report
}
