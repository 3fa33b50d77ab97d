//! The configuration of MagLapNet.

use serde::{Deserialize, Serialize};

use crate::nn::InvalidOption;

/// The network that eigenvectors of the Magnetic Laplacian go through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MagLapNetConfig {
    /// Every eigenvector element by element, then all eigenvectors of a node together (section 4.2
    /// of the paper; `maglap_net_type: default`).
    Elementwise {
        /// Values that an element becomes, before they are doubled for complex eigenvectors (`d_model
        /// / 32` in the official code).
        element_dim: usize,
        /// Whether an element's neighbours take part (`maglap_use_gnn`), instead of a perceptron of
        /// the element alone.
        message_passing: bool,
        /// Whether the network of an eigenvector is `f(v) + f(−v)` (`maglap_use_signnet`).
        sign_invariant: bool,
        /// Whether the eigenvalue is the first of an eigenvector's values
        /// (`concatenate_eigenvalues`).
        eigenvalues: bool,
        /// Heads of a LayerNorm and attention among the eigenvectors of every node, where there are
        /// any (`maglap_transformer`, `attention_config.num_heads`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attention_heads: Option<usize>,
    },
    /// One affine map of all real parts and one of all imaginary parts (`maglap_net_type: naive`).
    Naive,
}

impl MagLapNetConfig {
    /// Values of an eigenvector at a node before all are put together.
    pub(super) fn values(&self, complex: bool) -> usize {
        match self {
            Self::Elementwise {
                element_dim,
                eigenvalues,
                ..
            } => {
                let element = element_dim.saturating_mul(if complex { 2 } else { 1 });
                element.saturating_add(usize::from(*eigenvalues))
            }
            Self::Naive => 0,
        }
    }

    /// Checks that there is such a network for complex or real eigenvectors.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, complex: bool) -> Result<(), InvalidOption> {
        let Self::Elementwise {
            element_dim,
            attention_heads,
            ..
        } = self
        else {
            return match complex {
                true => Ok(()),
                false => Err(InvalidOption::new(
                    "kind",
                    "`naive` maps real and imaginary parts, and eigenvectors for q = 0 are real",
                )),
            };
        };
        const MAX: usize = 1 << 12;
        if !(1..=MAX).contains(element_dim) {
            let problem = format!("{element_dim} is out of range, which is 1 to {MAX}");
            return Err(InvalidOption::new("element_dim", problem));
        }
        let values = self.values(complex);
        match attention_heads {
            Some(heads) if values.checked_div(*heads).unwrap_or(0) == 0 => {
                let problem = format!("{heads} for {values} values");
                Err(InvalidOption::new("attention_heads", problem))
            }
            _ => Ok(()),
        }
    }
}
