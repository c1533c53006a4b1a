//! One part of a request.

use std::hash::Hasher;
use std::net::IpAddr;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE, HeaderName, HeaderValue, REFERER, USER_AGENT,
};
use siphasher::sip128::{Hasher128, SipHasher13};

use tidegate_core::text::{closest, printable};

use super::{FINGERPRINT, GLOBAL};
use crate::ClientRequest;
use crate::path::component;

/// A part of a request that can be counted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Part {
    ClientIp,
    Header(HeaderName),
    Cookie(String),
    Query(String),
    Host,
    Method,
    Path,
    Url,
    Route,
    Global,
    Fingerprint,
}

impl Part {
    const NAMES: [&str; 11] = [
        "client_ip",
        "header:NAME",
        "cookie:NAME",
        "query:NAME",
        "host",
        "method",
        "path",
        "url",
        "route",
        "global",
        "fingerprint",
    ];

    pub(super) fn read(word: &str) -> Result<Self, String> {
        let (name, argument) = match word.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (word, None),
        };
        let unknown = |problem: &str| format!("unknown key part `{}`{problem}", printable(word));
        Ok(match (name, argument) {
            ("header", Some(name)) => Self::Header(
                name.parse().map_err(|_| unknown(": not a header name; expected header:NAME"))?,
            ),
            ("cookie", Some(name)) if is_token(name) => Self::Cookie(name.to_owned()),
            ("query", Some(name)) if !name.is_empty() => Self::Query(component(name)),
            ("header" | "cookie" | "query", _) => {
                return Err(unknown(": expected a name after it, like header:x-user"));
            }
            ("client_ip", None) => Self::ClientIp,
            ("host", None) => Self::Host,
            ("method", None) => Self::Method,
            ("path", None) => Self::Path,
            ("url", None) => Self::Url,
            ("route", None) => Self::Route,
            ("global", None) => Self::Global,
            ("fingerprint", None) => Self::Fingerprint,
            _ => {
                let head = word.split_inclusive(':').next().unwrap_or_default();
                let known = Self::NAMES.iter().map(|name| name.trim_end_matches("NAME"));
                return Err(match closest(head, known) {
                    Some(meant) => unknown(&format!(", did you mean `{meant}`?")),
                    None => unknown(&format!(": expected one of {}", Self::NAMES.join(", "))),
                });
            }
        })
    }

    /// Whether clients cannot choose its value.
    pub(super) const fn is_ours(&self) -> bool {
        matches!(self, Self::ClientIp | Self::Global | Self::Fingerprint | Self::Route)
    }

    pub(super) const fn reads_headers(&self) -> bool {
        matches!(self, Self::Header(_) | Self::Cookie(_) | Self::Fingerprint)
    }

    /// Whether it depends on a header that access logs usually lack.
    pub(super) fn reads_unlogged_headers(&self) -> bool {
        let is_logged = |name| name == USER_AGENT || name == REFERER;
        self.reads_headers() && !matches!(self, Self::Header(name) if is_logged(name))
    }

    /// Its value in a request; `None` if it is missing or empty.
    pub(super) fn value(
        &self,
        request: &ClientRequest<'_>,
        route: Option<&str>,
    ) -> Option<Vec<u8>> {
        let value = match self {
            Self::ClientIp => request.client_name().into_bytes(),
            Self::Header(name) => header(request, name),
            Self::Cookie(name) => cookie(request, name)?,
            Self::Query(name) => query(request, name)?.into_bytes(),
            Self::Host => request.host.clone().into_bytes(),
            Self::Method => request.method.as_bytes().to_vec(),
            Self::Path => request.path.counted().as_bytes().to_vec(),
            Self::Url => url(request).into_bytes(),
            Self::Route => route?.as_bytes().to_vec(),
            Self::Global => GLOBAL.as_bytes().to_vec(),
            Self::Fingerprint => fingerprint(request).into_bytes(),
        };
        Some(value).filter(|value| !value.is_empty())
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b";=,".contains(&byte))
}

/// All lines of a header, joined as HTTP defines.
fn header(request: &ClientRequest<'_>, name: &HeaderName) -> Vec<u8> {
    let lines: Vec<_> = request.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    lines.join(&b", "[..]).trim_ascii().to_vec()
}

fn cookie(request: &ClientRequest<'_>, name: &str) -> Option<Vec<u8>> {
    let lines = request.headers.get_all(COOKIE).iter();
    let mut pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.to_vec())
    })
}

fn query(request: &ClientRequest<'_>, name: &str) -> Option<String> {
    request.query.split('&').find_map(|pair| {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        (component(given) == name).then(|| component(value))
    })
}

/// Host, path and query. A client can vary the query, and so get any number of keys.
fn url(request: &ClientRequest<'_>) -> String {
    let ClientRequest { host, path, query, .. } = request;
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{host}{}{mark}{query}", path.counted())
}

/// A hash of the client's network, its user agent and its `Accept` headers, for clients that share or change addresses.
/// The same on every node, and not reversible.
fn fingerprint(request: &ClientRequest<'_>) -> String {
    let mut hasher = SipHasher13::new();
    let mut add = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    match request.client {
        IpAddr::V4(ip) => add(&ip.octets()[..3]),
        IpAddr::V6(_) => add(request.client_name().as_bytes()),
    }
    for name in [USER_AGENT, ACCEPT, ACCEPT_LANGUAGE, ACCEPT_ENCODING] {
        add(&header(request, &name));
    }
    format!("{FINGERPRINT}{:032x}", hasher.finish128().as_u128())
}
