//! Running the real binary on real molecules.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use candle_graph_weights::{Limits, StateDict, TensorData, read_safetensors, write_safetensors};
use serde_json::Value;

/// What a run of the program gave.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The run succeeded; gives standard output.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// The run failed with `code`, gave one message that holds all `parts`, and did not panic.
    #[track_caller]
    pub fn fails(self, code: i32, parts: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        let errors = self.stderr.matches("error: ").count();
        assert_eq!(errors, 1, "one message: {}", self.stderr);
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is not in: {}",
                self.stderr
            );
        }
        self
    }
}

/// The program, not yet run; nothing of the caller's environment reaches it.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_candle-graph"));
    for name in [
        "CANDLE_GRAPH_ZOO",
        "RAYON_NUM_THREADS",
        "CANDLE_NUM_THREADS",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs `command` with `stdin`.
pub fn run_command(command: &mut Command, stdin: &[u8]) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    let writer = std::thread::spawn(move || {
        // A program that fails early does not read to the end.
        let _ = pipe.write_all(&stdin);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs the program with these arguments and `stdin`.
pub fn run_with<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, stdin: &[u8]) -> Run {
    run_command(program().args(args), stdin)
}

/// Runs the program with these arguments; paths and text mixed.
#[macro_export]
macro_rules! run {
    ($($arg:expr),* $(,)?) => {
        $crate::support::run_with([$(::std::convert::AsRef::<::std::ffi::OsStr>::as_ref(&$arg).to_os_string()),*], b"")
    };
}

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file of the really trained ZINC model of the official code.
pub fn official(name: &str) -> PathBuf {
    root().join("weights/tests/fixtures/grit-zinc").join(name)
}

/// The first 64 test molecules of ZINC.
pub fn molecules() -> PathBuf {
    root().join("candle-graph/tests/fixtures/zinc64.jsonl")
}

/// The file's lines.
pub fn molecule_lines() -> Vec<String> {
    let text = std::fs::read_to_string(molecules()).unwrap();
    text.lines().map(str::to_string).collect()
}

/// The official model, converted by the program, in a folder that all tests of a file share.
pub fn model() -> &'static Path {
    static MODEL: OnceLock<PathBuf> = OnceLock::new();
    MODEL.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(env!("CARGO_CRATE_NAME"))
            .join("grit-zinc");
        convert(&folder);
        folder
    })
}

/// Converts the official model into `folder`.
pub fn convert(folder: &Path) {
    let (checkpoint, options) = (official("model.ckpt"), official("config.json"));
    run!(
        "convert",
        "--from",
        "graphgym",
        "--force",
        "--checkpoint",
        checkpoint,
        "--options",
        options,
        "--output",
        folder
    )
    .ok();
}

/// The weights of the model in `folder`.
pub fn weights(folder: &Path) -> StateDict {
    read_safetensors(&folder.join("model.safetensors"), &Limits::default()).unwrap()
}

/// Writes a model with changed configuration and weights into `folder`.
pub fn write_model(
    folder: &Path,
    change_config: impl FnOnce(&mut Value),
    change_weights: impl FnOnce(StateDict) -> StateDict,
) {
    std::fs::create_dir_all(folder).unwrap();
    let config = std::fs::read(model().join("config.json")).unwrap();
    let mut config: Value = serde_json::from_slice(&config).unwrap();
    change_config(&mut config);
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let state = change_weights(weights(model()));
    write_safetensors(
        &folder.join("model.safetensors"),
        &state,
        &Default::default(),
    )
    .unwrap();
}

/// The same tensors, each as `change` gives it back (with `None` left out).
pub fn change_tensors(
    state: StateDict,
    mut change: impl FnMut(&str, &TensorData) -> Option<(String, TensorData)>,
) -> StateDict {
    let mut out = StateDict::new("test");
    for (name, tensor) in state.iter() {
        if let Some((name, tensor)) = change(name, tensor) {
            out.insert(name, tensor).unwrap();
        }
    }
    out
}

/// The values of an f32 tensor.
pub fn floats(state: &StateDict, name: &str) -> Vec<f32> {
    let bytes = state.get(name).expect(name).bytes();
    let values = bytes.as_chunks().0.iter();
    values.map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// The values of an i64 tensor.
pub fn wholes(state: &StateDict, name: &str) -> Vec<i64> {
    let bytes = state.get(name).expect(name).bytes();
    let values = bytes.as_chunks().0.iter();
    values.map(|&bytes| i64::from_le_bytes(bytes)).collect()
}

/// The objects of JSONL text.
pub fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// All numbers in a JSON value, read as f32.
pub fn numbers(value: &Value) -> Vec<f32> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Number(number) => vec![number.to_string().parse().unwrap()],
        other => panic!("{other} is no number"),
    }
}

/// Names of everything in `folder`, sorted.
pub fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn npy_bytes(path: &Path, name: &str) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().unwrap() == "npy" {
        return bytes;
    }
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut array = Vec::new();
    let mut entry = archive.by_name(&format!("{name}.npy")).unwrap();
    entry.read_to_end(&mut array).unwrap();
    array
}

/// Shape and values of the array `name` of an npz archive, or of the one array of an npy file.
pub fn npy<T: npyz::Deserialize>(path: &Path, name: &str) -> (Vec<u64>, Vec<T>) {
    let bytes = npy_bytes(path, name);
    let array = npyz::NpyFile::new(&bytes[..]).unwrap();
    (array.shape().to_vec(), array.into_vec().unwrap())
}

/// Names of the arrays of an npz archive, sorted.
pub fn npz_names(path: &Path) -> Vec<String> {
    let file = std::fs::File::open(path).unwrap();
    let archive = zip::ZipArchive::new(file).unwrap();
    let files = archive.file_names();
    let mut names: Vec<String> = files
        .map(|name| name.unwrap().strip_suffix(".npy").unwrap().to_string())
        .collect();
    names.sort();
    names
}
