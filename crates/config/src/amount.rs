//! Times, rates and statuses of a file.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use tidegate_core::{FieldError, read_duration, read_rate};

use super::node::Cursor;
use super::text::Span;

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
    let expected = || format!("expected {:?} to {:?}", bounds.start(), bounds.end());
    let within = |time: Duration| Some(time).filter(|it| bounds.contains(it)).ok_or_else(expected);
    let time = given.map(|given| span(given).and_then(within));
    time.and_then(|time| cursor.field(field).accept(time)).unwrap_or(usual)
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
