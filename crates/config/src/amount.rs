//! Rates, counts and times as they are written, with errors that say what was meant.

use std::time::Duration;

use tidegate::{EXACT_MAX, parse_duration};

use super::text::{Amount, Span};
use tidegate_core::text::printable;

const UNITS: &str = "expected us, ms, s, min, h, day or week";

/// So many in a time: `100/min`, `30/90s`.
pub(crate) fn rate(amount: &Amount) -> Result<(u64, Duration), String> {
    let text = match amount {
        Amount::Rate(text) => text.trim(),
        Amount::Count(count) => return Err(no_rate(&count.to_string())),
    };
    let (number, time) = text.split_once('/').ok_or_else(|| no_rate(text))?;
    let (number, time) = (number.trim(), time.trim());
    if time.is_empty() || time.contains(char::is_whitespace) {
        return Err(no_rate(text));
    }
    Ok((whole(number)?, period(time)?))
}

/// So many: `100000`.
pub(crate) fn count(amount: &Amount) -> Result<u64, String> {
    match amount {
        Amount::Count(count) => Ok(*count),
        Amount::Rate(text) if text.contains('/') => {
            Err(format!("`{}` is a rate: expected a whole number alone", printable(text)))
        }
        Amount::Rate(text) => whole(text.trim()),
    }
}

/// A time: `90s`, `250ms`, `1h30min`.
pub(crate) fn span(span: &Span) -> Result<Duration, String> {
    duration(span.0.trim())
}

/// A time within bounds.
pub(crate) fn span_within(given: &Span, min: Duration, max: Duration) -> Result<Duration, String> {
    let duration = span(given)?;
    let within = (min..=max).contains(&duration);
    within.then_some(duration).ok_or_else(|| format!("expected {min:?} to {max:?}"))
}

/// What stands after the slash: a unit or a time.
fn period(time: &str) -> Result<Duration, String> {
    match time {
        "month" | "year" => Err(format!(
            "unit `{time}` has no fixed length: use `algorithm: quota` with `every: month`"
        )),
        _ if time.starts_with(|first: char| first.is_ascii_digit()) => duration(time),
        _ => duration(&format!("1{time}")),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let units = text.split(|char: char| char.is_ascii_digit()).filter(|unit| !unit.is_empty());
    for unit in units {
        match unit {
            "m" => return Err("unit `m` is unknown: min for minutes, ms for milliseconds".into()),
            _ if parse_duration(&format!("1{unit}")).is_some() => {}
            _ if unit.starts_with(['.', ',']) => {
                return Err(format!(
                    "`{}` has a fraction: use a smaller unit, like 500ms",
                    printable(text)
                ));
            }
            _ => return Err(format!("unit `{}` is unknown: {UNITS}", printable(unit))),
        }
    }
    parse_duration(text).ok_or_else(|| {
        format!("`{}` is no duration: expected one like 20ms, 90s or 1h30min", printable(text))
    })
}

fn whole(number: &str) -> Result<u64, String> {
    let is_plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = number.parse().ok().filter(|number| is_plain && *number <= EXACT_MAX);
    parsed
        .ok_or_else(|| format!("`{}` is no whole number from 1 to {EXACT_MAX}", printable(number)))
}

fn no_rate(text: &str) -> String {
    let shown = printable(text);
    if text.split_whitespace().nth(1).is_some() {
        format!(
            "`{shown}` is no rate: expected one like 100/min; what else there is has its own key"
        )
    } else {
        format!("`{shown}` does not say in what time: expected a rate like 100/min")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_number_and_a_time() {
        let read = |text: &str| rate(&Amount::Rate(text.to_owned()));
        for (text, expected) in [
            ("100/min", Ok((100, 60))),
            ("30/90s", Ok((30, 90))),
            ("5/h", Ok((5, 3600))),
            ("7/day", Ok((7, 86_400))),
            ("7 / 1h30min", Ok((7, 5400))),
            ("100", Err("`100` does not say in what time: expected a rate like 100/min")),
            ("5/m", Err("unit `m` is unknown: min for minutes, ms for milliseconds")),
            (
                "5/month",
                Err("unit `month` has no fixed length: use `algorithm: quota` with `every: month`"),
            ),
            (
                "5/fortnight",
                Err("unit `fortnight` is unknown: expected us, ms, s, min, h, day or week"),
            ),
            ("5/", Err("`5/` does not say in what time: expected a rate like 100/min")),
            ("5/0.5s", Err("`0.5s` has a fraction: use a smaller unit, like 500ms")),
            ("x/s", Err("`x` is no whole number from 1 to 9007199254740992")),
            ("-5/s", Err("`-5` is no whole number from 1 to 9007199254740992")),
            ("1e3/s", Err("`1e3` is no whole number from 1 to 9007199254740992")),
            (
                "5/s burst 7",
                Err(
                    "`5/s burst 7` is no rate: expected one like 100/min; what else there is has its own key",
                ),
            ),
        ] {
            let expected =
                expected.map(|(count, s)| (count, Duration::from_secs(s))).map_err(str::to_owned);
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
