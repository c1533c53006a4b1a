//! Policies and overrides.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_core::LimitSpec;

use super::adaptive::{Adaptive, Priority};
use super::limit::{LimitKeys, Member};
use super::scalar::{Amount, OneOrMany, Percentage, Span};

/// A policy: a line such as `100/min burst 20`, or a map.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "100/min burst 20"))]
pub enum Policy {
    /// A limit in one line.
    Line(String),
    /// All options.
    Map(Box<PolicyOptions>),
}

impl Policy {
    /// Its limit, where it has one alone. An unreadable line has none.
    pub fn limit_spec(&self) -> Option<LimitSpec> {
        match self {
            Self::Line(line) => LimitSpec::from_line(line).ok(),
            Self::Map(options) => Some(options.limit.spec()),
        }
    }
}

/// A policy with all of its options.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PolicyOptions {
    #[serde(flatten)]
    pub limit: LimitKeys,
    /// The name of its limit in answers. Default: the policy's name.
    pub name: Option<String>,
    /// What it counts by where a route has no `key`: the key parts of a request. Default: `client_ip`.
    pub key: Option<OneOrMany>,
    /// Several limits in one atomic step: admits if all of them do, and charges all or none. Instead of `limit`.
    pub all: Option<Vec<Member>>,
    /// Several limits in one atomic step: admits if one of them does, and charges those that do. Instead of `limit`.
    pub any: Option<Vec<Member>>,
    /// `shadow`: counts and reports, and never refuses. Default: `enforce`.
    pub mode: Option<Mode>,
    /// The part of the callers that it is enforced for, like `10%` or `0.5%`; the others are in shadow. Chosen by a fixed
    /// hash of the policy's name and the caller, the same on every node. Default: `100%`.
    pub enforce: Option<Percentage>,
    /// The answer when the store fails: `allow`, `deny`, or `local`, which enforces this node's share in process.
    /// Default: `local`; for a share, that of the policy it shares.
    pub on_store_error: Option<OnStoreError>,
    /// Replicas that must confirm a charge before the answer, so that it survives a failover. Default: none.
    pub replicas: Option<Replicas>,
    /// Whether this node leases units ahead and spends them in process. Never admits more. Default: false.
    pub lease: Option<bool>,
    /// Whether this node remembers refusals, for a second at most or for another time. Default: true.
    pub deny_cache: Option<DenyCache>,
    /// Shares the limit of another policy fairly among tenants: while they ask for more than that, each gets its part
    /// within a second, and what one does not use is lent to the others. Instead of `limit`.
    pub share: Option<Share>,
    /// Whether the quorum of `store.quorum` counts it: what a majority of its servers has confirmed, no single one of them
    /// can make forget. Default: false.
    pub quorum: Option<bool>,
    /// Adapts the limit to the load of the protected service.
    pub adaptive: Option<Adaptive>,
    /// Which requests are shed first when the load rises: `best-effort` first, `critical` last. Needs `adaptive`, or an
    /// `in_flight` of another policy.
    pub priority: Option<Priority>,
    /// The deadline of a decision of this policy, 1ms to 1min. Default: `store.deadline`.
    pub deadline: Option<Span>,
}

impl PolicyOptions {
    /// The limits of `all` or `any`.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.all.iter().chain(&self.any).flatten()
    }
}

/// Whose limit tenants share, and what each of them counts.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// The policy whose limit is shared. It has one limit, with `key: global`.
    #[cfg_attr(test, schemars(example = &"total"))]
    pub of: String,
    /// Who is a tenant: the name of one of the caller's `keys`, or a key part of a request like `header:x-tenant`. A caller
    /// that gives one `key` gives the tenant.
    #[cfg_attr(test, schemars(example = &"tenant"))]
    pub by: String,
    /// What tenants count, by their plan: one of weight 4 gets four times what one of weight 1 gets. Default: all the same.
    pub weights: Option<Weights>,
}

/// A weight for each value of a request.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Weights {
    /// What decides: the name of another of the caller's `keys`, `jwt:CLAIM` of a verified token, or `header:NAME`,
    /// `cookie:NAME` or `query:NAME`, which is believed from trusted proxies only.
    #[cfg_attr(test, schemars(example = &"header:x-plan"))]
    pub by: String,
    /// The weight of all other tenants, 1 to 1000.
    #[serde(rename = "else")]
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub otherwise: u32,
    /// The weight of each value, 1 to 1000.
    #[serde(flatten)]
    pub named: BTreeMap<String, u32>,
}

/// Whether refusals are remembered, or how long.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum DenyCache {
    /// For a second at most, or not at all.
    Switch(bool),
    /// For another time.
    Map(DenyCacheOptions),
}

/// How long refusals are remembered.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DenyCacheOptions {
    /// At most this long, 1ms to 1min: the store is asked about a blocked key once in that time, and units that are given
    /// back on other nodes are seen after it. Default: 1s.
    pub ttl: Option<Span>,
}

/// Whether policies refuse requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They refuse requests above the limit.
    Enforce,
    /// They count and report, and refuse nothing.
    Shadow,
}

/// The answer when the store fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnStoreErrorWord {
    /// Admits everything.
    Allow,
    /// Admits nothing.
    Deny,
    /// Enforces this node's share in process.
    Local,
}

/// The answer when the store fails.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum OnStoreError {
    /// By name.
    Word(OnStoreErrorWord),
    /// With options.
    Map(Deny),
}

/// Admits nothing, with a time to retry after.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Deny {
    /// Admits nothing, and answers with this retry time. The plain `deny` answers with one minute.
    pub deny: Span,
}

/// Replicas that must confirm a charge before the answer.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Replicas {
    /// How many replicas must confirm. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    pub wait: Option<u32>,
    /// Their timeout, in addition to the store's deadline; 1ms to 1min. Default: 50ms.
    pub timeout: Option<Span>,
    /// The answer without their confirmation. Default: `allow`.
    pub unconfirmed: Option<Unconfirmed>,
}

/// The answer when too few replicas confirm in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Unconfirmed {
    /// The answer of the store stands.
    Allow,
    /// The request is refused.
    Deny,
}

/// An exception for one key or network: one of `limit`, `allow` and `block`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Override {
    /// The policy that it belongs to.
    pub policy: String,
    /// The key, or a network like `10.0.0.0/8` for all addresses in it.
    pub key: String,
    /// The limit that it replaces, for a policy with several: the others stay as they are.
    pub limit_name: Option<String>,
    /// Its own limit, with the algorithm of the policy.
    pub limit: Option<Amount>,
    /// Its burst, with `limit` (gcra).
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub burst: Option<u64>,
    /// The size of its bucket (token-bucket).
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub capacity: Option<u64>,
    /// The rate at which its bucket refills (token-bucket).
    pub refill: Option<Amount>,
    /// Admits every request.
    pub allow: Option<bool>,
    /// Refuses every request.
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
