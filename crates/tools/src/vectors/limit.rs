//! A limit of a vector file: read as it is written, then built.

use std::time::Duration;

use serde::Deserialize;
use tidegate::{
    Every, FixedWindow, Gcra, LeakyBucket, Limit, LimitError, Quota, SlidingLog, SlidingWindow,
    Zone, zone,
};

use tidegate_core::text::printable;

/// A limit as it is written. Which fields matter depends on the algorithm.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimit {
    algorithm: String,
    limit: u64,
    period_us: Option<u64>,
    burst: Option<u64>,
    capacity: Option<u64>,
    buckets: Option<u64>,
    cadence: Option<String>,
    utc_offset_minutes: Option<i64>,
    time_zone: Option<String>,
    max_wait_us: Option<u64>,
}

impl RawLimit {
    /// Whether it delays instead of refusing.
    pub(super) fn is_shaper(&self) -> bool {
        self.algorithm == "leaky-bucket"
    }

    /// The limit; an error names the field.
    pub(super) fn build(&self) -> Result<Limit, String> {
        let limit = match self.algorithm.as_str() {
            "gcra" => Gcra::new(self.limit, self.period()?, self.burst()).map(Limit::Gcra),
            "token-bucket" => {
                Gcra::token_bucket(self.burst(), self.limit, self.period()?).map(Limit::TokenBucket)
            }
            "fixed-window" => FixedWindow::new(self.limit, self.period()?).map(Limit::FixedWindow),
            "sliding-window" => SlidingWindow::new(self.limit, self.period()?, self.buckets())
                .map(Limit::SlidingWindow),
            "sliding-log" => SlidingLog::new(self.limit, self.period()?).map(Limit::SlidingLog),
            "quota" => self.quota()?.map(Limit::Quota),
            "leaky-bucket" => {
                return Err(
                    "`algorithm`: leaky-bucket delays, so it cannot stand in all or any".into()
                );
            }
            other => return Err(unknown("algorithm", other, ALGORITHMS)),
        };
        limit.map_err(|error| error.to_string())
    }

    /// The shaper; an error names the field.
    pub(super) fn build_shaper(&self) -> Result<LeakyBucket, String> {
        let period = self.period()?;
        let shaper = match (self.max_wait_us, self.capacity) {
            (Some(us), None) => LeakyBucket::new(self.limit, period, Duration::from_micros(us)),
            (None, Some(capacity)) => LeakyBucket::with_capacity(self.limit, period, capacity),
            _ => return Err("`max_wait_us`: give either it or `capacity`".to_owned()),
        };
        shaper.map_err(|error| error.to_string())
    }

    fn quota(&self) -> Result<Result<Quota, LimitError>, String> {
        let cadence = self.cadence.as_deref().ok_or("`cadence` is missing")?;
        let every = match cadence {
            "calendar-day" => Every::Day,
            "calendar-week" => Every::Week,
            "calendar-month" => Every::Month,
            "fixed" => return Ok(Quota::fixed(self.limit, self.period()?)),
            "rolling" => return Ok(Quota::rolling(self.limit, self.period()?, self.buckets())),
            other => return Err(unknown("cadence", other, CADENCES)),
        };
        Ok(Quota::calendar(self.limit, every, self.zone()?))
    }

    fn zone(&self) -> Result<Zone, String> {
        match (&self.time_zone, self.utc_offset_minutes) {
            (Some(_), Some(_)) => Err("`time_zone`: give either it or `utc_offset_minutes`".into()),
            (Some(name), None) => zone(name).map_err(|error| format!("`time_zone`: {error}")),
            (None, offset) => Zone::fixed(offset.unwrap_or(0))
                .map_err(|error| format!("`utc_offset_minutes`: {error}")),
        }
    }

    fn period(&self) -> Result<Duration, String> {
        self.period_us.map(Duration::from_micros).ok_or_else(|| "`period_us` is missing".to_owned())
    }

    fn burst(&self) -> u64 {
        self.burst.or(self.capacity).unwrap_or(self.limit)
    }

    fn buckets(&self) -> u64 {
        self.buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS)
    }
}

const ALGORITHMS: &str =
    "gcra, token-bucket, fixed-window, sliding-window, sliding-log, quota, leaky-bucket";
const CADENCES: &str = "calendar-day, calendar-week, calendar-month, fixed, rolling";

fn unknown(field: &str, got: &str, expected: &str) -> String {
    format!("`{field}`: `{}` is unknown; expected one of {expected}", printable(got))
}
