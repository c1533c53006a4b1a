//! A real Envoy with the example of `deploy/envoy`, of which only the ports are changed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::processes::{DEADLINE, RedisServer, free_port, wait_for, wait_until};
use crate::rls_grpc::client;
use crate::support::{Reply, Server};

const EXAMPLE: &str = include_str!("../../../../deploy/envoy/envoy.yaml");
const EXTRAS: &str = include_str!("rls/extras.yaml");
const EXAMPLE_RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/envoy/rules");

/// An Envoy with its own ports, stopped when dropped.
struct Envoy {
    child: Child,
    port: u16,
    config: PathBuf,
}

impl Envoy {
    /// Starts Envoy with a configuration whose ports and service are replaced.
    fn start(name: &str, config: &str, service: &str) -> Self {
        let ports = [(); 3].map(|()| free_port());
        let service = service_address(service);
        let config = config
            .replace("socket_address: { address: 127.0.0.1, port_value: 8081 }", &service)
            .replace("port_value: 10000", &format!("port_value: {}", ports[0]))
            .replace("port_value: 10001", &format!("port_value: {}", ports[1]))
            .replace("port_value: 9901", &format!("port_value: {}", ports[2]));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("envoy-{name}.yaml"));
        std::fs::write(&path, config).unwrap();
        let child = Command::new(client("envoy"))
            .arg("-c")
            .arg(&path)
            .args(["--concurrency", "1", "--disable-hot-restart", "-l", "error"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let envoy = Self { child, port: ports[0], config: path };
        wait_until("Envoy is ready", DEADLINE, || {
            exchange(ports[2], "/ready", &[]).is_some_and(|reply| reply.status == 200)
        });
        envoy
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        wait_for("Envoy answers", DEADLINE, || exchange(self.port, path, headers))
    }

    fn status(&self, path: &str, key: &str) -> u16 {
        self.get(path, &[("x-api-key", key)]).status
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// An address in Envoy's configuration.
fn service_address(service: &str) -> String {
    if let Some(path) = service.strip_prefix("unix:") {
        return format!("pipe: {{ path: {path} }}");
    }
    let (address, port) = service.rsplit_once(':').unwrap();
    format!("socket_address: {{ address: {address}, port_value: {port} }}")
}

/// Sends one request; `None` without an answer.
fn exchange(port: u16, path: &str, headers: &[(&str, &str)]) -> Option<Reply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let lines = lines.concat();
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    (!reply.is_empty()).then(|| Reply::read(&reply))
}

fn serve(grpc: &str, rules: &str, more: &[&str]) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--grpc", grpc, "--envoy-config", rules];
    Server::start_with(&[&args, more].concat())
}

fn grpc_address(server: &Server) -> &str {
    server.grpc.as_deref().unwrap()
}

#[test]
fn the_example_limits_over_tcp_and_a_unix_socket() {
    let socket = format!("unix:{}/envoy.sock", env!("CARGO_TARGET_TMPDIR"));
    for (name, grpc) in [("tcp", "127.0.0.1:0"), ("unix", &socket)] {
        let server = serve(grpc, EXAMPLE_RULES, &[]);
        let envoy = Envoy::start(name, EXAMPLE, grpc_address(&server));
        // A new minute may begin: the refusal comes with the fourth request within one minute.
        let refusal = wait_for("a refusal", DEADLINE, || {
            let reply = envoy.get("/", &[("x-api-key", "ann")]);
            assert!(matches!(reply.status, 200 | 429), "{reply:?}");
            assert!(reply.header("x-ratelimit-limit").is_some(), "{reply:?}");
            (reply.status == 429).then_some(reply)
        });
        let number = |name: &str| -> u64 { refusal.header(name).unwrap().parse().unwrap() };
        assert!((1..=60).contains(&number("retry-after")), "{refusal:?}");
        assert!(refusal.header("x-ratelimit-limit").unwrap().contains("3;w=60;name=\"gold\""));
        assert_eq!(number("x-ratelimit-remaining"), 0);
        assert!((1..=60).contains(&number("x-ratelimit-reset")), "{refusal:?}");
        assert_eq!(refusal.header("x-envoy-ratelimited"), Some("true"));
        // Refused requests were not charged to the address; another key is admitted.
        assert_eq!(envoy.status("/", "ben"), 200);
        assert!(server.remaining("edge/remote_address", "127.0.0.1") >= 96);
    }
}

#[test]
fn without_tidegate_envoy_follows_its_failure_mode() {
    for (name, deny, expected) in [("open", "false", 200), ("closed", "true", 503)] {
        let mut server = serve("127.0.0.1:0", EXAMPLE_RULES, &[]);
        let config =
            EXAMPLE.replace("failure_mode_deny: false", &format!("failure_mode_deny: {deny}"));
        let envoy = Envoy::start(name, &config, grpc_address(&server));
        wait_until("a refusal", DEADLINE, || envoy.status("/", "ann") == 429);
        assert_eq!(server.stop("KILL").code(), None);
        for _ in 0..3 {
            assert_eq!(envoy.status("/", "ann"), expected, "{name}");
        }
        // Envoy recovers when tidegate is back.
        let _server = serve(grpc_address(&server), EXAMPLE_RULES, &[]);
        wait_until("Envoy is limited again", DEADLINE, || envoy.status("/", "ann") == 429);
    }
}

#[test]
fn without_redis_rules_follow_on_store_error_and_failures_are_no_refusals() {
    let redis = RedisServer::start();
    let server = serve("127.0.0.1:0", EXAMPLE_RULES, &["--store", &redis.url()]);
    let probe = r#"{"policy":"edge/remote_address","key":"probe","cost":0}"#;
    wait_until("Redis counts", DEADLINE, || {
        server.post("/v1/check", probe).body.contains(r#""store""#)
    });
    redis.kill();
    for (name, deny, closed) in [("redis-open", "false", 200), ("redis-closed", "true", 503)] {
        let config =
            EXAMPLE.replace("failure_mode_deny: false", &format!("failure_mode_deny: {deny}"));
        let envoy = Envoy::start(name, &config, grpc_address(&server));
        // A rule with `on_store_error: deny` returns an error, not a refusal: Envoy's failure mode decides.
        wait_until("the outage is noticed", DEADLINE, || envoy.status("/login", "eve") == closed);
        for _ in 0..6 {
            assert_eq!(envoy.status("/login", "eve"), closed, "{name}");
        }
        // Other rules use this node's share. A call that exceeds Envoy's timeout is an error, so both are polled.
        wait_until("an admission", DEADLINE, || envoy.status("/", name) == 200);
        wait_until("a refusal", DEADLINE, || envoy.status("/", "ann") == 429);
    }
}

#[test]
fn envoy_sends_hits_and_limits_with_a_descriptor() {
    let rules = crate::rls::Rules::new(&[("extras.yaml", include_str!("rls/extras-rules.yaml"))]);
    let server = serve("127.0.0.1:0", rules.path(), &[]);
    let envoy = Envoy::start("extras", EXTRAS, grpc_address(&server));
    let reply = envoy.get("/?user=ann", &[]);
    assert_eq!(reply.status, 200);
    assert_eq!(server.remaining("extras/user", "ann"), 15);
    let limits = reply.header("x-ratelimit-limit").unwrap();
    assert!(limits.contains("42;w=3600"), "{limits}");
    // The bytes of a response are counted after it was sent.
    wait_until("the bytes are counted", DEADLINE, || {
        server.remaining("extras/generic_key_done", "global") < 1_000_000
    });
}
