//! Positional and structural encodings, one file each.
//!
//! A model says what it needs as an [`EncodingPlan`] of [`EncodingRecipe`]s; the plan computes a
//! [`GraphEncoding`] a graph, on all cores, and attaches the encodings of a batch's graphs to it.

mod cache;
mod directed_walk;
mod electrostatic;
mod graphormer;
mod heat_kernel;
mod laplacian;
mod magnet;
mod magnetic;
mod on_device;
mod plan;
mod random_walk;
mod rotational;
mod rrwp;
mod rwse;
mod spectra;
mod svd;
mod values;

pub use cache::{
    CacheFault, CacheOptions, CacheReport, CacheStats, EncodingCache, EntryKey, OnWriteError,
    VerifyReport,
};
pub use directed_walk::{DIRECTED_WALK, DirectedWalk};
pub use electrostatic::{ELECTROSTATIC, Electrostatic};
pub use graphormer::{
    GRAPHORMER_DISTANCES, GRAPHORMER_IN_DEGREES, GRAPHORMER_OUT_DEGREES, GRAPHORMER_PREDECESSORS,
    Graphormer,
};
pub use heat_kernel::{HEAT_KERNEL, HeatKernel};
pub use laplacian::{
    EigvecNorm, LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, LAP_PE_MASK, LapPe, SIGN_NET_EIGENVECTORS,
};
pub use magnet::{MAGNET_LAPLACIAN, MAGNET_LARGEST_EIGENVALUE, MagNet};
pub use magnetic::{
    MAGNETIC_EIGENVALUES, MAGNETIC_EIGENVECTORS_IMAG, MAGNETIC_EIGENVECTORS_REAL, Magnetic,
};
pub use plan::{EncodingPlan, EncodingRecipe};
pub use rotational::{EigenvectorScale, ROTATIONAL, Rotational, Wave};
pub use rrwp::{RRWP_NODE, RRWP_PAIR, Rrwp};
pub use rwse::{RWSE, Rwse};
pub use svd::{SVD, SingularVectors, Svd};
pub use values::{EncodingArray, GraphEncoding, Level};
