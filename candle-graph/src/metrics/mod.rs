//! Metrics with the benchmarks' own rules, accumulated in double precision.

mod regression;

pub use regression::mean_absolute_error;
