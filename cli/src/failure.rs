//! How a run ends: message and exit code.

use std::fmt;
use std::process::ExitCode;

use crate::console::OutputClosed;

/// A failure that comes from how the program was called.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// An error that ends the program with the code for wrong usage.
    pub(crate) fn error(message: impl Into<String>) -> anyhow::Error {
        Self(message.into()).into()
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Tells the user what went wrong and gives the exit code.
pub(crate) fn exit(error: &anyhow::Error) -> ExitCode {
    // Whoever reads our output has seen enough; that is no failure.
    if error.is::<OutputClosed>() {
        return ExitCode::SUCCESS;
    }
    crate::console::message(&format!("error: {}", text(error)));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// The message with its causes, those left out that it repeats already.
fn text(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let cause = anyhow::anyhow!("disk full");
        let error = cause.context("cannot write a: disk full").context("line 3");
        assert_eq!(text(&error), "line 3: cannot write a: disk full");
    }
}
