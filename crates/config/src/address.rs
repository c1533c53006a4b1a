//! Addresses to listen on.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Whether only this machine can reach it.
    pub fn is_private(&self) -> bool {
        match self {
            Self::Tcp(addr) => addr.ip().to_canonical().is_loopback(),
            // An abstract socket has no file permissions.
            Self::Unix(path) => !path.as_os_str().is_empty(),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// As people type it: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` or `unix:/run/tidegate.sock`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("expected a path after unix:, like unix:/run/tidegate.sock".to_owned()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let parsed = numeric.as_deref().unwrap_or(text).parse();
        parsed.map(Self::Tcp).map_err(|_| {
            "expected an address and a port, like 127.0.0.1:8080, or unix:/run/tidegate.sock"
                .to_owned()
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_type_them() {
        for (text, expected) in [
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("localhost:0", Some("127.0.0.1:0")),
            ("[::1]:1", Some("[::1]:1")),
            ("unix:/run/t.sock", Some("unix:/run/t.sock")),
            ("unix:", None),
            ("8080", None),
            ("127.0.0.1", None),
            ("127.0.0.1:99999", None),
            ("example.com:80", None),
        ] {
            let read = text.parse::<Address>().ok().map(|address| address.to_string());
            assert_eq!(read.as_deref(), expected, "{text}");
        }
    }
}
