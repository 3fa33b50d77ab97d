//! Patterns of tensor names.

use std::borrow::Cow;

/// What a pattern's placeholders stood for: the text between the braces and what it matched.
pub(super) type Captures<'a> = Vec<(&'static str, &'a str)>;

/// Matches `name` against `pattern` from end to end.
///
/// A pattern is literal text with placeholders: `{i}` (any single word) is a decimal index, `{a|b|c}` is one of the
/// words, `{*}` is any text that is not empty.
pub(super) fn matches<'a>(pattern: &'static str, name: &'a str) -> Option<Captures<'a>> {
    let mut captures = Vec::new();
    match_rest(pattern, name, &mut captures).then_some(captures)
}

fn match_rest<'a>(pattern: &'static str, name: &'a str, captures: &mut Captures<'a>) -> bool {
    let Some((literal, placeholder, rest)) = split_placeholder(pattern) else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(literal) else {
        return false;
    };
    let depth = captures.len();
    for length in candidate_lengths(placeholder, name) {
        let Some((taken, remaining)) = name.split_at_checked(length) else {
            continue;
        };
        captures.push((placeholder, taken));
        if match_rest(rest, remaining, captures) {
            return true;
        }
        captures.truncate(depth);
    }
    false
}

/// The most digits of an index: no model has more layers than that, and every index is a number.
const MAX_DIGITS: usize = 9;

/// Lengths that a placeholder may take at the beginning of `name`.
fn candidate_lengths(placeholder: &str, name: &str) -> Vec<usize> {
    if placeholder == "*" {
        return (1..=name.len()).collect();
    }
    if placeholder.contains('|') {
        return placeholder
            .split('|')
            .filter(|word| name.starts_with(word))
            .map(str::len)
            .collect();
    }
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    let padded = digits > 1 && name.starts_with('0');
    if digits == 0 || digits > MAX_DIGITS || padded {
        Vec::new()
    } else {
        vec![digits]
    }
}

/// Replaces every placeholder of `pattern` by what the placeholder of the same text captured, `{i/2}` by half of the
/// index that `{i}` captured, and `{last}` by `last`.
///
/// `None` when a placeholder was not captured.
pub(super) fn fill(pattern: &'static str, captures: &Captures<'_>, last: usize) -> Option<String> {
    let mut filled = String::new();
    let mut pattern = pattern;
    while let Some((literal, placeholder, rest)) = split_placeholder(pattern) {
        let captured = |placeholder: &str| {
            let found = captures.iter().find(|(name, _)| *name == placeholder);
            found.map(|(_, value)| *value)
        };
        let value = match (captured(placeholder), placeholder.strip_suffix("/2")) {
            (Some(value), _) => Cow::Borrowed(value),
            (None, Some(index)) => {
                let index: usize = captured(index)?.parse().ok()?;
                Cow::Owned((index / 2).to_string())
            }
            (None, None) if placeholder == "last" => Cow::Owned(last.to_string()),
            (None, None) => return None,
        };
        filled.push_str(literal);
        filled.push_str(&value);
        pattern = rest;
    }
    filled.push_str(pattern);
    Some(filled)
}

fn split_placeholder(pattern: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let (literal, rest) = pattern.split_once('{')?;
    let (placeholder, rest) = rest.split_once('}')?;
    Some((literal, placeholder, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(from: &'static str, to: &'static str, name: &str) -> Option<String> {
        fill(to, &matches(from, name)?, 7)
    }

    #[test]
    fn indices_and_alternatives_are_carried_over() {
        let rename = |name| {
            renamed(
                "layers.{i}.Q.{weight|bias}",
                "l.{i}.query.{weight|bias}",
                name,
            )
        };
        assert_eq!(
            rename("layers.12.Q.bias").as_deref(),
            Some("l.12.query.bias")
        );
        assert_eq!(rename("layers.12.Q.biases"), None);
        assert_eq!(rename("layers.x.Q.bias"), None);
        assert_eq!(rename("layers..Q.bias"), None);
        assert_eq!(
            rename("layers.01.Q.bias"),
            None,
            "padded indices would collide"
        );
    }

    #[test]
    fn any_text_backtracks() {
        assert!(matches("{*}.num", "a.num.b.num").is_some());
        assert!(matches("{*}.num", ".num").is_none());
        assert!(matches("{*}.num", "a.num.b").is_none());
    }

    #[test]
    fn the_last_index_is_filled_in() {
        assert_eq!(
            renamed("m.1.w", "head.{last}.w", "m.1.w").as_deref(),
            Some("head.7.w")
        );
    }

    #[test]
    fn an_index_can_be_halved() {
        let rename = |name| renamed("m.{k}.{w|b}", "l.{k/2}.{w|b}", name);
        assert_eq!(rename("m.0.w").as_deref(), Some("l.0.w"));
        assert_eq!(rename("m.5.b").as_deref(), Some("l.2.b"));
        assert_eq!(
            rename("m.99999999999999999999.w"),
            None,
            "such a number would not fit"
        );
    }

    #[test]
    fn names_outside_ascii_do_not_panic() {
        assert!(matches("{*}.x", "é.x").is_some());
        assert!(matches("{*}x{*}", "éé").is_none());
    }
}
