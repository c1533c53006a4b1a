//! `on_store_error: deny` while Redis is gone: every door says that this is a failure, and none that it is a refusal.

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

struct House {
    redis: RedisServer,
    server: Server,
    _folder: Folder,
}

impl House {
    /// A server that has lost its Redis.
    fn start() -> Self {
        let (redis, folder) = (RedisServer::start(), Folder::new());
        let config = folder.write("tidegate.yaml", CONFIG);
        let (url, any) = (redis.url(), "127.0.0.1:0");
        let args = ["serve", "-c", &config, "--store", &url, "--listen", any, "--resp", any];
        let house = Self { redis, server: Server::start_with(&args), _folder: folder };
        house.until_decided_by("store");
        house.redis.kill();
        house.until_decided_by("local");
        house
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

/// A failure that says so, and when to come back.
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
fn a_proxy_is_told_503_whatever_status_it_wants_for_refusals() {
    let house = House::start();
    let asked: Vec<_> =
        ["/v1/auth/login", "/v1/auth/login?deny_status=403", "/v1/auth/login?deny_status=401"]
            .map(|path| house.server.get(path))
            .into();
    asked.iter().for_each(is_failure);
    let uri = [("X-Forwarded-Uri", "/login"), ("X-Forwarded-Method", "GET")];
    let by_route = |headers: &[(&str, &str)]| house.server.send("GET", "/v1/auth", headers, b"");
    // Nobody trusts this peer, so that no route is met, and nothing limits the request.
    assert_eq!(by_route(&uri).status, 200);
    is_failure(&house.server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#));
    is_failure(&house.server.post("/v1/reserve", r#"{"policy":"queue","key":"ann"}"#));
    assert!(house.errors() >= 4.0, "{}", house.errors());
    house.redis.restart();
    wait_until("it heals", DEADLINE, || house.server.get("/v1/auth/login").status == 200);
}

#[test]
fn a_client_of_the_redis_protocol_is_told_an_error_and_no_five_numbers() {
    let house = House::start();
    for line in ["TG.CHECK login ann", "TG.CHECK login ann 0", "TG.CHECK login ann 5"] {
        let reply = house.server.resp_line(line);
        assert!(reply.starts_with("-ERR ") && reply.contains("store"), "{line}: {reply}");
        assert!(!reply.contains(&house.redis.port().to_string()), "{reply}");
    }
    // Others are answered on the same connection meanwhile, by what their policies say.
    let burst =
        house.server.resp_raw(b"TG.CHECK login ann\r\nTG.CHECK api ann\r\nPING\r\nQUIT\r\n");
    assert!(burst.starts_with("-ERR ") && burst.ends_with("+PONG\r\n+OK\r\n"), "{burst}");
    assert!(burst.contains("\r\n*5\r\n:0\r\n"), "{burst}");
    assert!(house.errors() >= 3.0, "{}", house.errors());
    house.redis.restart();
    wait_until("it heals", DEADLINE, || {
        house.server.resp_line("TG.CHECK login ann").starts_with("*5\r\n:0\r\n")
    });
}

#[test]
fn a_policy_that_is_only_tried_turns_nobody_away() {
    let House { server, .. } = &House::start();
    let told = server.post("/v1/check", r#"{"policy":"tried","key":"ann"}"#);
    assert_eq!((told.status, &told.json()["allowed"]), (200, &true.into()), "{told:?}");
    assert_eq!(told.json()["source"], "fail-closed", "{told:?}");
    assert_eq!(server.get("/v1/auth/tried").status, 200);
    let told = server.resp_line("TG.CHECK tried ann");
    assert!(told.starts_with("*5\r\n:0\r\n"), "{told}");
    let count = |status: &str| {
        let name = format!("rate_limit_requests_total{{policy=\"tried\",status=\"{status}\"}}");
        server.metric(&name).unwrap_or_default()
    };
    assert_eq!((count("shadow_denied"), count("error")), (3.0, 0.0));
}
