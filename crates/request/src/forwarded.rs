//! A request as it reached the first proxy: what trusted peers write of it, and nothing that clients could have.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderMap;
use http::header::{HOST, HeaderName};
use http::request::Parts;

use super::ClientIp;
use super::hops::without_named;
use super::path::{BadPath, Path};
use crate::peer::Peer;

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// Whoever writes a header overwrites the client's; the one that it does not write is the client's to fill. So where
/// both are there, they have to agree.
static URI: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-uri"), HeaderName::from_static("x-original-uri")];
static METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-method"), HeaderName::from_static("x-original-method")];

/// A request, as far as it can be believed.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// In upper case: that is how many frameworks read it, whatever was sent.
    pub method: Cow<'a, str>,
    /// In lower case, without a port; empty if there is none.
    pub host: String,
    pub path: Path,
    /// Without the question mark.
    pub query: Cow<'a, str>,
    /// Those that are the client's.
    pub headers: Cow<'a, HeaderMap>,
    /// How clients are told apart.
    pub client_ip: &'a ClientIp,
}

/// A request of which it cannot be said what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doubtful {
    /// A path without one meaning.
    Path(BadPath),
    /// Two headers for the same thing say different things: one of them is the client's.
    TwoTales(&'static str, &'static str),
}

impl<'a> Seen<'a> {
    /// The request that a proxy asks about. From a peer that is not trusted, it is the peer's own.
    pub fn forwarded(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
    ) -> Result<Self, Doubtful> {
        let headers = without_named(&request.headers);
        let (client, trusted) = client_of(client_ip, peer, &headers);
        let told = |names| if trusted { one_of(&headers, names) } else { Ok(None) };
        let uri = told(&URI)?;
        let sent = || request.uri.path_and_query().map_or("/", |both| both.as_str());
        let (path, query) = split(uri.as_deref().unwrap_or_else(sent));
        let method = told(&METHOD)?.map(|method| method.to_ascii_uppercase().into());
        let host = last(&headers, &X_FORWARDED_HOST).filter(|_| trusted);
        // Proxies that add to what is there leave what the client wrote before it.
        let host = host.and_then(|all| all.rsplit(',').next().map(|host| host.trim().to_owned()));
        let host = host.or_else(|| last(&headers, &HOST));
        let host = host.as_deref().or_else(|| request.uri.host()).map(host_name);
        Ok(Self {
            client,
            method: method.unwrap_or_else(|| upper_case(request.method.as_str())),
            host: host.unwrap_or_default(),
            path: Path::read(path).map_err(Doubtful::Path)?,
            query: query.to_owned().into(),
            headers,
            client_ip,
        })
    }

    /// The request as it stands, for who passes it on: only where it comes from is a matter of trust.
    pub fn direct(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
    ) -> Result<Self, Doubtful> {
        let headers = without_named(&request.headers);
        let (client, _) = client_of(client_ip, peer, &headers);
        let host = last(&headers, &HOST);
        let host = host.as_deref().or_else(|| request.uri.host()).map(host_name);
        Ok(Self {
            client,
            method: upper_case(request.method.as_str()),
            host: host.unwrap_or_default(),
            path: Path::read(request.uri.path()).map_err(Doubtful::Path)?,
            query: request.uri.query().unwrap_or_default().into(),
            headers,
            client_ip,
        })
    }

    /// What the client is counted by.
    pub fn client_name(&self) -> String {
        self.client_ip.name(self.client)
    }
}

/// The client's address, and whether the peer's word on such things is taken.
fn client_of(client_ip: &ClientIp, peer: Peer, headers: &HeaderMap) -> (IpAddr, bool) {
    match peer {
        Peer::Ip(ip) => (client_ip.from_peer(ip, headers), client_ip.trusts(ip)),
        // A Unix socket is open to whom its file's owner lets in, so that its peer needs no other trust.
        Peer::Unix => (client_ip.behind(Ipv4Addr::LOCALHOST.into(), headers), true),
    }
}

/// The value of whichever header is there.
fn one_of(
    headers: &HeaderMap,
    names: &'static [HeaderName; 2],
) -> Result<Option<String>, Doubtful> {
    let [first, second] = names;
    match (last(headers, first), last(headers, second)) {
        (Some(one), Some(other)) if one != other => {
            Err(Doubtful::TwoTales(first.as_str(), second.as_str()))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// The last value of a header, which the nearest proxy wrote; nothing if that is empty.
fn last(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let line = headers.get_all(name).iter().next_back()?;
    let text = String::from_utf8_lossy(line.as_bytes());
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn upper_case(method: &str) -> Cow<'_, str> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return method.to_ascii_uppercase().into();
    }
    method.into()
}

/// Path and query of what is written as `/path?query`, or as a whole URL.
pub(super) fn split(uri: &str) -> (&str, &str) {
    let uri = uri.split('#').next().unwrap_or_default();
    let (before, query) = uri.split_once('?').unwrap_or((uri, ""));
    let path = match before.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').map_or("/", |start| &rest[start..])
        }
        _ => before,
    };
    (path, query)
}

/// `Example.COM.:443` is `example.com`: no spelling and no port makes it another.
pub(super) fn host_name(host: &str) -> String {
    let has_port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':').filter(has_port) {
        Some((name, _)) if name.ends_with(']') || !name.contains(':') => name,
        _ => host,
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl fmt::Display for Doubtful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(bad) => write!(f, "the path of the request {bad}"),
            Self::TwoTales(one, other) => {
                write!(f, "`{one}` and `{other}` say different things: let the proxy write both")
            }
        }
    }
}

#[cfg(test)]
mod tests;
