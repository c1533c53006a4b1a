//! Where the doors are.

use schemars::JsonSchema;
use serde::Deserialize;

use super::scalar::Secret;

/// Where to listen. A door that is not named stays closed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listen {
    /// The HTTP API, forward-auth, metrics and the dashboard.
    pub(crate) http: Option<Door>,
    /// The rate limit service of Envoy.
    pub(crate) grpc: Option<Door>,
    /// The protocol of Redis.
    pub(crate) resp: Option<Door>,
    /// The reverse proxy, for everybody: it has nothing that others may not see. Goes with `proxy`.
    pub(crate) proxy: Option<Door>,
}

/// An address, or a map.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(example = "127.0.0.1:8080")]
pub(crate) enum Door {
    /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/tidegate/http.sock`.
    Address(String),
    /// With options.
    Map(Box<DoorOptions>),
}

/// A door with its options.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoorOptions {
    /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/tidegate/http.sock`.
    #[schemars(example = "127.0.0.1:8080")]
    pub(crate) address: String,
    /// Speaks TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// Whether every connection begins with a PROXY header that names the client. Default: false.
    pub(crate) proxy_protocol: Option<bool>,
    /// What clients have to say before they may ask (resp). Default: nothing.
    pub(crate) password: Option<Secret>,
    /// A file that holds the password on its first line. Instead of `password`.
    #[schemars(example = "/run/secrets/tidegate-resp")]
    pub(crate) password_file: Option<String>,
    /// How many connections are served at once; the next one waits. Default: 10000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_connections: Option<u32>,
}

/// Files for TLS, in PEM.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsFiles {
    /// The certificate, with those that lead to a known authority.
    #[schemars(example = "/etc/tidegate/tls.crt")]
    pub(crate) cert: String,
    /// Its private key.
    #[schemars(example = "/etc/tidegate/tls.key")]
    pub(crate) key: String,
    /// Clients have to show a certificate of this authority.
    #[schemars(example = "/etc/tidegate/clients.crt")]
    pub(crate) client_ca: Option<String>,
}
