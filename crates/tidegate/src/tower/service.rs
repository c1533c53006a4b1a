//! The tower service, and the future of its response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_core::Decision;
use tower_service::Service;

use super::headers::Report;
use super::key::NoPeer;
use super::refusal::{Refuse, no_peer};
use super::watch::WatchedRequest;
use super::{RateLimitLayer, TooManyRequests};
use crate::clock::{Clock, SystemClock};

/// A service behind a limit; made by [`RateLimitLayer`]. Clones share one state.
///
/// ```
/// use std::{convert::Infallible, net::IpAddr};
/// use http::{Request, Response};
/// use tidegate::{Limiter, tower::{ClientIp, RateLimitLayer}};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = ClientIp::new().peer(|_| Some(IpAddr::from([203, 0, 113, 7])));
/// let limit = RateLimitLayer::new(Limiter::new("1/h")?).client_ip(peer);
/// let mut service = limit.layer(service_fn(async |_: Request<()>| {
///     Ok::<_, Infallible>(Response::new(String::from("hello")))
/// }));
///
/// assert_eq!(service.ready().await?.call(Request::new(())).await?.status(), 200);
/// assert_eq!(service.ready().await?.call(Request::new(())).await?.status(), 429);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RateLimit<S, C = SystemClock, R = TooManyRequests> {
    inner: S,
    layer: Arc<RateLimitLayer<C, R>>,
}

/// What the layer does with a request.
enum LayerDecision {
    /// It is not counted.
    Skip,
    Admit(Report, WatchedRequest),
    Refuse(Report),
}

impl<S, C, R> RateLimit<S, C, R> {
    pub(super) fn new(inner: S, layer: RateLimitLayer<C, R>) -> Self {
        Self { inner, layer: Arc::new(layer) }
    }
}

impl<S: Clone, C, R> Clone for RateLimit<S, C, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, C, R, A, B> Service<Request<A>> for RateLimit<S, C, R>
where
    S: Service<Request<A>, Response = Response<B>>,
    C: Clock,
    R: Refuse<B>,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    // The decision does not wait, so the service that was polled ready is the one that is called; after a
    // refusal it is still ready.
    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let (report, watched) = match self.layer.decide(&parts) {
            Ok(LayerDecision::Skip) => (None, WatchedRequest::default()),
            Ok(LayerDecision::Admit(report, watched)) => (Some(report), watched),
            Ok(LayerDecision::Refuse(report)) => {
                return ResponseFuture::now(self.layer.refuse(&parts, &report));
            }
            Err(NoPeer) => return ResponseFuture::now(no_peer(&parts)),
        };
        let answer = self.inner.call(Request::from_parts(parts, body));
        ResponseFuture::later(answer, report, watched)
    }
}

/// A refusal because the target has no slot left. When a request ends is not known: a second is a guess.
fn no_capacity(left: &Decision) -> Decision {
    let wait_us = 1_000_000;
    Decision::refused(left.limit(), left.remaining(), Some(wait_us), left.reset_after_us())
}

impl<C: Clock, R> RateLimitLayer<C, R> {
    fn decide(&self, request: &Parts) -> Result<LayerDecision, NoPeer> {
        let rules = &self.rules;
        if rules.skip.as_ref().is_some_and(|skip| skip.call(request)) {
            return Ok(LayerDecision::Skip);
        }
        let key = rules.key.value(request, &rules.client_ip)?;
        let cost = rules.cost.as_ref().map_or(1, |cost| cost.call(request));
        // Before anything is charged: a request without a slot costs nothing.
        let Some(watched) = rules.watch.enter() else {
            let report = self.report(&key, || no_capacity(&self.limiter.peek(&key, 0)));
            return Ok(LayerDecision::Refuse(report));
        };
        let report = self.report(&key, || self.limiter.check_n(&key, cost));
        if report.decision.allowed() {
            return Ok(LayerDecision::Admit(
                report,
                rules.watch.admit(watched, request.uri.path()),
            ));
        }
        watched.refused();
        Ok(LayerDecision::Refuse(report))
    }

    fn report(&self, key: &[u8], decide: impl FnOnce() -> Decision) -> Report {
        // The clock is read before the decision. Otherwise the end of a window could seem to be just after its edge, and
        // be reported a second late.
        let (label, now) = self.limiter.with_limit(key, |limit, now| {
            // The label was made for the limiter's own limit.
            let usual = std::ptr::eq(limit, self.limiter.limit());
            let label = &self.rules.label;
            (if usual { label.clone() } else { label.with_limit(limit) }, now)
        });
        Report { headers: self.rules.headers, label, decision: decide(), now }
    }

    fn refuse<B>(&self, request: &Parts, report: &Report) -> Response<B>
    where
        R: Refuse<B>,
    {
        let mut response = self.refusal.refuse(request, &report.decision);
        report.write(response.headers_mut());
        response
    }
}

pin_project! {
    /// The answer of a [`RateLimit`](super::RateLimit): the service's, with headers added, or a refusal.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use http::{Request, Response};
    /// use tidegate::{Limiter, tower::{Key, RateLimitLayer, ResponseFuture}};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?).key(Key::path());
    /// let mut service = limit.layer(service_fn(async |_: Request<()>| {
    ///     Ok::<_, Infallible>(Response::new(String::from("hello")))
    /// }));
    /// let future: ResponseFuture<_, String> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.headers()["x-ratelimit-remaining"], "4");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B> {
        #[pin]
        state: ResponseState<F, B>,
    }
}

pin_project! {
    #[project = ResponseStatePinned]
    #[derive(Debug)]
    enum ResponseState<F, B> {
        Later { #[pin] inner: F, report: Option<Report>, watched: WatchedRequest },
        Now { response: Option<Response<B>> },
    }
}

impl<F, B> ResponseFuture<F, B> {
    fn later(inner: F, report: Option<Report>, watched: WatchedRequest) -> Self {
        Self { state: ResponseState::Later { inner, report, watched } }
    }

    fn now(response: Response<B>) -> Self {
        Self { state: ResponseState::Now { response: Some(response) } }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (inner, report, watched) = match self.project().state.project() {
            ResponseStatePinned::Later { inner, report, watched } => (inner, report, watched),
            // Polled again after it was ready.
            ResponseStatePinned::Now { response } => {
                return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
            }
        };
        let answer = inner.poll(context).map_ok(|mut response| {
            if let Some(report) = report {
                report.write(response.headers_mut());
            }
            response
        });
        if let Poll::Ready(answer) = &answer {
            watched.done(answer.as_ref().is_ok_and(|it| !it.status().is_server_error()));
        }
        answer
    }
}

/// A closure of the user's, shared by the clones of a layer.
pub(super) struct Hook<A, R>(Arc<dyn Fn(&A) -> R + Send + Sync>);

impl<A, R> Hook<A, R> {
    pub(super) fn new(call: impl Fn(&A) -> R + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(super) fn call(&self, about: &A) -> R {
        (self.0)(about)
    }
}

impl<A, R> Clone for Hook<A, R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A, R> fmt::Debug for Hook<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closure")
    }
}
