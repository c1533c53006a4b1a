//! Limits that follow the load, and who is let in first.

use serde::Deserialize;

use super::scalar::Span;

/// Follows the load of what is protected: one `source` with its `ramp`, or several in `chains`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// Where the load is seen: `latency` of the responses, `cpu`, or a map for all others.
    pub source: Option<AdaptiveSource>,
    /// How the limit follows it: by a name, or from one value to another. Default: what is usual for the source.
    pub ramp: Option<Ramp>,
    /// How fast it follows (Default: `{ close: 1500ms, open: 20s }`), or `none`.
    pub smoothing: Option<Smoothing>,
    /// Which movements change nothing (Default: `{ play: 0.05, hold: 3s }`), or `none`.
    pub hysteresis: Option<Hysteresis>,
    /// What counts while the source is silent.
    pub absence: Option<Absence>,
    /// Several signals, instead of `source`: the smallest limit among theirs counts. At most 16.
    pub chains: Option<Vec<Chain>>,
    /// `shadow`: computed and reported, and not enforced; `off`: as if this were not written. Default: `enforce`.
    pub mode: Option<AdaptiveMode>,
    /// The least that is left of the limit. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub floor: Option<u64>,
    /// How many places the pool of the observed target has: no more than twice as many requests are passed on at once.
    /// Where that is not known, a map with `gradient`. For the proxy, which sees them end.
    pub in_flight: Option<InFlight>,
    /// Whether a fresh start begins with a third and opens over ten seconds. Default: false.
    pub warm_up_on_start: Option<bool>,
    /// The status of a refusal while part of the limit is taken away, 429 or 503; for forward-auth and the proxy.
    /// Default: 429.
    #[cfg_attr(test, schemars(range(min = 429, max = 503)))]
    pub shed_status: Option<u64>,
}

/// How many requests are passed on at once.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum InFlight {
    /// Twice as many as the pool has places.
    Pool(u64),
    /// By how long they take.
    Map(InFlightOptions),
}

/// How many requests are passed on at once to a target whose pool is not known.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InFlightOptions {
    /// From so many to four times as many, fewer the longer responses take beyond what is usual; 1 to 1000000.
    pub gradient: u64,
}

/// One signal of several.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// What it is called where it binds. Default: the kind of its source.
    pub name: Option<String>,
    /// Where the load is seen.
    pub source: AdaptiveSource,
    /// How the limit follows it. Default: what is usual for the source.
    pub ramp: Option<Ramp>,
    /// How fast it follows. Default: what stands beside `chains`.
    pub smoothing: Option<Smoothing>,
    /// Which movements change nothing. Default: what stands beside `chains`.
    pub hysteresis: Option<Hysteresis>,
    /// What counts while the source is silent. Default: what stands beside `chains`.
    pub absence: Option<Absence>,
}

/// Where the load is seen.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AdaptiveSource {
    /// In a word.
    Word(SourceWord),
    /// With its details.
    Map(Box<SourceOptions>),
}

/// Where the load is seen, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SourceWord {
    /// In the time that responses take, and in how many fail: of all that the proxy passes on and `/v1/observe` is told.
    Latency,
    /// In the processors that this process may use.
    Cpu,
}

/// Where the load is seen: one of `probe`, `latency`, `pool`, `prometheus` and `fixed`, with its options.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SourceOptions {
    /// A URL that tells the pressure, from 0 to 1, as `{"pressure": 0.4}` or as a number alone.
    #[cfg_attr(test, schemars(example = &"http://db-health:9000/pressure"))]
    pub probe: Option<String>,
    /// Where in the JSON of a probe the number stands, as a JSON pointer. Default: `/pressure`.
    #[cfg_attr(test, schemars(example = &"/pools/0/used"))]
    pub pointer: Option<String>,
    /// The target whose responses are measured: an upstream of the proxy, or what `/v1/observe` calls it.
    pub latency: Option<String>,
    /// The target that `/v1/observe` tells the `saturation` of: how full its pool is, from 0 to 1.
    pub pool: Option<String>,
    /// The URL of a Prometheus, to ask `query`.
    #[cfg_attr(test, schemars(example = &"http://prometheus:9090"))]
    pub prometheus: Option<String>,
    /// What Prometheus is asked: its first value counts.
    pub query: Option<String>,
    /// Always this pressure, from 0 to 1.
    pub fixed: Option<f64>,
    /// How often a probe or Prometheus is asked, 1s to 5min. Default: 1s, of Prometheus 5s.
    pub every: Option<Span>,
    /// How long they have to answer, 10ms to 1min. Default: 500ms, Prometheus 2s.
    pub timeout: Option<Span>,
    /// What `/v1/pressure` and metrics call it. Default: the policy's name.
    pub target: Option<String>,
}

/// How a limit follows the load.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Ramp {
    /// In a word.
    Word(RampWord),
    /// Between two values.
    Curve(Box<Curve>),
}

/// How a limit follows the load, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RampWord {
    /// A pressure from 0 to 1 takes as much off the limit.
    Pressure,
    /// From 80 % of the processors on, down to half of the limit.
    Cpu,
    /// Response times from 300ms to 18s: down to a sixtieth of the limit, from 240 to 4.
    Latency,
    /// A wait in the queue from 20ms to 200ms: down to a twentieth.
    Default,
}

/// From one rate at one value to another rate at another.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Up to here there is the highest rate: a time, or a number.
    pub min_value: Level,
    /// From here on there is the lowest rate.
    pub max_value: Level,
    /// The highest rate, or a share of the limit from 0 to 1. Default: the limit.
    pub max_rate: Option<Left>,
    /// The lowest rate, or a share of the limit from 0 to 1.
    pub min_rate: Left,
}

/// A value of a signal: a time like 300ms, or a number.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "300ms"))]
pub enum Level {
    /// A number, as the source says it.
    Number(f64),
    /// A time.
    Span(Span),
}

/// What is left of a limit: a rate like 4/min, or a share of it from 0 to 1.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "4/min"))]
pub enum Left {
    /// A share of the limit.
    Share(f64),
    /// A rate.
    Rate(String),
}

/// How fast a limit follows.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Smoothing {
    /// At once.
    Word(NoneWord),
    /// Over time constants, or by a fixed weight.
    Map(Box<SmoothingOptions>),
}

/// Nothing of the kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoneWord {
    /// Nothing of the kind.
    None,
}

/// Fast to close, and slow to open.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SmoothingOptions {
    /// The time constant when it gets worse. Default: 1500ms.
    pub close: Option<Span>,
    /// The time constant when it gets better. Default: 20s.
    pub open: Option<Span>,
    /// Instead of both: the weight of the newest reading, above 0 and at most 1.
    pub alpha: Option<f64>,
}

/// Which movements change nothing.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Hysteresis {
    /// Every one changes something.
    Word(NoneWord),
    /// Small ones, and opening soon after a close.
    Map(HysteresisOptions),
}

/// Small movements change nothing, and after a close nothing opens for a while.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HysteresisOptions {
    /// How far it has to get better, from 0 to 0.5. Default: 0.05.
    pub play: Option<f64>,
    /// How long nothing opens after a close, at most 1h. Default: 3s.
    pub hold: Option<Span>,
}

/// What counts while a source is silent.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Absence {
    /// For so many seconds nothing changes; after that nothing opens. Default: 3.
    #[cfg_attr(test, schemars(range(max = 3600)))]
    pub hold_ticks: Option<u64>,
    /// After so long it drifts to `unknown`. Default: 10s.
    pub drift_after: Option<Span>,
    /// The pressure of a source that says nothing, from 0 to 1. Default: 0.25.
    pub unknown: Option<f64>,
    /// So many timeouts, broken connections or 5xx in a row count as `failed`. Default: 3.
    #[cfg_attr(test, schemars(range(min = 1, max = 3600)))]
    pub failures: Option<u64>,
    /// The pressure of a source that is too sick to answer, from 0 to 1. Default: 0.8.
    pub failed: Option<f64>,
}

/// Whether what comes out counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AdaptiveMode {
    /// As if it were not written.
    Off,
    /// Computed and reported.
    Shadow,
    /// It is the limit.
    Enforce,
}

/// Who gives way first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Last, from a pressure of 0.8 on.
    Critical,
    /// From 0.3 on.
    Default,
    /// From 0.1 on.
    Batch,
    /// First of all: gone at 0.3.
    BestEffort,
}
