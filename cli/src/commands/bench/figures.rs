//! What was measured of a case, and what follows from it.

use candle_graph::graph::Graph;
use candle_graph::ops::Work;
use serde::Serialize;

use super::peaks::Peaks;
use super::peer::PeerFigures;
use super::timing::Times;

/// What one case took.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) case: String,
    pub(super) device: String,
    pub(super) dtype: &'static str,
    pub(super) path: &'static str,
    pub(super) graphs: usize,
    pub(super) nodes: usize,
    pub(super) pairs: u64,
    pub(super) milliseconds_min: f64,
    pub(super) milliseconds_median: f64,
    pub(super) microseconds_per_node: f64,
    pub(super) graphs_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) achieved: Option<Achieved>,
    pub(super) peak_memory_mb: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<ReferenceFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<PeerFigures>,
    pub(super) peaks: Peaks,
}

impl Figures {
    /// Times alone; the other parts are missing.
    pub(super) fn new(case: String, graphs: &[Graph], times: Times, peaks: &Peaks) -> Self {
        let nodes: usize = graphs.iter().map(Graph::num_nodes).sum();
        Self {
            case,
            device: peaks.device.clone(),
            dtype: peaks.dtype,
            path: "fused",
            graphs: graphs.len(),
            nodes,
            pairs: graphs.iter().map(Graph::num_pairs).sum(),
            milliseconds_min: times.min,
            milliseconds_median: times.median,
            microseconds_per_node: times.median * 1e3 / nodes as f64,
            graphs_per_second: graphs.len() as f64 * 1e3 / times.median,
            achieved: None,
            peak_memory_mb: None,
            memory: None,
            reference: None,
            peer: None,
            peaks: peaks.clone(),
        }
    }
}

/// What limits a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Bound {
    /// Its FLOP take longer at the peak than its bytes.
    Arithmetic,
    /// The counted bytes take longer at the rate of a copy.
    Memory,
}

impl Bound {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "FLOP",
            Self::Memory => "memory",
        }
    }
}

/// The counted work beside the machine's peaks.
#[derive(Debug, Serialize)]
pub(super) struct Achieved {
    pub(super) gflop: f64,
    pub(super) gigabytes: f64,
    pub(super) gflop_per_second: f64,
    pub(super) gigabytes_per_second: f64,
    /// The intensity of the roofline.
    pub(super) flop_per_byte: f64,
    /// The FLOP at the peak of the matrix product: the limit that cases are held against.
    pub(super) limit_milliseconds: f64,
    /// The bytes at the rate of the copy. Where states stay in cache, a case may be faster.
    pub(super) memory_milliseconds: f64,
    pub(super) bound: Bound,
    /// The median over the limit.
    pub(super) times_limit: f64,
}

impl Achieved {
    /// `None` where nothing was counted.
    pub(super) fn new(work: Work, milliseconds: f64, peaks: &Peaks) -> Option<Self> {
        if work.flops == 0 || work.bytes == 0 {
            return None;
        }
        let (gflop, gigabytes) = (work.flops as f64 / 1e9, work.bytes as f64 / 1e9);
        let limit = gflop / peaks.gflop_per_second * 1e3;
        let memory = gigabytes / peaks.gigabytes_per_second * 1e3;
        Some(Self {
            gflop,
            gigabytes,
            gflop_per_second: gflop / milliseconds * 1e3,
            gigabytes_per_second: gigabytes / milliseconds * 1e3,
            flop_per_byte: gflop / gigabytes,
            limit_milliseconds: limit,
            memory_milliseconds: memory,
            bound: match memory > limit {
                true => Bound::Memory,
                false => Bound::Arithmetic,
            },
            times_limit: milliseconds / limit,
        })
    }
}

/// Memory of a forward pass beside what it has to hold.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    /// The process's peak less what it held before the first case.
    pub(super) used_mb: f64,
    /// Inputs, weights and two states of all node pairs.
    pub(super) least_mb: f64,
    pub(super) ratio: f64,
}

impl Memory {
    pub(super) fn new(peak: u64, before: u64, least: u64) -> Self {
        let used = peak.saturating_sub(before);
        Self {
            used_mb: used as f64 / 1e6,
            least_mb: least as f64 / 1e6,
            ratio: used as f64 / least as f64,
        }
    }
}

/// The reference path in the same run.
#[derive(Debug, Serialize)]
pub(super) struct ReferenceFigures {
    pub(super) milliseconds_min: f64,
    pub(super) milliseconds_median: f64,
    /// Its median over that of the fused path.
    pub(super) ratio: f64,
}

impl ReferenceFigures {
    pub(super) fn new(times: Times, fused: Times) -> Self {
        Self {
            milliseconds_min: times.min,
            milliseconds_median: times.median,
            ratio: times.median / fused.median,
        }
    }
}
