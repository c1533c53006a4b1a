//! Where a server is: a URL that was typed, and connections to it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use redis::IntoConnectionInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use super::door::{DoorKind, Kind, Trouble};
use tidegate_config::Address;

use crate::Failure;
use tidegate_core::text::printable;

/// For one connection to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a system answers to a process that has as many files open as it may.
const TOO_MANY_OPEN_FILES: i32 = 24;

#[derive(Clone, Debug)]
pub(super) struct Target {
    /// As people are told it.
    pub(super) name: String,
    /// As HTTP calls it.
    pub(super) host: String,
    /// Who we say we are over the Redis protocol.
    pub(super) login: Login,
    door: DoorKind,
    address: Address,
}

/// A connection of either kind.
pub(super) type Stream = Box<dyn Duplex>;

pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + fmt::Debug> Duplex for T {}

/// A URL taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Tcp { host: String, port: u16, login: Login },
    Unix(PathBuf),
}

/// The words of `AUTH`: none, a password, or a user and a password.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Login(pub(super) Vec<String>);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Login {
    /// What a URL says, as clients of Redis read it.
    fn read(url: &str) -> Result<Self, String> {
        // What is wrong with it could repeat the password.
        let info = url.into_connection_info();
        let info = info.map_err(|_| "expected redis://USER:PASSWORD@HOST:PORT".to_owned())?;
        let settings = info.redis_settings();
        let password = settings.password().ok_or("a user needs a password: user:password@…")?;
        let words = settings.username().into_iter().chain([password]);
        Ok(Self(words.map(str::to_owned).collect()))
    }
}

impl Place {
    /// The error says what a door can be reached at.
    pub(super) fn read(url: &str, door: DoorKind) -> Result<Self, String> {
        if let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.trim_start_matches("//").into()));
        }
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let port = match (scheme, door) {
            ("", DoorKind::Unix) => return Err(format!("expected {}", door.example())),
            ("https" | "rediss", _) => {
                return Err("TLS is not spoken here: measure a door without it".to_owned());
            }
            ("", DoorKind::Http | DoorKind::Resp) | ("" | "http" | "grpc", DoorKind::Grpc) => None,
            ("http", DoorKind::Http) => Some(80),
            ("redis", DoorKind::Resp) => Some(6379),
            _ => {
                // Not the rest, in which a password could be.
                let (door, example) = (door.name(), door.example());
                let scheme = printable(scheme);
                return Err(format!("{scheme}:// does not fit --door {door}: expected {example}"));
            }
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (authority, login) = match authority.rsplit_once('@') {
            None if rest.contains('@') => {
                return Err("a password with / or ? has %2F or %3F instead".to_owned());
            }
            None => (authority, Login::default()),
            Some((_, place)) if scheme == "redis" => (place, Login::read(url)?),
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
        if host.is_empty() { Err(unclear()) } else { Ok(Self::Tcp { host, port, login }) }
    }
}

impl Target {
    /// Looks a place up, once. What others can be reached at needs a word of its own: load is easily aimed at the wrong
    /// machine.
    pub(super) async fn find(
        place: &Place,
        door: DoorKind,
        may_be_remote: bool,
    ) -> Result<Self, Failure> {
        match place {
            Place::Unix(path) => Ok(Self {
                name: format!("unix:{}", path.display()),
                host: "tidegate".to_owned(),
                login: Login::default(),
                door,
                address: Address::Unix(path.clone()),
            }),
            Place::Tcp { host, port, login } => {
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
                let (name, host) = (first.to_string(), first.to_string());
                Ok(Self { name, host, login: login.clone(), door, address })
            }
        }
    }

    /// A connection, within a time.
    pub(super) async fn connect(&self) -> Result<Stream, Trouble> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, async {
            match &self.address {
                Address::Tcp(addr) => {
                    let stream = TcpStream::connect(addr).await?;
                    // A request is one small write: waiting for more would only delay it.
                    stream.set_nodelay(true)?;
                    Ok(Box::new(stream) as Stream)
                }
                Address::Unix(path) => {
                    UnixStream::connect(path).await.map(|stream| Box::new(stream) as Stream)
                }
            }
        });
        let failed = |why: String, hint: &str| {
            Trouble::new(Kind::Connect, format!("cannot reach {} ({why}): {hint}", self.name))
        };
        match connecting.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if error.raw_os_error() == Some(TOO_MANY_OPEN_FILES) => {
                Err(failed(error.to_string(), "raise `ulimit -n`, or take fewer --connections"))
            }
            Ok(Err(error)) => Err(failed(error.to_string(), self.door.hint())),
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
    fn urls_name_a_place_that_fits_the_door() {
        use DoorKind::{Grpc, Http, Resp, Unix};
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
            ("https://h", Http, None),
            ("redis://:secret@h", Resp, Some("h 6379 secret")),
            ("redis://ann:s%40@[::1]:1", Resp, Some("::1 1 ann s@")),
            ("redis://ann@h", Resp, None),
            ("http://ann:secret@h", Http, None),
            ("http://:80", Http, None),
            ("", Http, None),
        ] {
            let read = Place::read(url, door).ok().map(|place| match place {
                Place::Tcp { host, port, login } => {
                    [vec![host, port.to_string()], login.0].concat().join(" ")
                }
                Place::Unix(path) => path.display().to_string(),
            });
            assert_eq!(read.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_password_is_not_repeated() {
        let read = |url| Place::read(url, DoorKind::Resp);
        for url in [
            "redis://:secret@h:x",
            "redis://:secret@",
            "redis://:sec/ret@h",
            "tcp://:secret@h",
            "rediss://:secret@h",
        ] {
            let told = read(url).unwrap_err();
            assert!(!told.contains("sec"), "{told}");
        }
        assert!(!format!("{:?}", read("redis://:secret@h")).contains("secret"));
    }
}
