//! Who is limited.

use std::borrow::Cow;

use http::HeaderName;
use http::request::Parts;

use super::client_ip::ClientIp;
use super::refusal::SetupError;
use super::service::Hook;
use crate::key::append_part;

/// Marks an address that replaces a missing value. No header or path can contain it, so no client can be counted as
/// another's address by sending that as a value.
const FALLBACK_MARK: u8 = 0;

/// Who is limited: one part of a request, or several together. The client's address replaces a part that is missing or
/// empty.
///
/// A single part is the key as it is, so that [`Limiter::set_override`](crate::Limiter::set_override) and the
/// like can name it: `partner-7`, `203.0.113.7`, `2001:db8::/64`. Several parts are each preceded by their length,
/// so that no two requests can collide by shifting bytes from one part to the next: `9:partner-7,6:/login,`.
///
/// ```
/// use tidegate::tower::Key;
///
/// let by_address = Key::client_ip();
/// let by_user_and_path = Key::header("x-user")?.and(Key::path());
/// let by_tenant = Key::from_fn(|request| {
///     let host = request.headers.get("host")?.to_str().ok()?;
///     host.strip_suffix(".example.com").map(str::to_owned)
/// });
/// # Ok::<(), tidegate::tower::SetupError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a key limits nothing until it is given to a layer"]
pub struct Key {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    ClientIp,
    Header(HeaderName),
    Path,
    Closure(Hook<Parts, Option<Vec<u8>>>),
}

/// The address of the connection's peer is not known: the server was put together wrongly.
#[derive(Debug)]
pub(super) struct NoPeer;

impl Key {
    /// The client's address, as [`ClientIp`] finds it.
    ///
    /// ```
    /// # use std::net::IpAddr;
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{ClientIp, Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limiter = Limiter::new("5/h")?;
    /// let client_ip = ClientIp::new().peer(|_| "2001:db8::1".parse::<IpAddr>().ok());
    /// let limit = RateLimitLayer::new(limiter.clone()).key(Key::client_ip()).client_ip(client_ip);
    /// limit.layer(hello).oneshot(Request::new(())).await?;
    /// // The whole /64: its holder could use another address for each request.
    /// assert_eq!(limiter.peek("2001:db8::/64", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_ip() -> Self {
        Part::ClientIp.into()
    }

    /// The value of a header. A client that may choose the value chooses its identity: name a header that something in
    /// front of the layer has checked.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limiter = Limiter::new("5/h")?;
    /// let limit = RateLimitLayer::new(limiter.clone()).key(Key::header("x-user")?);
    /// let request = Request::builder().header("x-user", "ann").body(())?;
    /// limit.layer(hello).oneshot(request).await?;
    /// assert_eq!(limiter.peek("ann", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn header(name: &str) -> Result<Self, SetupError> {
        let parsed = HeaderName::try_from(name);
        let name = parsed.map_err(|_| SetupError::HeaderName(name.into()))?;
        Ok(Part::Header(name).into())
    }

    /// The path, as it was sent. By itself it is one limit for all clients of a path. Behind a router that takes
    /// several spellings or parameters, prefer the route, so that a client cannot multiply its budget:
    ///
    /// ```
    /// use axum::extract::MatchedPath;
    /// use tidegate::tower::Key;
    ///
    /// let by_route = Key::from_fn(|request| {
    ///     request.extensions.get::<MatchedPath>().map(|route| route.as_str().to_owned())
    /// });
    /// ```
    ///
    /// The query is not part of it:
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limiter = Limiter::new("5/h")?;
    /// let limit = RateLimitLayer::new(limiter.clone()).key(Key::path());
    /// limit.layer(hello).oneshot(Request::get("/login?from=home").body(())?).await?;
    /// assert_eq!(limiter.peek("/login", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn path() -> Self {
        Part::Path.into()
    }

    /// Whatever a closure makes of the request: text or bytes.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let by_tenant = Key::from_fn(|request| {
    ///     request.uri.host()?.strip_suffix(".example.com").map(str::to_owned)
    /// });
    /// let limiter = Limiter::new("5/h")?;
    /// let limit = RateLimitLayer::new(limiter.clone()).key(by_tenant);
    /// limit.layer(hello).oneshot(Request::get("http://acme.example.com/").body(())?).await?;
    /// assert_eq!(limiter.peek("acme", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_fn<K: Into<Vec<u8>>>(
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Part::Closure(Hook::new(move |request| key(request).map(Into::into))).into()
    }

    /// Both together: each combination is limited by itself.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limiter = Limiter::new("5/h")?;
    /// let limit = RateLimitLayer::new(limiter.clone()).key(Key::header("x-user")?.and(Key::path()));
    /// let request = Request::get("/login").header("x-user", "partner-7").body(())?;
    /// limit.layer(hello).oneshot(request).await?;
    /// assert_eq!(limiter.peek("9:partner-7,6:/login,", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn and(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    pub(super) fn value<'a>(
        &self,
        request: &'a Parts,
        client_ip: &ClientIp,
    ) -> Result<Cow<'a, [u8]>, NoPeer> {
        if let [part] = &*self.parts {
            return part.value(request, client_ip);
        }
        let mut key = Vec::new();
        for part in &self.parts {
            append_part(&mut key, &part.value(request, client_ip)?);
        }
        Ok(key.into())
    }
}

impl From<Part> for Key {
    fn from(part: Part) -> Self {
        Self { parts: vec![part] }
    }
}

impl Part {
    fn value<'a>(&self, request: &'a Parts, client_ip: &ClientIp) -> Result<Cow<'a, [u8]>, NoPeer> {
        let address = || client_ip.key(request).ok_or(NoPeer).map(String::into_bytes);
        let value = match self {
            Self::ClientIp => return address().map(Cow::Owned),
            Self::Header(name) => request.headers.get(name).map(|value| value.as_bytes().into()),
            Self::Path => Some(request.uri.path().as_bytes().into()),
            Self::Closure(key) => key.call(request).map(Cow::Owned),
        };
        match value {
            Some(value) if value.first() == Some(&FALLBACK_MARK) => Ok(marked(&value)),
            Some(value) if !value.is_empty() => Ok(value),
            _ => address().map(|address| marked(&address)),
        }
    }
}

/// A closure's value that begins with the mark is marked once more, and so remains distinct.
fn marked(value: &[u8]) -> Cow<'static, [u8]> {
    [&[FALLBACK_MARK], value].concat().into()
}
