//! Routes, clients, headers and permissions.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::adaptive::Priority;
use super::scalar::OneOrMany;
use crate::secret::Secret;

/// The policy of some requests.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Route {
    /// Which requests it is for: every condition has to match. Default: all requests.
    #[serde(rename = "match")]
    pub matches: Option<Match>,
    /// The policy; or one by a plan that a trusted proxy or a verified token names, like
    /// `{ by: "header:x-plan", pro: api-pro, else: api-free }`.
    #[cfg_attr(test, schemars(example = &"api"))]
    pub policy: RoutePolicy,
    /// What the policy counts by: a key part or a list of them, `client_ip`, `header:NAME`, `cookie:NAME`, `query:NAME`,
    /// `jwt:CLAIM` (of a verified token, needs `jwt`), `json:/POINTER` (into the body, at the reverse proxy), `host`,
    /// `method`, `path`, `url`, `route`, `global` or `fingerprint`; `a|b` takes the first that the request has. Default: the
    /// policy's `key`, else `client_ip`.
    #[cfg_attr(test, schemars(example = "header:x-user|client_ip"))]
    pub key: Option<OneOrMany>,
    /// The cost of a request. Default: 1.
    #[cfg_attr(test, schemars(range(max = 9_007_199_254_740_992_u64)))]
    pub cost: Option<u64>,
    /// Whether letter case matters, of the path (in `match` and in the key parts `path` and `url`) and of `json:` key parts:
    /// `insensitive` for servers that answer `/Login` like `/login`, or take `Ann` for `ann`. Default: `sensitive`.
    pub case: Option<Case>,
    /// Which of its requests the proxy sheds first when too many are in flight; or one by a plan that a trusted proxy or a
    /// verified token names, like `{ by: "header:x-plan", pro: critical, else: batch }`. Needs an `in_flight`. Default: the
    /// policy's `priority`.
    pub priority: Option<RoutePriority>,
}

/// The policy of a route.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RoutePolicy {
    /// Always the same.
    Name(String),
    /// By what a trusted proxy or a verified token says.
    By(PolicyBy),
}

/// A policy for each value of a request.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PolicyBy {
    /// What chooses: `header:NAME`, `cookie:NAME` or `query:NAME`, believed from trusted proxies only; or `jwt:CLAIM` of a
    /// verified token.
    #[cfg_attr(test, schemars(example = &"header:x-plan"))]
    pub by: String,
    /// The policy of all other requests.
    #[serde(rename = "else")]
    pub otherwise: String,
    /// The policy of each value.
    #[serde(flatten)]
    pub named: BTreeMap<String, String>,
}

impl RoutePolicy {
    /// All policies that it names, each with its key in the file.
    pub fn names(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let (only, by) = match self {
            Self::Name(name) => (Some((None, name.as_str())), None),
            Self::By(by) => (None, Some(by)),
        };
        let named = by.into_iter().flat_map(|by| {
            let named = by.named.iter().map(|(value, name)| (Some(value.as_str()), name.as_str()));
            named.chain([(Some("else"), by.otherwise.as_str())])
        });
        only.into_iter().chain(named)
    }
}

/// The priority of the requests of a route.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum RoutePriority {
    /// Always the same.
    Word(Priority),
    /// By what a trusted proxy or a verified token says.
    By(PriorityBy),
}

/// A priority for each value of a request.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PriorityBy {
    /// What chooses: `header:NAME`, `cookie:NAME` or `query:NAME`, believed from trusted proxies only; or `jwt:CLAIM` of a
    /// verified token.
    #[cfg_attr(test, schemars(example = &"header:x-plan"))]
    pub by: String,
    /// The priority of all other requests.
    #[serde(rename = "else")]
    pub otherwise: Priority,
    /// The priority of each value.
    #[serde(flatten)]
    pub named: BTreeMap<String, Priority>,
}

/// Whether letter case matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Case {
    /// It does.
    Sensitive,
    /// It does not.
    Insensitive,
}

/// The conditions of a route.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Match {
    /// The path; `*` matches anything: `/api/login`, `/api/*`.
    #[cfg_attr(test, schemars(example = "/api/*"))]
    pub path: Option<String>,
    /// The method, or a list of them.
    #[cfg_attr(test, schemars(example = &"POST"))]
    pub method: Option<OneOrMany>,
    /// The host without its port; `*` matches anything: `api.example.com`, `*.example.com`.
    #[cfg_attr(test, schemars(example = "*.example.com"))]
    pub host: Option<String>,
    /// `true`: only scripts, styles, images, fonts and media, told by the extension of the path and never below `/api`;
    /// `false`: all other requests.
    pub assets: Option<bool>,
    /// Headers and the value that each has to have; `*` matches anything: `{ x-plan: pro }`.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = std::collections::BTreeMap::from([("x-plan", "pro")])))]
    pub header: BTreeMap<String, String>,
    /// Cookies and the value that each has to have, unescaped; `*` matches anything.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = std::collections::BTreeMap::from([("plan", "pro")])))]
    pub cookie: BTreeMap<String, String>,
    /// Parameters of the query and the value that each has to have; `*` matches anything.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = std::collections::BTreeMap::from([("export", "*")])))]
    pub query: BTreeMap<String, String>,
    /// The network of the client, or a list of them.
    #[cfg_attr(test, schemars(example = &"10.0.0.0/8"))]
    pub network: Option<OneOrMany>,
}

/// How the address of a client behind proxies is determined.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClientIp {
    /// Addresses and networks of trusted proxies: their headers name the client. Default: none, the peer is the client.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = ["127.0.0.0/8"]))]
    pub trusted_proxies: Vec<String>,
    /// How many proxies are in front, instead of `trusted_proxies`: the client is the address in this place of
    /// `X-Forwarded-For`, from the right. Whoever connects is believed to be the last of them, so that the server must not
    /// be reachable in another way.
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    pub trusted_hops: Option<u8>,
    /// The prefix length that identifies an IPv6 client, 1 to 128 bits. Default: 64.
    #[cfg_attr(test, schemars(range(min = 1, max = 128)))]
    pub ipv6_prefix: Option<u8>,
    /// Whether the proxies send `Forwarded` instead of `X-Forwarded-For`. Default: false.
    pub forwarded: Option<bool>,
}

/// JSON Web Tokens of requests: whose signatures are believed. A token that is not right counts as none.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Jwt {
    /// A file with the issuer's public keys in PEM; for HS algorithms, with the secret of at least 32 bytes. Read at the start
    /// and at each reload; at most 64 KiB.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/issuer.pem"))]
    pub keys_file: Option<String>,
    /// A file with the issuer's JSON Web Key Set. Instead of `keys_file`.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/jwks.json"))]
    pub jwks_file: Option<String>,
    /// The algorithms that the issuer signs with: `HS256`, `HS384`, `HS512` (with a secret); or `RS256`, `RS384`, `RS512`,
    /// `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA` (with public keys).
    #[cfg_attr(test, schemars(example = &"RS256"))]
    pub algorithms: OneOrMany,
    /// The `iss` that a token must have, or a list of those it may have. Default: any.
    #[cfg_attr(test, schemars(example = &"https://issuer.example"))]
    pub issuer: Option<OneOrMany>,
    /// An `aud` that a token must have, or a list of which it must have one. Default: any.
    #[cfg_attr(test, schemars(example = &"api"))]
    pub audience: Option<OneOrMany>,
}

/// Who may make admin calls.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Admin {
    /// The bearer token of admin calls: at least 16 visible ASCII characters, no spaces. Default: none, and only local
    /// clients may make them.
    pub token: Option<Secret>,
    /// A file with the token. Instead of `token`.
    #[cfg_attr(test, schemars(example = "/run/secrets/tidegate-admin"))]
    pub token_file: Option<String>,
    /// Names by which clients on this machine may call the API, beside `localhost` and addresses: a name that a
    /// local proxy keeps in `Host`. Others are refused, because a web page can let its own name point here.
    #[serde(default)]
    #[cfg_attr(test, schemars(example = ["limits.example.com"]))]
    pub hosts: Vec<String>,
}

/// The dashboard at `/`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dashboard {
    /// How the most refused keys appear on the page, for everyone who can open it. Default: `hashed`.
    pub keys: Option<KeysShown>,
}

/// The lines that checks write.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Logs {
    /// How keys and clients appear in lines about refusals. Default: `hashed`.
    pub keys: Option<KeysShown>,
}

/// How keys appear.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum KeysShown {
    /// As a hash, the same in the log and on the dashboard: valid in this process only, unless there is a `hash_key_file`.
    Hashed,
    /// In clear text, escaped and up to 64 characters. Not with `store.hash_keys`.
    Shown,
}

/// The headers that inform clients about their limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Headers {
    /// The `RateLimit` headers: `draft-11` for `RateLimit` and `RateLimit-Policy`, `legacy` for the older `RateLimit-Limit`,
    /// `-Remaining` and `-Reset` (seconds from now), `off` for none. Default: `draft-11`.
    pub dialect: Option<Dialect>,
    /// The unit of `X-RateLimit-Reset`, or `off` for no `X-RateLimit` headers. Default: `epoch`.
    pub legacy: Option<Legacy>,
}

/// The `RateLimit` headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// draft-ietf-httpapi-ratelimit-headers-11.
    #[serde(rename = "draft-11")]
    Draft11,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of its drafts up to 6.
    Legacy,
    /// No such headers.
    Off,
}

/// The unit of `X-RateLimit-Reset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Legacy {
    /// Seconds since 1970.
    Epoch,
    /// Seconds from now.
    Delta,
    /// No `X-RateLimit` headers.
    Off,
}

/// The rate limit service for Envoy.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Envoy {
    /// Whether all descriptors of a request are checked in one atomic step. `false` is the behaviour of
    /// envoyproxy/ratelimit: a refused request still charges its other limits. Default: true.
    pub atomic: Option<bool>,
    /// Whether answers carry the tightest limit in `RateLimit-Limit`, `-Remaining` and `-Reset`. Default: false.
    pub headers: Option<bool>,
    /// `shadow`: every request is admitted, and would-be refusals are reported. Default: `enforce`.
    pub mode: Option<super::Mode>,
}
