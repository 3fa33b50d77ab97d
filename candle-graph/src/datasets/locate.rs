//! Where in a JSON text an error lies: a scanner that only follows nesting and keys, and takes any
//! other token as it is, so that it also reads what a strict parser refuses.

/// One step from the outermost value inwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an object's member.
    Field(String),
    /// Into a list's element.
    Index(usize),
}

/// A value that the scanner met, with the way to it (see [`walk`]).
pub(super) struct Visit<'a> {
    pub(super) path: &'a [Step],
    pub(super) start: usize,
    /// The token: a string with its quotes, a literal, or the opening bracket.
    pub(super) token: &'a [u8],
}

/// Deeper nesting than a strict parser accepts is not followed.
const MAX_DEPTH: usize = 128;

/// Calls `visit` for every value of `text` in order until it returns false or the nesting makes no
/// sense any more.
pub(super) fn walk(text: &[u8], mut visit: impl FnMut(Visit<'_>) -> bool) {
    let mut path: Vec<Step> = Vec::new();
    let mut expect_key = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b':' => expect_key = false,
            b',' => match path.last_mut() {
                Some(Step::Index(index)) => *index += 1,
                Some(Step::Field(_)) => expect_key = true,
                None => {}
            },
            b'{' | b'[' => {
                let go_on = visit(Visit {
                    path: &path,
                    start,
                    token: &text[start..at],
                });
                if !go_on || path.len() >= MAX_DEPTH {
                    return;
                }
                expect_key = byte == b'{';
                path.push(if expect_key {
                    Step::Field(String::new())
                } else {
                    Step::Index(0)
                });
            }
            b'}' | b']' => {
                expect_key = false;
                path.pop();
                if path.is_empty() {
                    return;
                }
            }
            _ => {
                at = if byte == b'"' {
                    end_of_string(text, at)
                } else {
                    end_of_literal(text, at)
                };
                let token = &text[start..at];
                if expect_key {
                    if let Some(Step::Field(key)) = path.last_mut() {
                        *key = unquoted(token);
                    }
                } else if !visit(Visit {
                    path: &path,
                    start,
                    token,
                }) {
                    return;
                }
            }
        }
    }
}

fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'\\' => at += 1,
            b'"' => break,
            _ => {}
        }
    }
    at.min(text.len())
}

fn end_of_literal(text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let length = rest.iter().position(|b| {
        matches!(
            b,
            b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'"' | b'{' | b'}' | b'[' | b']'
        )
    });
    start + length.unwrap_or(rest.len())
}

/// The text of a string token.
fn unquoted(token: &[u8]) -> String {
    serde_json::from_slice(token).unwrap_or_else(|_| {
        let inner = token.strip_prefix(b"\"").unwrap_or(token);
        let inner = inner.strip_suffix(b"\"").unwrap_or(inner);
        String::from_utf8_lossy(inner).into_owned()
    })
}

/// The way to the last value that starts at or before `offset`, and its token.
pub(super) fn value_at(text: &[u8], offset: usize) -> Option<(Vec<Step>, String)> {
    let mut last = None;
    walk(text, |visit| {
        let before = visit.start <= offset;
        if before {
            last = Some(visit.start);
        }
        before
    });
    let last = last?;
    let mut found = None;
    // The path is only copied once its value is known: texts may be long.
    walk(text, |visit| {
        if visit.start == last {
            let shown = visit.token.get(..40).unwrap_or(visit.token);
            let shown = String::from_utf8_lossy(shown).into_owned();
            found = Some((visit.path.to_vec(), shown));
        }
        visit.start < last
    });
    found
}

/// The token of the first value whose path consists of the member names `fields`.
pub(super) fn member(text: &[u8], fields: &[&str]) -> Option<(usize, String)> {
    let mut found = None;
    walk(text, |visit| {
        let here = visit.path.len() == fields.len()
            && visit
                .path
                .iter()
                .zip(fields)
                .all(|(step, field)| matches!(step, Step::Field(name) if name == field));
        if here {
            let token = String::from_utf8_lossy(visit.token).into_owned();
            found = Some((visit.start, token));
        }
        !here
    });
    found
}

/// A path in words: the field, and the rest as it is counted in that field.
pub(super) fn describe(path: &[Step]) -> Option<(String, String)> {
    let (first, rest) = path.split_first()?;
    let Step::Field(field) = first else {
        return None;
    };
    let place = match rest {
        [] => String::new(),
        [Step::Index(row)] => format!(" at row {row}"),
        [Step::Index(row), Step::Index(column)] => format!(" at row {row}, column {column}"),
        _ => {
            let mut place = format!(" at {field}");
            for step in rest {
                match step {
                    Step::Field(name) => {
                        place.push('.');
                        place.push_str(name);
                    }
                    Step::Index(index) => place.push_str(&format!("[{index}]")),
                }
            }
            place
        }
    };
    Some((field.clone(), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_offset_with_its_path() {
        let text = br#"{"a":"x\"]","b":[[1,2],[3,NaN]],"c":{"d":[7]}}"#;
        let at = |word: &str| {
            let text = std::str::from_utf8(text).unwrap();
            let (path, token) = value_at(text.as_bytes(), text.find(word).unwrap()).unwrap();
            (describe(&path).unwrap(), token)
        };
        let (place, token) = at("NaN");
        assert_eq!(place, ("b".into(), " at row 1, column 1".into()));
        assert_eq!(token, "NaN");
        assert_eq!(at("7").0, ("c".into(), " at c.d[0]".into()));
        assert_eq!(at("x\\").1, r#""x\"]""#);
    }

    #[test]
    fn members_are_found_at_their_own_depth() {
        let text = br#"{"inner":{"id":1},"id":"me","list":[{"id":2}]}"#;
        assert_eq!(member(text, &["id"]).unwrap().1, "\"me\"");
        assert_eq!(member(text, &["inner", "id"]).unwrap().1, "1");
        assert!(member(text, &["nope"]).is_none());
    }
}
