//! Metrics with the benchmarks' own rules, accumulated in double precision.

mod ranking;
mod regression;
mod sub_tokens;

pub use ranking::{RankingScores, link_ranks, rank};
pub use regression::{mean_absolute_error, root_mean_squared_error};
pub use sub_tokens::SubTokenScores;
