//! Times, rates and statuses of a file.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::text::duration;
use tidegate_core::{FieldError, read_duration, read_rate};

use super::node::Cursor;
use super::text::{Size, Span};

/// A time: `90s`, `250ms`, `1h30min`.
pub(crate) fn span(span: &Span) -> Result<Duration, String> {
    read_duration(span.0.trim()).map_err(|error| error.problem())
}

/// The time at a key, or its default if it is not given. One out of bounds is reported.
pub(crate) fn time(
    cursor: &Cursor<'_>,
    field: &str,
    given: Option<&Span>,
    bounds: RangeInclusive<Duration>,
    usual: Duration,
) -> Duration {
    let expected =
        || format!("expected {} to {}", duration(*bounds.start()), duration(*bounds.end()));
    let within = |time: Duration| Some(time).filter(|it| bounds.contains(it)).ok_or_else(expected);
    let time = given.map(|given| span(given).and_then(within));
    time.and_then(|time| cursor.field(field).accept(time)).unwrap_or(usual)
}

/// A size in bytes: `512MB`, `256MiB`, `1073741824`.
pub(crate) fn size(size: &Size) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("kb", 1000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
    ];
    let text = match size {
        Size::Bytes(bytes) => return Ok(*bytes),
        Size::Text(text) => text.trim(),
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let read = || {
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
        number.parse::<u64>().ok()?.checked_mul(*bytes)
    };
    read().ok_or_else(|| "expected a size like 512MB or 256MiB".to_owned())
}

/// The status of requests that are shed: 429, or 503.
pub(crate) fn shed_status(given: Option<u64>, cursor: &Cursor<'_>) -> StatusCode {
    match given {
        Some(503) => return StatusCode::SERVICE_UNAVAILABLE,
        None | Some(429) => {}
        Some(_) => cursor.field("shed_status").report("expected 429 or 503"),
    }
    StatusCode::TOO_MANY_REQUESTS
}

/// Units per length of time: `100/min`, `30/90s`.
pub(crate) fn rate(text: &str) -> Result<(u64, Duration), String> {
    let read = || -> Result<_, FieldError> {
        let (units, period) = read_rate(text)?;
        Ok((units, period.length()?))
    };
    read().map_err(|error| error.problem())
}
