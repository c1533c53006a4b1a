//! The production code in virtual time, as pure functions: an `Input` in, a `Report` out, and nothing else is read.
//!
//! The command line prints what comes out here, and a page may ask for it with what a stranger typed. So every
//! `Input` names its bounds and checks them first, and a run costs at most about 50 ms. [`fleet`] and [`overload`]
//! are the exceptions: they are as large as the command line asks for.
//! [`replay`] puts an access log through policies, at the time of the log.
#![forbid(unsafe_code)]

pub mod algorithms;
pub mod boundary;
pub mod chance;
pub mod clock_skew;
mod crowd;
pub mod fleet;
mod knob;
pub mod overload;
pub mod race;
pub mod replay;
mod subject;
pub mod sync_lag;
mod unfit;

use std::ops::RangeInclusive;

pub use self::knob::Knob;
pub use self::unfit::{Expected, Unfit};

/// An instant in November 2023; where windows count, moved to the next edge of one.
const START_US: u64 = 1_700_000_000_000_000;

/// Up to a day.
const WINDOW_MS: RangeInclusive<u64> = 1..=86_400_000;

/// Counts and microseconds are far below 2^53 here, so that a float holds them exactly.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_json_where_what_is_left_out_is_usual_and_nothing_is_unknown() {
        let input: sync_lag::Input = serde_json::from_str(r#"{"nodes":10}"#).unwrap();
        assert_eq!((input.nodes, input.limit, input.interval_ms), (10, 60, 400));
        for bad in [r#"{"node":10}"#, r#"{"nodes":-1}"#, r#"{"nodes":1.5}"#, r#"{"nodes":"3"}"#] {
            assert!(serde_json::from_str::<race::Input>(bad).is_err(), "{bad}");
        }
    }
}
