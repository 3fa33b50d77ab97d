//! CUDA's compiler without a GPU: where the environment variable `CANDLE_GRAPH_NVRTC` names
//! `libnvrtc.so`, every kernel that a test runs is compiled for two architectures, too.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::LazyLock;

use candle_core::{Error, Result, bail};
use libloading::{Library, Symbol};

const ARCHITECTURES: [&str; 2] = ["compute_80", "compute_90"];

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type LogSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Log = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// NVRTC, if the environment names it.
static NVRTC: LazyLock<Option<Library>> = LazyLock::new(|| {
    let path = std::env::var_os("CANDLE_GRAPH_NVRTC")?;
    // SAFETY: the user names NVIDIA's library, whose initialisers have no preconditions.
    match unsafe { Library::new(&path) } {
        Ok(library) => Some(library),
        Err(error) => panic!("CANDLE_GRAPH_NVRTC={}: {error}", path.display()),
    }
});

/// Whether [`accepts`] has a compiler to ask.
pub(super) fn is_there() -> bool {
    NVRTC.is_some()
}

/// Compiles the text of a kernel for every architecture.
///
/// # Errors
/// What NVRTC says against it.
pub(super) fn accepts(name: &str, text: &str) -> Result<()> {
    let Some(library) = &*NVRTC else {
        return Ok(());
    };
    let text = CString::new(text).map_err(Error::wrap)?;
    let file = CString::new(format!("{name}.cu")).map_err(Error::wrap)?;
    for architecture in ARCHITECTURES {
        let option =
            CString::new(format!("--gpu-architecture={architecture}")).map_err(Error::wrap)?;
        let options = [option.as_ptr()];
        // SAFETY: the signatures are those of nvrtc.h; all strings and the program outlive the
        // calls, and the log is as long as NVRTC says.
        let (status, log) = unsafe {
            let create: Symbol<'_, Create> = symbol(library, b"nvrtcCreateProgram")?;
            let compile: Symbol<'_, Compile> = symbol(library, b"nvrtcCompileProgram")?;
            let log_size: Symbol<'_, LogSize> = symbol(library, b"nvrtcGetProgramLogSize")?;
            let log: Symbol<'_, Log> = symbol(library, b"nvrtcGetProgramLog")?;
            let destroy: Symbol<'_, Destroy> = symbol(library, b"nvrtcDestroyProgram")?;
            let mut program: Program = std::ptr::null_mut();
            let none = std::ptr::null();
            if create(&mut program, text.as_ptr(), file.as_ptr(), 0, none, none) != 0 {
                bail!("{name}: NVRTC makes no program");
            }
            let status = compile(program, options.len() as c_int, options.as_ptr());
            let mut size = 0;
            log_size(program, &mut size);
            let mut told = vec![0u8; size];
            log(program, told.as_mut_ptr().cast());
            destroy(&mut program);
            (status, told)
        };
        if status != 0 {
            let told = String::from_utf8_lossy(&log);
            bail!("{name}: NVRTC refuses it for {architecture}:\n{told}");
        }
    }
    Ok(())
}

/// # Safety
/// `T` is the type of the function.
unsafe fn symbol<'a, T>(library: &'a Library, name: &[u8]) -> Result<Symbol<'a, T>> {
    // SAFETY: as the caller says.
    unsafe { library.get(name) }.map_err(Error::wrap)
}
