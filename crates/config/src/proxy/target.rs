//! The URL of an upstream: `http://127.0.0.1:3000`, `https://app.internal` or `unix:/run/app.sock`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::header::HeaderValue;
use tidegate_core::text::printable;

use crate::Address;

const EXPECTED: &str =
    "expected one like http://127.0.0.1:3000, https://app.internal or unix:/run/app.sock";

/// An upstream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    endpoint: Endpoint,
    /// Its own `Host`.
    authority: HeaderValue,
}

/// What to connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    Tcp { host: String, port: u16, speaks: Speaks },
    Unix(PathBuf),
}

/// The protocol over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// HTTP/2 without TLS, with prior knowledge.
    H2c,
}

impl Speaks {
    const fn scheme(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::H2c => "h2c",
        }
    }
}

impl Target {
    /// Whether it speaks TLS.
    pub const fn is_tls(&self) -> bool {
        matches!(self.endpoint, Endpoint::Tcp { speaks: Speaks::Https, .. })
    }

    pub const fn is_http2(&self) -> bool {
        matches!(self.endpoint, Endpoint::Tcp { speaks: Speaks::H2c, .. })
    }

    /// Where to connect to.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether a connection to it arrives at this listener, as far as its text tells: names are not looked up.
    pub fn is_at(&self, listener: &Address) -> bool {
        match (&self.endpoint, listener) {
            (Endpoint::Unix(path), Address::Unix(own)) => path == own,
            (Endpoint::Tcp { host, port, .. }, Address::Tcp(own)) if *port == own.port() => {
                let own = own.ip().to_canonical();
                let is_local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
                match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                    Ok(ip) if ip.is_unspecified() => is_local(own),
                    Ok(ip) => ip == own || (own.is_unspecified() && is_local(ip)),
                    Err(_) => host.eq_ignore_ascii_case("localhost") && is_local(own),
                }
            }
            _ => false,
        }
    }

    /// Whether another machine reaches something else by this name.
    pub fn is_of_this_machine(&self) -> bool {
        match &self.endpoint {
            Endpoint::Unix(_) => true,
            Endpoint::Tcp { host, .. } => {
                match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
                    Ok(ip) => ip.is_loopback() || ip.is_unspecified(),
                    Err(_) => host.eq_ignore_ascii_case("localhost"),
                }
            }
        }
    }

    /// Its own `Host`.
    pub const fn authority(&self) -> &HeaderValue {
        &self.authority
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(
                    "expected an absolute path after unix:, like unix:/run/app.sock".to_owned()
                );
            }
            let authority = HeaderValue::from_static("localhost");
            return Ok(Self { endpoint: Endpoint::Unix(path.into()), authority });
        }
        let shown = printable(text);
        let uri: Uri = text.parse().map_err(|_| format!("`{shown}` is not a URL: {EXPECTED}"))?;
        let (speaks, usual_port) = match uri.scheme_str() {
            Some("http") => (Speaks::Http, 80),
            Some("https") => (Speaks::Https, 443),
            Some("h2c") => (Speaks::H2c, 80),
            _ => return Err(format!("`{shown}` is not an http:// or https:// URL: {EXPECTED}")),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("has a user in it: send credentials in a header".to_owned());
        }
        if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
            return Err(format!(
                "`{shown}` has a path, but requests keep their own path: {EXPECTED}"
            ));
        }
        let host = uri.host().unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let has_port = authority.len() > host.len();
        let port = if has_port { uri.port_u16() } else { Some(usual_port) };
        let port = port.filter(|port| *port > 0 && !bare.is_empty());
        let port = port.ok_or_else(|| format!("`{shown}`: {EXPECTED}"))?;
        let authority = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
        Ok(Self { endpoint: Endpoint::Tcp { host: bare.to_owned(), port, speaks }, authority })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
            Endpoint::Tcp { speaks, .. } => {
                let authority = self.authority.to_str().unwrap_or_default();
                write!(f, "{}://{authority}", speaks.scheme())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_address_is_recognised_however_it_is_written() {
        for (target, listener, expected) in [
            ("http://127.0.0.1:8000", "127.0.0.1:8000", true),
            ("http://localhost:8000", "127.0.0.1:8000", true),
            ("https://LOCALHOST:8000", "[::]:8000", true),
            ("http://0.0.0.0:8000", "127.0.0.1:8000", true),
            ("http://127.0.0.1:8000", "0.0.0.0:8000", true),
            ("http://[::1]:8000", "[::]:8000", true),
            ("http://192.0.2.1", "192.0.2.1:80", true),
            ("unix:/run/a.sock", "unix:/run/a.sock", true),
            ("http://127.0.0.1:3000", "127.0.0.1:8000", false),
            ("http://127.0.0.2:8000", "127.0.0.1:8000", false),
            ("http://192.0.2.1:8000", "127.0.0.1:8000", false),
            ("http://localhost:8000", "192.0.2.1:8000", false),
            ("http://app.internal:8000", "127.0.0.1:8000", false),
            ("unix:/run/b.sock", "unix:/run/a.sock", false),
            ("unix:/run/b.sock", "127.0.0.1:8000", false),
        ] {
            let (read, listener) = (target.parse::<Target>().unwrap(), listener.parse().unwrap());
            assert_eq!(read.is_at(&listener), expected, "{target} at {listener}");
        }
    }

    #[test]
    fn targets_are_read_as_people_type_them() {
        for (text, expected) in [
            ("http://127.0.0.1:3000", Ok("http://127.0.0.1:3000")),
            ("http://127.0.0.1:3000/", Ok("http://127.0.0.1:3000")),
            ("https://app.internal", Ok("https://app.internal")),
            ("h2c://127.0.0.1:50051", Ok("h2c://127.0.0.1:50051")),
            ("http://[::1]:80", Ok("http://[::1]:80")),
            ("unix:/run/app.sock", Ok("unix:/run/app.sock")),
            ("unix:app.sock", Err("expected an absolute path")),
            ("127.0.0.1:3000", Err("not an http:// or https:// URL")),
            ("ftp://a", Err("not an http:// or https:// URL")),
            ("http://a/base", Err("has a path")),
            ("http://a?x=1", Err("has a path")),
            ("http://ann:secret@a", Err("has a user in it")),
            ("http://a:99999", Err("expected one like")),
            ("http://a:0", Err("expected one like")),
            ("http://", Err("expected one like")),
            ("", Err("expected one like")),
        ] {
            match (text.parse::<Target>(), expected) {
                (Ok(target), Ok(expected)) => assert_eq!(target.to_string(), expected),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (read, expected) => panic!("{text}: {read:?} instead of {expected:?}"),
            }
        }
    }
}
