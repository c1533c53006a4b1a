//! Where one server is, told to people without its password.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::facts::Part;

/// Files of a connection over TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TlsFiles {
    /// The authority to trust.
    pub(super) ca: Option<String>,
    /// What we show of ourselves.
    pub(super) cert: Option<String>,
    pub(super) key: Option<String>,
}

/// A host and a port as they stand in a URL.
pub(super) fn host_port(ip: &str, port: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

impl TlsFiles {
    /// As `redis-cli` wants them.
    fn options(&self) -> String {
        let of = |name: &str, file: &Option<String>| {
            file.as_ref().map_or(String::new(), |file| format!(" --{name} {file}"))
        };
        let (ca, cert, key) =
            (of("cacert", &self.ca), of("cert", &self.cert), of("key", &self.key));
        format!(" --tls{ca}{cert}{key}")
    }
}

/// One server to look at.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) info: ConnectionInfo,
    pub(super) files: TlsFiles,
    pub(super) part: Part,
    /// Its address, for people.
    pub(super) name: String,
    /// How `redis-cli` reaches it: it asks for the password.
    pub(super) cli: String,
}

impl Place {
    pub(super) fn new(url: &str, files: &TlsFiles, part: Part) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| error.to_string())?;
        let (name, mut cli) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                (host_port(host, &port.to_string()), format!("redis-cli -h {host} -p {port}"))
            }
            ConnectionAddr::TcpTls { host, port, .. } => (
                host_port(host, &port.to_string()),
                format!("redis-cli{} -h {host} -p {port}", files.options()),
            ),
            ConnectionAddr::Unix(path) => {
                (path.display().to_string(), format!("redis-cli -s {}", path.display()))
            }
            _ => ("?".to_owned(), "redis-cli".to_owned()),
        };
        if let Some(user) = info.redis_settings().username() {
            cli.push_str(" --user ");
            cli.push_str(user);
        }
        if info.redis_settings().password().is_some() {
            cli.push_str(" --askpass");
        }
        Ok(Self { info, files: files.clone(), part, name, cli })
    }

    /// Whether what is sent can be read on the way.
    pub(super) fn is_in_clear(&self) -> bool {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) => {
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

    #[test]
    fn a_place_is_told_without_its_password() {
        let files = TlsFiles { ca: Some("/ca".to_owned()), ..TlsFiles::default() };
        for (url, name, cli) in [
            ("redis://h", "h:6379", "redis-cli -h h -p 6379"),
            ("redis://:secret@h:1", "h:1", "redis-cli -h h -p 1 --askpass"),
            (
                "rediss://u:secret@h:1",
                "h:1",
                "redis-cli --tls --cacert /ca -h h -p 1 --user u --askpass",
            ),
            ("redis://[::1]:1", "[::1]:1", "redis-cli -h ::1 -p 1"),
            ("redis+unix:///r.sock?pass=secret", "/r.sock", "redis-cli -s /r.sock --askpass"),
        ] {
            let place = Place::new(url, &files, Part::Whole).unwrap();
            assert_eq!((place.name.as_str(), place.cli.as_str()), (name, cli));
        }
        let error = Place::new("redis://user:secret@:1", &files, Part::Whole).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
