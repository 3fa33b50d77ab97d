//! GraphGPS, "Recipe for a General, Powerful, Scalable Graph Transformer" (Rampášek et al., NeurIPS
//! 2022).

mod config;

pub use config::{GpsConfig, GpsNorm};
