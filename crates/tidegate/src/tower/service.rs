//! The tower service, and the future of its response.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_core::Decision;
use tower_service::Service;

use super::headers::{Report, write_retry_after};
use super::outcome::{LaterOutcome, Outcome};
use super::refusal::Refuse;
use super::watch::WatchedRequest;
use super::{RateLimitLayer, TooManyRequests};
use crate::clock::Clock;
use crate::engine::PolicyHandle;
use crate::limiter::Limiter;

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
pub struct RateLimit<S, L = Limiter, R = TooManyRequests> {
    inner: S,
    layer: Arc<RateLimitLayer<L, R>>,
}

impl<S, L, R> RateLimit<S, L, R> {
    pub(super) fn new(inner: S, layer: RateLimitLayer<L, R>) -> Self {
        Self { inner, layer: Arc::new(layer) }
    }
}

impl<S: Clone, L, R> Clone for RateLimit<S, L, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, C, R, A, B> Service<Request<A>> for RateLimit<S, Limiter<C>, R>
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
        let outcome = self.layer.decide(&parts);
        self.layer.respond(&mut self.inner, parts, body, outcome)
    }
}

impl<S, C, R, A, B> Service<Request<A>> for RateLimit<S, PolicyHandle<C>, R>
where
    S: Service<Request<A>, Response = Response<B>> + Clone,
    C: Clock + 'static,
    R: Refuse<B> + Send + Sync + 'static,
    B: Default,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = PolicyFuture<S, A, B, C, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let state = match self.layer.ask(&parts) {
            Ok(outcome) => {
                let response = self.layer.respond(&mut self.inner, parts, body, outcome);
                PolicyState::Decided { response }
            }
            Err(outcome) => {
                // The service that was polled ready waits for the decision, and a clone is left here.
                let clone = self.inner.clone();
                let service = std::mem::replace(&mut self.inner, clone);
                let (request, layer) = (Some((parts, body)), self.layer.clone());
                PolicyState::Asked { outcome, request, service, layer }
            }
        };
        PolicyFuture { state }
    }
}

impl<L, R> RateLimitLayer<L, R> {
    /// Calls the service, or answers in its place.
    fn respond<S, A, B>(
        &self,
        service: &mut S,
        parts: Parts,
        body: A,
        outcome: Outcome,
    ) -> ResponseFuture<S::Future, B>
    where
        S: Service<Request<A>, Response = Response<B>>,
        R: Refuse<B>,
        B: Default,
    {
        let (report, watched) = match outcome {
            Outcome::Skip => (None, WatchedRequest::default()),
            Outcome::Admit(report, slot) => {
                (report, self.rules.watch.admit(slot, parts.uri.path()))
            }
            Outcome::Refuse(decision, report) => {
                return ResponseFuture::now(self.refuse(&parts, &decision, report.as_ref()));
            }
            Outcome::Fail(failure) => return ResponseFuture::now(failure.response(&parts)),
        };
        let answer = service.call(Request::from_parts(parts, body));
        ResponseFuture::later(answer, report, watched)
    }

    fn refuse<B>(
        &self,
        request: &Parts,
        decision: &Decision,
        report: Option<&Report>,
    ) -> Response<B>
    where
        R: Refuse<B>,
    {
        let mut response = self.refusal.refuse(request, decision);
        match report {
            Some(report) => report.write(response.headers_mut()),
            None => write_retry_after(response.headers_mut(), decision.retry_after()),
        }
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

pin_project! {
    /// The answer of a [`RateLimit`](super::RateLimit) by a policy: it waits for the store, if that is not in this process,
    /// and then for the service.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use http::{Request, Response};
    /// use tidegate::{Engine, tower::{Key, PolicyFuture, RateLimitLayer}};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::builder().policy("api", "5/h").build()?;
    /// let limit = RateLimitLayer::new(engine.policy("api")?).key(Key::path());
    /// let mut service = limit.layer(service_fn(async |_: Request<()>| {
    ///     Ok::<_, Infallible>(Response::new(String::from("hello")))
    /// }));
    /// let future: PolicyFuture<_, _, String, _, _> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.headers()["ratelimit"], "\"api\";r=4;t=720");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct PolicyFuture<S: Service<Request<A>>, A, B, C, R> {
        #[pin]
        state: PolicyState<S, A, B, C, R>,
    }
}

pin_project! {
    #[project = PolicyStatePinned]
    enum PolicyState<S: Service<Request<A>>, A, B, C, R> {
        Asked {
            outcome: LaterOutcome,
            request: Option<(Parts, A)>,
            service: S,
            layer: Arc<RateLimitLayer<PolicyHandle<C>, R>>,
        },
        Decided { #[pin] response: ResponseFuture<S::Future, B> },
    }
}

impl<S, A, B, C, R> Future for PolicyFuture<S, A, B, C, R>
where
    S: Service<Request<A>, Response = Response<B>>,
    R: Refuse<B>,
    B: Default,
{
    type Output = Result<Response<B>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let PolicyStatePinned::Asked { outcome, request, service, layer } =
            state.as_mut().project()
        {
            let outcome = ready!(outcome.as_mut().poll(context));
            // There until it is decided.
            let Some((parts, body)) = request.take() else { return Poll::Pending };
            let response = layer.respond(service, parts, body, outcome);
            state.set(PolicyState::Decided { response });
        }
        match state.project() {
            PolicyStatePinned::Decided { response } => response.poll(context),
            PolicyStatePinned::Asked { .. } => Poll::Pending,
        }
    }
}

impl<S: Service<Request<A>>, A, B, C, R> fmt::Debug for PolicyFuture<S, A, B, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            PolicyState::Asked { .. } => "asked",
            PolicyState::Decided { .. } => "decided",
        };
        f.debug_tuple("PolicyFuture").field(&state).finish()
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
