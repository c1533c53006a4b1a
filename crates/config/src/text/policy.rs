//! Policies, and what some get instead of them.

use serde::Deserialize;
use tidegate_core::LimitSpec;

use super::adaptive::{Adaptive, Priority};
use super::limit::{Algorithm, Member, with_limit};
use super::scalar::{Amount, OneOrMany, Span};

/// A policy: a line such as `100/min burst 20`, or a map.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "100/min burst 20"))]
pub enum Policy {
    /// A limit in one line.
    Line(String),
    /// Everything that there is to say.
    Map(Box<PolicyOptions>),
}

impl Policy {
    /// Its limit, where it has one alone. An unreadable line has none.
    pub fn limit_spec(&self) -> Option<LimitSpec> {
        match self {
            Self::Line(line) => LimitSpec::from_line(line).ok(),
            Self::Map(options) => Some(options.limit_spec()),
        }
    }
}

with_limit! {
    /// Everything that there is to say about a policy.
    PolicyOptions {
        /// What answers call its limit when it decides. Default: the policy's name.
        pub name: Option<String>,
        /// Who is limited, where a route does not say: the key parts of a request. Default: `client_ip`.
        pub key: Option<OneOrMany>,
        /// Several limits in one atomic step: admits if all do, and charges all or none. Instead of `limit`.
        pub all: Option<Vec<Member>>,
        /// Several limits in one atomic step: admits if one does, and charges those that do. Instead of `limit`.
        pub any: Option<Vec<Member>>,
        /// `shadow`: counts and reports, and never refuses. Default: `enforce`.
        pub mode: Option<Mode>,
        /// What to answer when the store cannot: `allow`, `deny`, or `local`, this node's share in process. Default:
        /// `local`.
        pub on_store_error: Option<OnStoreError>,
        /// Copies that a charge needs before it is answered, so that a failover does not forget it. Default: none.
        pub replicas: Option<Replicas>,
        /// Whether this node takes units ahead and spends them in process. Never admits more. Default: false.
        pub lease: Option<bool>,
        /// Whether refusals are remembered for up to a second. Default: true.
        pub deny_cache: Option<bool>,
        /// Follows the load of what is protected.
        pub adaptive: Option<Adaptive>,
        /// Who gives way first when the load rises: what is `best-effort` before what is `critical`. Goes with `adaptive`,
        /// or with an `in_flight` of another policy.
        pub priority: Option<Priority>,
        /// How long a decision of this policy may take, 1ms to 1min. Default: `store.deadline`.
        pub deadline: Option<Span>,
    }
}

/// Whether policies refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They do.
    Enforce,
    /// They only count and report.
    Shadow,
}

/// What to answer when the store cannot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnStoreErrorWord {
    /// Admit, as if nothing had been spent.
    Allow,
    /// Admit nothing.
    Deny,
    /// Enforce this node's share in process.
    Local,
}

/// What to answer when the store cannot.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OnStoreError {
    /// In a word.
    Word(OnStoreErrorWord),
    /// With its details.
    Map(Deny),
}

/// Admit nothing, and say when to come back.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Deny {
    /// Admits nothing, and asks to come back after this time. As a word, `deny` asks to come back in a minute.
    pub deny: Span,
}

/// Copies that a charge needs before it is answered.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Replicas {
    /// So many replicas have to confirm. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub wait: Option<u32>,
    /// How long they have for it, on top of the store's deadline; 1ms to 1min. Default: 50ms.
    pub timeout: Option<Span>,
    /// What becomes of an answer that they do not confirm in time. Default: `allow`.
    pub unconfirmed: Option<Unconfirmed>,
}

/// What becomes of an answer that too few replicas have confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Unconfirmed {
    /// It stands, and is counted.
    Allow,
    /// The caller is turned away.
    Deny,
}

/// What one key or network gets instead of a policy: one of `limit`, `allow` and `block`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The policy.
    pub policy: String,
    /// The key, or a network like `10.0.0.0/8` for all addresses in it.
    pub key: String,
    /// A limit of its own, counted as the policy counts.
    pub limit: Option<Amount>,
    /// How much at once, with `limit` (gcra).
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub burst: Option<u64>,
    /// How much the bucket holds (token-bucket).
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub capacity: Option<u64>,
    /// How fast the bucket fills again, a rate (token-bucket).
    pub refill: Option<Amount>,
    /// Everything is admitted.
    pub allow: Option<bool>,
    /// Nothing is admitted.
    pub block: Option<bool>,
}

impl Override {
    /// The numbers that replace those of the policy; `None` where it has none.
    pub fn numbers(&self) -> Option<LimitSpec> {
        let numbers = LimitSpec {
            limit: self.limit.clone().map(Into::into),
            burst: self.burst,
            capacity: self.capacity,
            refill: self.refill.clone().map(Into::into),
            ..LimitSpec::default()
        };
        (numbers != LimitSpec::default()).then_some(numbers)
    }
}
