//! What doors go by: routes, clients, headers, and who may do what.

use serde::Deserialize;

use super::scalar::OneOrMany;
use crate::secret::Secret;

/// Which policy requests fall under.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Which requests. All that is given has to match; without it, every request.
    #[serde(rename = "match")]
    pub matches: Option<Match>,
    /// The policy.
    pub policy: String,
    /// Who is limited: a key part or a list of them, `client_ip`, `header:NAME`, `cookie:NAME`, `query:NAME`, `host`,
    /// `method`, `path`, `url`, `route`, `global` or `fingerprint`; `a|b` is the first that is there. Default: the
    /// policy's `key`, else `client_ip`.
    #[cfg_attr(test, schemars(example = "header:x-user|client_ip"))]
    pub key: Option<OneOrMany>,
    /// What a request costs. Default: 1.
    #[cfg_attr(test, schemars(range(max = 9_007_199_254_740_992_u64)))]
    pub cost: Option<u64>,
}

/// Which requests a route is for.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// The path, in which `*` stands for anything: `/api/login`, `/api/*`.
    #[cfg_attr(test, schemars(example = "/api/*"))]
    pub path: Option<String>,
    /// The method, or a list of them.
    #[cfg_attr(test, schemars(example = &"POST"))]
    pub method: Option<OneOrMany>,
    /// The host without its port, in which `*` stands for anything: `api.example.com`, `*.example.com`.
    #[cfg_attr(test, schemars(example = "*.example.com"))]
    pub host: Option<String>,
}

/// How the client of a request is found behind proxies.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientIp {
    /// Addresses and networks of proxies whose headers are believed. Default: none, the peer is the client.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = ["127.0.0.0/8"]))]
    pub trusted_proxies: Vec<String>,
    /// How many bits of an IPv6 address make one client, 1 to 128. Default: 64.
    #[cfg_attr(test, schemars(range(min = 1, max = 128)))]
    pub ipv6_prefix: Option<u8>,
    /// Whether the proxies write `Forwarded` instead of `X-Forwarded-For`. Default: false.
    pub forwarded: Option<bool>,
}

/// Who may make calls that change things for others.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The bearer token of such calls: at least 16 visible ASCII characters, without spaces. Default: they are answered
    /// on this machine only.
    pub token: Option<Secret>,
    /// A file that holds the token. Instead of `token`.
    #[cfg_attr(test, schemars(example = "/run/secrets/tidegate-admin"))]
    pub token_file: Option<String>,
}

/// The page at `/` that shows what is decided.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Dashboard {
    /// How the keys that are refused most are told, to everybody who can open the page. Default: `hashed`.
    pub keys: Option<KeysShown>,
}

/// How keys are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum KeysShown {
    /// As a hash that means nothing outside the process: the one that the log has.
    Hashed,
    /// As they are.
    Shown,
}

/// The headers that tell clients about their limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Headers {
    /// How `RateLimit` and `RateLimit-Policy` are written. Default: `draft-11`.
    pub dialect: Option<Dialect>,
    /// What `X-RateLimit-Reset` counts, or `off` for none of the older headers. Default: `epoch`.
    pub legacy: Option<Legacy>,
}

/// How `RateLimit` and `RateLimit-Policy` are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// As in draft-ietf-httpapi-ratelimit-headers-11.
    #[serde(rename = "draft-11")]
    Draft11,
    /// Not at all.
    Off,
}

/// What `X-RateLimit-Reset` counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Legacy {
    /// Seconds since 1970.
    Epoch,
    /// Seconds from now.
    Delta,
    /// Nothing: no `X-RateLimit` headers.
    Off,
}

/// The rate limit service that Envoy asks.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Envoy {
    /// Whether all descriptors of a request are one atomic step. `false` is the behaviour of envoyproxy/ratelimit, where a
    /// refused request still spends its other limits. Default: true.
    pub atomic: Option<bool>,
    /// Whether answers tell the tightest limit in `RateLimit-Limit`, `-Remaining` and `-Reset`. Default: false.
    pub headers: Option<bool>,
    /// `shadow`: every request is admitted in the end, and what would have been refused is reported.
    pub mode: Option<super::Mode>,
}
