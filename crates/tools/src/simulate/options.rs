//! What the options of simulations have in common.

use std::time::Duration;

use tidegate_core::parse_duration;

use crate::Failure;
use tidegate_simulation::{Expected, Unfit, float};

/// A duration in whole milliseconds.
pub(super) fn span_ms(text: &str) -> Result<u64, String> {
    let span = parse_duration(text).filter(|span| span.subsec_micros().is_multiple_of(1000));
    let ms = span.and_then(|span| u64::try_from(span.as_millis()).ok());
    ms.ok_or_else(|| "expected a duration in whole milliseconds like 250ms or 60s".to_owned())
}

/// A part of a hundred, in thousandths of the whole.
pub(super) fn percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    decimal(number, 1).ok_or_else(|| "expected a percentage like 85% or 99.9%".to_owned())
}

/// A multiple, in thousandths.
pub(super) fn multiple(text: &str) -> Result<u64, String> {
    decimal(text, 3).ok_or_else(|| "expected a multiple like 2 or 1.5".to_owned())
}

/// A decimal number, times ten to the power of `places`. Read as integers, so that no rounding can differ.
pub(super) fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > places || whole.is_empty() {
        return None;
    }
    format!("{whole}{decimals:0<places$}").parse().ok()
}

/// A duration as people write it.
pub(super) fn told_ms(ms: u64) -> String {
    match Duration::from_millis(ms) {
        Duration::ZERO => "0s".to_owned(),
        whole if ms.is_multiple_of(3_600_000) => format!("{}h", whole.as_secs() / 3600),
        span => format!("{span:?}"),
    }
}

/// An input that is out of bounds, in the words of the command line: `window_ms` is `--window` there, in any unit.
pub(super) fn usage(unfit: &Unfit) -> Failure {
    let (name, told): (_, fn(u64) -> String) = match unfit.field.rsplit_once('_') {
        Some((name, "ms")) => (name, told_ms),
        Some((name, "permille")) => (name, |value| format!("{}%", float(value) / 10.0)),
        Some((name, "milli")) => (name, |value| (float(value) / 1000.0).to_string()),
        _ => (unfit.field, |value| value.to_string()),
    };
    let expected = match &unfit.expected {
        Expected::Between(least, most) => format!("{} to {}", told(*least), told(*most)),
        Expected::Other(expected) => expected.clone(),
    };
    Failure::usage(format!("--{}: expected {expected}", name.replace('_', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        let read = |text| percent(text).ok();
        assert_eq!(
            ["85%", "85", "99.9 %", "0"].map(read),
            [Some(850), Some(850), Some(999), Some(0)]
        );
        for bad in ["", "%", "-1", "1e2", "99.99%", ".5", "8 5", "nan", "99999999999999999999%"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!([span_ms("1s"), span_ms("250ms")], [Ok(1000), Ok(250)]);
        assert!(span_ms("1500us").is_err() && span_ms("7").is_err());
    }
}
