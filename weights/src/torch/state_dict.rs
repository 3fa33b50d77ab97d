//! From a checkpoint file to named tensors.

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::Archive;
use super::storage::View;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::pickle::{NodeId, Tree};
use crate::state_dict::{MAX_NAME_BYTES, StateDict, TensorData};

/// Keys under which training frameworks keep the state dict, in the order in which they are tried: GraphGym, PyTorch
/// Lightning and most scripts, others.
const SECTIONS: [&str; 3] = ["model_state", "state_dict", "model"];

/// Reads the tensors of a checkpoint that `torch.save` wrote in its zip format (the default since PyTorch 1.6).
///
/// The state dict is looked for under `model_state` (GraphGym), `state_dict` and `model`; a file that is itself a
/// dictionary of tensors is read as such. Names are kept as they are. Whatever else the file holds (optimizer,
/// scheduler, epoch) is skipped unread, and no code named by the file is ever executed.
///
/// Views are gathered: non-contiguous tensors and tensors that share a storage come out as independent contiguous ones.
///
/// # Errors
/// Files that are damaged, big-endian, in the legacy (non-zip) format or over one of the `limits`; checkpoints without a
/// state dict; entries that are not plain tensors, or whose storage does not have the size they state.
pub fn read_state_dict(path: &Path, limits: &Limits) -> Result<StateDict> {
    let mut archive = Archive::open(path, limits)?;
    let stream = archive.pickle(limits)?;
    let tree = Tree::parse(&stream, limits.pickle_values).map_err(|error| Error::Pickle {
        path: path.to_path_buf(),
        offset: error.offset,
        problem: error.problem,
    })?;
    drop(stream);
    let views = find_views(path, &tree)?;
    drop(tree);
    check_sizes(path, &mut archive, &views, limits)?;
    gather(path, &mut archive, views, limits)
}

type NamedViews = Vec<(String, View)>;

fn find_views(path: &Path, tree: &Tree) -> Result<NamedViews> {
    let root = tree.root();
    let Some(top) = tree.mapping(root) else {
        return Err(Error::format(
            path,
            format!(
                "the checkpoint holds {} instead of a dictionary; save the weights alone: \
                 `torch.save(model.state_dict(), path)`",
                tree.describe(root)
            ),
        ));
    };
    let section = SECTIONS.iter().find_map(|&name| {
        // A top-level state dict may have a tensor of that name.
        tree.mapping(tree.lookup(top, name)?)
    });
    let items = match section {
        Some(items) => items,
        None if looks_like_state_dict(tree, top) => top,
        None => {
            return Err(Error::format(
                path,
                format!(
                    "no state dict found: expected tensors under `{}` or at the top, found the keys {}",
                    SECTIONS.join("`, `"),
                    tree.describe_keys(top)
                ),
            ));
        }
    };
    if items.is_empty() {
        return Err(Error::format(path, "the state dict is empty"));
    }
    let mut views = Vec::with_capacity(items.len());
    let mut seen = std::collections::HashSet::new();
    for &(key, value) in items {
        let name = tree.str(key).ok_or_else(|| {
            Error::format(
                path,
                format!(
                    "a key of the state dict is {} instead of text",
                    tree.describe(key)
                ),
            )
        })?;
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::format(
                path,
                format!("a tensor's name is longer than {MAX_NAME_BYTES} bytes"),
            ));
        }
        if !seen.insert(name) {
            return Err(Error::tensor(
                path,
                name,
                "its name stands twice in the state dict",
            ));
        }
        let view =
            View::from_tree(tree, value).map_err(|problem| Error::tensor(path, name, problem))?;
        views.push((name.to_string(), view));
    }
    Ok(views)
}

/// Whether a mapping is meant as a state dict: its first value is an object made by torch, or anything callable in
/// place of one (which is then refused by name).
fn looks_like_state_dict(tree: &Tree, items: &[(NodeId, NodeId)]) -> bool {
    items
        .first()
        .is_some_and(|&(_, value)| tree.call(value).is_some() && tree.mapping(value).is_none())
        || items.is_empty()
}

/// Compares what the tensors state with the entries of the container and with the limits, before anything is read.
fn check_sizes(
    path: &Path,
    archive: &mut Archive,
    views: &NamedViews,
    limits: &Limits,
) -> Result<()> {
    let too_large = |what: String, size: u64, limit: u64, setting| Error::TooLarge {
        path: path.to_path_buf(),
        what,
        size,
        limit,
        setting,
    };
    let expanded = limits.expanded_bytes(archive.file_bytes());
    let mut total = 0u64;
    for (name, view) in views {
        let stated = view
            .storage_bytes()
            .ok_or_else(|| Error::tensor(path, name, "the size of its storage overflows"))?;
        let stored = archive.storage_bytes(&view.key)?.ok_or_else(|| {
            Error::tensor(
                path,
                name,
                format!("its storage `data/{}` is missing from the file", view.key),
            )
        })?;
        if stored != stated {
            return Err(Error::tensor(
                path,
                name,
                format!(
                    "its storage should take {stated} bytes, but `data/{}` has {stored}",
                    view.key
                ),
            ));
        }
        let bytes = view
            .bytes()
            .ok_or_else(|| Error::tensor(path, name, "its shape overflows"))?;
        for size in [stored, bytes] {
            if size > limits.tensor_bytes {
                let what = format!("tensor `{name}`");
                return Err(too_large(what, size, limits.tensor_bytes, "tensor_bytes"));
            }
        }
        // The storage counts too: it is in memory while its views are gathered.
        total = total.saturating_add(bytes);
        let size = total.max(stored);
        if size > expanded {
            let setting = if expanded < limits.total_bytes {
                "expansion"
            } else {
                "total_bytes"
            };
            let what = format!("everything up to tensor `{name}`");
            return Err(too_large(what, size, expanded, setting));
        }
    }
    Ok(())
}

/// Reads every storage once and copies its views out of it.
fn gather(
    path: &Path,
    archive: &mut Archive,
    views: NamedViews,
    limits: &Limits,
) -> Result<StateDict> {
    let mut by_storage: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, (_, view)) in views.iter().enumerate() {
        by_storage.entry(&view.key).or_default().push(position);
    }
    let mut gathered: Vec<Option<TensorData>> = vec![None; views.len()];
    for (key, positions) in by_storage {
        let storage = archive.storage(key, limits)?;
        for position in positions {
            let (Some((name, view)), Some(slot)) =
                (views.get(position), gathered.get_mut(position))
            else {
                continue;
            };
            let tensor = view
                .gather(&storage)
                .map_err(|problem| Error::tensor(path, name, problem))?;
            *slot = Some(tensor);
        }
    }
    let mut state = StateDict::new(path.display().to_string());
    for ((name, _), tensor) in views.into_iter().zip(gathered) {
        let Some(tensor) = tensor else { continue };
        state
            .insert(name.clone(), tensor)
            .map_err(|_| Error::tensor(path, &name, "its name stands twice in the state dict"))?;
    }
    Ok(state)
}
