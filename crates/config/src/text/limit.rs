//! Limits, alone or as one of several.

use serde::Deserialize;
use tidegate_core::FieldError;

use super::adaptive::{Adaptive, Priority};
use super::scalar::{Amount, Span};

/// How a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Algorithm(pub tidegate_core::Algorithm);

impl TryFrom<String> for Algorithm {
    type Error = FieldError;

    fn try_from(name: String) -> Result<Self, FieldError> {
        name.parse().map(Self)
    }
}

/// The names and summaries of the core.
#[cfg(test)]
impl schemars::JsonSchema for Algorithm {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Algorithm".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let row = |it: &tidegate_core::Algorithm| serde_json::json!({ "description": it.summary(), "type": "string", "const": it.name() });
        let rows: Vec<_> = tidegate_core::Algorithm::ALL.iter().map(row).collect();
        schemars::json_schema!({ "description": "How a limit counts.", "oneOf": rows })
    }
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

        impl $name {
            /// Its limit.
            pub fn limit_spec(&self) -> tidegate_core::LimitSpec {
                let written = |span: &Span| span.0.as_str().into();
                tidegate_core::LimitSpec {
                    algorithm: self.algorithm.map(|algorithm| algorithm.0),
                    limit: self.limit.clone().map(Into::into),
                    burst: self.burst,
                    capacity: self.capacity,
                    refill: self.refill.clone().map(Into::into),
                    buckets: self.buckets,
                    max_wait: self.max_wait.as_ref().map(written),
                    every: self.every.as_deref().map(Into::into),
                    time_zone: self.time_zone.as_deref().map(Into::into),
                    utc_offset: self.utc_offset.as_deref().map(Into::into),
                    rolling: self.rolling,
                    ttl: self.ttl.as_ref().map(written),
                }
            }
        }
    )*};
}
pub(super) use with_limit;

with_limit! {
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
