//! From a ramp in a file to one of the core.

use std::time::Duration;

use tidegate::Limit;
use tidegate_core::adaptive::{AdaptiveError, Ends, Ramp, Signal};

use super::super::amount::{rate, span};
use super::super::node::Cursor;
use super::super::text::{self, Curve, Left, Level, RampWord};

/// The unit of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// A share from 0 to 1.
    Share,
    /// A time.
    Time,
    /// Any number.
    Any,
}

/// A ramp, and the kind of signal that it reads.
pub(super) fn ramp(
    text: &text::Ramp,
    unit: Unit,
    limit: &Limit,
    cursor: &Cursor<'_>,
) -> Option<(Ramp, Signal)> {
    let (ramp, signal) = match text {
        text::Ramp::Word(word) => named_ramp(*word),
        text::Ramp::Curve(curve) => curved(curve, limit, cursor)?,
    };
    let wrong = match unit {
        Unit::Share if signal == Signal::Millis => {
            "reads times, but this source gives a share from 0 to 1"
        }
        Unit::Time if signal != Signal::Millis => {
            "reads numbers, but this source gives times like 300ms"
        }
        _ => return Some((ramp, signal)),
    };
    cursor.reject(wrong)
}

pub(super) const fn named_ramp(word: RampWord) -> (Ramp, Signal) {
    match word {
        RampWord::Pressure => (Ramp::pressure(), Signal::Share),
        RampWord::Cpu => (Ramp::cpu(), Signal::Share),
        RampWord::Latency => (Ramp::latency_per_url(), Signal::Millis),
        RampWord::Default => (Ramp::queue_wait(), Signal::Millis),
    }
}

fn curved(curve: &Curve, limit: &Limit, cursor: &Cursor<'_>) -> Option<(Ramp, Signal)> {
    let from = cursor.field("min_value").accept(level_of(&curve.min_value));
    let to = cursor.field("max_value").accept(level_of(&curve.max_value));
    let max_rate = match &curve.max_rate {
        Some(left) => cursor.field("max_rate").accept(share(left, limit)),
        None => Some(1.0),
    };
    let min_rate = cursor.field("min_rate").accept(share(&curve.min_rate, limit));
    let ((x_lo, signal), (x_hi, other)) = (from?, to?);
    if signal != other {
        let message = "and `min_value` differ in kind: give two times, or two numbers";
        return cursor.field("max_value").reject(message);
    }
    let ends = Ends { x_lo, x_hi, y_lo: max_rate?, y_hi: min_rate? };
    let ramp = Ramp::new(ends).map_err(|error| {
        let (field, message) = match error {
            AdaptiveError::RampFlat { .. } => ("max_value", "must be above `min_value`".to_owned()),
            AdaptiveError::RampRises { .. } => ("min_rate", "is above `max_rate`".to_owned()),
            AdaptiveError::RampNotFinite { .. } => ("max_value", error.to_string()),
            _ => ("max_rate", error.to_string()),
        };
        cursor.field(field).report(message);
    });
    Some((ramp.ok()?, signal))
}

fn level_of(level: &Level) -> Result<(f64, Signal), String> {
    match level {
        Level::Number(number) => Ok((*number, Signal::Number)),
        Level::Span(text) => Ok((span(text)?.as_secs_f64() * 1000.0, Signal::Millis)),
    }
}

/// A rate as a share of the limit.
fn share(left: &Left, limit: &Limit) -> Result<f64, String> {
    let text = match left {
        Left::Share(share) if (0.0..=1.0).contains(share) => return Ok(*share),
        Left::Share(_) => {
            return Err("expected a rate like 4/min, or a share of the limit from 0 to 1".into());
        }
        Left::Rate(text) => text,
    };
    let (count, period) = rate(text)?;
    let (units, of) = (limit.units(), limit.period());
    if u128::from(count) * of.as_micros() > u128::from(units) * period.as_micros() {
        return Err(format!(
            "is above the limit of {units} in {of:?}: lower it, or raise the limit"
        ));
    }
    Ok(float(count) * micros(of) / micros(period) / float(units))
}

fn micros(period: Duration) -> f64 {
    float(u64::try_from(period.as_micros()).unwrap_or(u64::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "limits are at most 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}
