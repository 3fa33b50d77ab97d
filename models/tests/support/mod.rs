//! Random models and graphs for the property tests.
// Every test program uses its part.
#![allow(dead_code, unused_imports)]

use proptest::test_runner::{Config, RngSeed};

mod digraph;
mod gps_models;
mod graphs;
mod models;
mod positional;
mod renumbered;
mod rotary;
mod run;
mod sgformer;
mod weights;

pub(crate) use digraph::{DigraphSpec, any_digraph_model};
pub(crate) use gps_models::{GpsSpec, any_gps_model};
pub(crate) use graphs::{
    GraphSpec, any_graph, any_graphs, disjoint_union, dyadic_graph, large_graph, permutation,
    reachable, unusual_graphs,
};
pub(crate) use models::any_model;
pub(crate) use positional::any_sign_net;
pub(crate) use renumbered::{moved, moved_encoding, node_predictions};
pub(crate) use run::{
    Values, assert_bit_equal, assert_near, build, compute, evaluate, output_bits, predict_all,
};
pub(crate) use weights::Weights;

/// So many cases, the same in every run.
pub(crate) fn cases(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(20_260_417),
        failure_persistence: None,
        ..Config::default()
    }
}

/// SplitMix64: a stream of numbers that a seed fixes.
pub(crate) struct Stream(u64);

impl Stream {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1), a multiple of 2⁻²³, so that it is the same number in f32 and f64.
    pub(crate) fn signed(&mut self) -> f64 {
        (self.next() >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
}
