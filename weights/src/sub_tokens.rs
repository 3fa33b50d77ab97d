//! The sub-tokens of function names that a model's classes stand for: `tokenizer.json` beside a
//! checkpoint.

use std::io::Write;
use std::path::{Path, PathBuf};

use tokenizers::{InputSequence, ModelWrapper, Tokenizer};

use crate::atomic_file::write_atomically;
use crate::bounded_read::read_small_file;
use crate::error::{Error, Result};

/// File name of the sub-tokens.
pub const SUB_TOKENS_FILE: &str = "tokenizer.json";
/// The class of sub-tokens that are not listed, the last but one.
pub const UNKNOWN: &str = "__UNK__";
/// The class of the end of a name, the last one.
pub const END: &str = "__EOS__";

/// The largest file that is read; 5002 sub-tokens take 120 kB.
const MAX_BYTES: u64 = 64 << 20;

/// The sub-tokens of a model, numbered as its classes.
///
/// They are a `tokenizers` file of the kind `WordLevel`: word `i` is class `i`, the last two classes
/// are [`UNKNOWN`] and [`END`].
///
/// ```
/// use candle_graph_weights::SubTokens;
///
/// let sub_tokens = SubTokens::new(["get", "name", "to", "node"])?;
/// // `__UNK__` is class 4, `__EOS__` class 5.
/// assert_eq!(sub_tokens.classes("getNode_byName", 5)?, [0, 3, 4, 1, 5]);
/// assert_eq!(sub_tokens.words(&[0, 3])?, ["get", "node"]);
/// # Ok::<(), candle_graph_weights::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SubTokens {
    tokenizer: Tokenizer,
    num_classes: usize,
    path: PathBuf,
}

impl SubTokens {
    /// The sub-tokens `words`, the class of each being its position, and the two special classes
    /// behind them (`get_vocab_mapping`).
    ///
    /// # Errors
    /// A word that stands twice, or is one of the special ones.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Result<Self> {
        let path = Path::new(SUB_TOKENS_FILE);
        let mut vocabulary = serde_json::Map::new();
        let words = words.into_iter().map(Into::into);
        for (class, word) in words.chain([UNKNOWN, END].map(String::from)).enumerate() {
            if vocabulary.contains_key(&word) {
                let problem = format!("the sub-token \"{word}\" stands twice");
                return Err(Error::format(path, problem));
            }
            vocabulary.insert(word, class.into());
        }
        let model = serde_json::json!({
            "type": "WordLevel",
            "vocab": vocabulary,
            "unk_token": UNKNOWN,
        });
        let file = serde_json::json!({ "version": "1.0", "model": model });
        Self::parse(path, file.to_string().as_bytes())
    }

    /// Reads `tokenizer.json` at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, is no `tokenizers` file, is of another kind than `WordLevel`, has
    /// gaps in its numbers, or does not end with the two special classes.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, &read_small_file(path, MAX_BYTES)?)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let refuse = |problem: String| Error::format(path, problem);
        let tokenizer = Tokenizer::from_bytes(bytes)
            .map_err(|error| refuse(format!("not a tokenizer: {error}")))?;
        if !matches!(tokenizer.get_model(), ModelWrapper::WordLevel(_)) {
            return Err(refuse("sub-tokens need a model of type WordLevel".into()));
        }
        let num_classes = tokenizer.get_vocab_size(true);
        let word = |class: usize| {
            u32::try_from(class)
                .ok()
                .and_then(|c| tokenizer.id_to_token(c))
        };
        if let Some(gap) = (0..num_classes).find(|&class| word(class).is_none()) {
            return Err(refuse(format!(
                "no sub-token has the number {gap}, although there are {num_classes}"
            )));
        }
        for (from_end, special) in [(2, UNKNOWN), (1, END)] {
            let found = num_classes.checked_sub(from_end).and_then(word);
            if found.as_deref() != Some(special) {
                return Err(refuse(format!(
                    "class {from_end} from the end must be {special}, but is {}",
                    found.as_deref().unwrap_or("missing")
                )));
            }
        }
        Ok(Self {
            tokenizer,
            num_classes,
            path: path.to_path_buf(),
        })
    }

    /// Writes the file [`SUB_TOKENS_FILE`] into `folder`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(SUB_TOKENS_FILE);
        let text = self.tokenizer.to_string(true).map_err(|error| {
            Error::format(&path, format!("the tokenizer cannot be written: {error}"))
        })?;
        write_atomically(&path, |file| writeln!(file, "{text}"))?;
        Ok(path)
    }

    /// Number of classes, the two special ones included.
    pub fn num_classes(&self) -> usize {
        self.num_classes
    }

    /// The classes of a function's name as the targets of a model with `positions` outputs: its
    /// parts ([`name_parts`]) cut at `positions`, or followed by [`END`] up to there
    /// (`encode_seq_to_arr`).
    ///
    /// # Errors
    /// None, unless the file's own pre-processing fails.
    pub fn classes(&self, name: &str, positions: usize) -> Result<Vec<u32>> {
        let mut classes = Vec::with_capacity(positions);
        let refuse = |problem: String| Error::format(&self.path, problem);
        for part in name_parts(name).into_iter().take(positions) {
            let words = InputSequence::from(vec![part.clone()]);
            let encoding = self.tokenizer.encode(words, false);
            let encoding = encoding.map_err(|e| refuse(format!("\"{part}\": {e}")))?;
            match encoding.get_ids() {
                [class] => classes.push(*class),
                ids => {
                    let problem = format!("\"{part}\" becomes {} sub-tokens, not one", ids.len());
                    return Err(refuse(problem));
                }
            }
        }
        classes.resize(positions, self.num_classes.saturating_sub(1) as u32);
        Ok(classes)
    }

    /// The sub-tokens of `classes`.
    ///
    /// # Errors
    /// A class that there is not.
    pub fn words(&self, classes: &[u32]) -> Result<Vec<String>> {
        let word = |&class: &u32| {
            self.tokenizer.id_to_token(class).ok_or_else(|| {
                let problem = format!("no class {class}: there are {}", self.num_classes);
                Error::format(&self.path, problem)
            })
        };
        classes.iter().map(word).collect()
    }
}

/// The parts of an identifier in lower case: cut at underscores, before a capital that follows a
/// small letter or a digit or begins a word after an acronym (`parseHTTPHeader`: `parse`, `http`,
/// `header`), and between letters and digits. An identifier of nothing but underscores is one part.
pub fn name_parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for piece in name.split(|c: char| c == '_' || c.is_whitespace()) {
        let letters: Vec<char> = piece.chars().collect();
        let mut part = String::new();
        for (at, &letter) in letters.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|b| letters.get(b));
            let after = letters.get(at + 1);
            let cut = before.is_some_and(|before| {
                let word_begins = letter.is_uppercase()
                    && (before.is_lowercase() || after.is_some_and(|a| a.is_lowercase()));
                word_begins || before.is_numeric() != letter.is_numeric()
            });
            if cut && !part.is_empty() {
                parts.push(std::mem::take(&mut part));
            }
            part.extend(letter.to_lowercase());
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    match parts.is_empty() {
        true => vec![name.to_string()],
        false => parts,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        for (name, parts) in [
            ("get_node_by_id", vec!["get", "node", "by", "id"]),
            ("__init__", vec!["init"]),
            ("parseHTTPHeader", vec!["parse", "http", "header"]),
            ("toJSON", vec!["to", "json"]),
            ("x2y", vec!["x", "2", "y"]),
            ("utf8Text", vec!["utf", "8", "text"]),
            ("ÉtéChaud", vec!["été", "chaud"]),
            ("___", vec!["___"]),
            ("A", vec!["a"]),
        ] {
            assert_eq!(name_parts(name), parts, "{name}");
        }
    }

    #[test]
    fn classes_are_cut_filled_and_unknown_where_they_must_be() {
        let sub_tokens = SubTokens::new(["get", "name"]).unwrap();
        assert_eq!(sub_tokens.num_classes(), 4);
        let classes = |name, positions| sub_tokens.classes(name, positions).unwrap();
        assert_eq!(classes("get_name", 5), [0, 1, 3, 3, 3]);
        assert_eq!(classes("GetOtherName", 5), [0, 2, 1, 3, 3]);
        assert_eq!(classes("get_name_get", 2), [0, 1]);
        assert_eq!(classes("get", 0), [0u32; 0]);
        // A special word in a name is no special class of its own.
        assert_eq!(classes("__EOS__", 2), [2, 3]);
        assert_eq!(sub_tokens.words(&[1, 0, 3]).unwrap(), ["name", "get", END]);
        let message = sub_tokens.words(&[4]).unwrap_err().to_string();
        assert!(message.contains("no class 4: there are 4"), "{message}");
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let sub_tokens = SubTokens::new(["b", "a", "zeta"]).unwrap();
        let path = sub_tokens.write(folder.path()).unwrap();
        let read = SubTokens::read(&path).unwrap();
        assert_eq!(
            read.words(&[0, 1, 2, 3, 4]).unwrap(),
            ["b", "a", "zeta", UNKNOWN, END]
        );
        assert_eq!(read.classes("zeta_b", 3).unwrap(), [2, 0, 4]);
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        assert!(SubTokens::new(["a", "a"]).is_err());
        assert!(SubTokens::new(["a", END]).is_err());
        let file = |vocab: &str| {
            format!(
                r#"{{"version": "1.0", "model": {{"type": "WordLevel", "vocab": {vocab}, "unk_token": "__UNK__"}}}}"#
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SUB_TOKENS_FILE);
        for (text, words) in [
            ("{}".to_string(), "not a tokenizer"),
            ("[".to_string(), "not a tokenizer"),
            (
                file(r#"{"a": 0, "__UNK__": 2, "__EOS__": 3}"#),
                "no sub-token has the number 1",
            ),
            (
                file(r#"{"a": 0, "__EOS__": 1, "__UNK__": 2}"#),
                "class 2 from the end must be __UNK__, but is __EOS__",
            ),
            (file(r#"{"__EOS__": 0}"#), "must be __UNK__, but is missing"),
            (
                r#"{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}"#
                    .to_string(),
                "of type WordLevel",
            ),
        ] {
            std::fs::write(&path, &text).unwrap();
            let message = SubTokens::read(&path).unwrap_err().to_string();
            assert!(
                message.contains(words) && message.contains(SUB_TOKENS_FILE),
                "{message}"
            );
        }
        assert!(SubTokens::read(&folder.path().join("none.json")).is_err());
    }
}
