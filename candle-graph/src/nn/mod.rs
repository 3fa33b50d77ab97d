//! Layers over [`ops`](crate::ops), loaded through candle's `VarBuilder`.

mod attention;
mod degree_scaler;
mod directed_message_passing;
mod feature_encoder;
mod head;
mod invalid_option;
mod linear;
mod mag_lap_net;
mod message_passing;
mod node_encoder;
mod norm;
mod pair_head;
mod pooling;
mod positional_encoder;
mod rotary;
mod rrwp;
mod san_attention;
mod sinusoids;

pub use attention::{
    Attention, AttentionConfig, BigBird, BigBirdLayout, FeatureMapConfig, LinearAttention,
    MultiHeadAttention, QueryKeyStates, StructureAwareAttention, StructureAwareAttentionConfig,
};
pub use degree_scaler::DegreeScaler;
pub use directed_message_passing::{
    DirectedMessageKind, DirectedMessagePassing, DirectedMessagePassingConfig, MessageWidths,
};
pub use feature_encoder::{FeatureEncoder, FeatureEncoderConfig};
pub use head::{EdgeDecoding, Head, HeadConfig, PredictionLevel};
pub use invalid_option::InvalidOption;
pub use linear::{linear, linear_no_bias};
pub use mag_lap_net::{
    EigenvectorInput, MagLapNet, MagLapNetConfig, MagLapNetSizes, NodeEncodings,
};
pub use message_passing::{
    Gat, GatedGcn, Gcn, GenConv, Gin, MessageInput, MessageOutput, MessagePassing,
    MessagePassingConfig, Pna,
};
pub use node_encoder::{NodeEncoder, NodeEncoderConfig, NodeEncoding};
use norm::NORM_EPS;
pub use norm::{GraphLayerNorm, batch_norm, layer_norm};
pub use pair_head::{PairHead, PairHeadSizes};
pub use pooling::{Pooling, pool};
pub use positional_encoder::{
    EigenvectorSet, KernelEncoder, LapPeEncoderConfig, PositionalEncoderConfig,
    SignInvariantPooling,
};
pub use rotary::{
    Rotary, RotaryConfig, RotaryModulation, Rotation, RotationalEncoder, RotationalFeaturesConfig,
    attention_projection,
};
pub use rrwp::RrwpEncoder;
pub use san_attention::{SanAttention, SanWeighting};
pub use sinusoids::Sinusoids;
