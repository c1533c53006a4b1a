//! The doors, their names in metrics, and what they need on an address that other machines can reach: TLS and
//! authentication, unless the network is trusted.

use crate::Config;
use crate::address::Address;

/// The policy label of checks with an unknown policy.
pub const UNKNOWN: &str = "(unknown)";
/// The policy label of checks whose request brings its own limit.
pub const BY_REQUEST: &str = "(request)";
/// No policy may have one of these names.
pub const RESERVED_NAMES: [&str; 2] = [UNKNOWN, BY_REQUEST];

/// The list of doors. From it follow the keys of `listen`, the checks of exposed addresses, the labels of metrics, the
/// protocols of TLS and the names of systemd's sockets; and the order in which addresses are printed at the start, which
/// programs that start a server rely on. `run::open_door` of the server has a line for each.
macro_rules! for_each_door {
    ($define:ident) => {
        $define! {
            /// The HTTP API, forward-auth, metrics and the dashboard.
            http: Http {
                alpn: &[b"h2", b"http/1.1"],
                authentication: Some(Authentication {
                    secret: "token",
                    is_set: |config| config.doors.admin_token.is_some(),
                    remedy: "`listen.http.tls` and `admin.token_file`",
                }),
            },
            /// The Redis protocol.
            resp: Resp {
                alpn: &[],
                authentication: Some(Authentication {
                    secret: "password",
                    is_set: |config| config.listen.get(&Door::Resp).is_some_and(|it| it.password.is_some()),
                    remedy: "`listen.resp.tls` and `listen.resp.password_file`",
                }),
            },
            /// The rate limit service for Envoy.
            grpc: Grpc {
                alpn: &[b"h2"],
                // Envoy sends no password: it presents a client certificate, which needs TLS.
                authentication: Some(Authentication {
                    secret: "certificate",
                    is_set: |config| {
                        let tls = config.listen.get(&Door::Grpc).and_then(|it| it.tls.as_ref());
                        tls.is_some_and(|tls| tls.client_ca.is_some())
                    },
                    remedy: "`listen.grpc.tls` with its `client_ca`",
                }),
            },
            /// The reverse proxy, open to everyone. Needs `proxy`.
            proxy: Proxy { alpn: &[b"h2", b"http/1.1"], authentication: None, },
        }
    };
}
pub(crate) use for_each_door;

macro_rules! define_door {
    ($($(#[$doc:meta])* $key:ident: $name:ident {
        alpn: $alpn:expr,
        authentication: $authentication:expr,
    },)*) => {
        /// A protocol that the server answers.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Door {
            $($(#[$doc])* $name,)*
        }

        impl Door {
            /// Every door.
            pub const ALL: [Self; [$(stringify!($key)),*].len()] = [$(Self::$name),*];

            /// Its key in `listen`, and its name in metrics and logs.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($key),)*
                }
            }

            /// Its key in the configuration.
            pub const fn listen_key(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("listen.", stringify!($key)),)*
                }
            }

            /// The protocols that it offers over TLS, the best first.
            pub const fn alpn(self) -> &'static [&'static [u8]] {
                match self {
                    $(Self::$name => $alpn,)*
                }
            }

            /// Whether its clients have to authenticate.
            pub fn has_secret(self, config: &Config) -> bool {
                self.authentication().is_some_and(|it| (it.is_set)(config))
            }

            /// How its clients authenticate. `None`: the door is open to everyone.
            const fn authentication(self) -> Option<Authentication> {
                match self {
                    $(Self::$name => $authentication,)*
                }
            }
        }
    };
}

for_each_door!(define_door);

/// How clients of a door authenticate.
struct Authentication {
    secret: &'static str,
    is_set: fn(&Config) -> bool,
    /// The keys that make it safe.
    remedy: &'static str,
}

/// The address of a door, and whether it has TLS.
#[derive(Clone, Debug)]
pub struct Exposure {
    pub door: Door,
    pub address: Address,
    pub has_tls: bool,
}

impl Exposure {
    /// Whether the door may listen there; an error names what is missing, and how to mend it.
    pub fn allow(&self, has_secret: bool) -> Result<(), String> {
        let Some(ways) = self.door.authentication().filter(|_| !self.address.is_private()) else {
            return Ok(());
        };
        let missing = match (self.has_tls, has_secret) {
            (true, true) => return Ok(()),
            (false, false) => "it has neither TLS nor authentication".to_owned(),
            (false, true) => {
                format!("it has no TLS, so that the {} could be overheard", ways.secret)
            }
            (true, false) => "it has no authentication".to_owned(),
        };
        Err(format!(
            "will not listen on {}: other machines can reach it, and {missing}. Listen on 127.0.0.1 behind a proxy, set {} in \
             the configuration, or pass --insecure-bind if the network is trusted",
            self.address, ways.remedy
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(door: Door, address: &str, has_tls: bool, has_secret: bool) -> String {
        let exposure = Exposure { door, address: address.parse().unwrap(), has_tls };
        exposure.allow(has_secret).err().unwrap_or_default()
    }

    #[test]
    fn others_are_let_in_over_tls_by_a_secret_alone() {
        for door in [Door::Http, Door::Grpc, Door::Resp] {
            for (has_tls, has_secret) in [(false, false), (false, true), (true, false)] {
                assert_ne!(refusal(door, "0.0.0.0:1", has_tls, has_secret), "");
                assert_eq!(refusal(door, "127.0.0.1:1", has_tls, has_secret), "");
                assert_eq!(refusal(door, "unix:/run/t.sock", has_tls, has_secret), "");
            }
            assert_eq!(refusal(door, "0.0.0.0:1", true, true), "");
        }
        assert_eq!(refusal(Door::Proxy, "0.0.0.0:1", false, false), "");
    }

    #[test]
    fn what_would_help_is_what_that_door_looks_at() {
        for (door, secret, remedy) in [
            (Door::Http, "token", "`listen.http.tls` and `admin.token_file`"),
            (Door::Resp, "password", "`listen.resp.tls` and `listen.resp.password_file`"),
            (Door::Grpc, "certificate", "`listen.grpc.tls` with its `client_ca`"),
        ] {
            let refusal = refusal(door, "192.0.2.1:80", false, true);
            let overheard = format!("so that the {secret} could be overheard");
            for part in ["192.0.2.1:80", &overheard, remedy, "--insecure-bind"] {
                assert!(refusal.contains(part), "{part} in {refusal}");
            }
        }
    }
}
