//! From a limit as it is written to one that can be asked.

use std::time::Duration;

use tidegate::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, Limit, LimitError, SlidingLog, SlidingWindow,
};

use super::amount::{count, rate, span};
use super::node::Spot;
use super::problem::Problem;
use super::quota::quota;
use super::text::{self, Algorithm, Amount};

/// What a policy can be made of.
pub(crate) enum Checked {
    Limit(Limit),
    Shaper(LeakyBucket),
}

/// Which field is wrong, and how; no field if one is missing.
pub(super) type Wrong = (&'static str, String);

/// Checks a limit; what is wrong is noted.
pub(crate) fn limit(
    text: &text::Limit,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<Checked> {
    let algorithm = algorithm_of(text);
    let count_before = found.len();
    for (field, is_given) in given(text) {
        if is_given && !fields(algorithm).contains(&field) {
            let has = fields(algorithm).join(", ");
            let message = format!("does not belong to {}, which has {has}", name(algorithm));
            found.push(spot.of(field).problem(message));
        }
    }
    let built = build(algorithm, text).map_err(|(field, message)| {
        let spot = if field.is_empty() { spot.clone() } else { spot.of(field) };
        found.push(spot.problem(message));
    });
    built.ok().filter(|_| found.len() == count_before)
}

/// The algorithm that is named, or that the fields speak for.
pub(crate) fn algorithm_of(text: &text::Limit) -> Algorithm {
    let told_by_fields =
        if text.refill.is_some() { Algorithm::TokenBucket } else { Algorithm::Gcra };
    text.algorithm.unwrap_or(told_by_fields)
}

fn build(algorithm: Algorithm, text: &text::Limit) -> Result<Checked, Wrong> {
    let limit = match algorithm {
        Algorithm::Gcra => {
            let (limit, period) = rate_of("limit", text.limit.as_ref())?;
            built("burst", Gcra::new(limit, period, text.burst.unwrap_or(limit)))?.into()
        }
        Algorithm::TokenBucket => {
            let (refill, period) = rate_of("refill", text.refill.as_ref())?;
            let capacity = text.capacity.unwrap_or(refill);
            Limit::TokenBucket(built("capacity", Gcra::token_bucket(capacity, refill, period))?)
        }
        Algorithm::LeakyBucket => return shaper(text).map(Checked::Shaper),
        Algorithm::FixedWindow => {
            let (limit, period) = rate_of("limit", text.limit.as_ref())?;
            built("limit", FixedWindow::new(limit, period))?.into()
        }
        Algorithm::SlidingWindow => {
            let (limit, period) = rate_of("limit", text.limit.as_ref())?;
            let buckets = text.buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS);
            built("limit", SlidingWindow::new(limit, period, buckets))?.into()
        }
        Algorithm::SlidingLog => {
            let (limit, period) = rate_of("limit", text.limit.as_ref())?;
            built("limit", SlidingLog::new(limit, period))?.into()
        }
        Algorithm::Quota => quota(text)?.into(),
        Algorithm::Concurrency => {
            let limit = count(required("limit", text.limit.as_ref(), "10")?);
            let limit = limit.map_err(|message| ("limit", message))?;
            let ttl = text.ttl.as_ref().map_or(Ok(Duration::from_mins(1)), span);
            let ttl = ttl.map_err(|message| ("ttl", message))?;
            built("limit", Concurrency::new(limit, ttl))?.into()
        }
    };
    Ok(Checked::Limit(limit))
}

fn shaper(text: &text::Limit) -> Result<LeakyBucket, Wrong> {
    let (limit, period) = rate_of("limit", text.limit.as_ref())?;
    match (&text.max_wait, text.capacity) {
        (Some(max_wait), None) => {
            let max_wait = span(max_wait).map_err(|message| ("max_wait", message))?;
            built("max_wait", LeakyBucket::new(limit, period, max_wait))
        }
        (None, Some(capacity)) => {
            built("capacity", LeakyBucket::with_capacity(limit, period, capacity))
        }
        (None, None) => Err(("", "`max_wait` is missing: the longest delay, like 5s".into())),
        (Some(_), Some(_)) => {
            Err(("capacity", "and `max_wait` are both given: give one of them".into()))
        }
    }
}

fn rate_of(field: &'static str, amount: Option<&Amount>) -> Result<(u64, Duration), Wrong> {
    rate(required(field, amount, "100/min")?).map_err(|message| (field, message))
}

pub(super) fn required<'a>(
    field: &'static str,
    amount: Option<&'a Amount>,
    like: &str,
) -> Result<&'a Amount, Wrong> {
    amount.ok_or_else(|| ("", format!("`{field}` is missing: expected one like {like}")))
}

pub(super) fn built<T>(field: &'static str, limit: Result<T, LimitError>) -> Result<T, Wrong> {
    limit.map_err(|error| {
        let field = match error {
            LimitError::ZeroLimit
            | LimitError::LimitTooLarge(_)
            | LimitError::ZeroPeriod
            | LimitError::PeriodTooLong(_)
                if field != "capacity" =>
            {
                "limit"
            }
            LimitError::Buckets(_) | LimitError::BucketsDoNotDivide { .. } => "buckets",
            LimitError::ZeroLease | LimitError::LeaseTooLong(_) => "ttl",
            _ => field,
        };
        (field, error.to_string())
    })
}

pub(super) fn given(text: &text::Limit) -> [(&'static str, bool); 11] {
    [
        ("limit", text.limit.is_some()),
        ("burst", text.burst.is_some()),
        ("capacity", text.capacity.is_some()),
        ("refill", text.refill.is_some()),
        ("buckets", text.buckets.is_some()),
        ("max_wait", text.max_wait.is_some()),
        ("every", text.every.is_some()),
        ("time_zone", text.time_zone.is_some()),
        ("utc_offset", text.utc_offset.is_some()),
        ("rolling", text.rolling.is_some()),
        ("ttl", text.ttl.is_some()),
    ]
}

const fn fields(algorithm: Algorithm) -> &'static [&'static str] {
    match algorithm {
        Algorithm::Gcra => &["limit", "burst"],
        Algorithm::TokenBucket => &["capacity", "refill"],
        Algorithm::LeakyBucket => &["limit", "max_wait", "capacity"],
        Algorithm::FixedWindow | Algorithm::SlidingLog => &["limit"],
        Algorithm::SlidingWindow => &["limit", "buckets"],
        Algorithm::Quota => &["limit", "every", "time_zone", "utc_offset", "rolling", "buckets"],
        Algorithm::Concurrency => &["limit", "ttl"],
    }
}

pub(crate) const fn name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Gcra => "gcra",
        Algorithm::TokenBucket => "token-bucket",
        Algorithm::LeakyBucket => "leaky-bucket",
        Algorithm::FixedWindow => "fixed-window",
        Algorithm::SlidingWindow => "sliding-window",
        Algorithm::SlidingLog => "sliding-log",
        Algorithm::Quota => "quota",
        Algorithm::Concurrency => "concurrency",
    }
}
