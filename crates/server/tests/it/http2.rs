//! HTTP/2 and TLS, with other people's clients.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::processes::{DEADLINE, wait_until};
use crate::programs::{Program, curl, free_port, on_socket, wait_for_port};
use crate::support::{Folder, Server, tidegate};

const CHECK: &str = r#"{"policy":"api","key":"ann"}"#;
const POLICIES: &str = "policies: { api: { limit: 100/min, burst: 20 } }\n";
const VERSION: [&str; 2] = ["-w", "\n%{http_version} %{http_code}"];

#[test]
fn one_port_speaks_both_versions() {
    let server = Server::start();
    let url = format!("{}/v1/check", server.url());
    for (args, version) in [(&["--http1.1"][..], "1.1"), (&["--http2-prior-knowledge"], "2")] {
        let said = curl(&[args, &VERSION, &["-d", CHECK, &url]].concat());
        assert!(said.ends_with(&format!("\n{version} 200")), "{said}");
        assert!(said.contains(r#""allowed":true"#), "{said}");
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
fn a_socket_speaks_both_versions() {
    let folder = Folder::new();
    let (_program, socket) = on_socket(&folder, POLICIES);
    for args in [&["--http1.1"][..], &["--http2-prior-knowledge"]] {
        let socket = ["--unix-socket", &*socket];
        let said = curl(&[args, &socket, &["-d", CHECK, "http://tidegate/v1/check"]].concat());
        assert!(said.contains(r#""allowed":true"#), "{said}");
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
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("5000 succeeded, 0 failed, 0 errored"), "{said}");
    assert_eq!(server.remaining("monthly", "ann"), 95_000);
}

/// Frames of HTTP/2 by hand: length, kind, flags, stream.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Connects, says what HTTP/2 begins with, sends, and reads until the server ends it.
fn ended_by_server(server: &Server, sent: &[u8]) -> Vec<u8> {
    let mut stream: TcpStream = server.connect();
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, &[])[..]].concat();
    stream.write_all(&hello).unwrap();
    // The server may end it before all is sent.
    let _ = stream.write_all(sent);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// `:method: GET`, `:scheme: http`, `:path: /`, `:authority: x`, as HPACK has them.
const GET_HEAD: [u8; 6] = [0x82, 0x86, 0x84, 0x41, 0x01, b'x'];

#[test]
fn streams_that_are_taken_back_at_once_end_the_connection() {
    let server = Server::start();
    let one = |stream: u32| {
        let head = frame(1, 0x5, stream, &GET_HEAD);
        [head, frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
    };
    let flood: Vec<u8> = (0..20_000).flat_map(|number| one(2 * number + 1)).collect();
    ended_by_server(&server, &flood);
    assert_eq!(server.get("/healthz").status, 200, "others are served");
}

#[test]
fn a_head_without_an_end_is_not_kept() {
    let server = Server::start();
    // A literal header of 8 KiB, and continuations of the same, for ever.
    let long = [&[0x00, 0x01, b'a', 0x7f, 0x81, 0x3f][..], &[b'x'; 8192]].concat();
    let mut flood = frame(1, 0x0, 1, &GET_HEAD);
    for _ in 0..2000 {
        flood.extend(frame(9, 0x0, 1, &long));
    }
    ended_by_server(&server, &flood);
    assert_eq!(server.get("/healthz").status, 200, "others are served");
}

/// A certificate authority, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "tidegate test authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a certificate and its key, and gives the number of the certificate.
    fn sign(&self, folder: &Folder, name: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.signed_by(&key, &self.0).unwrap();
        folder.write("server.pem", &cert.pem());
        folder.write("server.key", &key.serialize_pem());
    }
}

/// A server with TLS, and what curl needs to ask it.
fn with_tls(folder: &Folder, authority: &Authority) -> (Program, u16, String) {
    authority.sign(folder, "first");
    let ca = folder.write("ca.pem", &authority.0.pem());
    let port = free_port();
    let (cert, key) = (folder.path("server.pem"), folder.path("server.key"));
    let config = format!(
        "{POLICIES}listen: {{ http: {{ address: 127.0.0.1:{port}, tls: {{ cert: {cert}, key: {key} }} }} }}\n"
    );
    let path = folder.write("tidegate.yaml", &config);
    let program = Program::start(&mut tidegate(&["serve", "-c", &path]), folder);
    wait_for_port(port);
    (program, port, ca)
}

#[test]
fn tls_speaks_both_versions_and_takes_new_certificates() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (_program, port, ca) = with_tls(&folder, &authority);
    let url = format!("https://localhost:{port}/v1/check");
    for (args, version) in [(&["--http1.1"][..], "1.1"), (&["--http2"], "2")] {
        let said = curl(&[args, &VERSION, &["--cacert", &ca, "-d", CHECK, &url]].concat());
        assert!(said.ends_with(&format!("\n{version} 200")), "{said}");
    }
    let shown = || {
        let ran = Command::new("curl")
            .args(["-sSv", "--cacert", &ca, "--max-time", "20", "-d", CHECK, &url])
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    assert!(shown().contains("CN=first"), "{}", shown());
    // Half of a new pair: the old one stays.
    fs::write(folder.path("server.pem"), "nonsense").unwrap();
    wait_until("the bad file is noticed", DEADLINE, || {
        assert!(shown().contains("CN=first"));
        let log = fs::read_to_string(folder.path("program.log")).unwrap();
        log.contains("kept the old certificate")
    });
    authority.sign(&folder, "second");
    wait_until("the new certificate is shown", DEADLINE, || shown().contains("CN=second"));
}

#[test]
fn who_speaks_no_tls_is_turned_away_and_holds_up_nobody() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let (_program, port, ca) = with_tls(&folder, &authority);
    let silent: Vec<_> =
        (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let mut plain = TcpStream::connect(("127.0.0.1", port)).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    let url = format!("https://localhost:{port}/healthz");
    assert_eq!(curl(&["--cacert", &ca, &url]), "ok\n");
    drop(silent);
}

#[test]
fn a_load_balancer_names_the_client() {
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
            "{header}POST /v1/reset HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{CHECK}",
            CHECK.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.get(..12).unwrap_or_default().to_owned()
    };
    assert_eq!(send("PROXY TCP4 203.0.113.7 127.0.0.1 1 2\r\n"), "HTTP/1.1 403", "from elsewhere");
    assert_eq!(send(""), "", "without a header there is no connection");
}
