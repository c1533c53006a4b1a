//! HTTP/2, with third-party clients and with floods of frames.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::processes::DEADLINE;
use crate::programs::{Program, curl, free_port, on_socket, wait_for_port};
use crate::support::{Folder, Server, tidegate};

const CHECK: &str = r#"{"policy":"api","key":"ann"}"#;
const POLICIES: &str = "policies: { api: { limit: 100/min, burst: 20 } }\n";
const VERSION: [&str; 2] = ["-w", "\n%{http_version} %{http_code}"];

#[test]
fn one_port_serves_both_http_versions() {
    let server = Server::start();
    let url = format!("{}/v1/check", server.url());
    for (args, version) in [(&["--http1.1"][..], "1.1"), (&["--http2-prior-knowledge"], "2")] {
        let output = curl(&[args, &VERSION, &["-d", CHECK, &url]].concat());
        assert!(output.ends_with(&format!("\n{version} 200")), "{output}");
        assert!(output.contains(r#""allowed":true"#), "{output}");
    }
    let missing = curl(
        &[&["--http2-prior-knowledge"][..], &VERSION, &[&format!("{}/nope", server.url())]]
            .concat(),
    );
    assert!(
        missing.ends_with("\n2 404") && missing.contains("urn:tidegate:unknown-path"),
        "{missing}"
    );
}

#[test]
fn a_unix_socket_serves_both_http_versions() {
    let folder = Folder::new();
    let (_program, socket) = on_socket(&folder, POLICIES);
    for args in [&["--http1.1"][..], &["--http2-prior-knowledge"]] {
        let socket = ["--unix-socket", &*socket];
        let output = curl(&[args, &socket, &["-d", CHECK, "http://tidegate/v1/check"]].concat());
        assert!(output.contains(r#""allowed":true"#), "{output}");
    }
}

#[test]
fn many_streams_on_few_connections_are_all_answered() {
    let server = Server::start();
    let folder = Folder::new();
    let body = folder.write("body.json", r#"{"policy":"monthly","key":"ann"}"#);
    let ran = Command::new("h2load")
        .args(["-n", "5000", "-c", "4", "-m", "64", "-d", &body])
        .arg(format!("{}/v1/check", server.url()))
        .output()
        .expect("cannot start h2load; `./dev clients` installs what the tests need");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(output.contains("5000 succeeded, 0 failed, 0 errored"), "{output}");
    assert_eq!(server.remaining("monthly", "ann"), 95_000);
}

/// An HTTP/2 frame: length, kind, flags, stream.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Sends the HTTP/2 preface and `sent`, and reads until the server closes the connection.
pub(crate) fn ended_by_server(mut stream: TcpStream, sent: &[u8]) -> Vec<u8> {
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..]].concat();
    stream.write_all(&hello).unwrap();
    // The server may close the connection before everything is sent.
    let _ = stream.write_all(sent);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// `:method: GET`, `:scheme: http`, `:path: /`, `:authority: localhost` in HPACK.
const GET_HEAD: [u8; 14] = *b"\x82\x86\x84\x41\x09localhost";

#[test]
fn rapid_resets_end_the_connection() {
    let server = Server::start();
    let one = |stream: u32| {
        let head = frame(1, 0x5, stream, &GET_HEAD);
        [head, frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let flood: Vec<u8> = (0..20_000).flat_map(|number| one(2 * number + 1)).collect();
    ended_by_server(server.connect(), &flood);
    assert_eq!(server.get("/healthz").status, 200, "others are served");
}

#[test]
fn an_endless_head_ends_the_connection() {
    let server = Server::start();
    // A literal header of 8 KiB, repeated in continuation frames.
    let long = [&[0x00, 0x01, b'a', 0x7f, 0x81, 0x3f][..], &[b'x'; 8192]].concat();
    let mut flood = frame(1, 0x0, 1, &GET_HEAD);
    for _ in 0..2000 {
        flood.extend(frame(9, 0x0, 1, &long));
    }
    ended_by_server(server.connect(), &flood);
    assert_eq!(server.get("/healthz").status, 200, "others are served");
}

#[test]
fn the_proxy_protocol_names_the_client() {
    let folder = Folder::new();
    let port = free_port();
    let config = format!(
        "{POLICIES}client_ip: {{ trusted_proxies: [127.0.0.1] }}\n\
         listen: {{ http: {{ address: 127.0.0.1:{port}, proxy_protocol: true }} }}\n"
    );
    let path = folder.write("tidegate.yaml", &config);
    let _program = Program::start(&mut tidegate(&["serve", "-c", &path]), &folder);
    wait_for_port(port);
    let reset = format!("http://127.0.0.1:{port}/v1/reset");
    let status = ["-o", "/dev/null", "-w", "%{http_code}", "--haproxy-protocol", "-d", CHECK];
    assert_eq!(curl(&[&status[..], &[&reset]].concat()), "200", "from this machine");
    let send = |header: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!(
            "{header}POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{CHECK}",
            CHECK.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.get(..12).unwrap_or_default().to_owned()
    };
    assert_eq!(send("PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n"), "HTTP/1.1 403", "from elsewhere");
    assert_eq!(send("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n"), "HTTP/1.1 200", "from this machine");
    assert_eq!(send("PROXY UNKNOWN\r\n"), "HTTP/1.1 403", "from nobody");
    assert_eq!(send("PROXY UNKNOWN 127.0.0.1 127.0.0.1 1 2\r\n"), "HTTP/1.1 403", "from nobody");
    let local = "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    assert_eq!(send(local), "HTTP/1.1 403", "from nobody");
    assert_eq!(send(""), "", "a connection without the header is closed");
}

#[test]
fn an_untrusted_proxy_protocol_peer_is_logged_once() {
    let folder = Folder::new();
    let config = format!(
        "{POLICIES}client_ip: {{ trusted_proxies: [10.0.0.0/8] }}\n\
         listen: {{ http: {{ address: 127.0.0.1:0, proxy_protocol: true }} }}\n"
    );
    let (path, log) = (folder.write("tidegate.yaml", &config), folder.path("log"));
    let mut server = Server::start_logged(&["serve", "-c", &path], &log);
    for _ in 0..3 {
        let closed = server.connect().read(&mut [0]);
        assert!(!matches!(closed, Ok(1)), "{closed:?}");
    }
    assert_eq!(server.stop("TERM").code(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    let lines = log.matches("only peers in client_ip.trusted_proxies may connect").count();
    assert_eq!(lines, 1, "{log}");
}
