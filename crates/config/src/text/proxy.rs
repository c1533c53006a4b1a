//! The reverse proxy.

use serde::Deserialize;

use super::scalar::{OneOrMany, Span};

/// Where requests are passed on to that may pass, and how.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// What is behind: `http://127.0.0.1:3000`, `https://app.internal`, `unix:/run/app.sock`, or `h2c://127.0.0.1:50051`
    /// for HTTP/2 without TLS, as gRPC has it; or a list of up to 64.
    #[cfg_attr(test, schemars(example = "http://127.0.0.1:3000"))]
    pub upstream: OneOrMany,
    /// Who of several gets a request. Default: `least-loaded`.
    pub balance: Option<Balance>,
    /// The `Host` that an upstream is asked by: the client's, or its own. Default: `preserve`.
    pub host: Option<HostHeader>,
    /// The authorities in PEM that `https://` upstreams are known by. Default: those of the system.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/upstream-ca.pem"))]
    pub ca_file: Option<String>,
    /// How long to connect may take, 1ms to 1min. Default: 5s.
    pub connect_timeout: Option<Span>,
    /// How long the head of an answer may take once the request was sent, 1ms to 1h. Default: 60s.
    pub response_timeout: Option<Span>,
    /// How long a body may pause, in either direction, 1ms to 1h. Default: 60s.
    pub idle_timeout: Option<Span>,
    /// How long a connection is kept that nobody uses: less than the upstream keeps it. 1ms to 1h. Default: 4s.
    pub keep_alive: Option<Span>,
    /// How many such connections are kept to each upstream. Default: 256.
    #[cfg_attr(test, schemars(range(max = 10_000)))]
    pub max_idle_connections: Option<u32>,
    /// How many requests may be under way at once; more are turned away. Default: 10000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_requests: Option<u32>,
    /// How many requests may wait for their turn in leaky buckets; more are turned away. Default: 1000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_waiting: Option<u32>,
    /// What those are told who are turned away because there is too much to do: 429 or 503. Default: 429.
    #[cfg_attr(test, schemars(range(min = 429, max = 503)))]
    pub shed_status: Option<u16>,
    /// Asks each upstream how it does. Default: an upstream is only left alone when it cannot be connected to.
    pub health: Option<Health>,
}

/// Who of several upstreams gets a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Whoever has the fewest under way.
    LeastLoaded,
    /// One after the other.
    RoundRobin,
}

/// The `Host` that an upstream is asked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HostHeader {
    /// The one that the client asked for.
    Preserve,
    /// The upstream's own.
    Upstream,
}

/// How upstreams are asked how they do.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// What to GET; below 400 is well.
    #[cfg_attr(test, schemars(example = "/healthz"))]
    pub path: String,
    /// How often, 1s to 1h. Default: 5s.
    pub every: Option<Span>,
    /// How long an answer may take, 1ms to 1min. Default: 2s.
    pub timeout: Option<Span>,
}
