//! A rate limit for axum, tonic and every other [tower](https://docs.rs/tower) service that speaks HTTP.
//!
//! [`RateLimitLayer`] asks a [`Limiter`], or a policy of an [`Engine`](crate::Engine), before each request and reports to
//! the client how much is left. Who is limited is a [`Key`]; [`ClientIp`] finds its address behind proxies.
//!
//! ```
//! use axum::{Router, routing::get};
//! use tidegate::{Limiter, tower::{ClientIp, Key, RateLimitLayer}};
//!
//! let limit = RateLimitLayer::new(Limiter::new("100/min burst 20")?)
//!     .name("api")
//!     .client_ip(ClientIp::new().trust("10.0.0.0/8")?)
//!     .key(Key::header("x-api-key")?);
//! let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Serve it with `app.into_make_service_with_connect_info::<SocketAddr>()`, or no address is known and every
//! request that needs one is answered 500. An admitted request's answer carries what is left; a refused one
//! never reaches the service:
//!
//! ```text
//! HTTP/1.1 429 Too Many Requests
//! retry-after: 1
//! ratelimit-policy: "api";q=100;w=60
//! ratelimit: "api";r=0;t=12
//! x-ratelimit-limit: 20
//! x-ratelimit-remaining: 0
//! x-ratelimit-reset: 1700000012
//! ```

mod client_ip;
mod headers;
mod key;
mod limits;
mod outcome;
mod refusal;
mod retry_after;
mod service;
mod watch;

use std::sync::Arc;

use http::Response;
use http::request::Parts;
use tidegate_core::Decision;
use tower_layer::Layer;

use crate::clock::Clock;
use crate::limiter::Limiter;

pub use client_ip::ClientIp;
pub use headers::{Dialect, Headers, Label, Report, ResetUnit, write_retry_after};
pub use key::Key;
pub use limits::LayerLimits;
pub use refusal::{Refuse, SetupError, TooManyRequests};
pub use retry_after::retry_after_s;
pub use service::{PolicyFuture, RateLimit, ResponseFuture};

use limits::Labels;
use service::Hook;
use watch::Watch;

/// Limits the requests to a service: by a [`Limiter`], or by a policy of an [`Engine`](crate::Engine) over any store.
/// Clones, and the services made from them, share one state.
///
/// Without further settings it charges one unit to the client's address, an IPv6 client to its /64.
///
/// ```
/// use tidegate::{Limiter, tower::{Headers, Key, RateLimitLayer}};
///
/// let limit = RateLimitLayer::new(Limiter::new("1000/h burst 50")?)
///     .name("search")
///     .key(Key::header("x-api-key")?.and(Key::path()))
///     .cost(|request| if request.uri.path() == "/export" { 10 } else { 1 })
///     .skip(|request| request.uri.path() == "/healthz")
///     .headers(Headers::STANDARD);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With an engine, the headers name the limit of the policy that binds. While the store fails, the policy answers as its
/// [`on_store_error`](crate::Policy::on_store_error) says. A policy that denies then is answered 503, not 429, with
/// `Retry-After` and the reason in `x-tidegate-error`; to a gRPC call, `UNAVAILABLE`.
///
/// ```
/// use tidegate::{Engine, OnStoreError, Policy, tower::RateLimitLayer};
///
/// let login = Policy::all().limit("hour", "5/h").on_store_error(OnStoreError::DENY);
/// let engine = Engine::builder().policy("login", login).build()?; // .store(…) for a fleet
/// let limit = RateLimitLayer::new(engine.policy("login")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a layer limits nothing until it is put around a service"]
pub struct RateLimitLayer<L = Limiter, R = TooManyRequests> {
    limits: L,
    rules: Rules,
    refusal: Arc<R>,
}

/// What does not depend on the limits or the body.
#[derive(Clone, Debug)]
struct Rules {
    key: Key,
    client_ip: ClientIp,
    cost: Option<Hook<Parts, u64>>,
    skip: Option<Hook<Parts, bool>>,
    labels: Labels,
    headers: Headers,
    watch: Watch,
}

impl<L: LayerLimits> RateLimitLayer<L> {
    /// Limits each client's address, by a limiter or by a policy of an engine.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Engine, Limiter, tower::RateLimitLayer};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// let by_policy = RateLimitLayer::new(engine.policy("api")?);
    /// let by_limiter = RateLimitLayer::new(Limiter::new("5/h")?);
    /// // No connection, no address: a mistake in the setup, which fails every request.
    /// assert_eq!(by_policy.layer(hello).oneshot(Request::new(())).await?.status(), 500);
    /// assert_eq!(by_limiter.layer(hello).oneshot(Request::new(())).await?.status(), 500);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(limits: L) -> Self {
        let rules = Rules {
            key: Key::client_ip(),
            client_ip: ClientIp::new(),
            cost: None,
            skip: None,
            labels: limits.labels(),
            headers: Headers::default(),
            watch: Watch::default(),
        };
        Self { limits, rules, refusal: Arc::new(TooManyRequests) }
    }
}

impl<L, R> RateLimitLayer<L, R> {
    /// Who is limited; [`Key::client_ip`] by default.
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
    /// let limit = RateLimitLayer::new(limiter.clone()).key(Key::header("x-api-key")?);
    /// let request = Request::builder().header("x-api-key", "partner-7").body(())?;
    /// limit.layer(hello).oneshot(request).await?;
    /// assert_eq!(limiter.peek("partner-7", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key(mut self, key: Key) -> Self {
        self.rules.key = key;
        self
    }

    /// How a client's address is found, by every [`Key`] that needs it.
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
    /// let client_ip = ClientIp::new().peer(|_| Some(IpAddr::from([203, 0, 113, 7])));
    /// let limit = RateLimitLayer::new(limiter.clone()).client_ip(client_ip);
    /// limit.layer(hello).oneshot(Request::new(())).await?;
    /// assert_eq!(limiter.peek("203.0.113.7", 0).remaining(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_ip(mut self, client_ip: ClientIp) -> Self {
        self.rules.client_ip = client_ip;
        self
    }

    /// What a request costs; 1 by default. A cost of 0 spends nothing and is always admitted, and its answer
    /// still shows what is left.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limit = RateLimitLayer::new(Limiter::new("15/h")?)
    ///     .key(Key::path())
    ///     .cost(|request| if request.uri.path() == "/export" { 10 } else { 1 });
    /// let response = limit.layer(hello).oneshot(Request::get("/export").body(())?).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "5");
    /// # Ok(())
    /// # }
    /// ```
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.rules.cost = Some(Hook::new(cost));
        self
    }

    /// Lets requests through without counting them, such as health checks.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?)
    ///     .key(Key::path())
    ///     .skip(|request| request.uri.path() == "/healthz");
    /// let response = limit.layer(hello).oneshot(Request::get("/healthz").body(())?).await?;
    /// assert!(response.headers().is_empty()); // not counted, so nothing is reported
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.rules.skip = Some(Hook::new(skip));
        self
    }

    /// Which headers show what is left.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Headers, Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?).key(Key::path()).headers(Headers::OFF);
    /// let response = limit.layer(hello).oneshot(Request::new(())).await?;
    /// assert!(response.headers().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn headers(mut self, headers: Headers) -> Self {
        self.rules.headers = headers;
        self
    }

    /// Reports every request that is let through to a target: how long the answer took, up to its first byte, and whether
    /// it was a 5xx or an error. If the target has a [cap](crate::adaptive::Target::set_cap), requests beyond it are
    /// refused before they are counted. Together with [`Limiter::follow`], the limit follows what the service can bear.
    ///
    /// A request that is dropped before its response, because the client has gone or a layer outside has a timeout, counts
    /// with the time it took so far, and not as an error. So put a timeout inside this layer, where it counts as one.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, adaptive::{Adaptive, Rule}, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let (adaptive, limiter) = (Adaptive::default(), Limiter::new("1000/s")?);
    /// let service = adaptive.target("service");
    /// limiter.follow(&adaptive.govern("api", 1000, Rule::observing(&service))?);
    /// let limit = RateLimitLayer::new(limiter).key(Key::path()).observe(&service);
    /// limit.layer(hello).oneshot(Request::new(())).await?;
    /// adaptive.tick().await; // by itself, after adaptive.start()
    /// assert_eq!(service.seen().count, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "adaptive")]
    pub fn observe(mut self, target: &crate::adaptive::Target) -> Self {
        self.rules.watch.target = Some(target.clone());
        self
    }

    /// The same, and by path too, for [`Adaptive::govern_urls`](crate::adaptive::Adaptive::govern_urls).
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, adaptive::Adaptive, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let site = Adaptive::default().target("site");
    /// let limit = RateLimitLayer::new(Limiter::new("240/min")?).key(Key::path()).observe_urls(&site);
    /// limit.layer(hello).oneshot(Request::get("/report").body(())?).await?;
    /// assert_eq!(site.busiest_urls(1)[0].0.as_deref(), Some("/report"));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "adaptive")]
    pub fn observe_urls(mut self, target: &crate::adaptive::Target) -> Self {
        self.rules.watch.by_url = true;
        self.observe(target)
    }

    /// The priority of its requests at the observed target. A fifth of the slots of a cap is then reserved for critical
    /// ones; a layer without a priority may take all slots, so give one to all layers or to none.
    ///
    /// ```
    /// # use tidegate::{Limiter, adaptive::{Adaptive, Priority}, tower::RateLimitLayer};
    /// let service = Adaptive::default().target("service");
    /// let health = RateLimitLayer::new(Limiter::new("10/s")?)
    ///     .observe(&service)
    ///     .priority(Priority::Critical);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    #[cfg(feature = "adaptive")]
    pub fn priority(mut self, priority: crate::adaptive::Priority) -> Self {
        self.rules.watch.priority = Some(priority);
        self
    }

    /// Answers refusals in the service's own way. The headers are added to what it returns, unless it has set
    /// them itself. A failure of the store is no refusal.
    ///
    /// ```
    /// use http::{Response, StatusCode};
    /// use tidegate::{Limiter, tower::RateLimitLayer};
    ///
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?).on_refusal(|request, decision| {
    ///     let text = format!("{}: {} per hour", request.uri.path(), decision.limit());
    ///     let mut response = Response::new(axum::body::Body::from(text));
    ///     *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    ///     response
    /// });
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn on_refusal<F, B>(self, refusal: F) -> RateLimitLayer<L, F>
    where
        F: Fn(&Parts, &Decision) -> Response<B>,
    {
        RateLimitLayer { limits: self.limits, rules: self.rules, refusal: Arc::new(refusal) }
    }
}

impl<C: Clock, R> RateLimitLayer<Limiter<C>, R> {
    /// The limit's name in the headers; `default` if none is given. It is sent as ASCII: any other character becomes `?`. A
    /// policy has its own name.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use http::{Request, Response};
    /// # use tidegate::{Limiter, tower::{Key, RateLimitLayer}};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?).key(Key::path()).name("search");
    /// let response = limit.layer(hello).oneshot(Request::new(())).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], "\"search\";q=5;w=3600");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.rules.labels = Labels::of_limit(name, self.limits.limit());
        self
    }
}

impl<L: Clone, R> Clone for RateLimitLayer<L, R> {
    fn clone(&self) -> Self {
        let (limits, rules) = (self.limits.clone(), self.rules.clone());
        Self { limits, rules, refusal: self.refusal.clone() }
    }
}

impl<S, L: Clone, R> Layer<S> for RateLimitLayer<L, R> {
    type Service = RateLimit<S, L, R>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, self.clone())
    }
}
