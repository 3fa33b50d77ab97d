//! Declared tables from official tensor names to ours.

use std::collections::{BTreeSet, HashMap};

use super::pattern::{Captures, fill, matches};
use crate::error::{Error, Result};
use crate::state_dict::{StateDict, TensorData};

/// A change of a tensor's layout on the way; the error says why the tensor does not fit it.
pub type Transform = fn(TensorData) -> std::result::Result<TensorData, String>;

/// A condition on other tensors of the same checkpoint, by official name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The rule holds only if this tensor is there.
    Present(&'static str),
    /// The rule holds only if this tensor is not there.
    Absent(&'static str),
    /// The rule holds only if no tensor's name begins so.
    NoneBelow(&'static str),
}

/// What happens to the tensors that a rule matches.
#[derive(Debug, Clone, Copy)]
enum Target {
    Rename(&'static str),
    Ignore,
    IgnoreZero,
}

/// One line of a [`KeyTable`].
///
/// Patterns are literal names with placeholders: `{i}` (any single word) is a decimal index, `{a|b}` one of several
/// words (`{a>x|b>y}`: called `x` and `y` here), `{*}` any text, `{_i}` Haiku's number of a module. Our pattern repeats
/// the placeholders of the official one; `{i/2}` is half of the index `{i}`, rounded down, and `{last}` the number set by
/// [`KeyTable::last`].
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    official: &'static str,
    target: Target,
    presence: Option<Presence>,
    transform: Option<Transform>,
}

impl Rule {
    /// Tensors matching `official` are called `ours`.
    pub const fn rename(official: &'static str, ours: &'static str) -> Self {
        Self {
            official,
            target: Target::Rename(ours),
            presence: None,
            transform: None,
        }
    }

    /// Tensors matching `official` have no effect on predictions and are left out.
    pub const fn ignore(official: &'static str) -> Self {
        Self {
            official,
            target: Target::Ignore,
            presence: None,
            transform: None,
        }
    }

    /// Tensors matching `official` have no effect as long as they are zero: left out then, an error otherwise.
    pub const fn ignore_zero(official: &'static str) -> Self {
        Self {
            official,
            target: Target::IgnoreZero,
            presence: None,
            transform: None,
        }
    }

    /// Restricts the rule to checkpoints that fulfil `presence`.
    pub const fn when(mut self, presence: Presence) -> Self {
        self.presence = Some(presence);
        self
    }

    /// Changes the tensor's layout on the way.
    pub const fn with(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    fn captures<'a>(&self, name: &'a str, names: &BTreeSet<String>) -> Option<Captures<'a>> {
        let holds = self.presence.is_none_or(|presence| match presence {
            Presence::Present(other) => names.contains(other),
            Presence::Absent(other) => !names.contains(other),
            Presence::NoneBelow(prefix) => {
                let mut after = names.range(prefix.to_string()..);
                !after.next().is_some_and(|name| name.starts_with(prefix))
            }
        });
        match holds {
            true => matches(self.official, name),
            false => None,
        }
    }
}

/// The mapping of one model family. The first rule that matches a name decides about it.
#[derive(Debug, Clone, Copy)]
pub struct KeyTable {
    /// Prefix that all official names may carry (GraphGym: `model.`); it is removed if every name has it.
    pub prefix: &'static str,
    /// The value of `{last}`: the number of tensors matching this official pattern.
    pub last: Option<&'static str>,
    /// The rules in groups by subject, most specific first.
    pub rules: &'static [&'static [Rule]],
}

/// Result of mapping a checkpoint.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// Tensors under our names, in the order of the checkpoint.
    pub tensors: StateDict,
    /// Official names that no rule knows.
    pub unplaced: Vec<String>,
    /// Official names that are known to have no effect.
    pub ignored: Vec<String>,
    /// The official name of every tensor, by our name.
    origins: HashMap<String, String>,
}

impl Conversion {
    /// Moves the tensors whose names of ours are `unread` to the ignored ones.
    pub fn ignore(&mut self, unread: impl Fn(&str) -> bool) {
        let kept = StateDict::new(self.tensors.source().to_string());
        for (name, tensor) in std::mem::replace(&mut self.tensors, kept) {
            match unread(&name) {
                true => self
                    .ignored
                    .push(self.origins.remove(&name).unwrap_or(name)),
                // The names were distinct before.
                false => drop(self.tensors.insert(name, tensor)),
            }
        }
    }

    /// Gives tensors the names that `common` has for them; several that get the same one must be
    /// equal, and become one.
    ///
    /// # Errors
    /// Two tensors that differ.
    pub fn unify(&mut self, common: impl Fn(&str) -> Option<String>) -> Result<()> {
        let source = self.tensors.source().to_string();
        let kept = StateDict::new(source.clone());
        for (name, tensor) in std::mem::replace(&mut self.tensors, kept) {
            let ours = common(&name).unwrap_or_else(|| name.clone());
            let origin = self.origins.remove(&name).unwrap_or(name);
            match self.tensors.get(&ours) {
                Some(first) if *first == tensor => {}
                Some(_) => {
                    return Err(Error::Convert {
                        source_name: source,
                        problem: format!(
                            "tensors `{}` and `{origin}` should be one and the same, as the \
                             options say, but differ",
                            self.origins.get(&ours).map_or("another", String::as_str)
                        ),
                    });
                }
                None => {
                    drop(self.tensors.insert(ours.clone(), tensor));
                    self.origins.insert(ours, origin);
                }
            }
        }
        Ok(())
    }

    /// Places tensors under the further names that `also` has for them, which must be free: weights that
    /// the official code reads in several places and stores once.
    ///
    /// # Errors
    /// More bytes than `most_bytes` in all, or a name that is taken.
    pub fn share(&mut self, most_bytes: u64, also: impl Fn(&str) -> Vec<String>) -> Result<()> {
        let size = |tensor: &TensorData| tensor.bytes().len() as u64;
        let mut total: u64 = self.tensors.iter().map(|(_, tensor)| size(tensor)).sum();
        let mut added = Vec::new();
        for (name, tensor) in self.tensors.iter() {
            let names = also(name);
            total = total.saturating_add(size(tensor).saturating_mul(names.len() as u64));
            if total > most_bytes {
                return Err(Error::Convert {
                    source_name: self.tensors.source().to_string(),
                    problem: format!(
                        "tensor `{name}` is shared by so many layers that more than {most_bytes} bytes \
                         are needed (limit `total_bytes`)"
                    ),
                });
            }
            added.extend(names.into_iter().map(|name| (name, tensor.clone())));
        }
        for (name, tensor) in added {
            if self.tensors.insert(name.clone(), tensor).is_err() {
                return Err(Error::Convert {
                    source_name: self.tensors.source().to_string(),
                    problem: format!("two tensors would become `{name}`"),
                });
            }
        }
        Ok(())
    }

    /// The tensors, if every official name was known.
    ///
    /// # Errors
    /// Lists the unplaced names.
    pub fn complete(self) -> Result<StateDict> {
        if self.unplaced.is_empty() {
            return Ok(self.tensors);
        }
        let shown: Vec<&str> = self.unplaced.iter().take(50).map(String::as_str).collect();
        let more = match self.unplaced.len() - shown.len() {
            0 => String::new(),
            hidden => format!(" and {hidden} more"),
        };
        Err(Error::Convert {
            source_name: self.tensors.source().to_string(),
            problem: format!(
                "{} tensors have no place in this model family: {}{more}; \
                 is this a checkpoint of another model or of another version of the official code?",
                self.unplaced.len(),
                shown.join(", ")
            ),
        })
    }
}

impl KeyTable {
    /// Maps all tensors of an official checkpoint.
    ///
    /// # Errors
    /// Two official tensors that get the same name, a tensor that must be zero and is not, or one that does not fit its
    /// rule's transform. Names without a rule are no error here: see [`Conversion::complete`].
    pub fn apply(&self, official: StateDict) -> Result<Conversion> {
        let source = official.source().to_string();
        let refuse = |problem: String| Error::Convert {
            source_name: source.clone(),
            problem,
        };
        let prefixed =
            !official.is_empty() && official.names().all(|name| name.starts_with(self.prefix));
        let prefix = if prefixed { self.prefix } else { "" };
        let bare = |name: &str| name.strip_prefix(prefix).unwrap_or(name).to_string();
        let names: BTreeSet<String> = official.names().map(bare).collect();
        let last = self.last.map_or(0, |pattern| {
            names
                .iter()
                .filter(|name| matches(pattern, name).is_some())
                .count()
        });
        let mut conversion = Conversion {
            tensors: StateDict::new(source.clone()),
            unplaced: Vec::new(),
            ignored: Vec::new(),
            origins: HashMap::new(),
        };
        for (name, tensor) in official {
            let stripped = bare(&name);
            let rule = self.rules.iter().copied().flatten().find_map(|rule| {
                let captures = rule.captures(&stripped, &names)?;
                Some((rule, captures))
            });
            let Some((rule, captures)) = rule else {
                conversion.unplaced.push(name);
                continue;
            };
            match rule.target {
                Target::Ignore => conversion.ignored.push(name),
                Target::IgnoreZero if tensor.is_all_zero() => conversion.ignored.push(name),
                Target::IgnoreZero => {
                    return Err(refuse(format!(
                        "tensor `{name}` should be zero, as the official code leaves it, but is not; \
                         its values would change predictions and are not supported"
                    )));
                }
                Target::Rename(pattern) => {
                    let ours = fill(pattern, &captures, last).ok_or_else(|| {
                        refuse(format!(
                            "the rule for `{name}` uses a placeholder that it does not capture"
                        ))
                    })?;
                    let tensor = match rule.transform {
                        Some(transform) => transform(tensor)
                            .map_err(|problem| refuse(format!("tensor `{name}`: {problem}")))?,
                        None => tensor,
                    };
                    if conversion.tensors.insert(ours.clone(), tensor).is_err() {
                        let first = conversion
                            .origins
                            .get(&ours)
                            .map_or("another", String::as_str);
                        return Err(refuse(format!(
                            "tensors `{first}` and `{name}` would both become `{ours}`"
                        )));
                    }
                    conversion.origins.insert(ours, name);
                }
            }
        }
        Ok(conversion)
    }
}
