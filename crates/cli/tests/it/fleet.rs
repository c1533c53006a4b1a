//! Three servers on one Redis behind a load balancer: one limit, whichever door and whichever server a request takes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::programs::{Program, curl, free_port, wait_for_port};
use crate::support::{Folder, Reply, Server};

/// With a long deadline, because the machine may be busy: a decision without Redis would use a local limit.
const CONFIG: &str = r#"
store: { url: "REDIS", deadline: 10s, breaker: false }
policies:
  api: { algorithm: fixed-window, limit: 60/day, on_store_error: deny, deny_cache: false }
"#;

/// Far more requests than the limit, over every door at once.
const ASKS_PER_DOOR: u64 = 60;

/// A round-robin balancer for connections.
fn balancer(folder: &Folder, doors: &[(u16, [String; 3])]) -> Program {
    let timeouts = "  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n";
    let door = |(port, servers): &(u16, [String; 3])| {
        let head = format!("listen door{port}\n  bind 127.0.0.1:{port}\n  balance roundrobin\n");
        let line = |(number, server)| format!("  server s{number} {server}\n");
        [head].into_iter().chain(servers.iter().enumerate().map(line)).collect::<Vec<_>>().concat()
    };
    let doors: Vec<_> = doors.iter().map(door).collect();
    let text = format!("defaults\n  mode tcp\n{timeouts}{}", doors.concat());
    let config = folder.write("haproxy.cfg", &text);
    let mut command = Command::new("/usr/sbin/haproxy");
    command.args(["-db", "-f", &config]);
    Program::start(&mut command, folder)
}

fn over_http(port: u16) -> bool {
    let body = r#"{"policy":"api","key":"user-42"}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let reply = Reply::read(&reply);
    assert_eq!(reply.json()["source"], "store", "{}", reply.body);
    reply.json()["allowed"].as_bool().unwrap()
}

fn over_resp(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"TG.CHECK api user-42\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let mut lines = reply.lines();
    assert_eq!(lines.next(), Some("*5"), "{reply}");
    lines.next() == Some(":0")
}

/// `RateLimitRequest { domain: "tidegate", descriptors: [{ policy: api, user: user-42 }] }`, framed for gRPC.
pub(crate) fn question() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
    };
    let entry = |key: &str, value: &str| {
        field(1, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let descriptor = field(2, &[entry("policy", "api"), entry("user", "user-42")].concat());
    let message = [field(1, b"tidegate"), descriptor].concat();
    [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()][..], &message].concat()
}

fn over_grpc(port: u16, folder: &Folder) -> bool {
    let method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let (question, answer) = (folder.path("question"), folder.path(&answer_name()));
    let data = format!("@{question}");
    curl(&[
        "--http2-prior-knowledge",
        "-H",
        "content-type: application/grpc",
        "-H",
        "te: trailers",
        "--data-binary",
        &data,
        "-o",
        &answer,
        &format!("http://127.0.0.1:{port}/{method}"),
    ]);
    // After the five bytes of the frame, the first field is the overall code: 1 is OK, 2 is OVER_LIMIT.
    let answer = std::fs::read(answer).unwrap();
    assert_eq!(answer.get(5), Some(&0x08), "{answer:?}");
    answer[6] == 1
}

fn answer_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("answer-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Sends requests in step with the other doors: otherwise a slow client would find nothing left of the limit.
fn admitted(round: &Barrier, ask: impl Fn() -> bool) -> usize {
    let ask = |_: &u64| {
        round.wait();
        ask()
    };
    (0..ASKS_PER_DOOR).filter(ask).count()
}

#[test]
fn three_servers_behind_a_balancer_admit_exactly_the_limit_over_all_doors() {
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let config = folder.write("tidegate.yaml", CONFIG.replace("REDIS", &redis.url()));
    let args = ["serve", "-c", &config];
    let any = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let servers = [(); 3].map(|()| Server::start_with(&[&args[..], &any].concat()));
    for server in &servers {
        let asked = || server.post("/v1/peek", r#"{"policy":"api","key":"user-42"}"#);
        wait_until("a server counts in Redis", DEADLINE, || asked().body.contains("\"store\""));
    }
    let [http, resp, grpc] = [free_port(), free_port(), free_port()];
    let each = |address: fn(&Server) -> String| servers.each_ref().map(address);
    let _balancer = balancer(
        &folder,
        &[
            (http, each(|server| server.addr.to_string())),
            (resp, each(|server| server.resp.unwrap().to_string())),
            (grpc, each(|server| server.grpc.clone().unwrap())),
        ],
    );
    [http, resp, grpc].into_iter().for_each(wait_for_port);
    folder.write("question", question());
    let round = Barrier::new(3);
    let admitted = std::thread::scope(|scope| {
        let (folder, round) = (&folder, &round);
        let http = scope.spawn(move || admitted(round, || over_http(http)));
        let resp = scope.spawn(move || admitted(round, || over_resp(resp)));
        let grpc = scope.spawn(move || admitted(round, || over_grpc(grpc, folder)));
        [http, resp, grpc].map(|door| door.join().unwrap())
    });
    assert_eq!(admitted.iter().sum::<usize>(), 60, "{admitted:?}");
    assert!(admitted.iter().all(|count| *count > 0), "{admitted:?}");
    // The balancer has used all servers.
    for server in &servers {
        let decided = "rate_limit_requests_total{policy=\"api\",status=\"allowed\"}";
        assert!(server.metric(decided).unwrap_or_default() > 0.0, "a server was never asked");
    }
}
