//! Safetensors files: round trips, damaged and hostile files, shards, atomic writing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use candle_graph_weights::atomic_file::write_atomically;
use candle_graph_weights::safetensors_file::read_with_metadata;
use candle_graph_weights::{
    ElementType, Limits, StateDict, TensorData, read_safetensors, read_sharded, read_weights,
    write_safetensors,
};
use support::file;

fn state(tensors: &[(&str, &[f32])]) -> StateDict {
    let mut state = StateDict::new("test");
    for (name, values) in tensors {
        let tensor = TensorData::from_f32(vec![values.len()], values).unwrap();
        state.insert((*name).to_string(), tensor).unwrap();
    }
    state
}

fn write(path: &Path, tensors: &[(&str, &[f32])]) {
    write_safetensors(path, &state(tensors), &BTreeMap::new()).unwrap();
}

/// A file with this header and so many bytes of data.
fn raw(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

#[track_caller]
fn assert_refused(bytes: &[u8], parts: &[&str]) {
    let (_folder, path) = file("model.safetensors", bytes);
    let message = read_safetensors(&path, &Limits::default())
        .unwrap_err()
        .to_string();
    for part in parts.iter().chain(&["model.safetensors"]) {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn all_element_types_survive_a_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut state = StateDict::new("test");
    for element in [
        ElementType::F64,
        ElementType::F32,
        ElementType::F16,
        ElementType::BF16,
        ElementType::I64,
        ElementType::I32,
        ElementType::I16,
        ElementType::I8,
        ElementType::U32,
        ElementType::U8,
        ElementType::Bool,
    ] {
        let bytes = (0..6 * element.size())
            .map(|i| u8::from(i % 3 == 0))
            .collect();
        let tensor = TensorData::new(element, vec![2, 3], bytes).unwrap();
        state.insert(format!("{element:?}"), tensor).unwrap();
    }
    state
        .insert(
            "scalar".into(),
            TensorData::from_f32(vec![], &[2.5]).unwrap(),
        )
        .unwrap();
    state
        .insert(
            "empty".into(),
            TensorData::from_f32(vec![0, 4], &[]).unwrap(),
        )
        .unwrap();
    let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
    write_safetensors(&path, &state, &metadata).unwrap();
    let (read, read_metadata) = read_with_metadata(&path, &Limits::default()).unwrap();
    assert_eq!(read.len(), state.len());
    for (name, tensor) in state.iter() {
        assert_eq!(read.get(name), Some(tensor), "{name}");
    }
    assert_eq!(read_metadata, metadata);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "temporary files remain"
    );
}

#[test]
fn candle_tensors_survive_a_round_trip() {
    let tensor = Tensor::arange(0f32, 6., &Device::Cpu)
        .unwrap()
        .reshape((2, 3))
        .unwrap();
    let data = TensorData::from_tensor(&tensor.t().unwrap()).unwrap();
    assert_eq!(data.shape(), [3, 2]);
    let back = data
        .to_tensor(&Device::Cpu)
        .unwrap()
        .to_vec2::<f32>()
        .unwrap();
    assert_eq!(back, [[0., 3.], [1., 4.], [2., 5.]]);
}

#[test]
fn malformed_files_are_refused_by_name() {
    let info = |dtype: &str, shape: &str, offsets: &str| {
        format!(
            r#"{{"good":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},"bad":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#
        )
    };
    assert_refused(b"", &["truncated"]);
    assert_refused(b"1234567", &["truncated"]);
    assert_refused(
        &raw(&info("F32", "[2]", "[8,16]"), 15),
        &["16 bytes", "15", "truncated"],
    );
    assert_refused(&raw(&info("F32", "[2]", "[8,16]"), 17), &["extra data"]);
    assert_refused(
        &raw(&info("F32", "[2]", "[4,12]"), 12),
        &["`bad`", "overlaps"],
    );
    assert_refused(&raw(&info("F32", "[2]", "[0,8]"), 8), &["overlaps"]);
    assert_refused(&raw(&info("F32", "[2]", "[12,20]"), 20), &["`bad`", "gap"]);
    assert_refused(&raw(&info("F32", "[2]", "[16,8]"), 16), &["`bad`"]);
    assert_refused(
        &raw(&info("F32", "[3]", "[8,16]"), 16),
        &["`bad`", "[3]", "8 bytes"],
    );
    assert_refused(&raw(&info("F33", "[2]", "[8,16]"), 16), &["`bad`", "`F33`"]);
    assert_refused(
        &raw(&info("U64", "[1]", "[8,16]"), 16),
        &["`bad`", "U64", "not supported"],
    );
    assert_refused(&raw(&info("F32", "[-2]", "[8,16]"), 16), &["`bad`"]);
    let huge = "[4294967296,4294967296,4294967296]";
    assert_refused(&raw(&info("F32", huge, "[8,16]"), 16), &["`bad`"]);
    let end = "[8,18446744073709551615]";
    assert_refused(&raw(&info("F32", "[2]", end), 16), &["`bad`"]);
    assert_refused(&raw("[1, 2]", 0), &["not a valid safetensors file"]);
    assert_refused(&raw("{", 0), &["not a valid safetensors file"]);
    assert_refused(&raw("\u{7f}\u{80}", 0), &["not a valid safetensors file"]);
    let deep = "[".repeat(100_000);
    assert_refused(&raw(&deep, 0), &["not a valid safetensors file"]);
}

#[test]
fn overlong_headers_are_refused_before_they_are_read() {
    for claimed in [100u64, 1 << 40, u64::MAX] {
        let bytes = [&claimed.to_le_bytes()[..], b"{}"].concat();
        assert_refused(&bytes, &[&claimed.to_string(), "10"]);
    }
    let (_folder, path) = file("model.safetensors", &raw(&" ".repeat(200), 0));
    let mut limits = Limits::default();
    limits.header_bytes = 100;
    let message = read_safetensors(&path, &limits).unwrap_err().to_string();
    assert!(message.contains("header_bytes"), "{message}");
    limits.file_bytes = 100;
    let message = read_safetensors(&path, &limits).unwrap_err().to_string();
    assert!(message.contains("file_bytes"), "{message}");
}

#[test]
fn every_truncation_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    write(&path, &[("a", &[1., 2.]), ("b", &[3.])]);
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        assert_refused(&whole[..length], &[]);
    }
}

fn sharded(weight_map: &[(&str, &str)]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).unwrap();
    write(&model.join("one.safetensors"), &[("a", &[1.])]);
    write(&model.join("two.safetensors"), &[("b", &[2., 3.])]);
    write(&folder.path().join("secret.safetensors"), &[("a", &[9.])]);
    let map: BTreeMap<_, _> = weight_map.iter().copied().collect();
    let index = serde_json::json!({ "metadata": { "total_size": 12 }, "weight_map": map });
    let path = model.join("model.safetensors.index.json");
    std::fs::write(&path, index.to_string()).unwrap();
    (folder, path)
}

#[track_caller]
fn assert_shards_refused(index: &Path, parts: &[&str]) {
    let message = read_sharded(index, &Limits::default())
        .unwrap_err()
        .to_string();
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn shards_are_read_together() {
    let (_folder, index) = sharded(&[("a", "one.safetensors"), ("b", "two.safetensors")]);
    let state = read_weights(index.parent().unwrap(), &Limits::default()).unwrap();
    assert_eq!(support::floats(&state, "a"), [1.]);
    assert_eq!(support::floats(&state, "b"), [2., 3.]);
}

#[test]
fn shard_names_with_a_path_are_refused() {
    let absolute = std::env::temp_dir().join("secret.safetensors");
    for name in [
        "../secret.safetensors",
        "./one.safetensors",
        "one.safetensors/",
        "sub/../one.safetensors",
        absolute.to_str().unwrap(),
        "..\\secret.safetensors",
        "C:secret.safetensors",
        "..",
        "",
        "a\0.safetensors",
    ] {
        let (_folder, index) = sharded(&[("a", name)]);
        assert_shards_refused(
            &index,
            &["index.json", &format!("shard `{name}`"), "plain file name"],
        );
    }
    let (_folder, index) = sharded(&[("a", "model.safetensors.index.json")]);
    assert_shards_refused(&index, &["`.safetensors` file"]);
    let (_folder, index) = sharded(&[("a", "three.safetensors")]);
    assert_shards_refused(&index, &["`three.safetensors`", "cannot be opened"]);
}

#[cfg(unix)]
#[test]
fn symbolic_links_out_of_the_folder_are_refused_except_in_a_hub_cache() {
    let (folder, index) = sharded(&[("a", "link.safetensors")]);
    let link = index.with_file_name("link.safetensors");
    std::os::unix::fs::symlink("../secret.safetensors", &link).unwrap();
    assert_shards_refused(&index, &["`link.safetensors`", "symbolic link"]);

    let revision = folder.path().join("snapshots/abc");
    let blobs = folder.path().join("blobs");
    std::fs::create_dir_all(&revision).unwrap();
    std::fs::create_dir(&blobs).unwrap();
    std::fs::copy(folder.path().join("secret.safetensors"), blobs.join("0123")).unwrap();
    std::fs::copy(&index, revision.join("model.safetensors.index.json")).unwrap();
    std::os::unix::fs::symlink("../../blobs/0123", revision.join("link.safetensors")).unwrap();
    let state = read_weights(&revision, &Limits::default()).unwrap();
    assert_eq!(support::floats(&state, "a"), [9.]);
}

#[test]
fn indices_must_agree_with_their_shards() {
    let (_folder, index) = sharded(&[("a", "one.safetensors"), ("c", "one.safetensors")]);
    assert_shards_refused(&index, &["`c`", "missing from its shard `one.safetensors`"]);
    let (_folder, index) = sharded(&[("a", "one.safetensors"), ("c", "two.safetensors")]);
    assert_shards_refused(&index, &["`b`", "does not list"]);
    let (_folder, index) = sharded(&[
        ("a", "two.safetensors"),
        ("b", "two.safetensors"),
        ("c", "one.safetensors"),
    ]);
    assert_shards_refused(&index, &["`a`", "`two.safetensors`"]);
    let (_folder, index) = sharded(&[]);
    assert_shards_refused(&index, &["empty"]);
    std::fs::write(&index, "{\"weight_map\": [1]}").unwrap();
    assert_shards_refused(&index, &["no shard index"]);
    let (_folder, index) = sharded(&[("a", "one.safetensors"), ("b", "two.safetensors")]);
    let mut limits = Limits::default();
    limits.shards = 1;
    assert!(
        read_sharded(&index, &limits)
            .unwrap_err()
            .to_string()
            .contains("`shards`")
    );
    limits.shards = 2;
    limits.file_bytes = std::fs::metadata(&index).unwrap().len();
    assert!(
        read_sharded(&index, &limits)
            .unwrap_err()
            .to_string()
            .contains("file_bytes")
    );
}

#[test]
fn a_folder_without_weights_says_what_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let message = read_weights(folder.path(), &Limits::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("neither `model.safetensors` nor"),
        "{message}"
    );
}

/// A failed write leaves the old file as it was and nothing beside it.
#[test]
fn writing_is_all_or_nothing() {
    let (folder, path) = file("model.safetensors", b"old");
    let error = write_atomically(&path, |out| {
        use std::io::Write;
        out.write_all(b"half")?;
        Err(std::io::Error::other("interrupted"))
    });
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains("model.safetensors") && message.contains("interrupted"),
        "{message}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    write(&path, &[("a", &[1.])]);
    assert_eq!(
        read_safetensors(&path, &Limits::default()).unwrap().len(),
        1
    );
}

#[test]
fn unwritable_targets_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/model.safetensors");
    let message = write_safetensors(&missing, &state(&[]), &BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("cannot create a file in") && message.contains("missing"),
        "{message}"
    );
    let message = write_safetensors(folder.path(), &state(&[]), &BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(message.contains("in the way"), "{message}");
    let under_file = folder.path().join("plain");
    std::fs::write(&under_file, "x").unwrap();
    let message = write_safetensors(&under_file.join("m"), &state(&[]), &BTreeMap::new())
        .unwrap_err()
        .to_string();
    assert!(message.contains("plain"), "{message}");
}
