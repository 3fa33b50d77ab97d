//! Patterns of tensor names.

use std::borrow::Cow;

/// What a pattern's placeholders stood for: the text between the braces and what to fill in for it.
pub(super) type Captures<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// Matches `name` against `pattern` from end to end.
///
/// A pattern is literal text with placeholders: `{i}` (any single word) is a decimal index, `{a|b|c}` is one of the
/// words, `{*}` is any text that is not empty. `{a>x|b>y}` is one of the words `a` and `b`, filled in as `x` and `y`.
///
/// `{_i}` counts modules of the same name as Haiku does, which adds nothing to the first, `_1` to the second and so on:
/// it is filled in as 0, 1, …. `{_2i}` matches every other of these, from the first on, and `{_2i+1}` the ones between;
/// both are filled in as half the number, rounded down.
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
    for (length, value) in candidates(placeholder, name) {
        let Some((_, remaining)) = name.split_at_checked(length) else {
            continue;
        };
        captures.push((placeholder, value));
        if match_rest(rest, remaining, captures) {
            return true;
        }
        captures.truncate(depth);
    }
    false
}

/// The most digits of an index: no model has more layers than that, and every index is a number.
const MAX_DIGITS: usize = 9;

/// Lengths that a placeholder may take at the beginning of `name`, and what is then filled in for it.
fn candidates<'a>(
    placeholder: &'static str,
    name: &'a str,
) -> Box<dyn Iterator<Item = (usize, Cow<'a, str>)> + 'a> {
    let taken = |length| Some((length, Cow::Borrowed(name.get(..length)?)));
    if placeholder == "*" {
        return Box::new((1..=name.len()).filter_map(taken));
    }
    if placeholder.contains(['|', '>']) {
        let words = placeholder.split('|').filter_map(move |word| {
            let (word, value) = word.split_once('>').unwrap_or((word, word));
            name.starts_with(word)
                .then_some((word.len(), Cow::Borrowed(value)))
        });
        return Box::new(words);
    }
    if let Some(counted) = placeholder.strip_prefix('_') {
        return Box::new(module_number(counted, name).into_iter());
    }
    Box::new(index_length(name).and_then(taken).into_iter())
}

/// Length of the decimal index at the beginning of `name`.
fn index_length(name: &str) -> Option<usize> {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    let padded = digits > 1 && name.starts_with('0');
    (digits > 0 && digits <= MAX_DIGITS && !padded).then_some(digits)
}

/// Length and value of Haiku's number of a module; `counted` is the placeholder without its `_`.
fn module_number<'a>(counted: &str, name: &str) -> Option<(usize, Cow<'a, str>)> {
    let (length, number) = match name.strip_prefix('_') {
        Some(rest) => {
            let digits = index_length(rest)?;
            let number: usize = rest.get(..digits)?.parse().ok()?;
            // The first one has no number.
            (digits + 1, Some(number).filter(|&number| number > 0)?)
        }
        None => (0, 0),
    };
    let value = match (counted.strip_prefix('2'), counted.ends_with("+1")) {
        (None, _) => number,
        (Some(_), odd) if odd == (number % 2 == 1) => number / 2,
        _ => return None,
    };
    Some((length, Cow::Owned(value.to_string())))
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
            found.map(|(_, value)| value.as_ref())
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
    fn words_can_be_translated() {
        let rename = |name| renamed("m.{w>weight|b>bias}", "l.{w>weight|b>bias}", name);
        assert_eq!(rename("m.w").as_deref(), Some("l.weight"));
        assert_eq!(rename("m.b").as_deref(), Some("l.bias"));
        assert_eq!(rename("m.weight"), None);
        let one = |name| renamed("{only>0}.x", "{only>0}.y", name);
        assert_eq!(one("only.x").as_deref(), Some("0.y"));
    }

    #[test]
    fn modules_of_one_name_are_counted_as_haiku_does() {
        let rename = |name| renamed("layer{_i}/w", "layers.{_i}.w", name);
        assert_eq!(rename("layer/w").as_deref(), Some("layers.0.w"));
        assert_eq!(rename("layer_1/w").as_deref(), Some("layers.1.w"));
        assert_eq!(rename("layer_12/w").as_deref(), Some("layers.12.w"));
        for name in [
            "layer_0/w",
            "layer_01/w",
            "layer_/w",
            "layer1/w",
            "layer_norm/w",
            "layer_9999999999/w",
        ] {
            assert_eq!(rename(name), None, "{name}");
        }
        let even = |name| renamed("m{_2i}", "a.{_2i}", name);
        let odd = |name| renamed("m{_2i+1}", "b.{_2i+1}", name);
        assert_eq!(even("m").as_deref(), Some("a.0"));
        assert_eq!((even("m_1"), odd("m")), (None, None));
        assert_eq!(odd("m_1").as_deref(), Some("b.0"));
        assert_eq!(even("m_4").as_deref(), Some("a.2"));
        assert_eq!(odd("m_5").as_deref(), Some("b.2"));
    }

    #[test]
    fn names_outside_ascii_do_not_panic() {
        assert!(matches("{*}.x", "é.x").is_some());
        assert!(matches("{*}x{*}", "éé").is_none());
    }
}
