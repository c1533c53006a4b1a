//! The keys of a limit, alone or as one of several.

use serde::Deserialize;
use tidegate_core::{FieldError, LimitSpec};

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

/// The keys of a limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitKeys {
    /// The algorithm. Default: `gcra`, or `token-bucket` if there is a `refill`.
    pub algorithm: Option<Algorithm>,
    /// The limit: a rate like `100/min` or `30/90s` (units s, min, h, day), or a number for quotas and concurrency.
    pub limit: Option<Amount>,
    /// The burst: the most at once (gcra). Default: the limit.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub burst: Option<u64>,
    /// The size of the bucket (token-bucket, default: the refill), or how many requests may wait (leaky-bucket).
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub capacity: Option<u64>,
    /// The rate at which the bucket refills (token-bucket).
    pub refill: Option<Amount>,
    /// The number of slots of the window, 1 to 1000 (sliding-window and rolling quotas). Default: 10.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub buckets: Option<u64>,
    /// The longest delay (leaky-bucket).
    pub max_wait: Option<Span>,
    /// The period of the budget: `day`, `week`, `month` or a duration (quota).
    #[cfg_attr(test, schemars(example = &"month"))]
    pub every: Option<String>,
    /// The time zone of a day, week or month, like `Europe/Berlin` (quota). Default: UTC.
    #[cfg_attr(test, schemars(example = "Europe/Berlin"))]
    pub time_zone: Option<String>,
    /// A fixed offset from UTC, like `"+02:00"`, instead of `time_zone` (quota).
    #[cfg_attr(test, schemars(example = "+02:00"))]
    pub utc_offset: Option<String>,
    /// Whether the period slides instead of starting anew at its end (quota). Default: false.
    pub rolling: Option<bool>,
    /// How long a permit lives that is neither released nor renewed (concurrency). Default: 60s.
    pub ttl: Option<Span>,
}

impl LimitKeys {
    pub fn spec(&self) -> LimitSpec {
        let written = |span: &Span| span.0.as_str().into();
        LimitSpec {
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

/// One of several limits that are checked in one atomic step.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Member {
    #[serde(flatten)]
    pub limit: LimitKeys,
    /// Its name in answers. Each limit of a policy needs a name of its own.
    pub name: Option<String>,
    /// The identifier of the caller that it counts by, or `global` for one budget of all callers, which nobody has to
    /// give. Default: the only one.
    pub key: Option<String>,
    /// How many of its units one unit of a check's cost takes. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub cost: Option<u64>,
    /// Adapts the limit to the load of the protected service.
    pub adaptive: Option<Adaptive>,
    /// Which requests are shed first. Default: the policy's `priority`.
    pub priority: Option<Priority>,
}
