//! What a layer tells of the requests that pass it, and the cap that it keeps.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tidegate::adaptive::{Adaptive, Cap, Priority, Reading, Rule};
use tidegate::tower::RateLimitLayer;
use tidegate::{Effective, Limiter, ManualClock};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{get, layer, send};

/// A layer that tells a target.
fn observing(limit: &str) -> (RateLimitLayer<Limiter<ManualClock>>, Adaptive) {
    let (layer, clock) = layer(limit);
    let adaptive = Adaptive::with_clock(clock);
    let layer = layer.observe_urls(&adaptive.target("service"));
    (layer, adaptive)
}

#[tokio::test]
async fn answers_are_told_and_refusals_are_not() {
    let (layer, adaptive) = observing("30/h");
    let service = adaptive.target("service");
    for n in 0..40 {
        let expected = if n < 30 { 200 } else { 429 };
        assert_eq!(send(&layer, get("/")).await.status(), expected);
    }
    adaptive.tick().await;
    assert_eq!((service.seen().count, service.in_flight()), (30, 0));
    assert_eq!(service.seen().errors, Reading::Value(0.0));
    assert_eq!(service.busiest_urls(9).len(), 1);
}

#[tokio::test]
async fn a_5xx_and_an_error_are_errors() {
    let (layer, adaptive) = observing("1000/h");
    let service = adaptive.target("service");
    let sick = service_fn(async |_: Request<()>| {
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        Ok::<_, Infallible>(response)
    });
    let broken = service_fn(async |_: Request<()>| Err::<Response<String>, _>("broken"));
    for _ in 0..10 {
        let request = || get("/").body(()).unwrap();
        layer.layer(sick).oneshot(request()).await.unwrap();
        layer.layer(broken).oneshot(request()).await.unwrap_err();
        assert_eq!(send(&layer, get("/")).await.status(), 200);
        assert_eq!(send(&layer, get("/")).await.status(), 200);
    }
    adaptive.tick().await;
    assert_eq!((service.seen().count, service.seen().errors), (40, Reading::Value(0.5)));
}

#[tokio::test]
async fn who_leaves_because_it_takes_too_long_tells_of_it() {
    let (layer, clock) = layer("1000/h");
    let adaptive = Adaptive::with_clock(clock.clone());
    let service = adaptive.target("service");
    let layer = layer.observe(&service);
    let hangs =
        service_fn(|_: Request<()>| std::future::pending::<Result<Response<String>, Infallible>>());
    let mut hanging = layer.layer(hangs);
    for _ in 0..30 {
        let response = hanging.ready().await.unwrap().call(get("/").body(()).unwrap());
        clock.advance(Duration::from_millis(100));
        drop(response);
    }
    adaptive.tick().await;
    assert_eq!((service.in_flight(), service.seen().count), (0, 30));
    assert!(service.seen().latency_ms.is_some_and(|ms| ms > 90.0), "{:?}", service.seen());
}

#[tokio::test]
async fn beyond_the_cap_requests_are_refused_and_cost_nothing() {
    let (layer, adaptive) = observing("100/h");
    let service = adaptive.target("service");
    service.set_cap(Some(Cap::fixed(5).unwrap()));
    let plain = layer.clone();
    let layer = layer.priority(Priority::Default);
    let hangs =
        service_fn(|_: Request<()>| std::future::pending::<Result<Response<String>, Infallible>>());
    let mut hanging = layer.layer(hangs);
    let mut under_way = Vec::new();
    for _ in 0..8 {
        let request = get("/").body(()).unwrap();
        under_way.push(hanging.ready().await.unwrap().call(request));
    }
    assert_eq!(service.in_flight(), 8);
    let refused = send(&layer, get("/")).await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(refused.headers()["x-ratelimit-remaining"], "92");
    let critical = layer.clone().priority(Priority::Critical);
    assert_eq!(send(&critical, get("/")).await.status(), 200);
    assert_eq!(send(&plain, get("/")).await.status(), 200, "nobody is told apart");
    drop(under_way);
    assert_eq!(service.in_flight(), 0, "given up");
    assert_eq!(send(&layer, get("/")).await.status(), 200);
}

#[tokio::test]
async fn the_limit_and_its_headers_follow() {
    let clock = ManualClock::default();
    let limiter = Limiter::builder("100/h").clock(clock.clone()).build().unwrap();
    let adaptive = Adaptive::with_clock(clock);
    let service = adaptive.target("service");
    let effective = adaptive.govern("api", 100, Rule::observing(&service)).unwrap();
    assert!(limiter.follow(&effective) && !limiter.follow(&Effective::default()));
    limiter.set_override("/partner", "1000/h").unwrap();
    let layer = RateLimitLayer::new(limiter.clone()).key(tidegate::tower::Key::path());
    let layer = layer.observe(&service);
    assert!(adaptive.fix("api", Some(0.5)));
    for (path, limit) in [("/", 50), ("/partner", 500)] {
        let response = send(&layer, get(path)).await;
        assert_eq!(response.headers()["x-ratelimit-limit"], limit.to_string());
        let policy = format!("\"default\";q={limit};w=3600");
        assert_eq!(response.headers()["ratelimit-policy"], policy);
    }
    assert!(limiter.clear_override("/partner") && adaptive.fix("api", None));
    assert_eq!(send(&layer, get("/partner")).await.headers()["x-ratelimit-limit"], "100");
    assert!(adaptive.fix("api", Some(0.1)), "it still follows");
    assert_eq!(send(&layer, get("/partner")).await.headers()["x-ratelimit-limit"], "10");
}
