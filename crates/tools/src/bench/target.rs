//! Where a server is: its URL, its address, and connections to it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::door::Door;
use super::error::{ErrorKind, RequestError};
use super::tls::{self, Tls};
use tidegate_config::Address;

use crate::Failure;
use crate::client::Stream;
use crate::output::value_name;
use tidegate_core::text::{percent_decoded, printable};

/// For one connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// `EMFILE`.
const TOO_MANY_OPEN_FILES: i32 = 24;

#[derive(Clone, Debug)]
pub(super) struct Target {
    /// For people.
    pub(super) name: String,
    /// The `Host` of HTTP.
    pub(super) host: String,
    /// For the Redis protocol.
    pub(super) credentials: Credentials,
    door: Door,
    address: Address,
    /// With the name that its certificate is for.
    tls: Option<(Tls, String)>,
}

/// A parsed URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ServerUrl {
    Tcp { host: String, port: u16, credentials: Credentials, has_tls: bool },
    Unix(PathBuf),
}

/// The arguments of `AUTH`: none, a password, or a user and a password.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Credentials(pub(super) Vec<String>);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Credentials {
    /// Reads `USER:PASSWORD` or `:PASSWORD`. An error does not repeat it.
    fn read(login: &str) -> Result<Self, String> {
        let (user, password) =
            login.split_once(':').ok_or("a user needs a password: user:password@…")?;
        let decoded = |part| percent_decoded(part).and_then(|bytes| String::from_utf8(bytes).ok());
        let words = [user, password].into_iter().filter(|part| !part.is_empty());
        let words = words.map(decoded).collect::<Option<Vec<_>>>();
        let words = words.filter(|_| !password.is_empty());
        Ok(Self(words.ok_or("expected redis://USER:PASSWORD@HOST:PORT")?))
    }
}

impl ServerUrl {
    /// The error has an example of what the door expects.
    pub(super) fn read(url: &str, door: Door) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.trim_start_matches("//").into()));
        }
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let port = match (scheme, door) {
            ("", Door::Unix) => return Err(format!("expected {}", door.example())),
            ("", Door::Http | Door::Proxy | Door::Auth | Door::Resp)
            | ("" | "http" | "https" | "grpc", Door::Grpc) => None,
            ("http", Door::Http | Door::Proxy | Door::Auth) => Some(80),
            ("https", Door::Http | Door::Proxy | Door::Auth) => Some(443),
            ("redis" | "rediss", Door::Resp) => Some(6379),
            _ => {
                // Without the rest, which may have a password.
                let (door, example) = (value_name(&door), door.example());
                let scheme = printable(scheme);
                return Err(format!("{scheme}:// does not fit --door {door}: expected {example}"));
            }
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (authority, credentials) = match authority.rsplit_once('@') {
            None if rest.contains('@') => {
                return Err("a password with / or ? has %2F or %3F instead".to_owned());
            }
            None => (authority, Credentials::default()),
            Some((login, address)) if matches!(scheme, "redis" | "rediss") => {
                (address, Credentials::read(login)?)
            }
            Some(_) => return Err("only redis:// has users and passwords".to_owned()),
        };
        let shown = printable(authority);
        let unclear = || format!("`{shown}`: expected {}", door.example());
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| unclear())?)
            }
            _ => (authority, port.ok_or_else(unclear)?),
        };
        let host = host.trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(unclear());
        }
        let has_tls = matches!(scheme, "https" | "rediss");
        Ok(Self::Tcp { host, port, credentials, has_tls })
    }

    pub(super) const fn has_tls(&self) -> bool {
        matches!(self, Self::Tcp { has_tls: true, .. })
    }
}

impl Target {
    /// Resolves a URL once. A server on another machine has to be confirmed, because load is easily aimed at the
    /// wrong one.
    pub(super) async fn resolve(
        url: &ServerUrl,
        door: Door,
        may_be_remote: bool,
        tls: Option<&Tls>,
    ) -> Result<Self, Failure> {
        match url {
            ServerUrl::Unix(path) => Ok(Self {
                name: format!("unix:{}", path.display()),
                host: "tidegate".to_owned(),
                credentials: Credentials::default(),
                door,
                address: Address::Unix(path.clone()),
                tls: None,
            }),
            ServerUrl::Tcp { host, port, credentials, has_tls } => {
                let found = lookup_host((host.as_str(), *port)).await;
                let unknown =
                    |why: String| Failure::new(format!("cannot find `{}`: {why}", printable(host)));
                let found: Vec<SocketAddr> =
                    found.map_err(|error| unknown(error.to_string()))?.collect();
                let first = found.iter().find(|addr| addr.is_ipv4()).or(found.first());
                let first = *first.ok_or_else(|| unknown("it has no address".to_owned()))?;
                let address = Address::Tcp(first);
                if !address.is_private() && !may_be_remote {
                    return Err(Failure::usage(format!(
                        "{first} is not on this machine, and this puts it under load: say --yes-remote if the server \
                         is yours"
                    )));
                }
                let (name, credentials) = (first.to_string(), credentials.clone());
                // A site may be told from others by its name; the API knows addresses.
                let by_name = door == Door::Proxy && !host.contains(':');
                let host_header = if by_name { format!("{host}:{port}") } else { name.clone() };
                let tls = tls.filter(|_| *has_tls).map(|tls| (tls.clone(), host.clone()));
                Ok(Self { name, host: host_header, credentials, door, address, tls })
            }
        }
    }

    /// Connects within `CONNECT_TIMEOUT`.
    pub(super) async fn connect(&self) -> Result<Stream, RequestError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, async {
            match &self.address {
                Address::Tcp(addr) => {
                    let stream = TcpStream::connect(addr).await?;
                    // A request is one small write, and must not wait for more.
                    stream.set_nodelay(true)?;
                    match &self.tls {
                        Some((tls, host)) => tls.connect(host, stream).await,
                        None => Ok(Box::new(stream) as Stream),
                    }
                }
                Address::Unix(path) => {
                    UnixStream::connect(path).await.map(|stream| Box::new(stream) as Stream)
                }
            }
        });
        let failed = |why: String, hint: &str| {
            RequestError::new(
                ErrorKind::Connect,
                format!("cannot reach {} ({why}): {hint}", self.name),
            )
        };
        match connecting.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => {
                Err(failed(error.to_string(), "raise `ulimit -n`, or take fewer --connections"))
            }
            Ok(Err(error)) => {
                let hint = tls::remedy(&error).unwrap_or_else(|| self.door.hint());
                Err(failed(error.to_string(), hint))
            }
            Err(_) => {
                Err(failed(format!("no answer within {CONNECT_TIMEOUT:?}"), self.door.hint()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_if_they_fit_the_door() {
        use Door::{Auth, Grpc, Http, Proxy, Resp, Unix};
        for (url, door, expected) in [
            ("http://127.0.0.1:8080", Http, Some("127.0.0.1 8080")),
            ("http://localhost/", Http, Some("localhost 80")),
            ("http://[::1]:1/x", Http, Some("::1 1")),
            ("[::1]:1", Grpc, Some("::1 1")),
            ("http://h:1", Grpc, Some("h 1")),
            ("h:1", Resp, Some("h 1")),
            ("redis://h", Resp, Some("h 6379")),
            ("redis://[::1]", Resp, Some("::1 6379")),
            ("unix:/run/t.sock", Unix, Some("/run/t.sock")),
            ("unix:///run/t.sock", Resp, Some("/run/t.sock")),
            ("unix:", Unix, None),
            ("h:1", Unix, None),
            ("h", Grpc, None),
            ("h:99999", Http, None),
            ("redis://h", Http, None),
            ("http://h:1", Resp, None),
            ("https://h", Http, Some("h 443 TLS")),
            ("https://h:1", Proxy, Some("h 1 TLS")),
            ("http://h", Proxy, Some("h 80")),
            ("https://h", Auth, Some("h 443 TLS")),
            ("https://h:1", Grpc, Some("h 1 TLS")),
            ("https://h", Grpc, None),
            ("https://h", Resp, None),
            ("rediss://h", Resp, Some("h 6379 TLS")),
            ("rediss://h", Auth, None),
            ("rediss://:secret@h:1", Resp, Some("h 1 TLS secret")),
            ("redis://:secret@h", Resp, Some("h 6379 secret")),
            ("redis://ann:s%40@[::1]:1", Resp, Some("::1 1 ann s@")),
            ("redis://ann@h", Resp, None),
            ("http://ann:secret@h", Http, None),
            ("http://:80", Http, None),
            ("", Http, None),
        ] {
            let read = ServerUrl::read(url, door).ok().map(|read| match read {
                ServerUrl::Tcp { host, port, credentials, has_tls } => {
                    let tls = has_tls.then(|| "TLS".to_owned()).into_iter().collect();
                    [vec![host, port.to_string()], tls, credentials.0].concat().join(" ")
                }
                ServerUrl::Unix(path) => path.display().to_string(),
            });
            assert_eq!(read.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn errors_do_not_contain_the_password() {
        let read = |url| ServerUrl::read(url, Door::Resp);
        for url in [
            "redis://:secret@h:x",
            "redis://:secret@",
            "redis://:sec/ret@h",
            "tcp://:secret@h",
            "rediss://:secret@h:x",
        ] {
            let error = read(url).unwrap_err();
            assert!(!error.contains("sec"), "{error}");
        }
        assert!(!format!("{:?}", read("redis://:secret@h")).contains("secret"));
    }
}
