//! The text of a kernel for one compiler.

use candle_core::{DType, Result, bail};

use super::Launch;

/// Compilers of kernels, with the words they need.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compiler {
    /// NVRTC.
    #[cfg(any(test, feature = "host-kernels", feature = "cuda"))]
    Cuda,
    /// Metal's compiler.
    #[cfg(feature = "metal")]
    Metal,
    /// The C compiler of the machine.
    #[cfg(any(test, feature = "host-kernels"))]
    Host,
}

impl Compiler {
    fn words(self) -> &'static str {
        match self {
            #[cfg(any(test, feature = "host-kernels", feature = "cuda"))]
            Self::Cuda => concat!(include_str!("libm.h"), include_str!("cuda.h")),
            #[cfg(feature = "metal")]
            Self::Metal => include_str!("metal.h"),
            #[cfg(any(test, feature = "host-kernels"))]
            Self::Host => concat!(include_str!("libm.h"), include_str!("host.h")),
        }
    }
}

/// What tells one compiled kernel from others.
#[cfg(any(feature = "cuda", feature = "metal"))]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) dtype: DType,
    pub(super) threads: usize,
    pub(super) constants: Vec<(&'static str, usize)>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter<'a> {
    Out(&'a str),
    In(&'a str),
    Value(&'a str),
}

/// The whole text of the kernel of `launch`.
///
/// # Errors
/// A dtype without kernels; parameters of the kernel that are not those of the launch.
pub(super) fn text(launch: &Launch<'_>, compiler: Compiler) -> Result<String> {
    let name = launch.kernel.name;
    let bits = match launch.dtype {
        DType::F32 => 32,
        DType::F16 => 16,
        DType::BF16 => 8,
        other => bail!("{name}: no kernels for {other:?}"),
    };
    check(launch, &parameters(launch.kernel.source, name)?)?;
    let mut text = format!(
        "#define SCALAR {bits}\n#define THREADS {}\n",
        launch.threads
    );
    for (constant, number) in launch.constants {
        text += &format!("#define {constant} {number}\n");
    }
    for part in [
        compiler.words(),
        include_str!("common.h"),
        include_str!("activation.h"),
        launch.kernel.source,
    ] {
        text += part;
        text.push('\n');
    }
    Ok(text)
}

/// The parameters of kernel `name`.
pub(super) fn parameters<'a>(source: &'a str, name: &str) -> Result<Vec<Parameter<'a>>> {
    let start = format!("KERNEL({name},");
    let Some((_, list)) = source.split_once(&start) else {
        bail!("{name}: its file has no `{start}`");
    };
    let mut parameters = Vec::new();
    let mut rest = list.trim_start();
    while !rest.starts_with(')') {
        let parsed = rest.split_once('(').and_then(|(kind, rest)| {
            let (inner, rest) = rest.split_once(')')?;
            let (of, _) = inner.split_once(',')?;
            let parameter = match kind.trim() {
                "OUT" => Parameter::Out(of.trim()),
                "IN" => Parameter::In(of.trim()),
                "VALUE" => Parameter::Value(of.trim()),
                _ => return None,
            };
            Some((
                parameter,
                rest.trim_start().trim_start_matches(',').trim_start(),
            ))
        });
        let Some((parameter, after)) = parsed else {
            bail!("{name}: its parameters cannot be read");
        };
        parameters.push(parameter);
        rest = after;
    }
    Ok(parameters)
}

/// Checks that a launch hands over what the kernel reads, type by type.
fn check(launch: &Launch<'_>, parameters: &[Parameter<'_>]) -> Result<()> {
    let word = |dtype: DType| match dtype {
        DType::U32 => "uint",
        dtype if dtype == launch.dtype => "scalar",
        DType::F32 => "float",
        _ => "another type",
    };
    let outputs = launch
        .outputs
        .iter()
        .map(|&(_, dtype)| Parameter::Out(word(dtype)));
    let inputs = launch
        .inputs
        .iter()
        .map(|input| Parameter::In(word(input.dtype())));
    let values = launch.values.iter().map(|value| {
        Parameter::Value(match value {
            super::Value::U32(_) => "uint",
            super::Value::F32(_) => "float",
        })
    });
    let given: Vec<_> = outputs.chain(inputs).chain(values).collect();
    // Where tensors are f32, `scalar` and `float` are one type.
    let same = |a: &Parameter<'_>, b: &Parameter<'_>| match (a, b) {
        (Parameter::Out(a), Parameter::Out(b)) | (Parameter::In(a), Parameter::In(b)) => {
            a == b || (launch.dtype == DType::F32 && *a == "scalar" && *b == "float")
        }
        (a, b) => a == b,
    };
    if given.len() != parameters.len() || !given.iter().zip(parameters).all(|(a, b)| same(a, b)) {
        bail!(
            "{}: a launch with {given:?} for parameters {parameters:?}",
            launch.kernel.name
        );
    }
    Ok(())
}
