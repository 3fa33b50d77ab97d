//! Metrics with the benchmarks' own rules, accumulated in double precision.

mod ranking;
mod regression;

pub use ranking::{RankingScores, link_ranks, rank};
pub use regression::{mean_absolute_error, root_mean_squared_error};
