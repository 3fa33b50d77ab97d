//! Rotary encodings (`gt.graphrope` of cederikhoefs/Graph-RoPE).

use candle_graph::encodings::Rotational;
use candle_graph::nn::{AttentionConfig, FeatureMapConfig, RotaryConfig, RotationalFeaturesConfig};

use super::positional::lap_rope;
use crate::convert::options::Options;
use crate::error::Result;

/// Attention of the kind `GraphRoPE`, with or without rotation.
pub(super) fn rotary_attention(
    options: &Options,
    heads: usize,
    width: usize,
) -> Result<AttentionConfig> {
    let option = "gt.graphrope.attn_type";
    Ok(match options.text(option, "Full")?.as_str() {
        "Full" => {
            options.note(
                "the released GraphRoPE attention has its padding mask inverted, so that the nodes \
                 of a graph attend to padding only; here they attend to the nodes of their graph",
            );
            AttentionConfig::softmax(heads)
        }
        "Linear" => {
            let head_dim = width / heads;
            // As the official code has it: the integer part of d·ln d.
            let features = (head_dim as f64 * (head_dim as f64).ln()) as usize;
            if features == 0 {
                return Err(options.refuse(
                    "gt.n_heads",
                    format!("heads of width {head_dim} have no random features"),
                ));
            }
            AttentionConfig::Linear {
                heads,
                feature_map: FeatureMapConfig::PositiveRandom { features },
            }
        }
        other => {
            return Err(options.refuse(option, format!("`{other}` is not known (Full, Linear)")));
        }
    })
}

/// The rotation of queries and keys, if it is on.
pub(super) fn rotary(options: &Options) -> Result<Option<RotaryConfig>> {
    if !options.bool("gt.graphrope.enable", false)? {
        return Ok(None);
    }
    let (encoder, t_dim) = ("gt.graphrope.encoder", "gt.graphrope.t_dim");
    let dim = options.width(t_dim, 0)?;
    let features = match options.text(encoder, "")?.as_str() {
        "" => {
            options.note(format!(
                "`{encoder}` is empty, so every graph must carry its {dim} coordinates a node (`t`)"
            ));
            RotationalFeaturesConfig::Raw {
                recipe: Rotational::Given { dim },
            }
        }
        "LapRoPE" => lap_rope(options)?,
        other => {
            return Err(options.refuse(
                encoder,
                format!("`{other}` makes no coordinates (LapRoPE, or empty for given ones)"),
            ));
        }
    };
    if features.dim() != dim {
        return Err(options.refuse(
            t_dim,
            format!(
                "{dim}, but the encoder makes {} coordinates",
                features.dim()
            ),
        ));
    }
    Ok(Some(RotaryConfig {
        separate_keys: options.bool("gt.graphrope.double_omega", false)?,
        share_layers: options.bool("gt.graphrope.share_omega", false)?,
        ..RotaryConfig::new(features)
    }))
}
