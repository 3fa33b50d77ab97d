//! Options of the official GraphGPS code to the configurations of its networks.

mod gps;
mod graphormer;
mod inert;
mod input;
mod mpnn;
mod node_encoder;
mod output;
mod positional;
mod rotary;
mod san;
mod times;
mod transformer;

pub(super) use gps::gps_config;
pub(super) use graphormer::graphormer_config;
pub(super) use mpnn::mpnn_config;
pub(super) use san::san_config;
pub(super) use transformer::transformer_config;
