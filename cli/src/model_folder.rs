//! From what the user calls a model to its folder.

use std::path::{Component, Path, PathBuf};

use anyhow::bail;

/// Folder of zoo models, besides `weights/zoo` under the current directory.
const ZOO_VARIABLE: &str = "CANDLE_GRAPH_ZOO";

/// The folder of `model`: itself, or that of the zoo model of this name.
///
/// # Errors
/// None of the places exists; the message names them.
pub(crate) fn find(model: &str) -> anyhow::Result<PathBuf> {
    let folder = Path::new(model);
    if folder.is_dir() {
        return Ok(folder.to_path_buf());
    }
    let mut places = vec![format!("the folder `{model}`")];
    let mut components = folder.components();
    let is_name =
        matches!(components.next(), Some(Component::Normal(_))) && components.next().is_none();
    if is_name {
        let zoos = [
            std::env::var_os(ZOO_VARIABLE).map(PathBuf::from),
            Some(PathBuf::from("weights/zoo")),
        ];
        for zoo in zoos.into_iter().flatten() {
            let folder = zoo.join(model);
            let config = folder.join("config.json");
            if config.is_file() {
                return Ok(folder);
            }
            places.push(format!("`{}`", config.display()));
        }
    }
    bail!(
        "--model {model}: not found; looked for {}; give a folder with config.json and \
         model.safetensors, or the name of a zoo model (set {ZOO_VARIABLE} to the zoo's folder)",
        places.join(", ")
    )
}
