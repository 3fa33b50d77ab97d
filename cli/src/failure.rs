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
    if let Some(flags) = flags(error) {
        text.push_str("\ntry ");
        text.push_str(&flags);
    }
    text
}

/// The flags that may help where a device has not enough memory.
fn flags(error: &anyhow::Error) -> Option<String> {
    let batch = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(candle_graph::Error::OutOfDeviceMemory { batch, .. }) => Some(batch),
        _ => None,
    })?;
    let half = match (batch.graphs, batch.pairs) {
        (..=1, _) => return Some("--dtype bf16 (half the memory), or --device cpu".to_string()),
        (_, Some(pairs)) => format!("--batch-pairs {}", (pairs / 2).max(1)),
        (_, None) => format!("--batch-nodes {}", (batch.nodes / 2).max(1)),
    };
    Some(format!("{half}, or --dtype bf16 (half the memory)"))
}

#[cfg(test)]
mod tests {
    use candle_graph::device_error::DeviceBatch;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let cause = anyhow::anyhow!("disk full");
        let error = cause.context("cannot write a: disk full").context("line 3");
        assert_eq!(text(&error), "line 3: cannot write a: disk full");
    }

    #[test]
    fn a_device_without_memory_is_told_with_the_flags_that_help() {
        let told = |graphs, pairs| {
            let status = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
            let batch = || DeviceBatch {
                device: "cuda:0".to_string(),
                graphs,
                first: "#4".to_string(),
                last: "#6".to_string(),
                nodes: 60,
                pairs,
            };
            let error = candle_graph::Error::from(candle_core::Error::Msg(status.to_string()));
            text(&anyhow::Error::new(error.of_device(batch)).context("molecules.jsonl"))
        };
        assert_eq!(
            told(3, Some(1200)),
            "molecules.jsonl: cuda:0 has not enough memory for 3 graphs (#4 to #6) of 60 nodes and \
             1200 node pairs: use a smaller budget for batches: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \
             \"out of memory\")\ntry --batch-pairs 600, or --dtype bf16 (half the memory)"
        );
        assert!(told(3, None).contains("\ntry --batch-nodes 30, or --dtype bf16"));
        assert!(told(1, None).ends_with("\ntry --dtype bf16 (half the memory), or --device cpu"));
        assert_eq!(text(&anyhow::anyhow!("no such file")), "no such file");
    }
}
