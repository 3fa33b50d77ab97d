//! Checkpoints of Haiku models: arrays only, nothing is executed.
//!
//! The official digraph transformer saves `checkpoint.dill`, a pickle stream of a dictionary with
//! `global_step`, `params`, `opt_state` and `network_state`. `params` is `{module path: {name: array}}`,
//! `network_state` the same for what is not trained (moving averages). Parameters are published as
//! flattened safetensors too. Both give tensors named `<module path>/<name>`, such as
//! `structure_aware_transformer/~/transformer_encoder_layer_1/layer_norm/scale`.

mod array;
mod state_dict;

pub use state_dict::{read_parameters, read_state_dict};
