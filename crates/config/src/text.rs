//! What can be written in a file: the one definition that reading, the JSON Schema and the reference are made from.
//!
//! The comments on these fields are what users read.

mod adaptive;
mod doors;
mod limit;
mod listen;
mod policy;
mod proxy;
mod scalar;
mod store;
mod telemetry;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use self::adaptive::{
    Absence, Adaptive, AdaptiveMode, AdaptiveSource, Chain, Curve, Hysteresis, InFlight, Left,
    Level, Priority, Ramp, RampWord, Smoothing, SourceOptions, SourceWord,
};
pub(crate) use self::doors::{
    Admin, ClientIp, Dashboard, Dialect, Envoy, Headers, KeysShown, Legacy, Route,
};
pub(crate) use self::limit::Member;
pub(crate) use self::listen::{Door, DoorOptions, Listen};
pub(crate) use self::policy::{
    Mode, OnStoreError, OnStoreErrorWord, Override, Policy, PolicyOptions, Replicas, Unconfirmed,
};
pub(crate) use self::proxy::{Balance, Health, HostHeader, Proxy};
pub(crate) use self::scalar::{OneOrMany, Span};
pub(crate) use self::store::{Breaker, BreakerOptions, Store, StoreOptions};
pub(crate) use self::telemetry::Telemetry;

/// The configuration of tidegate.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where to count: `memory`, or the URL of a Redis that a fleet shares. Default: `memory`. Needs a restart to change.
    pub store: Option<Store>,
    /// Where to listen. A door that is not named stays closed; without `listen`: http on `127.0.0.1:8080`. Needs a
    /// restart to change.
    pub listen: Option<Listen>,
    /// `shadow`: no policy refuses anybody; all of them count and report. Default: `enforce`.
    pub mode: Option<Mode>,
    /// The policies, by name. A policy can be a line such as `100/min burst 20`, or a map.
    #[serde(default)]
    pub policies: BTreeMap<String, Policy>,
    /// What single keys and networks get instead of a policy: a limit of their own, everything or nothing.
    #[serde(default)]
    pub overrides: Vec<Override>,
    /// Which policy a request falls under, for forward-auth and the proxy: the first match wins.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The reverse proxy: where requests are passed on to that the routes let pass. Goes with `listen.proxy`.
    pub proxy: Option<Proxy>,
    /// How the client of a request is found behind proxies.
    pub client_ip: Option<ClientIp>,
    /// What every key in the store begins with: keeps deployments on one Redis apart. Default: `tg`. Needs a restart to
    /// change.
    #[cfg_attr(test, schemars(example = &"tg"))]
    pub key_prefix: Option<String>,
    /// Who may make calls that change things for others, such as a reset.
    pub admin: Option<Admin>,
    /// The page at `/` that shows what is decided.
    pub dashboard: Option<Dashboard>,
    /// The headers that tell clients about their limit.
    pub headers: Option<Headers>,
    /// The rate limit service that Envoy asks.
    pub envoy: Option<Envoy>,
    /// For how long new connections are still served after SIGTERM, while `/readyz` says 503: at least as long as it takes
    /// a balancer to look twice. Up to 5min. Default: 1s.
    #[cfg_attr(test, schemars(example = "5s"))]
    pub drain: Option<Span>,
    /// What is sent to a collector of OpenTelemetry. Needs a restart to change.
    pub telemetry: Option<Telemetry>,
}
