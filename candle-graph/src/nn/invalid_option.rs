//! Options that no layer can be built from.

/// An option of a layer's configuration with a value that rules the layer out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}{}{problem}", if .option.is_empty() { "" } else { ": " })]
pub struct InvalidOption {
    /// The option within its configuration, empty when it is the whole.
    pub option: String,
    /// What is wrong with its value.
    pub problem: String,
}

impl InvalidOption {
    /// A problem of `option`.
    pub fn new(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            option: option.into(),
            problem: problem.into(),
        }
    }
}
