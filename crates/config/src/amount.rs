//! Times and rates of a file, read by the grammar of limits.

use std::time::Duration;

use tidegate_core::{FieldError, read_duration, read_rate};

use super::text::Span;

/// A time: `90s`, `250ms`, `1h30min`.
pub(crate) fn span(span: &Span) -> Result<Duration, String> {
    read_duration(span.0.trim()).map_err(|error| error.problem())
}

/// A time within bounds.
pub(crate) fn span_within(given: &Span, min: Duration, max: Duration) -> Result<Duration, String> {
    let duration = span(given)?;
    let within = (min..=max).contains(&duration);
    within.then_some(duration).ok_or_else(|| format!("expected {min:?} to {max:?}"))
}

/// Units per length of time: `100/min`, `30/90s`.
pub(crate) fn rate(text: &str) -> Result<(u64, Duration), String> {
    let read = || -> Result<_, FieldError> {
        let (units, period) = read_rate(text)?;
        Ok((units, period.length()?))
    };
    read().map_err(|error| error.problem())
}
