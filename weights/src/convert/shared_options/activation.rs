//! Activations by their GraphGym names.

use candle_graph::ops::Activation;

use crate::convert::options::Options;
use crate::error::Result;

/// The activation that the option `path` names; none where it is null.
pub(in crate::convert) fn activation(
    options: &Options,
    path: &str,
    default: &str,
) -> Result<Activation> {
    if options.contains(path) && options.get(path).is_none() {
        return Ok(Activation::Identity);
    }
    Ok(match options.text(path, default)?.as_str() {
        "relu" => Activation::Relu,
        "gelu" => Activation::Gelu,
        "swish" => Activation::Swish,
        "elu" => Activation::Elu,
        "selu" => Activation::Selu,
        "lrelu_01" => Activation::LeakyRelu01,
        "lrelu_02" => Activation::LeakyRelu02,
        "lrelu_025" => Activation::LeakyRelu025,
        "lrelu_03" => Activation::LeakyRelu03,
        "lrelu_05" => Activation::LeakyRelu05,
        "prelu" => {
            return Err(options.refuse(
                path,
                "activation `prelu` has a learned slope and is not supported",
            ));
        }
        other => {
            return Err(options.refuse(
                path,
                format!(
                    "activation `{other}` is not known to the official code (relu, gelu, swish, \
                     elu, selu, lrelu_01, lrelu_02, lrelu_025, lrelu_03, lrelu_05)"
                ),
            ));
        }
    })
}
