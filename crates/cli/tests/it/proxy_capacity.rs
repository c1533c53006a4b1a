//! The capacity of upstreams: the cap on requests in flight, priorities, and refunds of refused requests.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::programs::{curl, free_port};
use crate::proxy_support::{Origin, Proxy};
use crate::support::Folder;

const BROWSER: [(&str, &str); 1] = [("accept", "text/html")];

/// An app that answers one request per permit.
pub(crate) fn blocked_app() -> (Origin, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let opened = opened.clone();
        async move {
            opened.acquire().await.unwrap().forget();
            Response::new(Body::from("done"))
        }
    });
    (origin, gate)
}

fn remaining(proxy: &Proxy, policy: &str) -> u64 {
    let body = format!(r#"{{"policy":"{policy}","key":"global","cost":0}}"#);
    let answer = curl(&["-d", &body, &format!("http://{}/v1/peek", proxy.api)]);
    serde_json::from_str::<Value>(&answer).unwrap()["remaining"].as_u64().unwrap()
}

fn shed(proxy: &Proxy) -> Option<f64> {
    proxy.metric(r#"tidegate_proxy_shed_total{reason="in_flight"}"#)
}

/// A policy that follows the latency of the upstream, with options for its pool, and one that does not.
fn site(more: &str) -> String {
    format!(
        "policies:\n  site: {{ algorithm: fixed-window, limit: 100/day, adaptive: {{ source: latency, {more} }} }}\n  \
         vip: {{ algorithm: fixed-window, limit: 100/day PRIORITY }}\n\
         routes:\n  - {{ match: {{ path: /vip }}, policy: vip, key: global }}\n  - {{ policy: site, key: global }}\n"
    )
}

#[test]
fn without_capacity_a_request_is_refused_and_not_charged() {
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let more = site("in_flight: 2").replace("PRIORITY", "");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..4).map(|_| scope.spawn(|| proxy.server.get("/").status)).collect();
        wait_until("all four are in flight", DEADLINE, || origin.requests() == 4);
        for path in ["/", "/vip"] {
            let refused = proxy.server.send("GET", path, &BROWSER, b"");
            assert_eq!(refused.status, 429);
            assert!(["1", "2"].contains(&refused.header("retry-after").unwrap()));
            assert!(refused.header("cache-control").is_some_and(|it| it.starts_with("no-store")));
            assert!(refused.body.contains("<title>Busy Right Now</title>"), "{}", refused.body);
        }
        assert_eq!((remaining(&proxy, "site"), remaining(&proxy, "vip")), (96, 100));
        assert_eq!((shed(&proxy), origin.requests()), (Some(2.0), 4));
        gate.add_permits(5);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
    assert_eq!(proxy.server.get("/").status, 200, "the capacity is free again");
    assert_eq!(remaining(&proxy, "site"), 95);
}

/// Like the next one, with the priority of the plan instead of the policy's.
#[test]
fn a_plan_that_a_trusted_proxy_names_has_its_own_priority() {
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let more = "policies:\n  site: { algorithm: fixed-window, limit: 100/day, adaptive: { source: latency, in_flight: 5 } }\n\
                routes:\n  - policy: site\n    key: global\n    \
                priority: { by: \"header:x-plan\", pro: critical, else: default }\n\
                client_ip: { trusted_proxies: [127.0.0.1] }\n";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    std::thread::scope(|scope| {
        let server = &proxy.server;
        let pro = || server.send("GET", "/", &[("x-plan", "pro")], b"").status;
        let held: Vec<_> = (0..8).map(|_| scope.spawn(|| server.get("/").status)).collect();
        wait_until("eight are in flight", DEADLINE, || origin.requests() == 8);
        assert_eq!(server.get("/").status, 429, "the rest is for critical requests");
        let critical: Vec<_> = (0..2).map(|_| scope.spawn(pro)).collect();
        wait_until("ten are in flight", DEADLINE, || origin.requests() == 10);
        assert_eq!(pro(), 429, "nothing is left");
        gate.add_permits(10);
        assert!(held.into_iter().chain(critical).all(|held| held.join().unwrap() == 200));
    });
}

#[test]
fn a_fifth_of_the_capacity_is_reserved_for_critical_requests() {
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let more = site("in_flight: 5").replace("PRIORITY", ", priority: critical");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    std::thread::scope(|scope| {
        let server = &proxy.server;
        let ask = |path| scope.spawn(move || server.get(path).status);
        let mut held: Vec<_> = (0..8).map(|_| ask("/")).collect();
        wait_until("eight of ten are in flight", DEADLINE, || origin.requests() == 8);
        assert_eq!(proxy.server.get("/").status, 429);
        held.extend((0..2).map(|_| ask("/vip")));
        wait_until("all ten are in flight", DEADLINE, || origin.requests() == 10);
        assert_eq!(proxy.server.get("/vip").status, 429);
        gate.add_permits(10);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
}

#[test]
fn a_gradient_cap_starts_at_twice_the_estimate() {
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let more = site("in_flight: { gradient: 2 }").replace("PRIORITY", "");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..4).map(|_| scope.spawn(|| proxy.server.get("/").status)).collect();
        wait_until("all four are in flight", DEADLINE, || origin.requests() == 4);
        assert_eq!(proxy.server.get("/").status, 429);
        gate.add_permits(4);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
}

#[test]
fn a_cap_in_shadow_mode_refuses_nothing() {
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let more = site("in_flight: 1, mode: shadow").replace("PRIORITY", "");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..6).map(|_| scope.spawn(|| proxy.server.get("/").status)).collect();
        wait_until("all are forwarded", DEADLINE, || origin.requests() == 6);
        gate.add_permits(6);
        assert!(held.into_iter().all(|held| held.join().unwrap() == 200));
    });
    assert_eq!(shed(&proxy), Some(0.0));
}

#[test]
fn a_request_that_loses_its_capacity_during_the_check_is_refunded() {
    let (folder, redis, (origin, gate)) = (Folder::new(), RedisServer::start(), blocked_app());
    let store = format!("store: {{ url: \"{}\", deadline: 10s, breaker: false }}\n", redis.url());
    let more = store + &site("in_flight: 1").replace("PRIORITY", "");
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    wait_until("the proxy counts in Redis", DEADLINE, || remaining(&proxy, "site") == 100);
    std::thread::scope(|scope| {
        let ask = || scope.spawn(|| proxy.server.get("/").status);
        let first = ask();
        wait_until("one of two is in flight", DEADLINE, || origin.requests() == 1);
        redis.pause();
        let both = [ask(), ask()];
        let connections = || proxy.metric(r#"tidegate_connections{door="proxy"}"#);
        wait_until("two more are connected", DEADLINE, || connections() == Some(3.0));
        redis.resume();
        wait_until("one is refused", DEADLINE, || shed(&proxy) == Some(1.0));
        gate.add_permits(2);
        let mut statuses = both.map(|asked| asked.join().unwrap());
        statuses.sort_unstable();
        assert_eq!((first.join().unwrap(), statuses), (200, [200, 429]));
    });
    assert_eq!(remaining(&proxy, "site"), 98);
}

#[test]
fn a_failed_connect_releases_its_capacity() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let gone = format!("http://127.0.0.1:{}", free_port());
    let more = site("in_flight: 1").replace("PRIORITY", "");
    let upstreams = format!("[{gone}, {}]", origin.url());
    let proxy = Proxy::start(&folder, &upstreams, ", balance: round-robin", &more);
    for number in 0..10 {
        assert_eq!(proxy.server.get("/").status, 200, "{number}");
    }
    assert_eq!((origin.requests(), shed(&proxy)), (10, Some(0.0)));
    let under_way =
        |name: &str| proxy.metric(&format!(r#"tidegate_upstream_under_way{{upstream="{name}"}}"#));
    wait_until("nothing is in flight", DEADLINE, || {
        [under_way(&gone), under_way(&origin.url())] == [Some(0.0); 2]
    });
    assert_eq!(remaining(&proxy, "site"), 90, "each was charged once");
}

#[test]
fn the_reservation_of_a_disconnected_client_is_cancelled() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let more = "policies: { slow: { algorithm: leaky-bucket, limit: 2/h, max_wait: 1h } }\n\
        routes: [{ policy: slow, key: global }]";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    assert_eq!(proxy.server.get("/").status, 200, "at once");
    let waiting = || {
        let answer =
            curl(&["-d", r#"{"policy":"slow","key":"global","cost":0}"#, &reserve(&proxy)]);
        serde_json::from_str::<Value>(&answer).unwrap()["delay_ms"].as_u64().unwrap()
    };
    let half_an_hour_ms = 1_800_000;
    assert!(waiting() <= half_an_hour_ms);
    let mut client = proxy.server.connect();
    std::io::Write::write_all(&mut client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("the client waits", DEADLINE, || waiting() > half_an_hour_ms);
    drop(client);
    wait_until("its reservation is cancelled", DEADLINE, || waiting() <= half_an_hour_ms);
}

fn reserve(proxy: &Proxy) -> String {
    format!("http://{}/v1/reserve", proxy.api)
}
