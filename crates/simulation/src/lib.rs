//! The production code in virtual time: parameters in, a report out, and nothing else is read.
//!
//! The command line prints the reports, and the playground offers the same experiments to anybody. Therefore every
//! [`Experiment`] checks its bounds first, and a run takes at most about 50 ms. [`fleet`], [`overload`] and
//! [`shares`] are the exceptions: they are as large as the command line asks for. A [`StopFlag`] ends any of them early.
//! [`replay`] sends an access log through policies, at the time of the log.
#![forbid(unsafe_code)]

mod algorithm;
pub mod algorithms;
pub mod boundary;
pub mod clock_skew;
mod experiment;
pub mod fleet;
pub mod overload;
pub mod race;
pub mod replay;
pub mod rng;
pub mod shares;
mod stop;
pub mod sync_lag;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use self::experiment::{Expected, Experiment, InputError, Knob};
pub use self::stop::StopFlag;

/// An instant in November 2023. Experiments with windows start at the next edge of one.
const START_US: u64 = 1_700_000_000_000_000;

/// Up to a day.
const WINDOW_MS: RangeInclusive<u64> = 1..=86_400_000;

/// Counts and microseconds are far below 2^53 here, so a float holds them exactly.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub const fn float(number: u64) -> f64 {
    number as f64
}

/// A length of time in microseconds.
fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A number of nodes or keys, all far below what memory holds.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_json_with_defaults_and_without_unknown_fields() {
        let input: sync_lag::SyncLag = serde_json::from_str(r#"{"nodes":10}"#).unwrap();
        assert_eq!((input.nodes, input.limit, input.interval_ms), (10, 60, 400));
        for bad in [r#"{"node":10}"#, r#"{"nodes":-1}"#, r#"{"nodes":1.5}"#, r#"{"nodes":"3"}"#] {
            assert!(serde_json::from_str::<race::Race>(bad).is_err(), "{bad}");
        }
    }
}
