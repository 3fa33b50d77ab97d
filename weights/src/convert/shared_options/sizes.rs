//! Sizes that the options leave to the data set.

use candle_graph::nn::FeatureEncoderConfig;

use super::dataset::data_set;
use crate::convert::options::Options;
use crate::error::Result;
use crate::state_dict::StateDict;

/// Where sizes come from: the checkpoint where there is one, else the options (`share`), else what
/// is known of the data set.
pub(in crate::convert) struct Sizes<'a> {
    options: &'a Options,
    /// Under our names.
    tensors: Option<&'a StateDict>,
}

impl<'a> Sizes<'a> {
    /// Sizes for `options`, with the checkpoint's tensors under our names if there is a
    /// checkpoint.
    pub(in crate::convert) fn new(options: &'a Options, tensors: Option<&'a StateDict>) -> Self {
        Self { options, tensors }
    }

    /// The options.
    pub(in crate::convert) fn options(&self) -> &'a Options {
        self.options
    }

    /// The size of the tensor `name` along `axis`; `None` without a checkpoint or without it.
    pub(in crate::convert) fn of_tensor(&self, name: &str, axis: usize) -> Option<usize> {
        self.tensors?.get(name)?.shape().get(axis).copied()
    }

    /// Whether there is a checkpoint.
    pub(super) fn has_tensors(&self) -> bool {
        self.tensors.is_some()
    }

    /// The sizes along the first axis of the tensors `{prefix}.{0, 1, …}.weight`.
    pub(super) fn of_list(&self, prefix: &str) -> Vec<usize> {
        (0..)
            .map_while(|t| self.of_tensor(&format!("{prefix}.{t}.weight"), 0))
            .collect()
    }

    /// Columns of the node features as the data set has them, for `option`.
    pub(in crate::convert) fn dim_in(&self, option: &str) -> Result<usize> {
        self.share("share.dim_in", option, |set| set.dim_in)
    }

    /// Outputs of the head as the data set has them.
    pub(super) fn dim_out(&self, option: &str) -> Result<usize> {
        self.share("share.dim_out", option, |set| set.dim_out)
    }

    fn share(
        &self,
        path: &str,
        option: &str,
        known: fn(&super::dataset::DataSet) -> usize,
    ) -> Result<usize> {
        match self.options.bounded(path, 0, Options::MAX_WIDTH)? {
            0 => {}
            size => return Ok(size),
        }
        match data_set(self.options)? {
            Some(set) => Ok(known(set)),
            None => Err(self.options.refuse(
                option,
                format!(
                    "it depends on a data set that is not known here, and neither `{path}` nor a \
                     checkpoint tells its size"
                ),
            )),
        }
    }

    /// An affine map of `width` columns, or of as many as the checkpoint's map under `prefix` has.
    pub(in crate::convert) fn linear(
        &self,
        option: &str,
        prefix: &str,
        width: impl FnOnce() -> Result<usize>,
    ) -> Result<FeatureEncoderConfig> {
        let width = match self.of_tensor(&format!("{prefix}.linear.weight"), 1) {
            Some(width) => width,
            None if self.has_tensors() => {
                return Err(self
                    .options
                    .refuse(option, "the checkpoint holds no linear map for it"));
            }
            None => width()?,
        };
        Ok(FeatureEncoderConfig::Linear { width })
    }
}
