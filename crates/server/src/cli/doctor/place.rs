//! Where servers are: a store's URL taken apart, without ever showing its password.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::facts::Part;

/// What a store's URL names.
#[derive(Debug)]
pub(super) enum Target {
    One(String),
    Cluster(Seeds),
    Sentinel { seeds: Seeds, primary: String },
}

/// Servers that know the others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seeds {
    /// `redis` or `rediss`.
    scheme: &'static str,
    /// `user:password@` as it stands in the URL, or nothing.
    access: String,
    pub(super) hosts: Vec<String>,
}

impl Target {
    /// The URL is one of Redis already.
    pub(super) fn read(url: &str) -> Self {
        let Some((scheme, rest)) = url.split_once("://") else { return Self::One(url.to_owned()) };
        if !matches!(scheme, "redis+cluster" | "redis+sentinel") {
            return Self::One(url.to_owned());
        }
        let (access, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
        let access = if access.is_empty() { String::new() } else { format!("{access}@") };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(str::to_owned).collect();
        let seeds = Seeds { scheme: "redis", access, hosts };
        if scheme == "redis+cluster" {
            return Self::Cluster(seeds);
        }
        let primary = path.split('/').next().unwrap_or_default();
        Self::Sentinel { seeds: seeds.with_port(26_379), primary: primary.to_owned() }
    }
}

impl Seeds {
    fn with_port(mut self, port: u16) -> Self {
        for host in &mut self.hosts {
            if host.ends_with(']') || !host.contains(':') {
                *host = format!("{host}:{port}");
            }
        }
        self
    }

    /// The URL of one of the servers; `host` has its port.
    pub(super) fn url(&self, host: &str) -> String {
        format!("{}://{}{host}", self.scheme, self.access)
    }

    /// The same without user and password, which sentinels often do not ask for.
    pub(super) fn bare_url(&self, host: &str) -> String {
        format!("{}://{host}", self.scheme)
    }
}

/// A host and a port as they stand in a URL.
pub(super) fn host_port(ip: &str, port: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// One server to look at.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) info: ConnectionInfo,
    pub(super) part: Part,
    /// Its address, for people.
    pub(super) name: String,
    /// How `redis-cli` reaches it: it asks for the password.
    pub(super) cli: String,
}

impl Place {
    pub(super) fn new(url: &str, part: Part) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| error.to_string())?;
        let (name, mut cli) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                (host_port(host, &port.to_string()), format!("redis-cli -h {host} -p {port}"))
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                (host_port(host, &port.to_string()), format!("redis-cli --tls -h {host} -p {port}"))
            }
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
        Ok(Self { info, part, name, cli })
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
    fn urls_of_several_servers_are_taken_apart() {
        let hosts = |url: &str| match Target::read(url) {
            Target::One(url) => vec![url],
            Target::Cluster(seeds) => seeds.hosts.iter().map(|host| seeds.url(host)).collect(),
            Target::Sentinel { seeds, primary } => {
                seeds.hosts.iter().map(|host| format!("{host} {primary}")).collect()
            }
        };
        for (url, expected) in [
            ("redis://a:1/2", &["redis://a:1/2"][..]),
            ("redis+cluster://a:1,b:2", &["redis://a:1", "redis://b:2"]),
            (
                "redis+cluster://u:p@w@a:1,[::1]:2/?x",
                &["redis://u:p@w@a:1", "redis://u:p@w@[::1]:2"],
            ),
            ("redis+sentinel://a,b:2/main/0", &["a:26379 main", "b:2 main"]),
            ("redis+sentinel://:pw@[::1]/main", &["[::1]:26379 main"]),
        ] {
            assert_eq!(hosts(url), expected, "{url}");
        }
    }

    #[test]
    fn a_place_is_told_without_its_password() {
        for (url, name, cli) in [
            ("redis://h", "h:6379", "redis-cli -h h -p 6379"),
            ("redis://:secret@h:1", "h:1", "redis-cli -h h -p 1 --askpass"),
            ("rediss://app:secret@h:1", "h:1", "redis-cli --tls -h h -p 1 --user app --askpass"),
            ("redis://[::1]:1", "[::1]:1", "redis-cli -h ::1 -p 1"),
            ("redis+unix:///r.sock?pass=secret", "/r.sock", "redis-cli -s /r.sock --askpass"),
        ] {
            let place = Place::new(url, Part::Whole).unwrap();
            assert_eq!((place.name.as_str(), place.cli.as_str()), (name, cli));
        }
        let error = Place::new("redis://user:secret@:1", Part::Whole).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}
