//! Layers over [`ops`](crate::ops), loaded through candle's `VarBuilder`.

mod attention;
mod degree_scaler;
mod feature_encoder;
mod head;
mod linear;
mod message_passing;
mod node_encoder;
mod norm;
mod pooling;
mod positional_encoder;
mod rrwp;

pub use attention::{AttentionConfig, MultiHeadAttention};
pub use degree_scaler::DegreeScaler;
pub use feature_encoder::{FeatureEncoder, FeatureEncoderConfig};
pub use head::{EdgeDecoding, Head, HeadConfig, PredictionLevel};
pub use linear::{linear, linear_no_bias};
pub use message_passing::MessagePassingConfig;
pub use node_encoder::NodeEncoderConfig;
pub use norm::{batch_norm, layer_norm};
pub use pooling::{Pooling, pool};
pub use positional_encoder::{
    EigenvectorSet, KernelEncoder, PositionalEncoderConfig, SignInvariantPooling,
};
pub use rrwp::RrwpEncoder;
