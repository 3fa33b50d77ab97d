//! The differences between the tensors of a file and those that a model asks for.

use std::collections::BTreeMap;
use std::fmt;

/// Lines that a message shows of each kind of difference.
const SHOWN: usize = 200;

/// A tensor whose shape is not the one that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongShape {
    /// Shape that the model asks for.
    pub expected: Vec<usize>,
    /// Shape in the file.
    pub found: Vec<usize>,
}

/// All differences between the tensors of a file and those that a model asks for, each list sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the tensors come from.
    pub source: String,
    /// Asked for but not there, with the expected shape where the model stated one.
    pub missing: BTreeMap<String, Option<Vec<usize>>>,
    /// There but never asked for, with their shapes.
    pub unexpected: BTreeMap<String, Vec<usize>>,
    /// There in another shape.
    pub wrong_shape: BTreeMap<String, WrongShape>,
    /// Asked for in a size over the limits, with that shape.
    pub too_large: BTreeMap<String, Vec<usize>>,
    /// Error with which building stopped before all tensors were asked for; `unexpected` is then empty.
    pub stopped: Option<String>,
}

impl Mismatch {
    pub(crate) fn differences(&self) -> usize {
        self.missing.len() + self.unexpected.len() + self.wrong_shape.len() + self.too_large.len()
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tensors of {} do not fit the model", self.source)?;
        section(f, "missing", &self.missing, |f, shape| match shape {
            Some(shape) => write!(f, "expected {shape:?}"),
            None => write!(f, "any shape"),
        })?;
        section(f, "unexpected", &self.unexpected, |f, shape| {
            write!(f, "found {shape:?}")
        })?;
        let mut hints = Vec::new();
        section(f, "wrong shape", &self.wrong_shape, |f, shapes| {
            let WrongShape { expected, found } = shapes;
            write!(f, "expected {expected:?}, found {found:?}")
        })?;
        for (name, shapes) in &self.wrong_shape {
            hints.extend(table_hint(name, shapes));
        }
        section(f, "too large to allocate", &self.too_large, |f, shape| {
            write!(f, "the configuration asks for {shape:?}")
        })?;
        if let Some(error) = &self.stopped {
            write!(f, "\n  building then stopped: {error}")?;
        }
        for hint in hints.iter().take(SHOWN) {
            write!(f, "\n  note: {hint}")?;
        }
        Ok(())
    }
}

fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    entries: &BTreeMap<String, T>,
    mut detail: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {title} ({}):", entries.len())?;
    for (name, value) in entries.iter().take(SHOWN) {
        write!(f, "\n    {name}: ")?;
        detail(f, value)?;
    }
    if entries.len() > SHOWN {
        write!(f, "\n    … and {} more", entries.len() - SHOWN)?;
    }
    Ok(())
}

/// What a wrong number of rows in an embedding table means.
fn table_hint(name: &str, shapes: &WrongShape) -> Option<String> {
    let (encoder, rest) = name.split_once(".embeddings.")?;
    let column = rest.strip_suffix(".weight")?;
    let (&[expected, width], &[found, found_width]) =
        (shapes.expected.as_slice(), shapes.found.as_slice())
    else {
        return None;
    };
    if width != found_width {
        return None;
    }
    let chirality = column == "1" && encoder.starts_with("node_encoder");
    let release = match [expected.min(found), expected.max(found)] {
        [4, 5] if chirality => {
            "; in the atom features of the `ogb` package this column is the chirality, with 4 categories in older \
             releases and 5 in newer ones"
        }
        _ => "",
    };
    Some(format!(
        "{name}: expected {expected} rows, found {found}: the feature table of column {column} in `{encoder}` \
         differs; the checkpoint was trained on other categories than the configuration states{release}"
    ))
}
