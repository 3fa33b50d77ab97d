//! Diagonals of heat kernels (HKdiagSE).

use serde::{Deserialize, Serialize};

/// `Σ_i exp(−t·λ_i)·φ_i(v)²` over the positive eigenvalues of the combinatorial Laplacian, for
/// every time `t` (`posenc_HKdiagSE.kernel.times`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeatKernel {
    /// Diffusion times.
    pub times: Vec<u32>,
}
