//! Official options, from the published YAML or a resolved JSON, read so that nothing is passed over in
//! silence: every option is used, known to have no effect, or refused by name.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// The largest option file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// A tree of options with the record of which have been looked at.
#[derive(Debug)]
pub struct Options {
    root: Value,
    source: String,
    seen: RefCell<BTreeSet<String>>,
    notes: RefCell<Vec<String>>,
}

/// Sections that steer training, logging or hardware and never shape a model.
const TRAINING_SECTIONS: &[&str] = &[
    "accelerator",
    "benchmark",
    "bn",
    "cfg_dest",
    "custom_metrics",
    "device",
    "devices",
    "gpu_mem",
    "mem",
    "metric_agg",
    "metric_best",
    "mlflow",
    "name_tag",
    "num_threads",
    "num_workers",
    "optim",
    "out_dir",
    "pretrained",
    "print",
    "round",
    "run_dir",
    "run_id",
    "run_multiple_splits",
    "seed",
    "tensorboard_agg",
    "tensorboard_each_run",
    "train",
    "val",
    "view_emb",
    "wandb",
];

impl Options {
    /// The largest number of layers that an option may ask for.
    pub const MAX_LAYERS: usize = 4096;
    /// The largest number of columns, rows or heads that an option may ask for.
    pub const MAX_WIDTH: usize = 1 << 20;

    /// Reads `path`: YAML, of which JSON is a part.
    ///
    /// # Errors
    /// A file that cannot be read, is over 4 MiB, is not YAML, or is not a mapping.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = crate::bounded_read::read_small_file(path, MAX_BYTES)?;
        let root: Value = serde_yaml_ng::from_slice(&bytes)
            .map_err(|error| Error::format(path, format!("not a YAML or JSON file: {error}")))?;
        if !root.is_object() {
            return Err(Error::format(path, "the options are not a mapping"));
        }
        Ok(Self::from_value(root, path.display().to_string()))
    }

    /// Options that are in memory already; `source` names them in messages.
    pub fn from_value(root: Value, source: impl Into<String>) -> Self {
        Self {
            root,
            source: source.into(),
            seen: RefCell::default(),
            notes: RefCell::default(),
        }
    }

    /// A refusal of the option `path`.
    pub fn refuse(&self, path: &str, problem: impl std::fmt::Display) -> Error {
        Error::Convert {
            source_name: self.source.clone(),
            problem: format!("option `{path}`: {problem}"),
        }
    }

    /// Adds a remark for the user.
    pub fn note(&self, note: impl Into<String>) {
        self.notes.borrow_mut().push(note.into());
    }

    /// Renames the top-level section `from` to `to`, for options under a name that the official
    /// code does not know; only on the user's word.
    ///
    /// # Errors
    /// Both sections are there.
    pub fn rename_section(&mut self, from: &str, to: &str) -> Result<()> {
        let Some(sections) = self.root.as_object_mut() else {
            return Ok(());
        };
        if let Some(section) = sections.remove(from) {
            if sections.contains_key(to) {
                return Err(self.refuse(from, format!("`{to}` is there as well")));
            }
            sections.insert(to.to_string(), section);
            self.note(format!("section `{from}` was read as `{to}`"));
        }
        Ok(())
    }

    /// Takes over the architecture of a pre-trained model from the options of its run, as the
    /// official code does where `pretrained.dir` is set: encodings, layers and widths, but for the
    /// head, are those of `pretrained`.
    ///
    /// # Errors
    /// Encoders that differ between the two, or sections that are not mappings.
    pub fn take_over(&mut self, pretrained: Self) -> Result<()> {
        for path in [
            "model.type",
            "dataset.node_encoder",
            "dataset.node_encoder_name",
            "dataset.node_encoder_bn",
            "dataset.edge_encoder",
            "dataset.edge_encoder_name",
            "dataset.edge_encoder_bn",
            "gnn.act",
        ] {
            if let (Some(own), Some(other)) = (self.peek(path), pretrained.peek(path))
                && own != other
            {
                let source = &pretrained.source;
                let problem = format!("{own}, but the pre-trained model of {source} has {other}");
                return Err(self.refuse(path, problem));
            }
        }
        let note = format!(
            "encodings, layers and widths are those of the pre-trained model of {}",
            pretrained.source
        );
        let Value::Object(other) = pretrained.root else {
            return Ok(());
        };
        let Some(own) = self.root.as_object_mut() else {
            return Ok(());
        };
        own.retain(|section, _| section != "gt" && !section.starts_with("posenc_"));
        for (section, value) in other {
            if section == "gt" || section.starts_with("posenc_") {
                own.insert(section, value);
            } else if section == "gnn" {
                let mut gnn = value;
                for option in ["head", "layers_post_mp", "act", "dropout"] {
                    let kept = own.get("gnn").and_then(|gnn| gnn.get(option)).cloned();
                    if let Some(gnn) = gnn.as_object_mut() {
                        gnn.remove(option);
                        gnn.extend(kept.map(|value| (option.to_string(), value)));
                    }
                }
                own.insert(section, gnn);
            }
        }
        self.note(note);
        Ok(())
    }

    /// The value at the dotted `path`, marked as used; `None` for null and for Python's `None`.
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.seen.borrow_mut().insert(path.to_string());
        let mut value = &self.root;
        for part in path.split('.') {
            value = value.get(part)?;
        }
        match value {
            Value::Null => None,
            Value::String(text) if text == "None" => None,
            value => Some(value),
        }
    }

    /// Whether something stands at `path`, without marking it as used.
    pub fn contains(&self, path: &str) -> bool {
        self.peek(path).is_some()
    }

    fn peek(&self, path: &str) -> Option<&Value> {
        path.split('.')
            .try_fold(&self.root, |value, part| value.get(part))
    }

    /// A truth value.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn bool(&self, path: &str, default: bool) -> Result<bool> {
        match self.get(path) {
            None => Ok(default),
            Some(value) => value
                .as_bool()
                .ok_or_else(|| self.refuse(path, format!("expected true or false, found {value}"))),
        }
    }

    /// A whole number from 0.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn usize(&self, path: &str, default: usize) -> Result<usize> {
        match self.get(path) {
            None => Ok(default),
            Some(value) => value
                .as_u64()
                .and_then(|v| usize::try_from(v).ok())
                .ok_or_else(|| {
                    self.refuse(path, format!("expected a whole number, found {value}"))
                }),
        }
    }

    /// A whole number, which may be negative.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn integer(&self, path: &str, default: i64) -> Result<i64> {
        match self.get(path) {
            None => Ok(default),
            Some(value) => value.as_i64().ok_or_else(|| {
                self.refuse(path, format!("expected a whole number, found {value}"))
            }),
        }
    }

    /// A whole number from 0 to `most`.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn bounded(&self, path: &str, default: usize, most: usize) -> Result<usize> {
        let value = self.usize(path, default)?;
        if value > most {
            return Err(self.refuse(path, format!("{value} is more than the limit of {most}")));
        }
        Ok(value)
    }

    /// A number of layers, at most [`MAX_LAYERS`](Self::MAX_LAYERS).
    ///
    /// # Errors
    /// Something else stands there.
    pub fn layers(&self, path: &str, default: usize) -> Result<usize> {
        self.bounded(path, default, Self::MAX_LAYERS)
    }

    /// A number of columns, rows or heads, from 1 to [`MAX_WIDTH`](Self::MAX_WIDTH).
    ///
    /// # Errors
    /// Something else stands there.
    pub fn width(&self, path: &str, default: usize) -> Result<usize> {
        match self.bounded(path, default, Self::MAX_WIDTH)? {
            0 => Err(self.refuse(path, "must be at least 1")),
            width => Ok(width),
        }
    }

    /// A number, `default` where the option is absent, `None` where it is null. Text that reads as
    /// a number counts: PyYAML leaves `1e-5` as text.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn float(&self, path: &str, default: Option<f64>) -> Result<Option<f64>> {
        let present = self.contains(path);
        match self.get(path) {
            None if present => Ok(None),
            None => Ok(default),
            Some(value) => value
                .as_f64()
                .or_else(|| value.as_str().and_then(|t| t.parse().ok()))
                .map(Some)
                .ok_or_else(|| self.refuse(path, format!("expected a number, found {value}"))),
        }
    }

    /// Text.
    ///
    /// # Errors
    /// Something else stands there.
    pub fn text(&self, path: &str, default: &str) -> Result<String> {
        match self.get(path) {
            None => Ok(default.to_string()),
            Some(value) => value
                .as_str()
                .map(str::to_string)
                .ok_or_else(|| self.refuse(path, format!("expected text, found {value}"))),
        }
    }

    /// Marks options, or whole sections, that are known to have no effect on the model.
    pub fn without_effect(&self, paths: &[&str]) {
        let mut seen = self.seen.borrow_mut();
        seen.extend(paths.iter().map(|p| p.to_string()));
    }

    /// Like [`without_effect`](Self::without_effect), with a remark where the option is set to
    /// something else than `usual`: its name promises an effect that the official code does not
    /// give it.
    pub fn without_effect_noted(&self, options: &[(&str, Value)]) {
        for (path, usual) in options {
            let set = self.get(path).is_some_and(|value| value != usual);
            if set {
                self.note(format!(
                    "option `{path}` has no effect in the official code and none here"
                ));
            }
        }
    }

    /// Checks that every option has been looked at and gives the remarks.
    ///
    /// # Errors
    /// Names all options that nobody knows.
    pub fn finish(self) -> Result<Vec<String>> {
        let seen = self.seen.borrow();
        let mut unknown = Vec::new();
        collect_unknown(&self.root, "", &seen, &mut unknown);
        if !unknown.is_empty() {
            const SHOWN: usize = 50;
            let named: Vec<String> = (unknown.iter().take(SHOWN))
                .map(|path| match nearest(path, &seen) {
                    Some(known) => format!("`{path}` (did you mean `{known}`?)"),
                    None => format!("`{path}`"),
                })
                .collect();
            let more = match unknown.len() - named.len() {
                0 => String::new(),
                hidden => format!(" and {hidden} more"),
            };
            return Err(Error::Convert {
                source_name: self.source.clone(),
                problem: format!(
                    "unknown option(s) {}{more}: this model family's official code has none of \
                     these names, so what they should do is not known; correct or remove them",
                    named.join(", ")
                ),
            });
        }
        drop(seen);
        Ok(self.notes.into_inner())
    }
}

fn collect_unknown(value: &Value, path: &str, seen: &BTreeSet<String>, unknown: &mut Vec<String>) {
    let known = seen.contains(path) || (TRAINING_SECTIONS.contains(&path));
    if known {
        return;
    }
    match value.as_object() {
        Some(map) if path.is_empty() || !map.is_empty() => {
            for (key, value) in map {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                collect_unknown(value, &path, seen, unknown);
            }
        }
        Some(_) => {}
        None => unknown.push(path.to_string()),
    }
}

/// The known option whose name is closest to `path`, if it is close at all.
fn nearest<'a>(path: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    const LONGEST: usize = 100;
    if path.len() > LONGEST {
        return None;
    }
    known
        .iter()
        .map(|name| (strsim::osa_distance(path, name), name.as_str()))
        .filter(|&(distance, name)| distance <= 2 && distance * 3 < name.len())
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_options_are_all_named() {
        let options = Options::from_value(
            json!({"gt": {"layers": 3, "colour": 1}, "optim": {"x": 1}, "nonsense": {"a": 1}}),
            "test",
        );
        assert_eq!(options.usize("gt.layers", 1).unwrap(), 3);
        let error = options.finish().unwrap_err().to_string();
        assert!(error.contains("`gt.colour`, `nonsense.a`"), "{error}");
    }

    #[test]
    fn wrong_kinds_are_refused_with_the_value() {
        let options = Options::from_value(json!({"gt": {"layers": "many"}}), "test");
        let error = options.usize("gt.layers", 1).unwrap_err().to_string();
        assert!(error.contains("gt.layers") && error.contains("many"));
    }

    #[test]
    fn null_text_and_missing_differ_for_numbers() {
        let options = Options::from_value(json!({"a": null, "b": "1e-5", "c": "None"}), "test");
        assert_eq!(options.float("a", Some(5.0)).unwrap(), None);
        assert_eq!(options.float("b", Some(5.0)).unwrap(), Some(1e-5));
        assert_eq!(options.float("c", Some(5.0)).unwrap(), None);
        assert_eq!(options.float("d", Some(5.0)).unwrap(), Some(5.0));
    }
}
