//! The composed names of node encoders (`dataset.node_encoder_name`).

use candle_graph::nn::{FeatureEncoderConfig, NodeEncoderConfig, PositionalEncoderConfig};

use super::positional::{POSITIONAL_ENCODERS, positional_encoder};
use crate::convert::options::Options;
use crate::convert::shared_options::{NODE_FEATURE_ENCODERS, Sizes, node_features};
use crate::error::Result;

/// Our prefix of the tensors of the feature encoder.
const FEATURES: &str = "node_encoder.features";

/// The pairs of positional encoders that may follow an encoder of features.
const PAIRS: &[[&str; 2]] = &[
    ["LapPE", "RWSE"],
    ["SignNet", "RWSE"],
    ["GraphormerBias", "LapPE"],
    ["GraphormerBias", "RWSE"],
];

/// The node encoder of a model of width `width`.
pub(super) fn node_encoder(sizes: &Sizes<'_>, width: usize) -> Result<NodeEncoderConfig> {
    let options = sizes.options();
    let option = "dataset.node_encoder_name";
    let name = options.text(option, "Atom")?;
    let parts: Vec<&str> = name.split('+').collect();
    let (features, encoders) = match parts.as_slice() {
        [features] if NODE_FEATURE_ENCODERS.contains(features) => (Some(*features), vec![]),
        [bare] if POSITIONAL_ENCODERS.contains(bare) => (None, vec![*bare]),
        [features, encoders @ ..]
            if NODE_FEATURE_ENCODERS.contains(features) && is_registered(encoders) =>
        {
            (Some(*features), encoders.to_vec())
        }
        _ => {
            return Err(options.refuse(
                option,
                format!(
                    "`{name}` is not known to the official code: an encoder of features ({}), of \
                     positions ({}), one of each joined by `+`, or features with LapPE+RWSE, \
                     SignNet+RWSE, GraphormerBias+LapPE or GraphormerBias+RWSE",
                    NODE_FEATURE_ENCODERS.join(", "),
                    POSITIONAL_ENCODERS.join(", ")
                ),
            ));
        }
    };
    let positional: Vec<PositionalEncoderConfig> = (encoders.iter())
        .map(|name| positional_encoder(options, name))
        .collect::<Result<_>>()?;
    check_equiv_stable(options, &encoders)?;
    check_graph_tokens(options, &positional)?;
    note_unread(options, &name, &encoders)?;
    let taken = positional.iter().map(PositionalEncoderConfig::dim);
    let taken = taken.fold(0, usize::saturating_add);
    let no_room = |problem: &str| {
        let problem = format!("the positional encoders take {taken} of {width} columns{problem}");
        options.refuse(option, problem)
    };
    let left = width.checked_sub(taken).ok_or_else(|| no_room(""))?;
    let features = match (features, left) {
        (None, 0) if !encoders.contains(&"SignNet") => {
            options.note(format!(
                "`{name}` takes all {width} columns, so the graphs must have no node features"
            ));
            FeatureEncoderConfig::None
        }
        (_, 0) => return Err(no_room(" and leave none for the features")),
        (Some(features), _) => node_features(sizes, features, FEATURES)?,
        (None, _) if taken > 0 => sizes.linear(option, FEATURES, || sizes.dim_in(option))?,
        (None, _) => raw(sizes, option, &name, left)?,
    };
    Ok(NodeEncoderConfig {
        features,
        prepend: None,
        positional,
    })
}

fn is_registered(encoders: &[&str]) -> bool {
    match encoders {
        [one] => POSITIONAL_ENCODERS.contains(one),
        [first, second] => PAIRS.contains(&[*first, *second]),
        _ => false,
    }
}

/// Features as they are, for an encoder that appends nothing.
fn raw(sizes: &Sizes<'_>, option: &str, name: &str, width: usize) -> Result<FeatureEncoderConfig> {
    if sizes.options().get("share.dim_in").and_then(|v| v.as_u64()) == Some(0) {
        return Ok(FeatureEncoderConfig::None);
    }
    let dim_in = sizes.dim_in(option)?;
    if dim_in != width {
        return Err(sizes.options().refuse(
            option,
            format!(
                "`{name}` leaves the {dim_in} columns of the features as they are, but the model's \
                 width is {width}; put an encoder of features before it"
            ),
        ));
    }
    Ok(FeatureEncoderConfig::Raw)
}

/// The official switch changes how encoders are put together, whether or not it is the encoder
/// that was asked for.
fn check_equiv_stable(options: &Options, encoders: &[&str]) -> Result<()> {
    let enable = "posenc_EquivStableLapPE.enable";
    let asked = encoders.contains(&"EquivStableLapPE");
    if options.bool(enable, false)? && !asked {
        return Err(options.refuse(
            enable,
            "on, but the node encoder does not make these positions; the official code stops for \
             want of them",
        ));
    }
    Ok(())
}

/// Graph tokens change the number of nodes, which encoders that follow do not know.
fn check_graph_tokens(options: &Options, positional: &[PositionalEncoderConfig]) -> Result<()> {
    let tokens = matches!(
        positional,
        [
            PositionalEncoderConfig::Graphormer {
                graph_token: true,
                ..
            },
            _,
            ..
        ]
    );
    if tokens {
        return Err(options.refuse(
            "graphormer.use_graph_token",
            "no other positional encoder can follow graph tokens; switch them off",
        ));
    }
    Ok(())
}

/// Notes encodings that are computed and then not read.
fn note_unread(options: &Options, name: &str, encoders: &[&str]) -> Result<()> {
    for encoding in POSITIONAL_ENCODERS {
        // `EquivStableLapPE` takes its parameters from `posenc_LapPE` where that is on.
        let read = encoders.contains(encoding)
            || (*encoding == "LapPE" && encoders.contains(&"EquivStableLapPE"));
        if options.bool(&format!("posenc_{encoding}.enable"), false)? && !read {
            options.note(format!(
                "section `posenc_{encoding}` is on, but the node encoder `{name}` does not read it"
            ));
        }
    }
    Ok(())
}
