//! Literals as Python's `str` writes their values.

use ruff_python_ast::Number;

use super::error::PythonError;

/// Most decimal digits of a whole number: Python writes out no longer ones.
const MAX_DIGITS: usize = 4_300;

/// A number.
pub(super) fn number(number: &Number) -> Result<String, PythonError> {
    match number {
        Number::Int(int) => match int.as_u64() {
            Some(small) => Ok(small.to_string()),
            None => large_int(&int.to_string()),
        },
        Number::Float(value) => Ok(float(*value)),
        Number::Complex { imag, .. } => {
            let text = float(*imag);
            Ok(format!("{}j", text.strip_suffix(".0").unwrap_or(&text)))
        }
    }
}

/// The decimal digits of a whole number as it stands in the source, prefix and underscores included.
fn large_int(token: &str) -> Result<String, PythonError> {
    let text = token.replace('_', "").to_ascii_lowercase();
    let (radix, digits) = match text.get(..2) {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        _ => (10, text.as_str()),
    };
    let too_large = |found| PythonError::TooLarge {
        what: "digits of a whole number",
        found,
        limit: MAX_DIGITS,
    };
    if radix == 10 {
        let digits = digits.trim_start_matches('0');
        return match digits.len() {
            0..=MAX_DIGITS => Ok(digits.to_string()),
            found => Err(too_large(found)),
        };
    }
    // Little-endian groups of nine decimal digits.
    const BASE: u64 = 1_000_000_000;
    let mut groups: Vec<u64> = vec![0];
    for digit in digits.chars().filter_map(|c| c.to_digit(radix)) {
        let mut carry = u64::from(digit);
        for group in &mut groups {
            let value = *group * u64::from(radix) + carry;
            (*group, carry) = (value % BASE, value / BASE);
        }
        if carry > 0 {
            groups.push(carry);
        }
        if groups.len() * 9 > MAX_DIGITS + 9 {
            return Err(too_large(groups.len() * 9));
        }
    }
    let first = groups.pop().unwrap_or_default();
    let rest = groups.iter().rev().map(|group| format!("{group:09}"));
    let text = format!("{first}{}", rest.collect::<String>());
    match text.len() {
        0..=MAX_DIGITS => Ok(text),
        found => Err(too_large(found)),
    }
}

/// A real number: the shortest digits that read back the same, with an exponent below 1e-4 and from
/// 1e16 on.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return "inf".to_string();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = format!("{value}");
    match plain.contains('.') {
        true => plain,
        false => format!("{plain}.0"),
    }
}

/// Bytes, as `b'...'`.
pub(super) fn bytes(value: impl Iterator<Item = u8> + Clone) -> String {
    let has = |wanted: u8| value.clone().any(|byte| byte == wanted);
    let quote = if has(b'\'') && !has(b'"') { '"' } else { '\'' };
    let mut text = format!("b{quote}");
    for byte in value {
        match byte {
            b'\t' => text.push_str("\\t"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' if char::from(byte) == quote => text.extend(['\\', quote]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push(quote);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left: the value; right: what CPython 3.11 prints for it.
    #[test]
    fn real_numbers_are_written_as_python_writes_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (9999999999999998.0, "9999999999999998.0"),
            (1e-4, "0.0001"),
            (0.00012, "0.00012"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(value), expected);
        }
        let complex = |imag| number(&Number::Complex { real: 0.0, imag });
        assert_eq!(complex(3.0), Ok("3j".to_string()));
        assert_eq!(complex(0.5), Ok("0.5j".to_string()));
        assert_eq!(complex(1e20), Ok("1e+20j".to_string()));
    }

    #[test]
    fn whole_numbers_of_any_size_are_decimal() {
        let cases = [
            ("0x1_0000_0000_0000_0000", "18446744073709551616"),
            ("0XffffFFFFffffFFFFff", "4722366482869645213695"),
            ("0o7777777777777777777777777", "37778931862957161709567"),
            ("100_000_000_000_000_000_000", "100000000000000000000"),
            (
                "0b10000000000000000000000000000000000000000000000000000000000000000000",
                "147573952589676412928",
            ),
        ];
        for (token, expected) in cases {
            assert_eq!(large_int(token).as_deref(), Ok(expected));
        }
        let most = "9".repeat(4300);
        assert_eq!(large_int(&most), Ok(most.clone()));
        assert!(matches!(
            large_int(&"9".repeat(4301)),
            Err(PythonError::TooLarge {
                found: 4301,
                limit: 4300,
                ..
            })
        ));
        assert!(large_int(&format!("0x{}", "f".repeat(3600))).is_err());
        assert!(large_int(&format!("0x{}", "f".repeat(3500))).is_ok());
    }

    #[test]
    fn bytes_are_written_as_python_writes_them() {
        let text = |value: &[u8]| bytes(value.iter().copied());
        assert_eq!(text(b"a\tb\n\r\\"), r"b'a\tb\n\r\\'");
        assert_eq!(text(b"it's"), r#"b"it's""#);
        assert_eq!(text(b"it's \"x\""), r#"b'it\'s "x"'"#);
        assert_eq!(text(&[0, 127, 255]), r"b'\x00\x7f\xff'");
    }
}
