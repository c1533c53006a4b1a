//! The address of the client, whose request may have come through proxies.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::header::FORWARDED;
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName};

use super::refusal::SetupError;
use super::service::Hook;
use crate::cidr::Cidr;

/// Finds a client's address.
///
/// That is the peer of the connection, unless the peer is a trusted proxy. Then `X-Forwarded-For` is read from
/// the right, as each proxy appends there, up to the first address that is not trusted. What stands further
/// left, and the whole header of a peer that is not trusted, is only the client's word and never looked at.
///
/// ```
/// use std::net::IpAddr;
/// use http::Request;
/// use tidegate::tower::ClientIp;
///
/// let client_ip = ClientIp::new()
///     .trust("10.0.0.0/8")?
///     .peer(|extensions| extensions.get::<IpAddr>().copied());
///
/// let request = Request::builder()
///     .extension(IpAddr::from([10, 0, 0, 1])) // the connection comes from our proxy
///     .header("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.2") // 1.1.1.1 is made up
///     .body(())?;
/// assert_eq!(client_ip.find(&request.into_parts().0), Some(IpAddr::from([203, 0, 113, 7])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it finds nothing until it is given to a layer"]
pub struct ClientIp {
    trusted: Trusted,
    header: ForwardedHeader,
    ipv6_prefix: u8,
    peer: Hook<Extensions, Option<IpAddr>>,
}

/// Which proxies are believed. Never both: a hop count says that every peer is one.
#[derive(Clone, Debug)]
enum Trusted {
    Networks(Vec<Cidr>),
    /// This many proxies between the clients and this server.
    Hops(usize),
}

/// Longer chains of proxies do not exist. It bounds how many entries of a header are read.
const HOPS_MAX: usize = 16;

impl Default for ClientIp {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientIp {
    /// Trusts nobody: the peer of the connection is the client. With feature `axum`, the peer is found where
    /// `into_make_service_with_connect_info::<SocketAddr>()` puts it; otherwise give [`ClientIp::peer`].
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new().peer(|_| Some(IpAddr::from([203, 0, 113, 7])));
    /// let request = http::Request::builder().header("x-forwarded-for", "1.1.1.1").body(())?;
    /// // From a peer that is not trusted, the header is only the client's word.
    /// assert_eq!(client_ip.find(&request.into_parts().0), Some(IpAddr::from([203, 0, 113, 7])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        let peer = Hook::new(connected);
        let trusted = Trusted::Networks(Vec::new());
        Self { trusted, header: ForwardedHeader::XForwardedFor, ipv6_prefix: 64, peer }
    }

    /// Believes what proxies at this address or in this network write.
    ///
    /// ```
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new().trust("127.0.0.1")?.trust("10.0.0.0/8")?.trust("fd00::/8")?;
    /// assert!(client_ip.trust("10.0.0.0/33").is_err());
    /// # Ok::<(), tidegate::tower::SetupError>(())
    /// ```
    pub fn trust(mut self, network: &str) -> Result<Self, SetupError> {
        match &mut self.trusted {
            Trusted::Networks(networks) => networks.push(network.parse()?),
            Trusted::Hops(_) => return Err(SetupError::HopsAndNetworks),
        }
        Ok(self)
    }

    /// Counts the proxies instead of naming them, where their addresses change: the client is the address that stands
    /// in this place of `X-Forwarded-For`, from the right. The peer of the connection is the first proxy, so that the
    /// last entry is the client behind one proxy, the one before it the client behind two. From 1 to 16, and not
    /// together with [`ClientIp::trust`].
    ///
    /// If there are fewer entries, or one of them is no address, the peer is the client. **Every** peer is believed:
    /// whoever reaches the server past the proxies can name any client.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::tower::{ClientIp, SetupError};
    /// // client → CDN → load balancer → this server
    /// let client_ip = ClientIp::new().trust_hops(2)?;
    /// let balancer = IpAddr::from([10, 0, 0, 1]);
    /// let mut headers = HeaderMap::new();
    /// // 1.1.1.1 is made up; the CDN appended the client, the load balancer the CDN.
    /// headers.insert("x-forwarded-for", HeaderValue::from_static("1.1.1.1, 203.0.113.7, 192.0.2.9"));
    /// assert_eq!(client_ip.from_peer(balancer, &headers), IpAddr::from([203, 0, 113, 7]));
    /// headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.7"));
    /// assert_eq!(client_ip.from_peer(balancer, &headers), balancer);
    ///
    /// assert_eq!(ClientIp::new().trust_hops(0).err(), Some(SetupError::Hops(0)));
    /// # Ok::<(), SetupError>(())
    /// ```
    pub fn trust_hops(mut self, hops: usize) -> Result<Self, SetupError> {
        if matches!(&self.trusted, Trusted::Networks(networks) if !networks.is_empty()) {
            return Err(SetupError::HopsAndNetworks);
        }
        if !(1..=HOPS_MAX).contains(&hops) {
            return Err(SetupError::Hops(hops));
        }
        self.trusted = Trusted::Hops(hops);
        Ok(self)
    }

    /// Reads the standard `Forwarded` header instead of `X-Forwarded-For`. Name the one that your proxies write:
    /// the other they pass on as the client made it up.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new().trust("10.0.0.0/8")?.forwarded();
    /// # let client_ip = client_ip.peer(|_| Some(IpAddr::from([10, 0, 0, 1])));
    /// let request = http::Request::builder()
    ///     .header("forwarded", r#"for="[2001:db8::1]:4711";proto=https"#)
    ///     .body(())?;
    /// assert_eq!(client_ip.find(&request.into_parts().0), Some("2001:db8::1".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forwarded(mut self) -> Self {
        self.header = ForwardedHeader::Forwarded;
        self
    }

    /// How many bits of an IPv6 address make one client; 64 by default, because a single customer has at least
    /// that many addresses to rotate through. More than 128 are 128.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{ClientIp, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limiter = Limiter::new("5/h")?;
    /// let peer: IpAddr = "2001:db8:1:2ff:3::4".parse()?;
    /// let client_ip = ClientIp::new().peer(move |_| Some(peer)).ipv6_prefix(56);
    /// let limit = RateLimitLayer::new(limiter.clone()).client_ip(client_ip);
    /// limit.layer(hello).oneshot(Request::new(())).await?;
    /// assert_eq!(limiter.peek("2001:db8:1:200::/56", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        self.ipv6_prefix = bits.min(128);
        self
    }

    /// Where the server has put the address of the connection's peer. With tonic:
    ///
    /// ```
    /// use tidegate::tower::ClientIp;
    /// use tonic::transport::server::TcpConnectInfo;
    ///
    /// let client_ip = ClientIp::new().peer(|extensions| {
    ///     extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
    /// });
    /// let (not_served, ()) = http::Request::new(()).into_parts();
    /// assert_eq!(client_ip.find(&not_served), None);
    /// ```
    pub fn peer(
        mut self,
        peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer = Hook::new(peer);
        self
    }

    /// The client's whole address, in canonical form; `None` if the peer of the connection is not known.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use tidegate::tower::ClientIp;
    /// // Sockets for both families spell IPv4 addresses like this.
    /// let mapped: IpAddr = "::ffff:203.0.113.7".parse()?;
    /// let client_ip = ClientIp::new().peer(move |_| Some(mapped));
    /// let (request, ()) = http::Request::new(()).into_parts();
    /// assert_eq!(client_ip.find(&request), Some(IpAddr::from([203, 0, 113, 7])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self, request: &Parts) -> Option<IpAddr> {
        Some(self.from_peer(self.peer.call(&request.extensions)?, &request.headers))
    }

    /// The client's whole address, where the peer of the connection is known already.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new().trust("10.0.0.0/8")?;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.7"));
    /// let (proxy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([198, 51, 100, 1]));
    /// assert_eq!(client_ip.from_peer(proxy, &headers), IpAddr::from([203, 0, 113, 7]));
    /// assert_eq!(client_ip.from_peer(other, &headers), other);
    /// # Ok::<(), tidegate::tower::SetupError>(())
    /// ```
    pub fn from_peer(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if self.trusts(peer) { self.behind(peer, headers) } else { peer }
    }

    /// What a client is counted by.
    ///
    /// ```
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new();
    /// assert_eq!(client_ip.name("203.0.113.7".parse()?), "203.0.113.7");
    /// assert_eq!(client_ip.name("2001:db8::7".parse()?), "2001:db8::/64");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn name(&self, ip: IpAddr) -> String {
        let ip = ip.to_canonical();
        let network = Cidr::from(ip).widened(self.ipv6_prefix.into()).filter(|_| ip.is_ipv6());
        network.map_or_else(|| ip.to_string(), |network| network.to_string())
    }

    pub(super) fn key(&self, request: &Parts) -> Option<String> {
        self.find(request).map(|ip| self.name(ip))
    }

    /// The client of a proxy that is trusted, whatever its address, as one at the other end of a Unix socket may be:
    /// the first address from the right that is not trusted, or the last that could be read.
    ///
    /// ```
    /// # use std::net::{IpAddr, Ipv4Addr};
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::tower::ClientIp;
    /// let (client_ip, here) = (ClientIp::new(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(client_ip.behind(here, &headers), here);
    /// headers.insert("x-forwarded-for", HeaderValue::from_static("1.1.1.1, 203.0.113.7"));
    /// assert_eq!(client_ip.behind(here, &headers), IpAddr::from([203, 0, 113, 7]));
    /// ```
    pub fn behind(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        if let Trusted::Hops(hops) = self.trusted {
            return self.at_hop(hops, headers).unwrap_or(proxy);
        }
        let mut nearest = proxy;
        for line in headers.get_all(self.header.name()).iter().rev() {
            for entry in from_right(&text(line), ',') {
                // An unreadable entry ends the walk: a client that wrote it could have written the next as well.
                let Some(ip) = self.header.address(entry) else { return nearest };
                nearest = ip;
                if !self.trusts(ip) {
                    return ip;
                }
            }
        }
        nearest
    }

    /// The address in this place from the right. An entry that cannot be read, there or further right, means that the
    /// proxies are not the ones that were counted.
    fn at_hop(&self, hops: usize, headers: &HeaderMap) -> Option<IpAddr> {
        let mut left = hops;
        for line in headers.get_all(self.header.name()).iter().rev() {
            for entry in from_right(&text(line), ',') {
                let ip = self.header.address(entry)?;
                left -= 1;
                if left == 0 {
                    return Some(ip);
                }
            }
        }
        None
    }

    /// Whether a [hop count](ClientIp::trust_hops) finds no client in a header that is there, and takes the peer for it:
    /// the header has fewer addresses than proxies were counted, or one that cannot be read.
    ///
    /// ```
    /// # use http::{HeaderMap, HeaderValue};
    /// # use tidegate::tower::ClientIp;
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-forwarded-for", HeaderValue::from_static("203.0.113.7"));
    /// assert!(ClientIp::new().trust_hops(2)?.lacks_hops(&headers));
    /// assert!(!ClientIp::new().trust_hops(1)?.lacks_hops(&headers));
    /// # Ok::<(), tidegate::tower::SetupError>(())
    /// ```
    pub fn lacks_hops(&self, headers: &HeaderMap) -> bool {
        let Trusted::Hops(hops) = self.trusted else { return false };
        headers.contains_key(self.header.name()) && self.at_hop(hops, headers).is_none()
    }

    /// Whether what a peer at this address writes is believed; with a [hop count](ClientIp::trust_hops), from any.
    ///
    /// ```
    /// # use tidegate::tower::ClientIp;
    /// let client_ip = ClientIp::new().trust("10.0.0.0/8")?;
    /// assert!(client_ip.trusts("::ffff:10.1.2.3".parse()?));
    /// assert!(!client_ip.trusts("203.0.113.7".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        match &self.trusted {
            Trusted::Networks(networks) => networks.iter().any(|network| network.contains(ip)),
            Trusted::Hops(_) => true,
        }
    }
}

/// Stray bytes spoil their own entry, not those that a proxy appended to it.
fn text(line: &http::HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(line.as_bytes())
}

#[cfg(feature = "axum")]
fn connected(extensions: &Extensions) -> Option<IpAddr> {
    use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};
    let real = extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| peer.ip());
    real.or_else(|| extensions.get().map(|MockConnectInfo::<SocketAddr>(peer)| peer.ip()))
}

#[cfg(not(feature = "axum"))]
fn connected(_: &Extensions) -> Option<IpAddr> {
    None
}

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Which header the proxies write. Never both: the one that they do not write is the client's to fill.
#[derive(Clone, Copy, Debug)]
enum ForwardedHeader {
    XForwardedFor,
    Forwarded,
}

impl ForwardedHeader {
    fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR.clone(),
            Self::Forwarded => FORWARDED,
        }
    }

    /// The address in one entry, in canonical form; `None` if it is hidden, missing or malformed.
    fn address(self, entry: &str) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => address(entry),
            Self::Forwarded => forwarded_for(entry).and_then(address),
        }
    }
}

/// The items of a list, last first. Read from the right, because the right is what the nearest proxy wrote: a
/// quote that the client left open further left cannot swallow it.
fn from_right(list: &str, separator: char) -> impl Iterator<Item = &str> {
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
