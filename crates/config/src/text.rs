//! The keys of a file: the one definition behind the reader, the JSON Schema and the reference.
//!
//! Users read the comments on these fields: they are the descriptions in the schema and the reference. The schema takes
//! no other keys than these, and a file is checked against it before it is read.

mod adaptive;
mod doors;
mod limit;
mod listen;
mod policy;
mod proxy;
mod scalar;
mod store;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use self::adaptive::{
    Absence, Adaptive, AdaptiveMode, AdaptiveSource, Chain, Curve, Hysteresis, InFlight, Left,
    Level, Measure, Priority, Ramp, RampWord, Smoothing, SourceOptions, SourceWord,
};
pub(crate) use self::doors::{
    Admin, Case, ClientIp, Dashboard, Dialect, Envoy, Headers, Jwt, KeysShown, Legacy, Logs, Route,
    RoutePolicy, RoutePriority,
};
pub(crate) use self::limit::Member;
pub use self::listen::TlsFiles;
pub(crate) use self::listen::{Door, DoorOptions, Listen};
pub(crate) use self::policy::{
    DenyCache, DenyCacheOptions, Mode, OnStoreError, OnStoreErrorWord, Override, Policy,
    PolicyOptions, Replicas, Share, Unconfirmed, Weights,
};
pub use self::proxy::{Balance, HostHeader, InFlightScope};
pub(crate) use self::proxy::{Health, Proxy, Refusal};
pub(crate) use self::scalar::{OffWord, OneOrMany, PerClient, Percentage, Size, Span};
pub(crate) use self::store::{Breaker, BreakerOptions, Store, StoreOptions};

/// The configuration of tidegate.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct File {
    /// The store of the counters: `memory`, or the URL of a Redis that a fleet shares. Default: `memory`. A change needs a
    /// restart.
    pub store: Option<Store>,
    /// The addresses to listen on. A door without one stays closed. Default: http on `127.0.0.1:8080`. A change needs a
    /// restart.
    pub listen: Option<Listen>,
    /// `shadow`: no policy refuses a request; all of them count and report. Default: `enforce`.
    pub mode: Option<Mode>,
    /// The policies, by name. A policy can be a line such as `100/min burst 20`, or a map.
    #[serde(default)]
    pub policies: BTreeMap<String, Policy>,
    /// Exceptions for single keys and networks: a limit of their own, no limit, or a block.
    #[serde(default)]
    pub overrides: Vec<Override>,
    /// The policy of each request, for forward-auth and the proxy: the first match wins.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The reverse proxy: where it forwards admitted requests. Needs `listen.proxy`.
    pub proxy: Option<Proxy>,
    /// How the address of a client behind proxies is determined.
    pub client_ip: Option<ClientIp>,
    /// JSON Web Tokens of requests: whose signatures are believed, for the key part `jwt:CLAIM` and for plans.
    pub jwt: Option<Jwt>,
    /// The prefix of every key in the store: keeps deployments on one Redis apart. Default: `tg`. A change needs a restart.
    #[cfg_attr(test, schemars(example = &"tg"))]
    pub key_prefix: Option<String>,
    /// Who may make admin calls, such as a reset.
    pub admin: Option<Admin>,
    /// The dashboard at `/`.
    pub dashboard: Option<Dashboard>,
    /// The lines that checks write to the log.
    pub logs: Option<Logs>,
    /// The headers that inform clients about their limit.
    pub headers: Option<Headers>,
    /// The rate limit service for Envoy.
    pub envoy: Option<Envoy>,
    /// How long new connections are still served after SIGTERM, while `/readyz` answers 503: at least two intervals of the
    /// load balancer's health check. At most 5min. Default: 1s.
    #[cfg_attr(test, schemars(example = "5s"))]
    pub drain: Option<Span>,
    /// Telemetry for an OpenTelemetry collector. A change needs a restart.
    pub telemetry: Option<Telemetry>,
    /// Whether it has a section `jwt` that was left out because of its problems.
    #[serde(skip)]
    pub has_bad_jwt: bool,
}

/// Telemetry for an OpenTelemetry collector.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Telemetry {
    /// The `http://` URL of the collector, for spans and metrics over OTLP/gRPC. Needs a binary built with the feature
    /// `otlp`.
    #[cfg_attr(test, schemars(example = "http://127.0.0.1:4317"))]
    pub otlp: String,
}
