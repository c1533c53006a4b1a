//! Who is counted.

use std::net::IpAddr;

use http::Request;
use http::request::Builder;
use tidegate::tower::{ClientIp, Key, RateLimitLayer};
use tidegate::{Limiter, ManualClock};

use super::{check_statuses, get, layer, send};

fn header(name: &str) -> Key {
    Key::header(name).unwrap()
}

/// Whether two requests draw on one budget.
async fn check(key: Key, first: Builder, second: Builder, same: bool) {
    let (layer, _) = layer("1/h");
    let status = if same { 429 } else { 200 };
    check_statuses(&layer.key(key), [(first, 200), (second, status)]).await;
}

fn from(address: &str) -> Builder {
    Request::get("/").extension(address.parse::<IpAddr>().unwrap())
}

#[tokio::test]
async fn each_key_has_its_own_budget() {
    let user = |name: &str| get("/").header("x-user", name);
    check(header("x-user"), user("ann"), user("ann"), true).await;
    check(header("x-user"), user("ann"), user("ben"), false).await;
    check(Key::path(), get("/a?x=1"), get("/a?x=2"), true).await;
    check(Key::path(), get("/a"), get("/b"), false).await;
    check(Key::client_ip(), from("203.0.113.7"), from("203.0.113.7"), true).await;
    check(Key::client_ip(), from("203.0.113.7"), from("203.0.113.8"), false).await;
    let by_query = || Key::from_fn(|request| request.uri.query().map(str::to_owned));
    check(by_query(), get("/a?x=1"), get("/b?x=1"), true).await;
    check(by_query(), get("/a?x=1"), get("/a?x=2"), false).await;
}

#[tokio::test]
async fn the_address_stands_in_for_what_is_missing() {
    let user = || header("x-user");
    check(user(), from("203.0.113.7"), from("203.0.113.7"), true).await;
    check(user(), from("203.0.113.7"), from("203.0.113.8"), false).await;
    let empty = |address| from(address).header("x-user", "");
    check(user(), empty("203.0.113.7"), empty("203.0.113.8"), false).await;
    check(user().and(Key::path()), from("203.0.113.7"), from("203.0.113.8"), false).await;
}

#[tokio::test]
async fn a_value_cannot_pass_for_somebody_elses_address() {
    let mallory = from("203.0.113.8").header("x-user", "203.0.113.7");
    check(header("x-user"), mallory, from("203.0.113.7"), false).await;
    let raw = Key::from_fn(|request| request.headers.get("x-user").map(|_| "\x00203.0.113.7"));
    check(raw, from("203.0.113.8").header("x-user", "?"), from("203.0.113.7"), false).await;
}

#[tokio::test]
async fn parts_cannot_collide() {
    let two = |a: &str, b: &str| get("/").header("x-a", a).header("x-b", b);
    let both = || header("x-a").and(header("x-b"));
    check(both(), two("ab", "c"), two("ab", "c"), true).await;
    check(both(), two("ab", "c"), two("a", "bc"), false).await;
    check(both(), two("a", "b,1:c"), two("a,1:b", "c"), false).await;
    check(both(), two("1", "1"), two("11", "1"), false).await;
}

#[tokio::test]
async fn an_override_names_the_key_as_it_is() {
    let key = header("x-user");
    let user = || get("/").header("x-user", "partner-7");
    check_override(key.clone(), "partner-7", user).await;
    check_override(key.and(Key::path()), "9:partner-7,1:/,", user).await;
    check_override(Key::client_ip(), "203.0.113.7", || from("::ffff:203.0.113.7")).await;
    check_override(Key::client_ip(), "2001:db8::/64", || from("2001:db8::1")).await;
}

async fn check_override(key: Key, named: &str, request: impl Fn() -> Builder) {
    let limiter = Limiter::builder("1/h").clock(ManualClock::default()).build().unwrap();
    limiter.set_override(named, "2/h").unwrap();
    let client_ip = ClientIp::new().peer(|extensions| extensions.get::<IpAddr>().copied());
    let layer = RateLimitLayer::new(limiter).client_ip(client_ip).key(key);
    let response = send(&layer, request()).await;
    assert_eq!(response.headers()["x-ratelimit-limit"], "2");
    assert_eq!(response.headers()["ratelimit-policy"], r#""default";q=2;w=3600"#);
    check_statuses(&layer, [(request(), 200), (request(), 429)]).await;
}
