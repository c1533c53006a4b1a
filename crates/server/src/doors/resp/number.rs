//! Parses integers: decimal digits after an optional sign, and nothing else.

/// `None` if the text is not an integer, or does not fit.
#[inline]
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    // 18 digits always fit, so the loop needs no overflow check. Longer numbers are rare.
    if digits.is_empty() || digits.len() > 18 {
        return parse_long(text);
    }
    let mut number = 0_i64;
    for digit in digits {
        let value = digit.wrapping_sub(b'0');
        if value > 9 {
            return None;
        }
        number = number * 10 + i64::from(value);
    }
    Some(if negative { -number } else { number })
}

#[cold]
fn parse_long(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_are_parsed() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+5", Some(5)),
            ("007", Some(7)),
            ("999999999999999999", Some(999_999_999_999_999_999)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("00000000000000000000000001", Some(1)),
            ("", None),
            ("-", None),
            ("--1", None),
            ("1e400", None),
            ("nan", None),
            ("inf", None),
            ("1.0", None),
            ("0x10", None),
            (" 1", None),
            ("1 ", None),
            ("١", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
    }
}
