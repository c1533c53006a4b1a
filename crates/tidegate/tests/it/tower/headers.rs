//! What clients are told.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use tidegate::tower::{Dialect, Headers, Key, RateLimitLayer, ResetUnit};
use tidegate::{Clock, Limiter, ManualClock, Timestamp};
use tower::{Layer, ServiceExt, service_fn};

use super::{check_statuses, get, layer, send};

const DELTA: Headers = Headers { x_rate_limit: Some(ResetUnit::Delta), ..Headers::STANDARD };

const OURS: [&str; 6] = [
    "ratelimit-policy",
    "ratelimit",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "retry-after",
];

/// The headers that are ours, in the order of `OURS`; `-` where there is none.
fn shown(headers: &HeaderMap) -> String {
    let value = |name| headers.get(name).map_or("-", |value| value.to_str().unwrap());
    OURS.map(value).join(" | ")
}

/// The same with one second more in `retry-after`: some who are refused for a short time get it.
fn with_jitter(expected: &str) -> Option<String> {
    let (others, seconds) = expected.rsplit_once(" | ")?;
    Some(format!("{others} | {}", seconds.parse::<u64>().ok()? + 1))
}

/// Sends a request of `cost` after one of 1, and compares the second's headers.
async fn check(limit: &str, headers: Headers, cost: u64, expected: &str) {
    let (layer, _) = layer(limit);
    let layer = layer.name("api").headers(headers);
    check_statuses(&layer, [(get("/"), 200)]).await;
    let response = send(&layer.cost(move |_| cost), get("/")).await;
    let shown = shown(response.headers());
    if with_jitter(expected).is_none_or(|expected| shown != expected) {
        assert_eq!(shown, expected, "{limit} {headers:?} {cost}");
    }
}

#[tokio::test]
async fn an_answer_tells_what_is_left() {
    let gcra = "100/min burst 20";
    check(gcra, DELTA, 0, r#""api";q=100;w=60 | "api";r=19;t=1 | 20 | 19 | 1 | -"#).await;
    check(gcra, DELTA, 9, r#""api";q=100;w=60 | "api";r=10;t=6 | 20 | 10 | 6 | -"#).await;
    check(gcra, Headers::STANDARD, 9, r#""api";q=100;w=60 | "api";r=10;t=6 | - | - | - | -"#).await;
    check(gcra, Headers::OFF, 9, "- | - | - | - | - | -").await;
    let log = "sliding-log 5/h";
    check(log, DELTA, 1, r#""api";q=5;w=3600 | "api";r=3;t=3600 | 5 | 3 | 3600 | -"#).await;
    let short = "10/100ms";
    check(short, Headers::STANDARD, 1, r#""api";q=10 | "api";r=8;t=1 | - | - | - | -"#).await;
}

/// Every header with `ratelimit` in its name, after a request of 9.
async fn rate_limit_headers(headers: Headers, own: &'static [(&str, &str)]) -> String {
    let (layer, _) = layer("100/min burst 20");
    let service = service_fn(async move |_: Request<()>| {
        let response =
            own.iter().fold(Response::builder(), |it, (name, value)| it.header(*name, *value));
        Ok::<_, Infallible>(response.body(()).unwrap())
    });
    let layer = layer.name("api").headers(headers).cost(|_| 9);
    let response = layer.layer(service).oneshot(get("/").body(()).unwrap()).await.unwrap();
    let written = response.headers().iter();
    let lines = written.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    lines.filter(|line| line.contains("ratelimit")).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn the_older_headers_are_three_and_mix_with_no_others() {
    let older = Headers { dialect: Dialect::Legacy, x_rate_limit: None };
    let three = "ratelimit-limit: 20, ratelimit-remaining: 11, ratelimit-reset: 6";
    assert_eq!(rate_limit_headers(older, &[]).await, three);
    let both = Headers { x_rate_limit: Some(ResetUnit::Delta), ..older };
    let x = "x-ratelimit-limit: 20, x-ratelimit-remaining: 11, x-ratelimit-reset: 6";
    assert_eq!(rate_limit_headers(both, &[]).await, format!("{three}, {x}"));
    let only_x = Headers { dialect: Dialect::Off, ..both };
    assert_eq!(rate_limit_headers(only_x, &[]).await, x);
    let own = &[("ratelimit-remaining", "7")];
    assert_eq!(rate_limit_headers(both, own).await, format!("ratelimit-remaining: 7, {x}"));
    assert_eq!(rate_limit_headers(Headers::STANDARD, own).await, "ratelimit-remaining: 7");
}

#[tokio::test]
async fn a_refusal_tells_when_to_come_back() {
    let gcra = "100/min burst 20";
    check(gcra, DELTA, 20, r#""api";q=100;w=60 | "api";r=19;t=1 | 20 | 19 | 1 | 1"#).await;
    check(gcra, Headers::OFF, 20, "- | - | - | - | - | 1").await;
    let slow = "20/min burst 2"; // one unit in 3 s
    check(slow, Headers::STANDARD, 2, r#""api";q=20;w=60 | "api";r=1;t=3 | - | - | - | 3"#).await;
}

#[tokio::test]
async fn a_cost_above_the_ceiling_has_no_retry_after() {
    let expected = r#""api";q=100;w=60 | "api";r=19;t=1 | 20 | 19 | 1 | -"#;
    check("100/min burst 20", DELTA, 21, expected).await;
}

#[tokio::test]
async fn retry_after_is_spread_over_a_fifth() {
    let (layer, _) = layer("1/h");
    check_statuses(&layer, [(get("/"), 200)]).await;
    let mut seen = BTreeSet::<u32>::new();
    for _ in 0..100 {
        let response = send(&layer, get("/")).await;
        seen.insert(response.headers()["retry-after"].to_str().unwrap().parse().unwrap());
    }
    assert!(seen.iter().all(|seconds| (3600..=4320).contains(seconds)), "{seen:?}");
    assert!(seen.len() > 50, "{seen:?}");
}

#[tokio::test]
async fn legacy_reset_is_in_seconds_since_1970_unless_told() {
    let (layer, _) = layer("1/h"); // at 1700000000
    let response = send(&layer, get("/")).await;
    assert_eq!(response.headers()["x-ratelimit-reset"], "1700003600");
}

#[tokio::test]
async fn a_name_is_escaped() {
    for (name, expected) in [
        ("api", r#""api";q=5;w=3600"#),
        (r#"a"b\c d"#, r#""a\"b\\c d";q=5;w=3600"#),
        ("ü\r\nx-evil: 1", r#""???x-evil: 1";q=5;w=3600"#),
        ("", r#""";q=5;w=3600"#),
    ] {
        let (layer, _) = layer("5/h");
        let response = send(&layer.name(name), get("/")).await;
        assert_eq!(response.headers()["ratelimit-policy"], expected);
    }
}

#[tokio::test]
async fn what_the_service_says_itself_stays() {
    let (layer, _) = layer("5/h");
    let service = layer.layer(service_fn(async |_: Request<()>| {
        let response = Response::builder().header("ratelimit", r#""own";r=1;t=1"#);
        Ok::<_, Infallible>(response.body(String::new()).unwrap())
    }));
    let response = service.oneshot(get("/").body(()).unwrap()).await.unwrap();
    let values: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(values, [r#""own";r=1;t=1"#]);
    // A policy that it does not speak of would be of no use beside it.
    assert!(!response.headers().contains_key("ratelimit-policy"));
    assert_eq!(response.headers()["x-ratelimit-limit"], "5");
}

#[tokio::test]
async fn a_grpc_call_is_refused_in_its_own_way() {
    for (content_type, status, grpc_status) in [
        ("application/grpc", 200, Some("8")),
        ("application/grpc+proto", 200, Some("8")),
        ("application/grpc-web", 200, Some("8")),
        ("application/json", 429, None),
    ] {
        let (layer, _) = layer("1/h");
        let call = || get("/").header("content-type", content_type);
        check_statuses(&layer, [(call(), 200)]).await;
        let response = send(&layer, call()).await;
        let headers = response.headers();
        assert_eq!(response.status(), status, "{content_type}");
        let found = headers.get("grpc-status").map(|value| value.to_str().unwrap());
        assert_eq!(found, grpc_status, "{content_type}");
        assert_eq!(headers.contains_key("grpc-message"), grpc_status.is_some());
        assert!(headers.contains_key("retry-after"));
    }
}

/// A clock that moves whenever it is looked at, as real ones do.
struct Moving(ManualClock);

impl Clock for Moving {
    fn now(&self) -> Timestamp {
        self.0.advance(Duration::from_micros(1));
        self.0.now()
    }
}

#[tokio::test]
async fn a_window_ends_at_its_edge_and_not_a_second_later() {
    let limiter = Limiter::builder("fixed-window 5/min").clock(Moving(ManualClock::default()));
    let layer = RateLimitLayer::new(limiter.build().unwrap()).key(Key::path());
    for _ in 0..7 {
        let hello = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
        let response = layer.layer(hello).oneshot(Request::new(())).await.unwrap();
        let reset = response.headers()["x-ratelimit-reset"].to_str().unwrap();
        assert_eq!(reset, "1700000040"); // a whole minute
    }
}
