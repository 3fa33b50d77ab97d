//! Operations on ragged tensors: the public function with its shapes and dispatch, a reference
//! implementation in plain candle tensors (differentiable, the oracle of the tests), a fused one for
//! the CPU (`cpu.rs`), and kernels for GPUs (`kernels.c`, launched by `gpu.rs`), which CUDA and Metal
//! share.
//!
//! The fused paths are taken for tensors that carry no gradient graph: f32 on the CPU; f32, f16 or
//! bf16 on a GPU. Everything else, training included, runs the reference. [`force_reference`] sends one thread to the
//! reference for comparisons.

mod activation;
mod affine_rows;
#[cfg(test)]
mod agreement;
mod attention;
mod by_size;
mod dispatch;
mod edge_update;
mod endpoint_sums;
mod feed_forward;
mod gated_sum;
pub(crate) mod half_precision;
mod host;
// Without a GPU to build for, only checks run kernels.
#[cfg_attr(
    not(any(test, feature = "host-kernels", feature = "cuda", feature = "metal")),
    allow(dead_code, unused_imports)
)]
mod kernels;
mod layer_norm;
mod linear;
mod linear_attention;
mod matmul;
mod neighbour_softmax;
mod neighbour_statistics;
mod neighbour_sum;
mod neighbourhood;
mod node_blocks;
mod norm;
mod pair_attention;
mod random_walk;
mod residual_affine;
mod rotary;
mod row_blocks;
mod segment;
pub(crate) mod simd;
mod squared_distances;
mod strided_rows;
#[cfg(test)]
pub(crate) mod test_data;
mod work;

pub use activation::Activation;
pub use attention::{AttentionInput, attention};
#[cfg(any(test, feature = "host-kernels"))]
pub use dispatch::on_kernels;
pub use dispatch::{force_reference, implementation_is_forced, runs_kernels};
pub use edge_update::{EdgeUpdateInput, edge_update};
pub use endpoint_sums::{sum_by_source, sum_by_target};
pub use feed_forward::feed_forward;
pub use gated_sum::{GatedSumInput, GatedSumOutput, gated_sum};
pub use linear::{LinearWeights, linear};
pub use linear_attention::{FeatureMap, FeatureRotation, LinearAttentionInput, linear_attention};
pub use neighbour_softmax::neighbour_softmax;
pub use neighbour_statistics::neighbour_statistics;
pub use neighbour_sum::{NeighbourSumInput, neighbour_sum};
pub use norm::{Affine, LayerNorm, normalise_rows};
pub use pair_attention::{
    PairAttentionInput, PairAttentionOutput, PairAttentionWeights, PairOutput, PairUpdate,
    pair_attention,
};
pub use random_walk::{WalkInput, pair_walks, return_probabilities};
pub use residual_affine::residual_affine;
pub use rotary::{
    ColumnRotation, RotaryPairs, RotationTable, rotate, rotated_linear, rotation_table,
};
pub(crate) use segment::add_rows_at;
pub use segment::{Reduction, segment_reduce, segment_softmax};
pub use squared_distances::squared_distances;
pub use work::{Work, count_work};
