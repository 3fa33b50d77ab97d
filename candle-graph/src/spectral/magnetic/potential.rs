//! The potential of a Magnetic Laplacian.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The potential q of a [`MagneticLaplacian`](super::MagneticLaplacian): a directed edge turns the
/// phase by `2π·q`. Serialised as `{"absolute": 0.1}` or `{"relative": 0.25}`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Potential {
    /// q itself (`q_absolute`).
    Absolute(f64),
    /// q', which the graph's normaliser `d_G = max(min(m, n), 1)` divides, with m the number of
    /// purely directed pairs of nodes (of different weights in both directions) and n that of
    /// nodes. `d_G` bounds the directed edges on a simple path.
    Relative(f64),
}

impl Potential {
    /// The number given: q or q'.
    pub fn value(self) -> f64 {
        match self {
            Self::Absolute(q) | Self::Relative(q) => q,
        }
    }

    /// q for a graph of `num_nodes` nodes with `directed_pairs` purely directed pairs.
    pub fn of_graph(self, directed_pairs: usize, num_nodes: usize) -> f64 {
        match self {
            Self::Absolute(q) => q,
            Self::Relative(q) => q / directed_pairs.min(num_nodes).max(1) as f64,
        }
    }

    /// Refuses a potential that is not finite or negative.
    ///
    /// # Errors
    /// Names the number.
    pub fn check(self) -> Result<()> {
        let q = self.value();
        if q.is_finite() && q >= 0.0 {
            return Ok(());
        }
        Err(Error::Spectrum(format!(
            "a Magnetic Laplacian with the potential {q}; potentials are finite and not negative"
        )))
    }
}

impl fmt::Display for Potential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absolute(q) => write!(f, "q = {q}"),
            Self::Relative(q) => write!(f, "q' = {q}"),
        }
    }
}

impl PartialEq for Potential {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.value().to_bits() == other.value().to_bits()
    }
}

impl Eq for Potential {}

impl Hash for Potential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        state.write_u64(self.value().to_bits());
    }
}
