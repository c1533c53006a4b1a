//! Reads the two headers in which proxies write whom they forward for.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::HeaderName;
use http::header::FORWARDED;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Which header the proxies write. Never both: the one that they do not write is the client's to fill.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    XForwardedFor,
    Forwarded,
}

impl Source {
    pub(super) fn header(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR.clone(),
            Self::Forwarded => FORWARDED,
        }
    }

    /// The address in one entry, in canonical form; `None` if it is hidden, missing or malformed.
    pub(super) fn address(self, entry: &str) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => address(entry),
            Self::Forwarded => forwarded_for(entry).and_then(address),
        }
    }
}

/// The items of a list, last first. Read from the right, because the right is what the nearest proxy wrote: a
/// quote that the client left open further left cannot swallow it.
pub(super) fn from_right(list: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    list.rsplit(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

/// The value of the only `for=` in an element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<&str> {
    if element.contains('\\') {
        return None; // no address needs an escape, and an escaped quote would mislead `from_right`
    }
    let mut values = from_right(element, ';')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"))
        .map(|(_, value)| value);
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Reads `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` and `[2001:db8::1]:80`, quoted or not.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let ip = text.parse().ok().or_else(|| with_port(text)).or_else(|| bracketed(text))?;
    Some(ip.to_canonical())
}

fn with_port(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|socket: SocketAddr| socket.ip())
}

fn bracketed(text: &str) -> Option<IpAddr> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}
