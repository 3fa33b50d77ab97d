//! Weights split over several safetensors files, described by `model.safetensors.index.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::bounded_read::{open_bounded, read_exactly};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::safetensors_file::read_safetensors;
use crate::state_dict::StateDict;

/// File name of unsharded weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";
/// File name of the index of sharded weights.
pub const INDEX_FILE: &str = "model.safetensors.index.json";

/// Which shard holds which tensor, as the file states it.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// Reads the weights of a model folder: `model.safetensors`, or else the shards of `model.safetensors.index.json`.
///
/// # Errors
/// Neither file being there, and the errors of [`read_safetensors`] and [`read_sharded`].
pub fn read_weights(folder: &Path, limits: &Limits) -> Result<StateDict> {
    let single = folder.join(WEIGHTS_FILE);
    let index = folder.join(INDEX_FILE);
    if single.exists() {
        read_safetensors(&single, limits)
    } else if index.exists() {
        read_sharded(&index, limits)
    } else {
        Err(Error::format(
            folder,
            format!("the folder holds neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`"),
        ))
    }
}

/// Reads sharded weights through their index.
///
/// Shards must be plain file names in the folder of the index: paths are refused, and so are symbolic links that lead
/// out of it (those of the Hugging Face cache, from `snapshots/REVISION` to `blobs`, are allowed).
///
/// # Errors
/// A malformed index, a refused shard name, a tensor that is missing from its shard, held twice or not in the index,
/// sizes over the `limits`, and the errors of [`read_safetensors`].
pub fn read_sharded(index: &Path, limits: &Limits) -> Result<StateDict> {
    let folder = match index.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let weight_map = read_index(index, limits)?;
    let shards: BTreeSet<&str> = weight_map.values().map(String::as_str).collect();
    if shards.len() > limits.shards {
        return Err(Error::format(
            index,
            format!(
                "it names {} shards, more than the {} allowed (limit `shards`)",
                shards.len(),
                limits.shards
            ),
        ));
    }
    // All names are judged before the first shard is opened.
    let mut paths = BTreeMap::new();
    let mut total = 0u64;
    for &shard in &shards {
        let refuse = |problem: String| Error::Shard {
            path: index.to_path_buf(),
            shard: shard.to_string(),
            problem,
        };
        let path = shard_path(folder, shard).map_err(refuse)?;
        let size = std::fs::metadata(&path)
            .map_err(Error::io("read", &path))?
            .len();
        total = total.saturating_add(size);
        if total > limits.file_bytes {
            return Err(Error::TooLarge {
                path: index.to_path_buf(),
                what: format!("everything up to shard `{shard}`"),
                size: total,
                limit: limits.file_bytes,
                setting: "file_bytes",
            });
        }
        paths.insert(shard, path);
    }
    let mut state = StateDict::new(index.display().to_string());
    for (shard, path) in paths {
        for (name, tensor) in read_safetensors(&path, limits)? {
            match weight_map.get(&name) {
                Some(expected) if expected == shard => {}
                Some(expected) => {
                    return Err(Error::tensor(
                        &path,
                        &name,
                        format!("the index says that it is in `{expected}`"),
                    ));
                }
                None => return Err(Error::tensor(&path, &name, "the index does not list it")),
            }
            state
                .insert(name.clone(), tensor)
                .map_err(|_| Error::tensor(&path, &name, "it is in more than one shard"))?;
        }
    }
    if let Some((name, shard)) = weight_map.iter().find(|(name, _)| !state.contains(name)) {
        return Err(Error::tensor(
            index,
            name,
            format!("it is missing from its shard `{shard}`"),
        ));
    }
    Ok(state)
}

fn read_index(index: &Path, limits: &Limits) -> Result<BTreeMap<String, String>> {
    let (file, size) = open_bounded(index, limits)?;
    if size > limits.header_bytes {
        return Err(Error::TooLarge {
            path: index.to_path_buf(),
            what: "the index".into(),
            size,
            limit: limits.header_bytes,
            setting: "header_bytes",
        });
    }
    let bytes = read_exactly(file, size).map_err(Error::io("read", index))?;
    let parsed: Index = serde_json::from_slice(&bytes)
        .map_err(|error| Error::format(index, format!("this is no shard index: {error}")))?;
    if parsed.weight_map.is_empty() {
        return Err(Error::format(index, "its `weight_map` is empty"));
    }
    Ok(parsed.weight_map)
}

/// The file behind a shard name, or why the name is refused.
fn shard_path(folder: &Path, shard: &str) -> Result<PathBuf, String> {
    let mut components = Path::new(shard).components();
    let single = matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(name)), None) if name == shard
    );
    // Separators and drive letters of the other systems are refused everywhere.
    if !single || shard.contains(['/', '\\', ':', '\0']) {
        return Err(
            "refused: a shard must be a plain file name beside its index, without any path".into(),
        );
    }
    if !shard.ends_with(".safetensors") {
        return Err("refused: a shard must be a `.safetensors` file".into());
    }
    let path = folder.join(shard);
    let real = path
        .canonicalize()
        .map_err(|error| format!("it cannot be opened: {error}"))?;
    let real_folder = folder
        .canonicalize()
        .map_err(|error| format!("its folder cannot be opened: {error}"))?;
    if real.starts_with(&real_folder) || in_hub_cache(&real_folder, &real) {
        Ok(real)
    } else {
        Err("refused: it is a symbolic link that leads out of the folder".into())
    }
}

/// Whether `folder` is `REPOSITORY/snapshots/REVISION` of a Hugging Face cache and `file` lies in `REPOSITORY/blobs`.
fn in_hub_cache(folder: &Path, file: &Path) -> bool {
    let Some(snapshots) = folder.parent() else {
        return false;
    };
    snapshots.ends_with("snapshots")
        && snapshots
            .parent()
            .is_some_and(|repository| file.parent() == Some(repository.join("blobs").as_path()))
}
