//! Node states from node features and positional encodings.

use serde::{Deserialize, Serialize};

use super::{FeatureEncoderConfig, PositionalEncoderConfig};

/// The node encoder of GraphGPS (`dataset.node_encoder_name`, such as `TypeDictNode+LapPE+RWSE`):
/// encoded features, narrower than the model, and what the positional encoders append to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEncoderConfig {
    /// The features. A bare positional encoder of GraphGPS (`LapPE`, `RWSE`, `SignNet`) has a
    /// linear map of its own for them (`linear_x`), which is the same thing.
    pub features: FeatureEncoderConfig,
    /// Positional encoders in order.
    #[serde(default)]
    pub positional: Vec<PositionalEncoderConfig>,
}
