//! Hand-made checkpoints: pickle streams and zip containers from code, so that they can be wrong on purpose.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod haiku;

use std::io::{Cursor, Write};
use std::path::PathBuf;

use candle_graph_weights::{Limits, Result, StateDict, torch};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A pickle stream under construction.
#[derive(Clone)]
pub struct Pickle(pub Vec<u8>);

impl Pickle {
    pub fn new() -> Self {
        Self(vec![0x80, 2])
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn str(self, text: &str) -> Self {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        self.raw(b"X").raw(&length).raw(text.as_bytes())
    }

    /// A 64-bit integer (`LONG1`).
    pub fn int(self, value: i64) -> Self {
        self.raw(&[0x8a, 8]).raw(&value.to_le_bytes())
    }

    pub fn ints(self, values: &[i64]) -> Self {
        values
            .iter()
            .fold(self.raw(b"("), |p, &v| p.int(v))
            .raw(b"t")
    }

    pub fn global(self, module: &str, name: &str) -> Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        self.raw(b"B").raw(&length).raw(bytes)
    }

    /// `("storage", torch.CLASS, KEY, "cpu", LENGTH)` as a persistent id.
    pub fn storage(self, class: &str, key: &str, length: i64) -> Self {
        self.raw(b"(")
            .str("storage")
            .global("torch", class)
            .str(key)
            .str("cpu")
            .int(length)
            .raw(b"tQ")
    }

    /// A call of `_rebuild_tensor_v2`.
    pub fn tensor(self, spec: &Spec) -> Self {
        self.global("torch._utils", "_rebuild_tensor_v2")
            .raw(b"(")
            .storage(spec.class, spec.key, spec.length)
            .int(spec.offset)
            .ints(spec.shape)
            .ints(spec.strides)
            .raw(b"\x89")
            .ordered_dict()
            .raw(b"tR")
    }

    /// An empty `OrderedDict`.
    pub fn ordered_dict(self) -> Self {
        self.global("collections", "OrderedDict").raw(b")R")
    }

    pub fn stop(self) -> Vec<u8> {
        self.raw(b".").0
    }
}

/// What a hand-made tensor states about itself.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    pub class: &'a str,
    pub key: &'a str,
    pub length: i64,
    pub offset: i64,
    pub shape: &'a [i64],
    pub strides: &'a [i64],
}

impl Default for Spec<'_> {
    /// Six floats as a 2 × 3 matrix in storage `0`.
    fn default() -> Self {
        Self {
            class: "FloatStorage",
            key: "0",
            length: 6,
            offset: 0,
            shape: &[2, 3],
            strides: &[3, 1],
        }
    }
}

/// The stream of `{"model_state": OrderedDict(tensors)}`.
pub fn checkpoint_pickle(tensors: &[(&str, Spec)]) -> Vec<u8> {
    let mut pickle = Pickle::new()
        .raw(b"}")
        .str("model_state")
        .ordered_dict()
        .raw(b"(");
    for (name, spec) in tensors {
        pickle = pickle.str(name).tensor(spec);
    }
    pickle.raw(b"us").stop()
}

pub fn zip_with(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in entries {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    zip_with(entries, CompressionMethod::Stored)
}

/// A container with this pickle and these storages.
pub fn container(pickle: &[u8], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let names: Vec<String> = storages
        .iter()
        .map(|(key, _)| format!("archive/data/{key}"))
        .collect();
    let mut entries: Vec<(&str, &[u8])> = vec![("archive/data.pkl", pickle)];
    entries.extend(
        names
            .iter()
            .zip(storages)
            .map(|(n, (_, b))| (n.as_str(), *b)),
    );
    entries.push(("archive/version", b"3\n"));
    zip(&entries)
}

/// Little-endian bytes of 0, 1, 2, ….
pub fn counting(length: usize) -> Vec<u8> {
    (0..length).flat_map(|v| (v as f32).to_le_bytes()).collect()
}

/// A file with these bytes in a folder of its own.
pub fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

pub fn read(bytes: &[u8]) -> Result<StateDict> {
    let (_folder, path) = file("model.ckpt", bytes);
    torch::read_state_dict(&path, &Limits::default())
}

/// The message with which these bytes are refused.
pub fn refusal(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(state) => panic!("read {} tensors instead of refusing", state.len()),
        Err(error) => error.to_string(),
    }
}

/// The message names the file, is short, and holds all `parts`.
#[track_caller]
pub fn assert_says(message: &str, parts: &[&str]) {
    assert_says_of("model.ckpt", message, parts);
}

/// The message names `file`, is short, and holds all `parts`.
#[track_caller]
pub fn assert_says_of(file: &str, message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
    assert!(message.contains(file), "the file is not named: {message}");
    assert!(
        message.len() < 2000,
        "the message has {} bytes",
        message.len()
    );
}

pub fn floats(state: &StateDict, name: &str) -> Vec<f32> {
    let tensor = state.get(name).expect(name);
    tensor
        .bytes()
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect()
}

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The folder with larger reference files, if this machine has it.
pub fn shared() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = match std::env::var_os("CANDLE_GRAPH_SHARED") {
        Some(path) => root.join(path),
        None => root.join("../shared"),
    };
    folder.is_dir().then_some(folder)
}

/// Every file of this name at most three folders below `folder`, sorted.
pub fn find(folder: &std::path::Path, name: &str) -> Vec<PathBuf> {
    fn walk(folder: &std::path::Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && depth > 0 {
                walk(&path, name, depth - 1, found);
            } else if path.file_name().is_some_and(|n| n == name) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, name, 3, &mut found);
    found.sort();
    found
}
