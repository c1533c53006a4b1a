//! A request as the client sent it, reconstructed from what trusted proxies write. Headers that a client could have
//! written itself are not used.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, HeaderName, HeaderValue};
use http::request::Parts;
use tidegate::Clock;

use crate::authority::Authority;
use crate::key::header;
use crate::path::{BadPath, Path};
use crate::token::{Claim, Claims};
use crate::{BadToken, ClientIp, TokenVerifier, json};

const X_FORWARDED_HOST_NAME: &str = "x-forwarded-host";
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static(X_FORWARDED_HOST_NAME);
/// A proxy overwrites the client's value of the header that it writes, but not those of the others. So where several are
/// present, they must agree. `X-Original-URL` is a whole URL; ingress-nginx writes it.
static URI: [HeaderName; 3] = [
    HeaderName::from_static("x-forwarded-uri"),
    HeaderName::from_static("x-original-uri"),
    HeaderName::from_static("x-original-url"),
];
static METHOD: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-method"), HeaderName::from_static("x-original-method")];

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Over TCP.
    Ip(IpAddr),
    /// A process on this machine, over a Unix socket.
    Unix,
    /// Somebody behind a load balancer that does not say who: it has no rights at all.
    Unknown,
}

impl Peer {
    /// Whether it is on this machine.
    pub fn is_local(self) -> bool {
        match self {
            Self::Ip(ip) => ip.is_loopback(),
            Self::Unix => true,
            Self::Unknown => false,
        }
    }

    /// Whether what it writes about clients is believed. The permissions of a Unix socket's file decide who may connect,
    /// so a peer there is trusted.
    pub fn is_trusted(self, client_ip: &ClientIp) -> bool {
        match self {
            Self::Ip(ip) => client_ip.trusts(ip),
            Self::Unix => true,
            Self::Unknown => false,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Whether a trusted proxy has to say which target it asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetHeader {
    /// Routes are matched: without the target, no route would match and nothing would be limited.
    Required,
    /// The policy is known.
    Optional,
}

/// A request as the client sent it.
#[derive(Debug)]
pub struct ClientRequest<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// In upper case: many frameworks read it that way.
    pub method: Cow<'a, str>,
    /// In its one spelling, without a port; empty if there is none.
    pub host: String,
    /// The path, in its one spelling.
    pub path: Path,
    /// Without the question mark.
    pub query: Cow<'a, str>,
    /// The headers, without those for this hop only.
    pub headers: Cow<'a, HeaderMap>,
    /// How clients are identified.
    pub client_ip: &'a ClientIp,
    /// Whether it came from a trusted peer, which answers for what it passes on.
    pub is_trusted: bool,
    /// Its token, which costs a verification and is looked at only if something counts by it.
    token: Token<'a>,
    /// Its whole body, if it was read.
    body: Option<&'a [u8]>,
}

/// The token of a request, verified at most once.
#[derive(Default)]
struct Token<'a> {
    /// Without a verifier, no request has a token.
    verifier: Option<(&'a TokenVerifier, &'a dyn Clock)>,
    verified: OnceLock<Option<Result<Claims, BadToken>>>,
}

impl fmt::Debug for Token<'_> {
    /// Does not print what is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
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
    /// A header, by its name, is not a host with an optional port.
    Authority(&'static str),
    /// There are two `Host` lines.
    RepeatedHost,
    /// `Host` is not the host of the target.
    HostNotTarget,
    /// A part of the key is repeated, or in a spelling that servers read differently: `header x-user`.
    Repeated(String),
    /// A part of the key, a query parameter, has a semicolon: for some servers another parameter begins there.
    Semicolon(String),
    /// A trusted proxy does not say which target it asks about.
    NoTarget,
}

impl<'a> ClientRequest<'a> {
    /// The request that a proxy asks about. A peer that is not trusted asks about its own request.
    pub fn forwarded(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
        target: TargetHeader,
    ) -> Result<Self, AmbiguousRequest> {
        let own_host = Authority::of_request(request)?;
        let headers = without_named(&request.headers);
        let client = find_client(client_ip, peer, &headers);
        let trusted = peer.is_trusted(client_ip);
        let claimed = if trusted { Claimed::read(&headers)? } else { Claimed::default() };
        if trusted && claimed.uri.is_none() && target == TargetHeader::Required {
            return Err(AmbiguousRequest::NoTarget);
        }
        let sent = || request.uri.path_and_query().map_or("/", |both| both.as_str());
        let uri = claimed.uri.as_deref().unwrap_or_else(sent);
        let Target { path, query, .. } = Target::read(uri);
        Ok(Self {
            client,
            method: claimed.method.map_or_else(|| upper_case(request.method.as_str()), Cow::Owned),
            host: claimed.host.or_else(|| own_host.map(Authority::into_host)).unwrap_or_default(),
            path: Path::read(path).map_err(AmbiguousRequest::Path)?,
            query: query.to_owned().into(),
            headers,
            client_ip,
            is_trusted: trusted,
            token: Token::default(),
            body: None,
        })
    }

    /// The request as received, for the proxy: only the client's address comes from trusted headers.
    pub fn direct(
        client_ip: &'a ClientIp,
        peer: Peer,
        request: &'a Parts,
    ) -> Result<Self, AmbiguousRequest> {
        let host = Authority::of_request(request)?;
        let headers = without_named(&request.headers);
        let is_trusted = peer.is_trusted(client_ip);
        if is_trusted {
            check_forwarded_hosts(&headers)?;
        }
        Ok(Self {
            client: find_client(client_ip, peer, &headers),
            method: upper_case(request.method.as_str()),
            host: host.map(Authority::into_host).unwrap_or_default(),
            path: Path::read(request.uri.path()).map_err(AmbiguousRequest::Path)?,
            query: request.uri.query().unwrap_or_default().into(),
            headers,
            client_ip,
            is_trusted,
            token: Token::default(),
            body: None,
        })
    }

    /// The request of an access log. Who writes the log answers for what is in it.
    pub fn logged(
        client_ip: &'a ClientIp,
        logged: LoggedRequest<'a>,
    ) -> Result<Self, AmbiguousRequest> {
        let Target { path, query, .. } = Target::read(logged.target);
        let host = match logged.host {
            "" | "-" => String::new(),
            host => read_host(host, "host")?,
        };
        Ok(Self {
            client: logged.client,
            method: upper_case(logged.method),
            host,
            path: Path::read(path).map_err(AmbiguousRequest::Path)?,
            query: query.into(),
            headers: Cow::Owned(logged.headers),
            client_ip,
            is_trusted: true,
            token: Token::default(),
            body: None,
        })
    }

    /// The same with a verifier of its token, at the time of a clock.
    #[must_use]
    pub fn verified_by(self, verifier: &'a TokenVerifier, clock: &'a dyn Clock) -> Self {
        let verifier = Some((verifier, clock));
        Self { token: Token { verifier, verified: OnceLock::new() }, ..self }
    }

    /// The same with its whole body.
    #[must_use]
    pub fn with_body(self, body: &'a [u8]) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Whether its body is JSON that is not compressed, so that a key may be in it.
    pub fn has_json(&self) -> bool {
        json::is_json(&self.headers)
    }

    /// Why its token counted as none, if something asked for it.
    pub fn bad_token(&self) -> Option<BadToken> {
        self.token.verified.get()?.as_ref()?.as_ref().err().copied()
    }

    /// A claim of its token, if that is right. An error if there is more than one `Authorization`.
    pub(crate) fn claim(&self, claim: &Claim) -> Result<Option<String>, AmbiguousRequest> {
        let Some((verifier, clock)) = self.token.verifier else { return Ok(None) };
        // Even if it was verified before: the error is the same each time.
        let line = header(self, &AUTHORIZATION)?;
        let verify = |token| verifier.verify(token, clock.now());
        let verified = self.token.verified.get_or_init(|| bearer(&line).map(verify));
        Ok(verified.as_ref().and_then(|token| token.as_ref().ok()?.get(claim)))
    }

    /// Its body, if that is JSON.
    pub(crate) fn json(&self) -> Option<&[u8]> {
        self.body.filter(|_| self.has_json())
    }

    /// The name that the client is counted by: its address, or its network.
    pub fn client_name(&self) -> String {
        self.client_ip.name(self.client)
    }
}

/// The token in an `Authorization` header.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = line.split_at_checked("Bearer".len())?;
    let is_apart = token.first().is_some_and(u8::is_ascii_whitespace);
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer") && is_apart;
    is_bearer.then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

/// The client's address. An unknown peer is counted as 0.0.0.0.
fn find_client(client_ip: &ClientIp, peer: Peer, headers: &HeaderMap) -> IpAddr {
    match peer {
        Peer::Ip(ip) => client_ip.from_peer(ip, headers),
        Peer::Unix => client_ip.behind(Ipv4Addr::LOCALHOST.into(), headers),
        Peer::Unknown => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// What a trusted proxy says about the request that it asks about.
#[derive(Default)]
struct Claimed {
    uri: Option<String>,
    method: Option<String>,
    host: Option<String>,
}

impl Claimed {
    fn read(headers: &HeaderMap) -> Result<Self, AmbiguousRequest> {
        let uri = agreed(headers, &URI, |one, other| {
            let (one, other) = (Target::read(one), Target::read(other));
            let hosts = one.authority.zip(other.authority);
            (one.path, one.query) == (other.path, other.query)
                && hosts.is_none_or(|(one, other)| one == other)
        })?;
        let method = agreed(headers, &METHOD, str::eq_ignore_ascii_case)?;
        // Proxies that append leave the client's value in front.
        let host = last(headers, &X_FORWARDED_HOST);
        let host = host.as_deref().and_then(|all| all.rsplit(',').next()).map(str::trim);
        let mut host = host.map(|host| read_host(host, X_FORWARDED_HOST_NAME)).transpose()?;
        for name in &URI {
            let Some(text) = last(headers, name) else { continue };
            let Some(authority) = Target::read(&text).authority else { continue };
            let named = read_host(authority, name.as_str())?;
            if host.get_or_insert_with(|| named.clone()) != &named {
                return Err(AmbiguousRequest::Conflict(X_FORWARDED_HOST_NAME, name.as_str()));
            }
        }
        let method = method.map(|method| method.to_ascii_uppercase());
        Ok(Self { uri, method, host })
    }
}

/// An upstream that believes a trusted proxy may read the first of these hosts or the last one.
fn check_forwarded_hosts(headers: &HeaderMap) -> Result<(), AmbiguousRequest> {
    let lines = headers.get_all(&X_FORWARDED_HOST).iter().map(HeaderValue::as_bytes);
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        for host in line.split(|byte| *byte == b',') {
            let read = Authority::read(host.trim_ascii());
            read.map_err(|_| AmbiguousRequest::Authority(X_FORWARDED_HOST_NAME))?;
        }
    }
    Ok(())
}

fn read_host(text: &str, field: &'static str) -> Result<String, AmbiguousRequest> {
    let authority = Authority::read(text.as_bytes());
    authority.map(Authority::into_host).map_err(|_| AmbiguousRequest::Authority(field))
}

/// The value of the headers that are present, if they agree.
fn agreed(
    headers: &HeaderMap,
    names: &'static [HeaderName],
    agree: impl Fn(&str, &str) -> bool,
) -> Result<Option<String>, AmbiguousRequest> {
    let mut found: Option<(&'static str, String)> = None;
    for name in names {
        for line in headers.get_all(name) {
            let text = String::from_utf8_lossy(line.as_bytes()).trim().to_owned();
            match &found {
                _ if text.is_empty() => {}
                None => found = Some((name.as_str(), text)),
                Some((_, other)) if agree(other, &text) => {}
                Some((first, _)) => return Err(AmbiguousRequest::Conflict(first, name.as_str())),
            }
        }
    }
    Ok(found.map(|(_, text)| text))
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
    let lines = headers.get_all(CONNECTION).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let named = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
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

/// `/path?query`, or a whole URL.
struct Target<'t> {
    /// Not parsed yet; `None` if it is no URL.
    authority: Option<&'t str>,
    path: &'t str,
    query: &'t str,
}

impl<'t> Target<'t> {
    fn read(text: &'t str) -> Self {
        let text = text.split('#').next().unwrap_or_default();
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let is_web =
            |scheme: &str| ["http", "https"].iter().any(|it| it.eq_ignore_ascii_case(scheme));
        match before.split_once("://") {
            Some((scheme, rest)) if is_web(scheme) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let path = if path.is_empty() { "/" } else { path };
                Self { authority: Some(authority), path, query }
            }
            _ => Self { authority: None, path: before, query },
        }
    }
}

impl fmt::Display for AmbiguousRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(bad) => write!(f, "the path of the request {bad}"),
            Self::Conflict(one, other) => {
                write!(f, "`{one}` and `{other}` differ: let the proxy write one and clear the others")
            }
            Self::Authority(field) => {
                write!(f, "`{field}` is not a host with an optional port, like shop.example:443")
            }
            Self::RepeatedHost => f.write_str("`host` is present more than once"),
            Self::HostNotTarget => f.write_str("`host` is not the host of the request's target"),
            Self::Repeated(part) => {
                write!(f, "{part} is repeated, or in a spelling that servers read differently: send it once, as it is named here")
            }
            Self::Semicolon(part) => {
                write!(f, "{part} has a semicolon, where some servers begin another: send it as %3B")
            }
            Self::NoTarget => f.write_str(
                "the proxy does not say which URI it asks about: let it write `x-forwarded-uri`, `x-original-uri` or \
                 `x-original-url`",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
