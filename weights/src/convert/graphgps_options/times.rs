//! Walk lengths and diffusion times (`posenc_RWSE.kernel` and its likes).

use serde_json::Value;

use crate::convert::options::Options;
use crate::error::Result;

/// The most times that a kernel may have, and the largest of them.
const MOST: i64 = 100_000;

/// The times of the section `section`: `kernel.times_func`, a Python `range`, where it is set,
/// otherwise the list `kernel.times`.
pub(super) fn times(options: &Options, section: &str, default: &str) -> Result<Vec<u32>> {
    let func = format!("{section}.kernel.times_func");
    let list = format!("{section}.kernel.times");
    let text = options.text(&func, default)?;
    let listed = options.get(&list);
    if !text.trim().is_empty() {
        return range(&text).map_err(|problem| options.refuse(&func, problem));
    }
    let refuse = |problem: String| options.refuse(&list, problem);
    let Some(listed) = listed else {
        return Err(refuse(
            "absent, and so is `times_func`; the encoding needs times".to_string(),
        ));
    };
    let values = listed.as_array().filter(|values| !values.is_empty());
    let Some(values) = values else {
        return Err(refuse(format!(
            "expected a list of whole numbers, found {listed}"
        )));
    };
    if values.len() as u64 > MOST as u64 {
        return Err(refuse(format!("more than {MOST} times")));
    }
    let time = |value: &Value| {
        let time = value.as_u64().filter(|&time| time <= MOST as u64);
        time.and_then(|time| u32::try_from(time).ok())
            .ok_or_else(|| {
                refuse(format!(
                    "expected whole numbers from 0 to {MOST}, found {value}"
                ))
            })
    };
    values.iter().map(time).collect()
}

/// The numbers of `range(stop)`, `range(start, stop)` or `range(start, stop, step)`, optionally
/// within `list(…)`, or of a list in brackets. Nothing is evaluated.
fn range(text: &str) -> std::result::Result<Vec<u32>, String> {
    let unknown = || {
        format!(
            "`{text}` is neither a `range(…)` of whole numbers nor a list of them; the official \
             code would run it as Python, which is not done here"
        )
    };
    let within = |text: &str, open: &str, close: char| {
        let text = text.trim().strip_prefix(open)?.trim_start();
        Some(text.strip_suffix(close)?.trim().to_string())
    };
    let call = |text: &str, name: &str| within(text.trim().strip_prefix(name)?, "(", ')');
    let numbers = |text: &str| -> Option<Vec<i64>> {
        let text = text.strip_suffix(',').unwrap_or(text);
        text.split(',')
            .map(|part| part.trim().parse().ok())
            .collect()
    };
    let inner = call(text, "list").unwrap_or_else(|| text.to_string());
    let values: Vec<i64> = if let Some(arguments) = call(&inner, "range") {
        let (start, stop, step) = match numbers(&arguments).as_deref() {
            Some(&[stop]) => (0, stop, 1),
            Some(&[start, stop]) => (start, stop, 1),
            Some(&[start, stop, step]) => (start, stop, step),
            _ => return Err(unknown()),
        };
        let Ok(step) = usize::try_from(step) else {
            return Err(format!("`{text}` runs backwards"));
        };
        if step == 0 {
            return Err(format!("`{text}` has a step of 0"));
        }
        if start < 0 || stop > MOST + 1 {
            return Err(format!("`{text}` leaves the numbers from 0 to {MOST}"));
        }
        (start..stop).step_by(step).collect()
    } else if let Some(listed) = within(&inner, "[", ']') {
        numbers(&listed).ok_or_else(unknown)?
    } else {
        return Err(unknown());
    };
    if values.is_empty() {
        return Err(format!("`{text}` is empty"));
    }
    let time = |value: i64| {
        (u32::try_from(value).ok().filter(|_| value <= MOST))
            .ok_or_else(|| format!("`{text}` holds {value}, which is not from 0 to {MOST}"))
    };
    values.into_iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::range;

    #[test]
    fn ranges_and_lists_are_read_as_python_reads_them() {
        assert_eq!(range("range(3)").as_deref(), Ok(&[0, 1, 2][..]));
        assert_eq!(range("range(1,4)").as_deref(), Ok(&[1, 2, 3][..]));
        assert_eq!(range(" range( 1 , 8 , 3 ) ").as_deref(), Ok(&[1, 4, 7][..]));
        assert_eq!(range("list(range(2, 4))").as_deref(), Ok(&[2, 3][..]));
        assert_eq!(range("[1, 2, 5]").as_deref(), Ok(&[1, 2, 5][..]));
        assert_eq!(range("[7,]").as_deref(), Ok(&[7][..]));
    }

    #[test]
    fn anything_else_is_refused_and_nothing_is_evaluated() {
        for (text, reason) in [
            ("range(1, 10**2)", "run it as Python"),
            ("__import__('os').system('true')", "run it as Python"),
            ("range(1, 17) + [20]", "run it as Python"),
            ("range()", "run it as Python"),
            ("range(1, 2, 3, 4)", "run it as Python"),
            ("[1, x]", "run it as Python"),
            ("[]", "run it as Python"),
            ("range(4, 1)", "empty"),
            ("range(4, 1, -1)", "backwards"),
            ("range(1, 4, 0)", "step of 0"),
            ("range(-1, 4)", "from 0 to"),
            ("range(1, 1000000000000)", "from 0 to"),
            ("[1, 200000]", "200000"),
            ("[1, -2]", "-2"),
        ] {
            let error = range(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
