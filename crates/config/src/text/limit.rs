//! Limits, alone or as one of several.

use serde::Deserialize;

use super::adaptive::{Adaptive, Priority};
use super::scalar::{Amount, Span};

/// How a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// An even pace with a burst; the default.
    Gcra,
    /// The same, told as a bucket with a capacity and a refill.
    TokenBucket,
    /// Delays instead of refusing, up to a longest wait.
    LeakyBucket,
    /// A counter for each period, on the clock.
    FixedWindow,
    /// Counters in slots that slide.
    SlidingWindow,
    /// Every instant is kept: exact in any window.
    SlidingLog,
    /// A budget for a day, a week, a month or any time.
    Quota,
    /// How many may be under way at once.
    Concurrency,
}

/// Defines the structs that hold a limit, each with more of its own.
macro_rules! with_limit {
    ($($(#[$meta:meta])* $name:ident {$($more:tt)*})*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// How it counts. Default: `gcra`, or `token-bucket` where there is a `refill`.
            pub algorithm: Option<Algorithm>,
            /// How much: a rate like `100/min` or `30/90s` (units s, min, h, day), or a count for quotas and concurrency.
            pub limit: Option<Amount>,
            /// How much at once (gcra). Default: the limit.
            #[cfg_attr(test, schemars(range(min = 1)))]
            pub burst: Option<u64>,
            /// How much the bucket holds (token-bucket, default: the refill), or how many may wait (leaky-bucket).
            #[cfg_attr(test, schemars(range(min = 1)))]
            pub capacity: Option<u64>,
            /// How fast the bucket fills again, a rate (token-bucket).
            pub refill: Option<Amount>,
            /// How many slots the window has, 1 to 1000 (sliding-window and rolling quotas). Default: 10.
            #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
            pub buckets: Option<u64>,
            /// The longest delay (leaky-bucket).
            pub max_wait: Option<Span>,
            /// What the budget is for: `day`, `week`, `month` or a duration (quota).
            #[cfg_attr(test, schemars(example = &"month"))]
            pub every: Option<String>,
            /// Whose midnight ends a day, week or month, like `Europe/Berlin` (quota). Default: UTC.
            #[cfg_attr(test, schemars(example = "Europe/Berlin"))]
            pub time_zone: Option<String>,
            /// The same as a fixed offset, like `"+02:00"`, instead of a zone (quota).
            #[cfg_attr(test, schemars(example = "+02:00"))]
            pub utc_offset: Option<String>,
            /// Whether the time slides instead of ending for everybody at once (quota). Default: false.
            pub rolling: Option<bool>,
            /// After what time the place of somebody who has not given it back is free again (concurrency). Default: 60s.
            pub ttl: Option<Span>,
            $($more)*
        }
    )*};
}
pub(super) use with_limit;

with_limit! {
    /// A limit by itself.
    Limit {}

    /// One of several limits that are asked in one atomic step.
    Member {
        /// What answers call it when it decides. Each limit of a policy needs a name of its own.
        pub name: Option<String>,
        /// Which of the caller's identifiers it counts by. Default: the only one.
        pub key: Option<String>,
        /// Follows the load of what is protected.
        pub adaptive: Option<Adaptive>,
        /// Who gives way first. Default: what the policy says.
        pub priority: Option<Priority>,
    }
}

/// The limit in whatever holds one.
macro_rules! limit_of {
    ($holder:expr) => {{
        let it = $holder;
        $crate::text::Limit {
            algorithm: it.algorithm,
            limit: it.limit.clone(),
            burst: it.burst,
            capacity: it.capacity,
            refill: it.refill.clone(),
            buckets: it.buckets,
            max_wait: it.max_wait.clone(),
            every: it.every.clone(),
            time_zone: it.time_zone.clone(),
            utc_offset: it.utc_offset.clone(),
            rolling: it.rolling,
            ttl: it.ttl.clone(),
        }
    }};
}
pub(super) use limit_of;

impl Member {
    pub fn limit_text(&self) -> Limit {
        limit_of!(self)
    }
}
