//! The service around a service.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use tidegate_core::Decision;
use tower_service::Service;

use super::future::ResponseFuture;
use super::headers::Report;
use super::key::NoPeer;
use super::refusal::{Refuse, no_peer};
use super::watched::Watched;
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

/// What becomes of a request.
enum Fate {
    /// It is not counted.
    Skip,
    Admit(Report, Watched),
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

    // The decision takes no waiting, so the service that was polled ready is the one that is called; after a
    // refusal it is still ready.
    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let (report, watched) = match self.layer.decide(&parts) {
            Ok(Fate::Skip) => (None, Watched::default()),
            Ok(Fate::Admit(report, watched)) => (Some(report), watched),
            Ok(Fate::Refuse(report)) => {
                return ResponseFuture::now(self.layer.refuse(&parts, &report));
            }
            Err(NoPeer) => return ResponseFuture::now(no_peer(&parts)),
        };
        let answer = self.inner.call(Request::from_parts(parts, body));
        ResponseFuture::later(answer, report, watched)
    }
}

/// As many are under way as may be. When one of them ends nobody knows: a second is as good a guess as any.
fn no_place(left: &Decision) -> Decision {
    let wait_us = 1_000_000;
    Decision::refused(left.limit(), left.remaining(), Some(wait_us), left.reset_after_us())
}

impl<C: Clock, R> RateLimitLayer<C, R> {
    fn decide(&self, request: &Parts) -> Result<Fate, NoPeer> {
        let rules = &self.rules;
        if rules.skip.as_ref().is_some_and(|skip| skip.ask(request)) {
            return Ok(Fate::Skip);
        }
        let key = rules.key.of(request, &rules.client_ip)?;
        let cost = rules.cost.as_ref().map_or(1, |cost| cost.ask(request));
        // Before anything is charged: who finds no place has cost nothing.
        let Some(watched) = rules.watch.enter() else {
            let report = self.report(&key, || no_place(&self.limiter.peek(&key, 0)));
            return Ok(Fate::Refuse(report));
        };
        let report = self.report(&key, || self.limiter.check_n(&key, cost));
        if report.decision.allowed() {
            return Ok(Fate::Admit(report, rules.watch.admit(watched, request.uri.path())));
        }
        watched.refused();
        Ok(Fate::Refuse(report))
    }

    fn report(&self, key: &[u8], decide: impl FnOnce() -> Decision) -> Report {
        // The clock is read before it is decided: or the end of a window would seem to be just after its edge, and be
        // told as a second later.
        let (label, now) = self.limiter.with_limit(key, |limit, now| {
            // The usual limit is the very one that the label was made for.
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
