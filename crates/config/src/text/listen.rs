//! The doors: where they listen, and how.

use std::path::PathBuf;

use serde::Deserialize;

use super::scalar::PerClient;
use crate::door::for_each_door;
use crate::secret::Secret;

macro_rules! define_listen {
    ($($(#[$doc:meta])* $key:ident: $name:ident { $($rest:tt)* },)*) => {
        /// The addresses to listen on. A door without one stays closed.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub struct Listen {
            $($(#[$doc])* pub $key: Option<Door>,)*
        }

        impl Listen {
            /// What is written for a door.
            pub fn get(&self, door: crate::Door) -> Option<&Door> {
                match door {
                    $(crate::Door::$name => self.$key.as_ref(),)*
                }
            }
        }
    };
}

for_each_door!(define_listen);

/// An address, or a map.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
#[cfg_attr(test, schemars(example = "127.0.0.1:8080"))]
pub enum Door {
    /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/tidegate/http.sock`.
    Address(String),
    /// With options.
    Map(Box<DoorOptions>),
}

/// A door with its options.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoorOptions {
    /// `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/tidegate/http.sock`.
    #[cfg_attr(test, schemars(example = "127.0.0.1:8080"))]
    pub address: String,
    /// Serves TLS.
    pub tls: Option<TlsFiles>,
    /// Whether every connection starts with a PROXY protocol header that names the client. Default: false.
    pub proxy_protocol: Option<bool>,
    /// The password that clients must send first (resp). Default: none.
    pub password: Option<Secret>,
    /// A file with the password on its first line. Instead of `password`.
    #[cfg_attr(test, schemars(example = "/run/secrets/tidegate-resp"))]
    pub password_file: Option<String>,
    /// The most connections at once; further ones wait. Default: 10000.
    #[cfg_attr(test, schemars(range(min = 1, max = 1_000_000)))]
    pub max_connections: Option<u32>,
    /// The most connections of one client (an address; IPv6 by `client_ip.ipv6_prefix`), or `off`; further ones are closed.
    /// Not for Unix sockets and `client_ip.trusted_proxies`. Default: a quarter of `max_connections`, at least 2.
    pub per_client: Option<PerClient>,
}

/// Files for TLS, in PEM.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TlsFiles {
    /// The certificate chain.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/tls.crt"))]
    pub cert: PathBuf,
    /// Its private key.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/tls.key"))]
    pub key: PathBuf,
    /// Clients must present a certificate of this authority.
    #[cfg_attr(test, schemars(example = "/etc/tidegate/clients.crt"))]
    pub client_ca: Option<PathBuf>,
}
