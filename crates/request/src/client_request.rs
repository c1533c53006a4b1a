//! A request as the client sent it, reconstructed from what trusted proxies write. Headers that a client could have
//! written itself are not used.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderMap;
use http::header::{CONNECTION, HOST, HeaderName};
use http::request::Parts;

use crate::ClientIp;
use crate::path::{BadPath, Path};

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// A proxy overwrites the client's value of the header that it writes, but not that of the other one. So where both are
/// present, they must agree.
static URI: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-uri"), HeaderName::from_static("x-original-uri")];
static METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-method"), HeaderName::from_static("x-original-method")];

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Over TCP.
    Ip(IpAddr),
    /// A process on this machine, over a Unix socket.
    Unix,
}

impl Peer {
    /// Whether it is on this machine.
    pub fn is_local(self) -> bool {
        match self {
            Self::Ip(ip) => ip.is_loopback(),
            Self::Unix => true,
        }
    }
}

/// A request as the client sent it.
#[derive(Debug)]
pub struct ClientRequest<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// In upper case: many frameworks read it that way.
    pub method: Cow<'a, str>,
    /// In lower case, without a port; empty if there is none.
    pub host: String,
    /// The path, in its one spelling.
    pub path: Path,
    /// Without the question mark.
    pub query: Cow<'a, str>,
    /// The headers, without those for this hop only.
    pub headers: Cow<'a, HeaderMap>,
    /// How clients are identified.
    pub client_ip: &'a ClientIp,
}

/// A request in an access log.
pub struct LoggedRequest<'a> {
    /// The client, as the writer of the log identified it.
    pub client: IpAddr,
    /// The method, in any case.
    pub method: &'a str,
    /// Empty if it is unknown.
    pub host: &'a str,
    /// `/path?query`, or a whole URL.
    pub target: &'a str,
    /// The headers that the log has.
    pub headers: HeaderMap,
}

/// A request that proxies and servers would read differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AmbiguousRequest {
    /// The path has more than one meaning.
    Path(BadPath),
    /// Two headers for the same value differ: one of them is the client's.
    Conflict(&'static str, &'static str),
}

impl<'a> ClientRequest<'a> {
    /// The request that a proxy asks about. A peer that is not trusted asks about its own request.
    pub fn forwarded(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
    ) -> Result<Self, AmbiguousRequest> {
        let headers = without_named(&request.headers);
        let (client, trusted) = find_client(client_ip, peer, &headers);
        let one_of = |names| if trusted { agreed(&headers, names) } else { Ok(None) };
        let uri = one_of(&URI)?;
        let sent = || request.uri.path_and_query().map_or("/", |both| both.as_str());
        let (path, query) = split(uri.as_deref().unwrap_or_else(sent));
        let method = one_of(&METHOD)?.map(|method| method.to_ascii_uppercase().into());
        let host = last(&headers, &X_FORWARDED_HOST).filter(|_| trusted);
        // Proxies that append leave the client's value in front.
        let host = host.and_then(|all| all.rsplit(',').next().map(|host| host.trim().to_owned()));
        let host = host.or_else(|| last(&headers, &HOST));
        let host = host.as_deref().or_else(|| request.uri.host()).map(host_name);
        Ok(Self {
            client,
            method: method.unwrap_or_else(|| upper_case(request.method.as_str())),
            host: host.unwrap_or_default(),
            path: Path::read(path).map_err(AmbiguousRequest::Path)?,
            query: query.to_owned().into(),
            headers,
            client_ip,
        })
    }

    /// The request as received, for the proxy: only the client's address comes from trusted headers.
    pub fn direct(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
    ) -> Result<Self, AmbiguousRequest> {
        let headers = without_named(&request.headers);
        let (client, _) = find_client(client_ip, peer, &headers);
        let host = last(&headers, &HOST);
        let host = host.as_deref().or_else(|| request.uri.host()).map(host_name);
        Ok(Self {
            client,
            method: upper_case(request.method.as_str()),
            host: host.unwrap_or_default(),
            path: Path::read(request.uri.path()).map_err(AmbiguousRequest::Path)?,
            query: request.uri.query().unwrap_or_default().into(),
            headers,
            client_ip,
        })
    }

    /// The request of an access log.
    pub fn logged(
        client_ip: &'a ClientIp,
        logged: LoggedRequest<'a>,
    ) -> Result<Self, AmbiguousRequest> {
        let (path, query) = split(logged.target);
        Ok(Self {
            client: logged.client,
            method: upper_case(logged.method),
            host: host_name(logged.host),
            path: Path::read(path).map_err(AmbiguousRequest::Path)?,
            query: query.into(),
            headers: Cow::Owned(logged.headers),
            client_ip,
        })
    }

    /// The name that the client is counted by: its address, or its network.
    pub fn client_name(&self) -> String {
        self.client_ip.name(self.client)
    }
}

/// The client's address, and whether the peer is trusted.
fn find_client(client_ip: &ClientIp, peer: Peer, headers: &HeaderMap) -> (IpAddr, bool) {
    match peer {
        Peer::Ip(ip) => (client_ip.from_peer(ip, headers), client_ip.trusts(ip)),
        // The permissions of the socket's file decide who may connect: such a peer is trusted.
        Peer::Unix => (client_ip.behind(Ipv4Addr::LOCALHOST.into(), headers), true),
    }
}

/// The value of the header that is present, or of both if they agree.
fn agreed(
    headers: &HeaderMap,
    names: &'static [HeaderName; 2],
) -> Result<Option<String>, AmbiguousRequest> {
    let [first, second] = names;
    match (last(headers, first), last(headers, second)) {
        (Some(one), Some(other)) if one != other => {
            Err(AmbiguousRequest::Conflict(first.as_str(), second.as_str()))
        }
        (one, other) => Ok(one.or(other)),
    }
}

/// The last value of a header, which the nearest proxy wrote; `None` if it is empty.
fn last(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let line = headers.get_all(name).iter().next_back()?;
    let text = String::from_utf8_lossy(line.as_bytes());
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The headers without those that `Connection` names. A client could name one there to have a proxy drop it, and so hide
/// its identity.
fn without_named(headers: &HeaderMap) -> Cow<'_, HeaderMap> {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    let named = names.filter_map(|name| name.trim().parse::<HeaderName>().ok());
    named.fold(Cow::Borrowed(headers), |mut kept, name| {
        if kept.contains_key(&name) {
            kept.to_mut().remove(&name);
        }
        kept
    })
}

fn upper_case(method: &str) -> Cow<'_, str> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return method.to_ascii_uppercase().into();
    }
    method.into()
}

/// Path and query of `/path?query`, or of a whole URL.
fn split(uri: &str) -> (&str, &str) {
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

/// `Example.COM.:443` is `example.com`: the host in its one spelling.
fn host_name(host: &str) -> String {
    let has_port = |(_, port): &(&str, &str)| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':').filter(has_port) {
        Some((name, _)) if name.ends_with(']') || !name.contains(':') => name,
        _ => host,
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl fmt::Display for AmbiguousRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(bad) => write!(f, "the path of the request {bad}"),
            Self::Conflict(one, other) => {
                write!(f, "`{one}` and `{other}` differ: let the proxy write both")
            }
        }
    }
}

#[cfg(test)]
mod tests;
