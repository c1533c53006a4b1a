//! The layer for tower services: what clients are told, who is counted, and what a service can rely on.

mod headers;
mod keys;
#[cfg(feature = "adaptive")]
mod observing;
mod policies;
mod servers;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Builder;
use http::{Request, Response};
use tidegate::tower::{ClientIp, Key, RateLimitLayer, Refuse};
use tidegate::{Limiter, ManualClock};
use tower::{Layer, Service, ServiceExt, service_fn};

/// A layer on a clock that stands still, for requests whose peer is an extension.
fn layer(limit: &str) -> (RateLimitLayer<Limiter<ManualClock>>, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::builder(limit).clock(clock.clone()).build().unwrap();
    let client_ip = ClientIp::new().peer(|extensions| extensions.get::<IpAddr>().copied());
    (RateLimitLayer::new(limiter).client_ip(client_ip), clock)
}

/// A request from 203.0.113.7.
fn get(path: &str) -> Builder {
    Request::get(path).extension(IpAddr::from([203, 0, 113, 7]))
}

async fn send<R: Refuse<String>>(
    layer: &RateLimitLayer<Limiter<ManualClock>, R>,
    request: Builder,
) -> Response<String> {
    let hello = service_fn(async |request: Request<()>| {
        Ok::<_, Infallible>(Response::new(format!("hello {}", request.uri().path())))
    });
    layer.layer(hello).oneshot(request.body(()).unwrap()).await.unwrap()
}

/// Sends the requests in order through one layer and compares the statuses.
async fn check_statuses<R: Refuse<String>>(
    layer: &RateLimitLayer<Limiter<ManualClock>, R>,
    rows: impl IntoIterator<Item = (Builder, u16)>,
) {
    for (row, (request, status)) in rows.into_iter().enumerate() {
        let shown = format!("row {row}: {:?}", request.uri_ref());
        assert_eq!(send(layer, request).await.status(), status, "{shown}");
    }
}

#[tokio::test]
async fn admits_the_burst_and_then_the_rate() {
    let (layer, clock) = layer("1/s burst 2");
    check_statuses(&layer, [(get("/"), 200), (get("/"), 200), (get("/"), 429)]).await;
    clock.advance(Duration::from_secs(1));
    check_statuses(&layer, [(get("/"), 200), (get("/"), 429)]).await;
}

#[tokio::test]
async fn clones_of_layer_and_service_share_one_budget() {
    let (layer, _) = layer("2/h");
    let service = layer.clone().layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    for (service, status) in [(service.clone(), 200), (service.clone(), 200), (service, 429)] {
        let response = service.oneshot(get("/").body(()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status);
    }
    check_statuses(&layer, [(get("/"), 429)]).await;
}

#[tokio::test]
async fn a_request_costs_what_the_closure_says() {
    let (layer, _) = layer("10/h");
    let layer = layer.cost(|request| request.uri.path()[1..].parse().unwrap());
    let rows = [("/8", 200), ("/8", 429), ("/2", 200), ("/1", 429), ("/0", 200)];
    check_statuses(&layer, rows.map(|(path, status)| (get(path), status))).await;
}

#[tokio::test]
async fn skipped_requests_are_neither_counted_nor_marked() {
    let (layer, _) = layer("1/h");
    let layer = layer.skip(|request| request.uri.path() == "/healthz");
    let rows = [("/healthz", 200), ("/", 200), ("/", 429), ("/healthz", 200)];
    check_statuses(&layer, rows.map(|(path, status)| (get(path), status))).await;
    // Not even an address is needed.
    let response = send(&layer, Request::get("/healthz")).await;
    assert_eq!((response.status().as_u16(), response.headers().len()), (200, 0));
}

#[tokio::test]
async fn a_refusal_can_have_its_own_answer() {
    let (layer, _) = layer("1/h");
    let layer = layer.on_refusal(|request, decision| {
        let text = format!("{} allows {}", request.uri.path(), decision.limit());
        Response::builder().status(503).header("retry-after", "7").body(text).unwrap()
    });
    check_statuses(&layer, [(get("/"), 200)]).await;
    let response = send(&layer, get("/mail")).await;
    assert_eq!((response.status().as_u16(), response.body().as_str()), (503, "/mail allows 1"));
    assert_eq!(response.headers()["retry-after"], "7");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
}

#[tokio::test]
async fn without_a_peer_every_request_fails_and_names_the_fix() {
    let (layer, _) = layer("100/h");
    let nobody = || Request::get("/");
    for request in [nobody(), nobody().header("x-forwarded-for", "203.0.113.7")] {
        let response = send(&layer, request).await;
        assert_eq!(response.status(), 500);
        let problem = response.headers()["x-tidegate-error"].to_str().unwrap();
        assert!(problem.contains("into_make_service_with_connect_info::<SocketAddr>()"));
        assert!(!response.headers().contains_key("retry-after"));
    }
    let layer = layer.key(Key::header("x-user").unwrap());
    check_statuses(&layer, [(nobody().header("x-user", "ann"), 200), (nobody(), 500)]).await;
}

/// A service that has to be polled ready before each call, and whose clones are not ready.
struct Strict {
    ready: bool,
    calls: Arc<AtomicU32>,
}

impl Service<Request<()>> for Strict {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called before it was ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Response::new(String::new())))
    }
}

#[tokio::test]
async fn a_refused_request_reaches_nothing_and_leaves_the_service_ready() {
    let (layer, _) = layer("1/h");
    let calls = Arc::<AtomicU32>::default();
    let mut service = layer
        .skip(|request| request.uri.path() == "/skip")
        .layer(Strict { ready: false, calls: calls.clone() });
    // The refusal spends no readiness: the request after it goes through without another poll.
    for (path, poll, status, reached) in
        [("/", true, 200, 1), ("/", true, 429, 1), ("/skip", false, 200, 2)]
    {
        if poll {
            service.ready().await.unwrap();
        }
        let response = service.call(get(path).body(()).unwrap()).await.unwrap();
        assert_eq!((response.status().as_u16(), calls.load(Ordering::Relaxed)), (status, reached));
    }
}
