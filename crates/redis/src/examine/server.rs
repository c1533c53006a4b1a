//! One server of the store: how to connect to it, and how to show it without its password.

use std::path::PathBuf;

use super::facts::Role;
use crate::access::Access;
use crate::endpoint::{Endpoint, TlsFiles};
use crate::url::RedisUrl;

/// The options of `redis-cli`.
fn cli_options(files: &TlsFiles) -> String {
    let option = |name: &str, file: &Option<PathBuf>| {
        file.as_ref().map_or(String::new(), |file| format!(" --{name} {}", file.display()))
    };
    let (ca, cert) = (option("cacert", &files.ca), option("cert", &files.cert));
    format!(" --tls{ca}{cert}{}", option("key", &files.key))
}

/// The `redis-cli` command for a server.
fn cli(endpoint: &Endpoint, url: &RedisUrl) -> String {
    let mut cli = match endpoint {
        Endpoint::Tcp { host, port } => {
            let tls = url.tls.as_ref().map_or(String::new(), cli_options);
            format!("redis-cli{tls} -h {host} -p {port}")
        }
        Endpoint::Unix(path) => format!("redis-cli -s {}", path.display()),
    };
    if let Some(login) = &url.login {
        if let Some(user) = &login.user {
            cli.push_str(" --user ");
            cli.push_str(user);
        }
        cli.push_str(" --askpass");
    }
    cli
}

#[derive(Clone, Debug)]
pub(super) struct RedisServer {
    pub(super) endpoint: Endpoint,
    pub(super) access: Access,
    pub(super) role: Role,
    /// Its address, for people.
    pub(super) name: String,
    /// The `redis-cli` command for it, which asks for the password.
    pub(super) cli: String,
}

impl RedisServer {
    /// A server that is reached with the login, database and TLS files of a URL.
    pub(super) fn new(endpoint: &Endpoint, url: &RedisUrl, role: Role) -> Result<Self, String> {
        let access = Access::new(url.login.clone(), url.db, url.tls.as_ref());
        let access = access.map_err(|error| error.to_string())?;
        let (name, cli) = (endpoint.to_string(), cli(endpoint, url));
        Ok(Self { endpoint: endpoint.clone(), access, role, name, cli })
    }

    /// Whether others on the network can read what is sent.
    pub(super) fn is_in_clear(&self) -> bool {
        match &self.endpoint {
            Endpoint::Tcp { host, .. } if self.access.tls.is_none() => {
                let ip = host.parse().map(|ip: std::net::IpAddr| ip.is_loopback());
                !ip.unwrap_or(host == "localhost")
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Topology;

    #[test]
    fn a_server_is_shown_without_its_password() {
        for (url, name, command) in [
            ("redis://h", "h:6379", "redis-cli -h h -p 6379"),
            ("redis://:secret@h:1", "h:1", "redis-cli -h h -p 1 --askpass"),
            (
                "rediss://u:secret@h:1?ca=/ca",
                "h:1",
                "redis-cli --tls --cacert /ca -h h -p 1 --user u --askpass",
            ),
            ("redis://[::1]:1", "[::1]:1", "redis-cli -h ::1 -p 1"),
            ("redis+unix:///r.sock?pass=secret", "/r.sock", "redis-cli -s /r.sock --askpass"),
        ] {
            let url = RedisUrl::parse(url).unwrap();
            let Topology::Single(endpoint) = &url.topology else { panic!("one server") };
            assert_eq!(
                (endpoint.to_string().as_str(), cli(endpoint, &url).as_str()),
                (name, command)
            );
        }
    }
}
