//! Failures of a device, told apart from other failing tensor operations.
//!
//! The rule reads the text of an error, in every build: candle hands errors of CUDA on in a box and,
//! from synchronisation and matrix products, only as what they print, and their types do not exist
//! without the feature `cuda`. What CUDA's libraries print is the name of the status code, which is
//! part of their interface.

use std::fmt;

use candle_core::{Device, DeviceLocation, Error as TensorError};

use crate::error::Error;

/// How a device failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFault {
    /// It has no memory left: the same work in smaller pieces may succeed.
    OutOfMemory,
    /// Anything else that the driver or a library of the device reports.
    Other,
}

/// Status codes and messages that mean that memory ran out.
const OUT_OF_MEMORY: [&str; 7] = [
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CURAND_STATUS_ALLOCATION_FAILED",
    // A buffer that Metal does not give, the only resource that grows with a batch.
    "Failed to create metal resource: Buffer",
    // What a command buffer of Metal ends with.
    "Insufficient Memory",
    "kIOGPUCommandBufferCallbackErrorOutOfMemory",
    "kIOAccelCommandBufferCallbackErrorOutOfMemory",
];

/// What other failures of a device have in their text.
const OTHER: [&str; 8] = [
    "CUDA_ERROR_",
    "CUBLAS_STATUS_",
    "CURAND_STATUS_",
    "NVRTC_ERROR_",
    "Command buffer had following error",
    "Failed to create metal resource",
    "Failed to create pipeline",
    "Failed to create compute function",
];

impl DeviceFault {
    /// The fault of a device behind `error`; `None` where the tensors, not the device, are at fault.
    pub fn of(error: &TensorError) -> Option<Self> {
        match error {
            TensorError::Context { inner, .. }
            | TensorError::WithPath { inner, .. }
            | TensorError::WithBacktrace { inner, .. } => Self::of(inner),
            TensorError::WrappedContext { wrapped, .. } => Self::of_cause(wrapped.as_ref()),
            TensorError::Cuda(error) => Self::of_cause(error.as_ref()),
            TensorError::Metal(error) => Self::of_text(&error.to_string()),
            TensorError::Wrapped(message) => Self::of_text(&message.to_string()),
            TensorError::Msg(message) => Self::of_text(message),
            _ => None,
        }
    }

    /// The same for an error of any kind and what caused it.
    fn of_cause(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let found = match error.downcast_ref() {
            Some(error) => Self::of(error),
            None => Self::of_text(&error.to_string()),
        };
        found.or_else(|| error.source().and_then(Self::of_cause))
    }

    fn of_text(text: &str) -> Option<Self> {
        let has_one_of = |marks: &[&str]| marks.iter().any(|mark| text.contains(mark));
        if has_one_of(&OUT_OF_MEMORY) {
            Some(Self::OutOfMemory)
        } else {
            has_one_of(&OTHER).then_some(Self::Other)
        }
    }
}

/// A batch that a device failed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceBatch {
    /// The device as the command line spells it: `cpu`, `cuda:N` or `metal`.
    pub device: String,
    /// Number of graphs.
    pub graphs: usize,
    /// Id of the first graph, or its position in the input when it has none.
    pub first: String,
    /// The same of the last graph.
    pub last: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Ordered node pairs, where the model keeps a state for each.
    pub pairs: Option<u64>,
}

impl DeviceBatch {
    /// What may help where the batch does not fit the device.
    fn remedy(&self) -> &'static str {
        match self.graphs {
            ..=1 => "it does not fit alone; run it on the CPU or leave it out",
            _ => "use a smaller budget for batches",
        }
    }
}

impl fmt::Display for DeviceBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.graphs {
            ..=1 => write!(f, "graph {} of {} nodes", self.first, self.nodes)?,
            graphs => write!(
                f,
                "{graphs} graphs ({} to {}) of {} nodes",
                self.first, self.last, self.nodes
            )?,
        }
        match self.pairs {
            Some(pairs) => write!(f, " and {pairs} node pairs"),
            None => Ok(()),
        }
    }
}

/// The name of `device` as the command line spells it.
pub fn device_name(device: &Device) -> String {
    match device.location() {
        DeviceLocation::Cpu => "cpu".to_string(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { .. } => "metal".to_string(),
    }
}

impl Error {
    /// Gives a failing tensor operation that is a fault of the device its type, with the `batch`
    /// that was run; every other error stays what it is.
    pub fn of_device(self, batch: impl FnOnce() -> DeviceBatch) -> Self {
        let Self::Tensor(source) = self else {
            return self;
        };
        match DeviceFault::of(&source) {
            None => Self::Tensor(source),
            Some(fault) => {
                let batch = Box::new(batch());
                match fault {
                    DeviceFault::OutOfMemory => Self::OutOfDeviceMemory {
                        remedy: batch.remedy(),
                        batch,
                        source,
                    },
                    DeviceFault::Other => Self::DeviceFailure { batch, source },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of a library, as candle boxes it.
    #[derive(Debug)]
    struct Status(&'static str);

    impl fmt::Display for Status {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Status {}

    /// An error that hides its cause behind a message of its own.
    #[derive(Debug, thiserror::Error)]
    #[error("loading failed")]
    struct Caused(#[source] TensorError);

    const MEMORY: &str = r#"DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")"#;
    const ADDRESS: &str =
        r#"DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")"#;

    #[test]
    fn faults_are_told_apart_however_they_are_wrapped() {
        let memory = || TensorError::Cuda(Box::new(Status(MEMORY)));
        let metal =
            |text: &str| TensorError::Metal(candle_core::MetalError::from(text.to_string()));
        let out = Some(DeviceFault::OutOfMemory);
        let other = Some(DeviceFault::Other);
        for (error, expected) in [
            (memory(), out),
            (TensorError::Cuda(Box::new(Status(ADDRESS))), other),
            (TensorError::wrap(Status(MEMORY)), out),
            (
                TensorError::msg("CublasError(CUBLAS_STATUS_ALLOC_FAILED)"),
                out,
            ),
            (
                TensorError::wrap("CublasError(CUBLAS_STATUS_EXECUTION_FAILED)"),
                other,
            ),
            (metal("Failed to create metal resource: Buffer"), out),
            (
                metal("Failed to create metal resource: CommandQueue"),
                other,
            ),
            (
                metal(
                    "Command buffer had following error: Insufficient Memory \
                     (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
                ),
                out,
            ),
            (
                metal("Command buffer had following error: Caused GPU Timeout Error"),
                other,
            ),
            (memory().context("layer 3"), out),
            (memory().with_path("model.safetensors"), out),
            (
                TensorError::WithBacktrace {
                    inner: Box::new(memory()),
                    backtrace: Box::new(std::backtrace::Backtrace::disabled()),
                },
                out,
            ),
            (
                TensorError::WrappedContext {
                    wrapped: Box::new(memory().context("layer 3")),
                    context: "a batch".to_string(),
                },
                out,
            ),
            (
                TensorError::WrappedContext {
                    wrapped: Box::new(Caused(memory())),
                    context: "a batch".to_string(),
                },
                out,
            ),
        ] {
            assert_eq!(DeviceFault::of(&error), expected, "{error}");
        }
    }

    #[test]
    fn faults_of_tensors_and_names_in_messages_are_none_of_the_device() {
        for error in [
            TensorError::UnwrapNone,
            TensorError::msg("the table is out of memory of everybody"),
            TensorError::Cuda(Box::new(Status("missing kernel 'gather'"))),
            TensorError::NotCompiledWithCudaSupport,
            // Neither the path nor the context is the failure.
            TensorError::msg("bad header").with_path("CUDA_ERROR_OUT_OF_MEMORY"),
            TensorError::msg("bad header").context("CUDA_ERROR_OUT_OF_MEMORY"),
        ] {
            assert_eq!(DeviceFault::of(&error), None, "{error}");
        }
    }

    #[test]
    fn messages_name_device_batch_and_remedy() {
        let batch = |graphs, pairs| DeviceBatch {
            device: "cuda:1".to_string(),
            graphs,
            first: "7".to_string(),
            last: "9".to_string(),
            nodes: 60,
            pairs,
        };
        let error = |text: &'static str, batch| {
            Error::from(TensorError::Cuda(Box::new(Status(text)))).of_device(|| batch)
        };
        assert_eq!(
            error(MEMORY, batch(3, Some(1200))).to_string(),
            "cuda:1 has not enough memory for 3 graphs (7 to 9) of 60 nodes and 1200 node pairs: use \
             a smaller budget for batches"
        );
        assert_eq!(
            error(MEMORY, batch(1, None)).to_string(),
            "cuda:1 has not enough memory for graph 7 of 60 nodes: it does not fit alone; run it on \
             the CPU or leave it out"
        );
        assert_eq!(
            error(ADDRESS, batch(1, None)).to_string(),
            format!("cuda:1 failed at graph 7 of 60 nodes: {ADDRESS}")
        );
        let kept = Error::from(TensorError::UnwrapNone).of_device(|| batch(1, None));
        assert!(matches!(kept, Error::Tensor(TensorError::UnwrapNone)));
        let kept = Error::Batch("empty".to_string()).of_device(|| batch(1, None));
        assert!(matches!(kept, Error::Batch(_)));
    }

    #[test]
    fn devices_have_the_names_of_the_command_line() {
        assert_eq!(device_name(&Device::Cpu), "cpu");
    }
}
