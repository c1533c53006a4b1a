//! `GET /metrics`: the counts match the requests.

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::Server;

fn check(server: &Server, policy: &str, key: &str) {
    server.post("/v1/check", &format!(r#"{{"policy":"{policy}","key":"{key}"}}"#));
}

#[test]
fn checks_are_counted_by_policy_and_outcome() {
    let server = Server::start();
    (0..7).for_each(|_| check(&server, "login", "ann"));
    let requests = |status: &str| {
        let series = format!("rate_limit_requests_total{{policy=\"login\",status=\"{status}\"}}");
        server.metric(&series)
    };
    let statuses = ["allowed", "denied", "shadow_denied", "error"];
    assert_eq!(statuses.map(requests), [5.0, 2.0, 0.0, 0.0].map(Some));
    for (series, expected) in [
        ("tidegate_decisions_total{policy=\"login\",source=\"store\"}", 7.0),
        ("tidegate_check_duration_seconds_count{door=\"http\"}", 7.0),
        ("tidegate_check_duration_seconds_bucket{door=\"http\",le=\"+Inf\"}", 7.0),
        ("tidegate_keys", 1.0),
        ("tidegate_breaker_state", 0.0),
        ("tidegate_noscript_total", 0.0),
        ("tidegate_unreplicated_total", 0.0),
        ("redis_lua_duration_seconds_count", 0.0),
        ("tidegate_leases_keys", 0.0),
        ("tidegate_config_reload_total{result=\"ok\"}", 0.0),
        ("tidegate_config_refused", 0.0),
        ("tidegate_store_errors_total{kind=\"timeout\"}", 0.0),
        (concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
        // The connection of this request.
        ("tidegate_connections{door=\"http\"}", 1.0),
    ] {
        assert_eq!(server.metric(series), Some(expected), "{series}");
    }
    assert!(server.metric("process_resident_memory_bytes").unwrap() > 1e6);
    let kind = server.get("/metrics");
    assert_eq!(kind.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

#[test]
fn only_takes_are_counted_and_each_check_of_a_batch_is() {
    let server = Server::start();
    let one = r#"{"policy":"api","key":"ann"}"#;
    for path in ["/v1/peek", "/v1/refund", "/v1/reset"] {
        assert_eq!(server.post(path, one).status, 200, "{path}");
    }
    let allowed = |policy: &str| {
        let series = format!("rate_limit_requests_total{{policy=\"{policy}\",status=\"allowed\"}}");
        server.metric(&series)
    };
    assert_eq!(allowed("api"), Some(0.0));
    server.post("/v1/check/batch", &format!(r#"{{"checks":[{one},{one},{one}]}}"#));
    assert_eq!(allowed("api"), Some(3.0));
    server.post("/v1/reserve", r#"{"policy":"export","key":"ann"}"#);
    assert_eq!(allowed("export"), Some(1.0));
}

#[test]
fn neither_keys_nor_unknown_policies_become_labels() {
    let server = Server::start();
    for number in 0..50 {
        check(&server, "api", &format!("canary-{number}"));
        check(&server, &format!("canary-{number}"), "ann");
    }
    let page = server.get("/metrics").body;
    assert!(!page.contains("canary"), "{page}");
    let unknown = "rate_limit_requests_total{policy=\"(unknown)\",status=\"error\"}";
    assert_eq!(server.metric(unknown), Some(50.0));
}

#[test]
fn store_errors_are_counted_by_kind() {
    let redis = RedisServer::start();
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()]);
    let by = |source: &str| {
        let series = format!("tidegate_decisions_total{{policy=\"api\",source=\"{source}\"}}");
        server.metric(&series).unwrap()
    };
    wait_until("Redis decides", DEADLINE, || {
        check(&server, "api", "ann");
        by("store") >= 5.0
    });
    assert!(server.metric("redis_lua_duration_seconds_count").unwrap() >= 5.0);
    assert!(server.metric("redis_lua_duration_seconds_sum").unwrap() > 0.0);
    assert_eq!(server.metric("tidegate_keys"), None, "a Redis store has no such count");
    redis.kill();
    wait_until("the breaker is open", DEADLINE, || {
        check(&server, "api", "ann");
        server.metric("tidegate_store_errors_total{kind=\"breaker-open\"}") > Some(0.0)
    });
    assert!(by("local") > 0.0);
    assert!(server.metric("tidegate_breaker_state") > Some(0.0));
    redis.restart();
    redis.cli(&["SCRIPT", "FLUSH"]);
    let before = by("store");
    wait_until("Redis decides again", DEADLINE, || {
        check(&server, "api", "ann");
        by("store") > before
    });
    assert_eq!(server.metric("tidegate_breaker_state"), Some(0.0));
}
