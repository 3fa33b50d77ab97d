//! Rotation of pairs of columns by angles that depend on the row: rotary encodings.

use candle_core::{Result, Tensor, bail};

/// Cosines and sines of the angles of every node.
#[derive(Debug, Clone)]
pub struct RotationTable {
    /// `[nodes, pairs]`.
    pub cos: Tensor,
    /// `[nodes, pairs]`.
    pub sin: Tensor,
}

/// Which columns of queries and keys make the pairs that are rotated: columns 2i and 2i+1, by the
/// angle of pair i.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotaryPairs {
    /// Of the full width, before it is cut into heads: every head has angles of its own, and a pair
    /// may straddle two heads of odd width (the official code). An odd last column stays.
    #[default]
    FullWidth,
    /// Of every head, with the same angles for all of them. An odd last column of a head stays.
    SharedByHeads,
    /// Of every head, with angles of its own. An odd last column of a head stays.
    PerHead,
}

impl RotaryPairs {
    /// Number of angles of a node, for `heads` heads of width `head_dim`.
    pub fn count(self, heads: usize, head_dim: usize) -> usize {
        match self {
            Self::FullWidth => heads.saturating_mul(head_dim) / 2,
            Self::SharedByHeads => head_dim / 2,
            Self::PerHead => heads.saturating_mul(head_dim / 2),
        }
    }
}

/// The cosines and sines of the angles `t·Ωᵀ`, for coordinates `t` `[nodes, m]` and frequencies Ω
/// `[pairs, m]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let (t_dims, frequency_dims) = (t.dims2()?, frequencies.dims2()?);
    if t_dims.1 != frequency_dims.1 {
        bail!("rotation: {t_dims:?} {frequency_dims:?}");
    }
    let angles = t.matmul(&frequencies.t()?)?;
    Ok(RotationTable {
        cos: angles.cos()?,
        sin: angles.sin()?,
    })
}
