//! From a checkpoint file to named tensors.

use std::path::Path;

use super::array::Array;
use crate::bounded_read::{open_bounded, read_part};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::pickle::{Node, NodeId, Tree};
use crate::safetensors_file::read_safetensors;
use crate::state_dict::{MAX_NAME_BYTES, StateDict};

/// What a tensor costs in memory beside its name and its bytes: entries of the map.
const ENTRY_BYTES: u64 = 128;

/// Reads the parameters of a Haiku model: `checkpoint.dill` or flattened safetensors, told apart by
/// their first bytes.
///
/// # Errors
/// As [`read_state_dict`] and [`read_safetensors`].
pub fn read_parameters(path: &Path, limits: &Limits) -> Result<StateDict> {
    let (mut file, size) = open_bounded(path, limits)?;
    let start = read_part(&mut file, size.min(9)).map_err(Error::io("read", path))?;
    // Safetensors: eight bytes of length, then a JSON object.
    if start.get(8) == Some(&b'{') {
        return read_safetensors(path, limits);
    }
    read_state_dict(path, limits)
}

/// Reads the arrays of `params` and `network_state` in a `checkpoint.dill` (pickle of protocol 3 to 5),
/// named `<module path>/<name>`. The other entries, the optimiser's state above all, are skipped unread,
/// and no code named by the file is ever executed.
///
/// While it is read, the file is in memory twice and its tensors once.
///
/// # Errors
/// Files that are no pickle stream, damaged or over one of the `limits`; checkpoints without parameters;
/// entries of the two sections that are not plain NumPy or jax arrays, by name.
pub fn read_state_dict(path: &Path, limits: &Limits) -> Result<StateDict> {
    let (mut file, file_bytes) = open_bounded(path, limits)?;
    let stream = read_part(&mut file, file_bytes).map_err(Error::io("read", path))?;
    if stream.first() != Some(&0x80) {
        return Err(Error::format(
            path,
            "this is neither a Haiku checkpoint (`checkpoint.dill`) nor a safetensors file",
        ));
    }
    let tree = Tree::parse(&stream, limits.pickle_values).map_err(|error| Error::Pickle {
        path: path.to_path_buf(),
        offset: error.offset,
        problem: error.problem,
    })?;
    drop(stream);
    let root = tree.root();
    let top = tree.mapping(root).ok_or_else(|| {
        Error::format(
            path,
            format!(
                "the checkpoint holds {} instead of a dictionary with `params`",
                tree.describe(root)
            ),
        )
    })?;
    let Some(params) = tree.lookup(top, "params") else {
        return Err(Error::format(
            path,
            format!(
                "no parameters found: expected a dictionary under `params`, found the keys {}",
                tree.describe_keys(top)
            ),
        ));
    };
    let mut reader = Reader {
        path,
        tree: &tree,
        limits,
        most_bytes: limits.expanded_bytes(file_bytes),
        bytes: 0,
        state: StateDict::new(path.display().to_string()),
    };
    reader.section("params", params)?;
    if reader.state.is_empty() {
        return Err(Error::format(path, "`params` is empty"));
    }
    if let Some(state) = tree.lookup(top, "network_state")
        && *tree.node(state) != Node::None
    {
        reader.section("network_state", state)?;
    }
    Ok(reader.state)
}

struct Reader<'a> {
    path: &'a Path,
    tree: &'a Tree,
    limits: &'a Limits,
    most_bytes: u64,
    /// Memory that all tensors so far take.
    bytes: u64,
    state: StateDict,
}

impl<'a> Reader<'a> {
    /// Reads `{module path: {name: array}}`.
    fn section(&mut self, section: &str, id: NodeId) -> Result<()> {
        for &(key, module) in self.mapping(section, id)? {
            let path = self.name(section, key)?;
            for &(key, array) in self.mapping(path, module)? {
                let name = self.name(path, key)?;
                if path.len() + 1 + name.len() > MAX_NAME_BYTES {
                    return Err(self.refuse(format!(
                        "a tensor's name is longer than {MAX_NAME_BYTES} bytes"
                    )));
                }
                self.read(format!("{path}/{name}"), array)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, name: String, array: NodeId) -> Result<()> {
        let unusable = |problem| Error::tensor(self.path, &name, problem);
        let array = Array::from_tree(self.tree, array).map_err(unusable)?;
        let size = array.bytes();
        if size > self.limits.tensor_bytes {
            let what = format!("tensor `{name}`");
            return Err(self.too_large(what, size, self.limits.tensor_bytes, "tensor_bytes"));
        }
        // Modules and arrays can be shared by any number of names, which are then tensors of their own.
        self.bytes = (self.bytes)
            .saturating_add(size)
            .saturating_add(name.len() as u64)
            .saturating_add(ENTRY_BYTES);
        if self.bytes > self.most_bytes {
            let setting = match self.most_bytes < self.limits.total_bytes {
                true => "expansion",
                false => "total_bytes",
            };
            let what = format!("everything up to tensor `{name}`");
            return Err(self.too_large(what, self.bytes, self.most_bytes, setting));
        }
        let tensor = array.gather().map_err(unusable)?;
        let shown = name.clone();
        self.state
            .insert(name, tensor)
            .map_err(|_| Error::tensor(self.path, &shown, "its name stands twice"))
    }

    fn mapping(&self, name: &str, id: NodeId) -> Result<&'a [(NodeId, NodeId)]> {
        self.tree.mapping(id).ok_or_else(|| {
            self.refuse(format!(
                "`{name}` is {} instead of a dictionary; nothing is ever executed",
                self.tree.describe(id)
            ))
        })
    }

    fn name(&self, of: &str, key: NodeId) -> Result<&'a str> {
        let name = self.tree.str(key).ok_or_else(|| {
            self.refuse(format!(
                "a key of `{of}` is {} instead of text",
                self.tree.describe(key)
            ))
        })?;
        match name.len() > MAX_NAME_BYTES {
            true => Err(self.refuse(format!(
                "a tensor's name is longer than {MAX_NAME_BYTES} bytes"
            ))),
            false => Ok(name),
        }
    }

    fn refuse(&self, problem: String) -> Error {
        Error::format(self.path, problem)
    }

    fn too_large(&self, what: String, size: u64, limit: u64, setting: &'static str) -> Error {
        Error::TooLarge {
            path: self.path.to_path_buf(),
            what,
            size,
            limit,
            setting,
        }
    }
}
