//! Upgraded connections, such as a WebSocket.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::processes::wait_until;
use crate::programs::{curl, root};
use crate::proxy_support::{Proxy, by_hand, read_answer, read_head};
use crate::support::Folder;
use crate::support::{DEADLINE, Reply};

/// A WebSocket echo server that prints its port.
struct Echo {
    child: std::process::Child,
    port: u16,
}

impl Echo {
    fn start() -> Self {
        let script = root().join("crates/cli/tests/clients/ws_echo.py");
        let mut child = Command::new("python3").arg(script).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_websocket_is_tunnelled_in_both_directions() {
    let (folder, echo) = (Folder::new(), Echo::start());
    let more =
        "policies: { one: { algorithm: sliding-log, limit: 1/h } }\nroutes: [{ policy: one }]";
    let upstream = format!("http://127.0.0.1:{}", echo.port);
    let proxy = Proxy::start(&folder, &upstream, "", more);
    let script = root().join("crates/cli/tests/clients/ws_client.mjs");
    let url = proxy.url("/chat").replace("http://", "ws://");
    let speak = || {
        Command::new("node")
            .args(["--no-warnings", "--experimental-websocket"])
            .args([script.to_str().unwrap(), &url])
            .output()
            .expect("cannot start node; the tests need it")
    };
    let ran = speak();
    let output = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(output.trim(), "open chat; hello; 200000 bytes; closed 1000", "{failed}");
    let again = speak();
    assert!(!again.status.success(), "a handshake is a request, and has a limit");
}

/// An upstream that upgrades the connection, sends a first message with the response head, and then echoes all bytes.
fn parrot() -> std::net::SocketAddr {
    parrot_of("websocket")
}

/// The same, which says that it has switched to `protocol`.
fn parrot_of(protocol: &'static str) -> std::net::SocketAddr {
    by_hand(move |mut stream| {
        let head = read_head(&mut stream).to_lowercase();
        if !head.contains("upgrade: websocket\r\n") || !head.contains("connection: upgrade\r\n") {
            let answer = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{head}",
                head.len()
            );
            let _ = stream.write_all(answer.as_bytes());
            return;
        }
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\nX-Own: o\r\n\r\nfirst"
        );
        stream.write_all(answer.as_bytes()).unwrap();
        let mut bytes = [0; 1024];
        while let Ok(count) = stream.read(&mut bytes) {
            if count == 0 || stream.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    })
}

const ASK: &[u8] =
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn a_tunnel_carries_any_bytes_until_either_side_closes() {
    let folder = Folder::new();
    let proxy = Proxy::start(&folder, &format!("http://{}", parrot()), "", "");
    let mut stream = proxy.server.connect();
    stream.write_all(ASK).unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols"), "{head}");
    assert!(head.contains("upgrade: websocket") && head.contains("x-own: o"), "{head}");
    let mut received = [0; 5];
    stream.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"first");
    for word in [&b"\0\xff\r\n\r\n"[..], b"GET /smuggled HTTP/1.1\r\n\r\n"] {
        stream.write_all(word).unwrap();
        let mut received = vec![0; word.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received, word);
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    let open = r#"tidegate_connections{door="proxy"}"#;
    wait_until("the connection is closed", DEADLINE, || proxy.metric(open) == Some(0.0));
}

#[test]
fn forbidden_upgrades_are_not_forwarded() {
    let folder = Folder::new();
    let proxy = Proxy::start(&folder, &format!("http://{}", parrot()), "", "");
    for head in [
        // Requests in the tunnel would not be checked.
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: parrot\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        // A WebSocket begins with GET.
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
        // `Upgrade` without `Connection: upgrade`.
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n",
        // HTTP/1.0 has no upgrades.
        "GET / HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    ] {
        let reply = Reply::read(&proxy.raw(format!("{head}Connection: close\r\n\r\n").as_bytes()));
        assert_eq!(reply.status, 200, "{head}");
        assert!(
            !reply.body.contains("upgrade:") && !reply.body.contains("http2-"),
            "{}",
            reply.body
        );
    }
    let odd =
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: h2c, \xff\r\n\r\n";
    let reply = Reply::read(&proxy.raw(odd));
    assert!(reply.status == 200 && !reply.body.contains("upgrade"), "{reply:?}");
    let pushy = by_hand(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
    });
    let proxy = Proxy::start(&folder, &format!("http://{pushy}"), "", "");
    assert_eq!(proxy.server.get("/").status, 502, "the client requested no upgrade");
}

#[test]
fn an_upstream_that_switches_to_another_protocol_is_bad_gateway() {
    let folder = Folder::new();
    for protocol in ["h2c", "websocket, h2c", "websocket\r\nUpgrade: h2c", "parrot", ""] {
        let proxy = Proxy::start(&folder, &format!("http://{}", parrot_of(protocol)), "", "");
        let mut stream = proxy.server.connect();
        stream.write_all(ASK).unwrap();
        let reply = read_answer(&mut stream);
        assert_eq!(reply.status, 502, "{protocol}: {reply:?}");
        assert!(!reply.body.contains("first"), "{protocol}");
    }
}

#[test]
fn an_open_tunnel_does_not_delay_the_shutdown() {
    let folder = Folder::new();
    let mut proxy = Proxy::start(&folder, &format!("http://{}", parrot()), "", "");
    let mut stream = proxy.server.connect();
    stream.write_all(ASK).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
    assert_eq!(proxy.server.stop("TERM").code(), Some(0));
}

/// The lease is nine seconds, so that it is renewed after three.
#[test]
fn a_long_response_keeps_its_place() {
    let folder = Folder::new();
    let more = "policies: { live: { algorithm: concurrency, limit: 1, ttl: 9s } }\n\
        routes: [{ policy: live, key: global }]";
    let proxy = Proxy::start(&folder, &format!("http://{}", parrot()), "", more);
    let mut stream = proxy.server.connect();
    stream.write_all(ASK).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101 "));
    let ends_after = || {
        let body = r#"{"policy":"live","key":"global","cost":0}"#;
        let answer = curl(&["-d", body, &format!("http://{}/v1/peek", proxy.api)]);
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["remaining"], 0, "it is held");
        answer["reset_after_ms"].as_u64().unwrap()
    };
    let mut before = ends_after();
    wait_until("the lease is renewed", DEADLINE, || {
        let now = ends_after();
        now > std::mem::replace(&mut before, now)
    });
    assert_eq!(proxy.server.get("/").status, 429);
    drop(stream);
    wait_until("its place is free", DEADLINE, || proxy.server.get("/").status == 200);
}
