//! Layers over [`ops`](crate::ops), loaded through candle's `VarBuilder`.

mod attention;
mod degree_scaler;
mod feature_encoder;
mod head;
mod linear;
mod norm;
mod pooling;
mod rrwp;

pub use attention::MultiHeadAttention;
pub use degree_scaler::DegreeScaler;
pub use feature_encoder::{FeatureEncoder, FeatureEncoderConfig};
pub use head::{Head, HeadConfig};
pub use linear::{linear, linear_no_bias};
pub use norm::{batch_norm, layer_norm};
pub use pooling::{Pooling, pool};
pub use rrwp::RrwpEncoder;
