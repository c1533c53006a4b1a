//! The reverse proxy.

use serde::Deserialize;

use super::scalar::{OneOrMany, PerClient, Span};

/// Where the proxy forwards admitted requests, and how.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proxy {
    /// The upstream: `http://127.0.0.1:3000`, `https://app.internal`, `unix:/run/app.sock`, or `h2c://127.0.0.1:50051` for
    /// HTTP/2 without TLS (gRPC); or a list of up to 64.
    #[cfg_attr(test, schemars(example = "http://127.0.0.1:3000"))]
    pub upstream: OneOrMany,
    /// How requests are spread over several upstreams. Default: `least-loaded`.
    pub balance: Option<Balance>,
    /// The `Host` header sent to upstreams: the client's, or the upstream's own. Default: `preserve`.
    pub host: Option<HostHeader>,
    /// The certificate authorities of `https://` upstreams, in PEM. Default: those of the system.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/upstream-ca.pem"))]
    pub ca_file: Option<String>,
    /// The timeout for a connection, 1ms to 1min. Default: 5s.
    pub connect_timeout: Option<Span>,
    /// The timeout for the head of a response after the request was sent, 1ms to 1h. Default: 60s.
    pub response_timeout: Option<Span>,
    /// The longest pause in a body, in either direction, 1ms to 1h. Default: 60s.
    pub idle_timeout: Option<Span>,
    /// How long an idle connection is kept open: less than the upstream keeps it. 1ms to 1h. Default: 4s.
    pub keep_alive: Option<Span>,
    /// The most idle connections per upstream. Default: 256.
    #[cfg_attr(test, schemars(range(max = 10_000)))]
    pub max_idle_connections: Option<u32>,
    /// The most requests in flight; further ones are refused. Default: 10000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_requests: Option<u32>,
    /// The most requests at the upstreams at once; further ones are refused. Default: none. A smaller `in_flight` of an
    /// adaptive policy counts before it.
    pub in_flight: Option<InFlightMax>,
    /// The most requests of one client in flight (its address behind `client_ip.trusted_proxies`; IPv6 by
    /// `client_ip.ipv6_prefix`), or `off`; further ones are refused. Default: a quarter of `max_requests`, at least 2.
    pub per_client: Option<PerClient>,
    /// The most requests that wait in leaky buckets; further ones are refused. Default: 1000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_waiting: Option<u32>,
    /// The status of a request refused because of `max_requests`, `in_flight`, `per_client` or `max_waiting`: 429 or 503. Default: 429.
    #[cfg_attr(test, schemars(range(min = 429, max = 503)))]
    pub shed_status: Option<u16>,
    /// What refused clients get. Default: the built-in page for people, and no body for assets and calls below `/api`.
    pub refusal: Option<Refusal>,
    /// Health checks. Default: none; an upstream is skipped only while connections to it fail.
    pub health: Option<Health>,
}

/// The bound on requests at the upstreams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct InFlightMax {
    /// How many.
    #[cfg_attr(test, schemars(range(min = 1, max = 10_000)))]
    pub max: u32,
    /// Whose requests count: those of this node, or those of all nodes with the same upstreams, store and `key_prefix`.
    /// Default: `node`.
    pub scope: Option<InFlightScope>,
}

/// Whose requests count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InFlightScope {
    /// Those of this node: with several proxies, divide.
    Node,
    /// Those of all nodes together.
    Fleet,
}

/// How requests are spread over several upstreams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// To the upstream with the fewest requests in flight.
    LeastLoaded,
    /// To one after the other.
    RoundRobin,
}

/// The `Host` header sent to upstreams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HostHeader {
    /// The client's.
    Preserve,
    /// The upstream's own.
    Upstream,
}

/// What refused clients get.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Refusal {
    /// A file with the page for people: HTML of at most 64 KiB, in which `{{retry_after}}`, `{{policy}}` and
    /// `{{request_id}}` are replaced. Default: the built-in page.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/refused.html"))]
    pub page: Option<String>,
    /// The file extensions of assets, which get no body. Default: those of styles, scripts, images, fonts and media.
    pub assets: Option<Vec<String>>,
    /// The paths of an API, like `/rpc/*`, whose clients get `application/problem+json` whatever they accept. Default: none.
    pub api: Option<Vec<String>>,
}

/// Health checks of the upstreams.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// The path to GET: a status below 400 is healthy.
    #[cfg_attr(test, schemars(example = "/healthz"))]
    pub path: String,
    /// The interval, 1s to 1h. Default: 5s.
    pub every: Option<Span>,
    /// The timeout, 1ms to 1min. Default: 2s.
    pub timeout: Option<Span>,
}
