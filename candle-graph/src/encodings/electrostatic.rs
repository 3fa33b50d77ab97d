//! Statistics of the electrostatic interaction between nodes (ElstaticSE).

use serde::{Deserialize, Serialize};

/// Statistics of the pseudoinverse of the combinatorial Laplacian (`posenc_ElstaticSE`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Electrostatic {}
