//! Encodings of a stream of graphs, computed or from a cache.

use std::path::Path;

use candle_graph::encodings::{
    CacheOptions, CacheReport, EncodingCache, EncodingPlan, GraphEncoding, OnWriteError,
};

use crate::batches::Chunk;
use crate::progress::Progress;

/// What it means that computed encodings cannot be stored in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsaved {
    /// A warning: the results are what counts.
    Warn,
    /// A failure: the cache is the result.
    Fail,
}

/// Faults of the cache that are told one by one.
const FAULTS_TOLD: usize = 5;

/// Computes a plan's encodings, through a cache if there is one, and keeps account of it.
#[derive(Debug)]
pub(crate) struct Encoder {
    plan: EncodingPlan,
    cache: Option<EncodingCache>,
    unsaved: Unsaved,
    report: CacheReport,
}

impl Encoder {
    /// An encoder with the cache in `folder`, if one is given.
    pub(crate) fn new(
        plan: EncodingPlan,
        folder: Option<&Path>,
        unsaved: Unsaved,
    ) -> anyhow::Result<Self> {
        let options = CacheOptions {
            on_write_error: match unsaved {
                Unsaved::Warn => OnWriteError::Report,
                Unsaved::Fail => OnWriteError::Fail,
            },
            ..CacheOptions::default()
        };
        let cache = folder
            .map(|folder| EncodingCache::open(folder, options))
            .transpose()?;
        Ok(Self {
            plan,
            cache,
            unsaved,
            report: CacheReport::default(),
        })
    }

    /// The encodings of a chunk's graphs, in order.
    pub(crate) fn encode(
        &mut self,
        chunk: &Chunk,
        progress: &Progress,
    ) -> anyhow::Result<Vec<GraphEncoding>> {
        let Some(cache) = &self.cache else {
            return Ok(self.plan.compute_all(&chunk.graphs, chunk.first)?);
        };
        let (encodings, report) = cache.get_or_compute(&self.plan, &chunk.graphs, chunk.first)?;
        for (at, fault) in report.faults.iter().enumerate() {
            match self.report.faults.len() + at {
                ..FAULTS_TOLD => progress.warn(&format!("cache: {fault}")),
                FAULTS_TOLD => progress.warn("cache: more faults follow; the summary counts them"),
                _ => {}
            }
        }
        if let Some(problem) = &report.write_error {
            progress.warn(&not_stored(problem));
        }
        self.report.merge(report);
        Ok(encodings)
    }

    /// Writes what the cache still holds in memory; gives the account of the cache for the summary,
    /// empty without one.
    pub(crate) fn finish(self, progress: &Progress) -> anyhow::Result<String> {
        let Some(cache) = &self.cache else {
            return Ok(String::new());
        };
        if let Err(error) = cache.flush() {
            match self.unsaved {
                Unsaved::Fail => return Err(error.into()),
                Unsaved::Warn if self.report.write_error.is_none() => {
                    progress.warn(&not_stored(&error.to_string()));
                }
                Unsaved::Warn => {}
            }
        }
        let CacheReport {
            hits,
            computed,
            faults,
            ..
        } = &self.report;
        let mut text = format!("; encodings: {hits} from the cache, {computed} computed");
        if !faults.is_empty() {
            text.push_str(&format!(", {} fault(s) in the cache", faults.len()));
        }
        Ok(text)
    }
}

fn not_stored(problem: &str) -> String {
    format!("cache: computed encodings are not stored: {problem}")
}
