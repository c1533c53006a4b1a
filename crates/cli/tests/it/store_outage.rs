//! `on_store_error: deny` during a Redis outage: every door reports a failure, not a refusal.

use serde_json::Value;
use tidegate::{Clock, SystemClock};
use tidegate_core::text::rfc3339;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::support::{Folder, Reply, Server};

const CONFIG: &str = r#"
policies:
  login: { limit: 5/h, on_store_error: deny }
  queue: { algorithm: leaky-bucket, limit: 1/s, max_wait: 1s, on_store_error: deny }
  tried: { limit: 5/h, on_store_error: deny, mode: shadow }
  api: { limit: 5/h }
routes:
  - { match: { path: "/login" }, policy: login }
"#;

struct Outage {
    redis: RedisServer,
    server: Server,
    _folder: Folder,
}

impl Outage {
    /// Starts a server and stops its Redis.
    fn start() -> Self {
        let (redis, folder) = (RedisServer::start(), Folder::new());
        let config = folder.write("tidegate.yaml", CONFIG);
        let (url, any) = (redis.url(), "127.0.0.1:0");
        let args = ["serve", "-c", &config, "--store", &url, "--listen", any, "--resp", any];
        let outage = Self { redis, server: Server::start_with(&args), _folder: folder };
        outage.until_decided_by("store");
        outage.redis.kill();
        outage.until_decided_by("local");
        outage
    }

    fn until_decided_by(&self, source: &str) {
        let asked = || self.server.post("/v1/peek", r#"{"policy":"api","key":"probe"}"#);
        wait_until(source, DEADLINE, || asked().json()["source"] == source);
    }

    fn errors(&self) -> f64 {
        let failed = "rate_limit_requests_total{policy=\"login\",status=\"error\"}";
        self.server.metric(failed).unwrap_or_default()
    }
}

/// The reply is a failure with a retry time, and not a refusal.
fn is_failure(reply: &Reply) {
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.json()["type"], "urn:tidegate:store-unavailable", "{reply:?}");
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((60..=72).contains(&seconds), "{seconds}");
    assert_eq!(reply.header("x-tidegate-status"), None, "{reply:?}");
    assert_eq!(reply.header("ratelimit"), None, "{reply:?}");
}

#[test]
fn forward_auth_answers_503_for_any_requested_refusal_status() {
    let outage = Outage::start();
    let asked: Vec<_> =
        ["/v1/auth/login", "/v1/auth/login?deny_status=403", "/v1/auth/login?deny_status=401"]
            .map(|path| outage.server.get(path))
            .into();
    asked.iter().for_each(is_failure);
    let uri = [("X-Forwarded-Uri", "/login"), ("X-Forwarded-Method", "GET")];
    let by_route = |headers: &[(&str, &str)]| outage.server.send("GET", "/v1/auth", headers, b"");
    // The peer is not trusted, so no route matches and nothing limits the request.
    assert_eq!(by_route(&uri).status, 200);
    is_failure(&outage.server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#));
    is_failure(&outage.server.post("/v1/reserve", r#"{"policy":"queue","key":"ann"}"#));
    assert!(outage.errors() >= 4.0, "{}", outage.errors());
    outage.redis.restart();
    wait_until("the server recovers", DEADLINE, || {
        outage.server.get("/v1/auth/login").status == 200
    });
}

#[test]
fn the_redis_protocol_answers_with_an_error_and_no_integers() {
    let outage = Outage::start();
    for line in ["TG.CHECK login ann", "TG.CHECK login ann 0", "TG.CHECK login ann 5"] {
        let reply = outage.server.resp_line(line);
        assert!(reply.starts_with("-ERR ") && reply.contains("store"), "{line}: {reply}");
        assert!(!reply.contains(&outage.redis.port().to_string()), "{reply}");
    }
    // Other commands on the same connection are answered by their policies.
    let burst =
        outage.server.resp_raw(b"TG.CHECK login ann\r\nTG.CHECK api ann\r\nPING\r\nQUIT\r\n");
    assert!(burst.starts_with("-ERR ") && burst.ends_with("+PONG\r\n+OK\r\n"), "{burst}");
    assert!(burst.contains("\r\n*5\r\n:0\r\n"), "{burst}");
    assert!(outage.errors() >= 3.0, "{}", outage.errors());
    outage.redis.restart();
    wait_until("the server recovers", DEADLINE, || {
        outage.server.resp_line("TG.CHECK login ann").starts_with("*5\r\n:0\r\n")
    });
}

#[test]
fn the_cause_is_shown_for_as_long_as_the_outage_lasts() {
    const METRIC: &str = "tidegate_store_outage{store=\"store\",kind=\"unreachable\"}";
    let outage = Outage::start();
    let server = &outage.server;
    assert!(server.metric(METRIC).is_some());
    let status = || server.get("/v1/status").json()["outages"][0].clone();
    // Long after the first failures, when checks only learn that the breaker is open.
    let open = "tidegate_store_errors_total{kind=\"breaker-open\"}";
    wait_until("the breaker has answered for a while", DEADLINE, || {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#);
        server.metric(open).unwrap_or_default() > 20.0 && !status().is_null()
    });
    let now = status();
    let address = outage.redis.address();
    let error = now["error"].as_str().unwrap();
    assert!(error.starts_with(&format!("unreachable: {address}: Connection refused")), "{error}");
    assert_eq!(now["kind"], "unreachable");
    assert_eq!(now["store"], "store");
    assert!(now["duration_ms"].as_u64().unwrap() > 0, "{now}");
    let names = |how: &str| now["policies"][how]["names"].to_string();
    assert_eq!(names("deny"), r#"["login","queue"]"#);
    assert_eq!((names("allow"), names("local")), (r#"["tried"]"#.into(), r#"["api"]"#.into()));
    assert_eq!(server.metric(METRIC), Some(1.0));
    assert!(server.metric("tidegate_redis_connects_total{result=\"error\"}").unwrap() > 1.0);
    outage.redis.restart();
    wait_until("the outage ends", DEADLINE, || status().is_null());
    assert_eq!(server.metric(METRIC), Some(0.0));
}

#[test]
fn an_outage_begins_when_its_first_check_fails() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let server = Server::with_config(&folder, &format!("store: \"{}\"\n{CONFIG}", redis.url()));
    let source = || {
        let reply = server.post("/v1/check", r#"{"policy":"api","key":"probe","cost":0}"#);
        reply.json()["source"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("the server counts in Redis", DEADLINE, || source() == "store");
    let before = rfc3339(SystemClock.now());
    redis.kill();
    wait_until("a check fails", DEADLINE, || source() == "local");
    let failed = rfc3339(SystemClock.now());
    let outage = || server.get("/v1/status").json()["outages"][0].clone();
    wait_until("the outage is shown", DEADLINE, || !outage().is_null());
    let since = outage()["since"].as_str().unwrap().to_owned();
    // As text they are in the order of time. A healthy store may have failed a check on a slow machine before.
    assert!(since <= failed, "{since} {failed}");
    assert!(since[..10] <= before[..10], "{since} {before}");
    let lasting = |outage: Value| outage["duration_ms"].as_u64().unwrap();
    let first = lasting(outage());
    wait_until("it lasts", DEADLINE, || lasting(outage()) > first);
}

#[test]
fn a_policy_in_shadow_mode_refuses_nothing() {
    let Outage { server, .. } = &Outage::start();
    let reply = server.post("/v1/check", r#"{"policy":"tried","key":"ann"}"#);
    assert_eq!((reply.status, &reply.json()["allowed"]), (200, &true.into()), "{reply:?}");
    assert_eq!(reply.json()["source"], "fail-closed", "{reply:?}");
    assert_eq!(server.get("/v1/auth/tried").status, 200);
    let reply = server.resp_line("TG.CHECK tried ann");
    assert!(reply.starts_with("*5\r\n:0\r\n"), "{reply}");
    let count = |status: &str| {
        let name = format!("rate_limit_requests_total{{policy=\"tried\",status=\"{status}\"}}");
        server.metric(&name).unwrap_or_default()
    };
    assert_eq!((count("shadow_denied"), count("error")), (3.0, 0.0));
}
