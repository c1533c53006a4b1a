//! Adaptive limits and priorities.

use serde::Deserialize;

use super::scalar::Span;

/// Adapts the limit to the load of the protected service: one `source` with its `ramp`, or several in `chains`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Adaptive {
    /// The source of the load signal: `latency` of the responses, `cpu`, `manual`, or a map for all others.
    pub source: Option<AdaptiveSource>,
    /// How the signal sets the limit: a named ramp, or two points. Default: depends on the source.
    pub ramp: Option<Ramp>,
    /// The smoothing of the signal, or `none`. Default: `{ close: 1500ms, open: 20s }`.
    pub smoothing: Option<Smoothing>,
    /// The hysteresis of the limit, or `none`. Default: `{ play: 0.05, hold: 3s }`.
    pub hysteresis: Option<Hysteresis>,
    /// What applies while the source gives no signal.
    pub absence: Option<Absence>,
    /// Several signals, instead of `source`: the smallest resulting limit applies. At most 16.
    pub chains: Option<Vec<Chain>>,
    /// `shadow`: computed and reported, but not enforced; `off`: not computed. Default: `enforce`.
    pub mode: Option<AdaptiveMode>,
    /// The lowest value of the limit. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub floor: Option<u64>,
    /// The pool size of the observed target: the proxy keeps at most twice as many requests in flight. A map with
    /// `gradient` if the size is unknown.
    pub in_flight: Option<InFlight>,
    /// Whether a start begins with a third of the limit, and reaches all of it over ten seconds. Default: false.
    pub warm_up_on_start: Option<bool>,
    /// The status of a refusal while the limit is reduced, 429 or 503; for forward-auth and the proxy. Default: 429.
    #[cfg_attr(test, schemars(range(min = 429, max = 503)))]
    pub shed_status: Option<u64>,
}

/// The bound on requests in flight.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum InFlight {
    /// Twice this pool size.
    Pool(u64),
    /// Estimated from response times.
    Map(InFlightOptions),
}

/// The bound on requests in flight to a target whose pool size is unknown.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InFlightOptions {
    /// The lowest bound, 1 to 1000000; the highest is four times as much. Falls while responses take longer than usual.
    pub gradient: u64,
}

/// One signal of several.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Chain {
    /// Its name in metrics and answers. Default: the kind of its source.
    pub name: Option<String>,
    /// The source of the signal.
    pub source: AdaptiveSource,
    /// How the signal sets the limit. Default: depends on the source.
    pub ramp: Option<Ramp>,
    /// Its smoothing. Default: the `smoothing` beside `chains`.
    pub smoothing: Option<Smoothing>,
    /// Its hysteresis. Default: the `hysteresis` beside `chains`.
    pub hysteresis: Option<Hysteresis>,
    /// What applies while the source gives no signal. Default: the `absence` beside `chains`.
    pub absence: Option<Absence>,
}

/// The source of a load signal.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum AdaptiveSource {
    /// By name.
    Word(SourceWord),
    /// With options.
    Map(Box<SourceOptions>),
}

/// The source of a load signal, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SourceWord {
    /// Duration and failures of all responses that the proxy forwards or `/v1/observe` receives.
    Latency,
    /// The processors available to this process.
    Cpu,
    /// What an operator sets with `PUT /v1/pressure/POLICY`, and 0 until then: the same as `{ fixed: 0 }`.
    Manual,
}

/// The source of a load signal: one of `probe`, `latency` or `observe`, `pool`, `prometheus` and `fixed`, with its
/// options.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(
    example = serde_json::json!({ "probe": "http://db-health:9000/pressure" }),
    example = serde_json::json!({ "observe": "db" }),
    example = serde_json::json!({ "pool": "db" }),
    example = serde_json::json!({ "prometheus": "http://prometheus:9090", "query": "up" }),
    example = serde_json::json!({ "fixed": 0.3 }),
))]
pub struct SourceOptions {
    /// A URL that returns the pressure, from 0 to 1, as `{"pressure": 0.4}` or as a number alone; with `measure`, any URL.
    #[cfg_attr(test, schemars(example = &"http://db-health:9000/pressure"))]
    pub probe: Option<String>,
    /// The JSON pointer to the number in the response of a probe. Default: `/pressure`.
    #[cfg_attr(test, schemars(example = &"/pools/0/used"))]
    pub pointer: Option<String>,
    /// What is measured of a probe, instead of reading a number: `latency`, how long it takes.
    pub measure: Option<Measure>,
    /// With `measure: latency`, a probe that takes at most this long is a pressure of 0, 1ms to 30s.
    #[cfg_attr(test, schemars(example = &"50ms"))]
    pub healthy: Option<Span>,
    /// With `measure: latency`, a probe that takes at least this long is a pressure of 1, 1ms to 30s; linear in between.
    #[cfg_attr(test, schemars(example = &"500ms"))]
    pub overloaded: Option<Span>,
    /// The target whose responses are measured: an upstream of the proxy, or a target of `/v1/observe`.
    pub latency: Option<String>,
    /// The same as `latency`, by the name of the middleware's option.
    pub observe: Option<String>,
    /// The target whose `saturation` `/v1/observe` receives: how full its pool is, from 0 to 1.
    pub pool: Option<String>,
    /// The URL of a Prometheus server, for `query`.
    #[cfg_attr(test, schemars(example = &"http://prometheus:9090"))]
    pub prometheus: Option<String>,
    /// The query in Prometheus: the first value of its result counts.
    pub query: Option<String>,
    /// A constant pressure, from 0 to 1.
    pub fixed: Option<f64>,
    /// The interval of a probe or query, 1s to 5min. Default: 1s, for Prometheus 5s.
    pub every: Option<Span>,
    /// Its timeout, 10ms to 1min. Default: 500ms, for Prometheus 2s; with `measure: latency` at least twice `overloaded`.
    pub timeout: Option<Span>,
    /// The certificate authorities of an `https://` URL, in PEM. Default: those of the system.
    pub ca_file: Option<String>,
    /// A file with a token that the URL is asked with, as `Authorization: Bearer`. Read at the start and on each reload.
    /// Over `http://` only to this machine.
    pub token_file: Option<String>,
    /// Its name in `/v1/pressure` and metrics. Default: the policy's name.
    pub target: Option<String>,
}

/// What is measured of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// How long it takes, from connecting to the end of the answer.
    Latency,
}

/// How a signal sets the limit.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Ramp {
    /// By name.
    Word(RampWord),
    /// By two points.
    Curve(Box<Curve>),
}

/// A named ramp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RampWord {
    /// A pressure from 0 to 1 reduces the limit by that share.
    Pressure,
    /// From 80 % processor use on, down to half of the limit.
    Cpu,
    /// Response times from 300ms to 18s: down to a sixtieth of the limit, like 240 to 4.
    Latency,
    /// Queue waits from 20ms to 200ms: down to a twentieth of the limit.
    Default,
}

/// A line between two points: `min_value` with `max_rate`, and `max_value` with `min_rate`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// Up to this value the highest rate applies: a time, or a number.
    pub min_value: Level,
    /// From this value on the lowest rate applies.
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
    /// A number in the unit of the source.
    Number(f64),
    /// A time.
    Span(Span),
}

/// A rate like 4/min, or a share of the limit from 0 to 1.
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

/// The smoothing of a signal.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Smoothing {
    /// No smoothing.
    Word(NoneWord),
    /// Time constants, or a fixed weight.
    Map(Box<SmoothingOptions>),
}

/// The word for switching something off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NoneWord {
    /// Off.
    None,
}

/// Reduces the limit fast, and raises it slowly.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SmoothingOptions {
    /// The time constant while the load rises. Default: 1500ms.
    pub close: Option<Span>,
    /// The time constant while the load falls. Default: 20s.
    pub open: Option<Span>,
    /// The weight of the newest reading, above 0 and at most 1. Instead of `close` and `open`.
    pub alpha: Option<f64>,
}

/// The hysteresis of a limit.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Hysteresis {
    /// No hysteresis.
    Word(NoneWord),
    /// With its thresholds.
    Map(HysteresisOptions),
}

/// Ignores small improvements, and waits before it raises the limit again.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HysteresisOptions {
    /// The smallest improvement that raises the limit, from 0 to 0.5. Default: 0.05.
    pub play: Option<f64>,
    /// How long the limit is not raised after a reduction, at most 1h. Default: 3s.
    pub hold: Option<Span>,
}

/// What applies while a source gives no signal.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absence {
    /// For this many seconds nothing changes; after that the limit is not raised. Default: 3.
    #[cfg_attr(test, schemars(range(max = 3600)))]
    pub hold_ticks: Option<u64>,
    /// After this time the pressure drifts to `unknown`. Default: 10s.
    pub drift_after: Option<Span>,
    /// The pressure of a source without a signal, from 0 to 1. Default: 0.25.
    pub unknown: Option<f64>,
    /// This many timeouts, broken connections or 5xx responses in a row count as `failed`. Default: 3.
    #[cfg_attr(test, schemars(range(min = 1, max = 3600)))]
    pub failures: Option<u64>,
    /// The pressure of a source that has failed, from 0 to 1. Default: 0.8.
    pub failed: Option<f64>,
}

/// Whether the adapted limit is enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AdaptiveMode {
    /// Not computed.
    Off,
    /// Computed and reported.
    Shadow,
    /// Computed and enforced.
    Enforce,
}

/// Which requests are shed first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Shed last, from a pressure of 0.8 on.
    Critical,
    /// Shed from a pressure of 0.3 on.
    Default,
    /// Shed from a pressure of 0.1 on.
    Batch,
    /// Shed first: all of it from a pressure of 0.3 on.
    BestEffort,
}
