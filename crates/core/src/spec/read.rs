//! Numbers, rates, periods and offsets as people write them.

use std::fmt;
use std::time::Duration;

use super::{Field, FieldError, LimitSpec};
use crate::calendar::Every;
use crate::text::{self, printable};

/// A length of time, or a period of the calendar.
///
/// A rate takes both, and counts a day as 24 hours; for a quota, `day` ends at midnight and `24h` does not.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Every, Period};
///
/// assert_eq!(Period::Calendar(Every::Day).to_string(), "day");
/// assert_eq!(Period::Length(Duration::from_secs(90)).to_string(), "90s");
/// assert_eq!(Period::Calendar(Every::Day).length(), Ok(Duration::from_secs(86_400)));
/// assert!(Period::Calendar(Every::Month).length().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// A fixed length.
    Length(Duration),
    /// A day, a week or a month.
    Calendar(Every),
}

impl Period {
    /// The period of a rate, which counts a day as 24 hours: `100/day` rather than `100/1day`.
    pub(crate) fn from_rate(length: Duration) -> Self {
        if length == Every::Day.nominal() {
            Self::Calendar(Every::Day)
        } else {
            Self::Length(length)
        }
    }

    /// Its length, where it has one: a month has none.
    pub fn length(self) -> Result<Duration, FieldError> {
        match self {
            Self::Length(length) => Ok(length),
            Self::Calendar(Every::Month) => {
                Err(no_fixed_length("month", "use algorithm quota, or 30day"))
            }
            Self::Calendar(every) => Ok(every.nominal()),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => f.write_str(&rate_period(*length)),
            Self::Calendar(every) => f.write_str(every.as_str()),
        }
    }
}

/// A length behind a slash: `min` for a minute, but `1day`, since `day` is one of the calendar.
fn rate_period(length: Duration) -> String {
    let text = text::duration(length);
    match text.as_str() {
        "1h" | "1min" | "1s" => text[1..].to_owned(),
        _ => text,
    }
}

/// Reads a rate, with an error that says which part of it is wrong: `100/min`, `30/90s`, `100000/month`.
///
/// ```
/// use tidegate_core::{Every, Period, read_rate};
///
/// assert_eq!(read_rate("5/month"), Ok((5, Period::Calendar(Every::Month))));
/// assert_eq!(read_rate("5").unwrap_err().to_string(), "`5` has no time unit: write 5/min");
/// ```
pub fn rate(text: &str) -> Result<(u64, Period), FieldError> {
    let text = text.trim();
    if let Some(error) = whole_line(text) {
        return Err(error);
    }
    let Some((number, time)) = text.split_once('/') else { return Err(no_time_unit(text)) };
    let (number, time) = (number.trim(), time.trim());
    if time.contains(char::is_whitespace) {
        return Err(several_words(text));
    }
    if time.is_empty() {
        return Err(no_time_unit(text));
    }
    Ok((whole(number)?, period(time)?))
}

/// `100000`.
pub(super) fn count(text: &str) -> Result<u64, FieldError> {
    let text = text.trim();
    if text.contains('/') { Err(not_a_count(text)) } else { whole(text) }
}

pub(super) fn no_time_unit(text: &str) -> FieldError {
    let number = text.strip_suffix('/').unwrap_or(text).trim_end();
    if number.contains(char::is_whitespace) {
        return several_words(text);
    }
    if number.is_empty() || !is_digits(number) || number.len() > 20 {
        return FieldError::expected(text, "a rate like 100/min");
    }
    FieldError::text(format!("`{}` has no time unit: write {number}/min", printable(text)))
}

/// The error about a limit of one line where its rate belongs: the fields that it has.
fn whole_line(text: &str) -> Option<FieldError> {
    let spec = text.contains(char::is_whitespace).then(|| LimitSpec::from_line(text).ok())??;
    let field = |(field, value): &(Field, String)| format!("{}: {value}", field.name());
    let fields = spec.fields().iter().map(field).collect::<Vec<_>>().join(", ");
    let text = printable(text);
    Some(FieldError::text(format!("`{text}` is more than a rate: write `{{ {fields} }}`")))
}

fn several_words(text: &str) -> FieldError {
    FieldError::expected(text, "a rate like 100/min; other options have keys of their own")
}

pub(super) fn not_a_count(rate: &str) -> FieldError {
    FieldError::text(format!("`{}` is a rate: expected a whole number alone", printable(rate)))
}

/// A whole number. The bounds of a limit are checked where it is built.
pub(crate) fn whole(text: &str) -> Result<u64, FieldError> {
    let number = text.parse().ok().filter(|_| is_digits(text));
    number.ok_or_else(|| FieldError::expected(text, "a whole number from 1 to 2^53"))
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A unit of time, a period of the calendar, or a duration: `min`, `month`, `90s`.
pub(super) fn period(text: &str) -> Result<Period, FieldError> {
    match text {
        "day" => Ok(Period::Calendar(Every::Day)),
        "week" => Ok(Period::Calendar(Every::Week)),
        "month" => Ok(Period::Calendar(Every::Month)),
        "year" => Err(no_fixed_length("year", "write 365day")),
        _ if text.starts_with(|first: char| first.is_ascii_digit()) => {
            duration(text).map(Period::Length)
        }
        _ => match unit_us(text) {
            Some(us) => Ok(Period::Length(Duration::from_micros(us))),
            None => Err(unknown_unit(text)),
        },
    }
}

/// The period of a budget: all that it may be is told.
pub(super) fn every(text: &str) -> Result<Period, FieldError> {
    let expected = "day, week, month or a duration like 90s, 12h or 365day";
    period(text).map_err(|_| FieldError::expected(text, expected))
}

fn no_fixed_length(unit: &str, advice: &str) -> FieldError {
    FieldError::text(format!("unit `{unit}` has no fixed length: {advice}"))
}

fn unknown_unit(unit: &str) -> FieldError {
    let meant = match unit.to_lowercase().as_str() {
        "msec" | "msecs" | "millis" | "milliseconds" => Some("ms"),
        "secs" | "seconds" => Some("s"),
        "mins" | "minutes" => Some("min"),
        "hr" | "hrs" | "hours" => Some("h"),
        "days" => Some("day"),
        "weeks" | "w" => Some("week"),
        _ => None,
    };
    let unit = printable(unit);
    FieldError::text(match meant {
        Some(meant) => format!("unit `{unit}` is unknown: write {meant}"),
        None => format!("unit `{unit}` is unknown: expected us, ms, s, min, h, day or week"),
    })
}

/// Reads a duration as [`parse_duration`] does, with an error that says which part of it is wrong.
///
/// ```
/// use tidegate_core::read_duration;
///
/// let error = read_duration("5fortnights").unwrap_err();
/// assert!(error.to_string().starts_with("unit `fortnights` is unknown"));
/// ```
pub fn duration(text: &str) -> Result<Duration, FieldError> {
    let expected = || FieldError::expected(text, "a duration like 5s or 250ms");
    if !text.is_empty() && is_digits(text) && text.len() <= 20 {
        return Err(FieldError::text(format!("`{text}` has no unit: write {text}s or {text}ms")));
    }
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(expected());
    }
    let units = text.split(|char: char| char.is_ascii_digit()).filter(|unit| !unit.is_empty());
    for unit in units {
        if unit.starts_with(['.', ',']) {
            let text = printable(text);
            let problem = format!("`{text}` has a fraction: use a smaller unit, like 500ms");
            return Err(FieldError::text(problem));
        }
        if unit_us(unit).is_none() && !unit.contains(char::is_whitespace) {
            return Err(unknown_unit(unit));
        }
    }
    parse_duration(text).ok_or_else(expected)
}

/// Reads a duration: whole numbers with their units, as in `90s`, `250ms` or `1h30min`.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::parse_duration;
///
/// assert_eq!(parse_duration("1h30min"), Some(Duration::from_secs(5400)));
/// assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("90"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(|byte| !byte.is_ascii_digit()).count();
        let (name, tail) = tail.split_at(letters);
        let unit_us = unit_us(name)?;
        let us = number.parse::<u64>().ok()?.checked_mul(unit_us)?;
        total = total.checked_add(Duration::from_micros(us))?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

fn unit_us(name: &str) -> Option<u64> {
    Some(match name {
        "us" | "µs" => 1,
        "ms" => 1_000,
        "s" | "sec" | "second" => 1_000_000,
        "m" | "min" | "minute" => 60_000_000,
        "h" | "hour" => 3_600_000_000,
        "d" | "day" => 86_400_000_000,
        "week" => 7 * 86_400_000_000,
        _ => return None,
    })
}

/// `+02:00`, `-0330`, `+2` or `Z` as minutes.
pub(super) fn offset_minutes(text: &str) -> Result<i64, FieldError> {
    let minutes = if text == "Z" || text == "UTC" { Some(0) } else { signed_minutes(text) };
    minutes.ok_or_else(|| FieldError::expected(text, "hours and minutes like +02:00"))
}

fn signed_minutes(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = &text[1..];
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 && digits.is_ascii() => digits.split_at(2),
        None => (digits, "0"),
    };
    let number = |part: &str| -> Option<i64> {
        (part.len() <= 2 && is_digits(part)).then(|| part.parse().ok())?
    };
    let minutes = number(minutes).filter(|minutes| *minutes < 60)?;
    Some(sign * (number(hours)? * 60 + minutes))
}
