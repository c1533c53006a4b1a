//! One client that takes all it gets: others are served, and memory stays bounded.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use socket2::{Domain, Socket, Type};
use tokio::sync::Semaphore;

use crate::http2::frame;
use crate::processes::wait_until;
use crate::programs::curl;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{DEADLINE, Folder, Reply, Server, run, tidegate};

/// Another client on this machine.
pub(crate) const OTHER: &str = "127.0.0.2";

pub(crate) fn connect_from(ip: &str, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::new(ip.parse().unwrap(), 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// What another client gets.
fn get_from_other(url: &str) -> Reply {
    Reply::read(&curl(&["-i", "--http1.1", "--interface", OTHER, url]))
}

fn serve(folder: &Folder, config: &str) -> Server {
    let path = folder.write("tidegate.yaml", config);
    let mut command = tidegate(&["serve", "-c", &path]);
    // A single heap, so that freed memory is visible.
    Server::launched(command.env("MALLOC_ARENA_MAX", "1"))
}

fn resident_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Two thousand policies: the pages about them have megabytes.
fn many_policies() -> String {
    let mut config = "listen: { http: 127.0.0.1:0 }\npolicies:\n".to_owned();
    for number in 0..2000 {
        let _ = writeln!(config, "  policy-{number}: {{ limit: 100/min }}");
    }
    config
}

/// Asks for a page on many streams of one connection, whose flow control lets no byte of an answer pass. Returns once
/// all have been answered, and how many with something else than 200.
fn ask_without_reading(server: &Server, path: &str, streams: u32) -> (TcpStream, u32) {
    let mut stream = server.connect();
    let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let mut sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &window[..]].concat();
    for number in 0..streams {
        let length = u8::try_from(path.len()).unwrap();
        let head = [&[0x82, 0x86, 0x04, length], path.as_bytes(), b"\x41\x09localhost"].concat();
        sent.extend(frame(1, 0x5, 2 * number + 1, &head));
    }
    stream.write_all(&sent).unwrap();
    let (mut answered, mut refused) = (0, 0);
    while answered < streams {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == 1 {
            answered += 1;
            // `:status: 200` is the eighth entry of the static table.
            refused += u32::from(payload.first() != Some(&0x88));
        }
    }
    (stream, refused)
}

#[test]
fn unread_http2_answers_take_bounded_memory_and_others_are_served() {
    let folder = Folder::new();
    let server = serve(&folder, &many_policies());
    let page = server.get("/metrics").body.len();
    let before = resident_mib(&server);
    let (stream, refused) = ask_without_reading(&server, "/metrics", 250);
    assert!((200..250).contains(&refused), "{refused} of 250 are refused");
    let mut held = vec![stream];
    for path in ["/metrics", "/v1/policies", "/v1/live", "/openapi.json"] {
        for _ in 0..3 {
            held.push(ask_without_reading(&server, path, 250).0);
        }
    }
    let grown = resident_mib(&server).saturating_sub(before);
    assert!(page > 1 << 20, "a page of {page} bytes is too small for this test");
    assert!(grown < 128, "{grown} MiB for {} connections", held.len());
    assert_eq!(server.post("/v1/check", r#"{"policy":"policy-7","key":"ann"}"#).status, 200);
    assert_eq!(get_from_other(&format!("{}/metrics", server.url())).status, 200);
    drop(held);
    wait_until("there is room again", DEADLINE, || server.get("/metrics").status == 200);
}

#[test]
fn one_client_cannot_take_all_connections() {
    let folder = Folder::new();
    let listen = "listen: { http: { address: 127.0.0.1:0, max_connections: 12PART } }\n";
    let server = serve(&folder, &listen.replace("PART", ""));
    let idle: Vec<_> = (0..30).map(|_| server.connect()).collect();
    assert_eq!(get_from_other(&format!("{}/healthz", server.url())).status, 200);
    wait_until_refused(&server, 27);
    drop(idle);
    let server = serve(&folder, &listen.replace("PART", ", per_client: 5"));
    let idle: Vec<_> = (0..30).map(|_| server.connect()).collect();
    wait_until_refused(&server, 25);
    drop(idle);
    let server = serve(&folder, &listen.replace("PART", ", per_client: off"));
    let idle: Vec<_> = (0..11).map(|_| server.connect()).collect();
    // An answer on each shows that none was refused.
    for mut stream in idle {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    wait_until_refused(&server, 0);
}

/// Each connection is counted by its own task, at any time after a later one was answered.
fn wait_until_refused(server: &Server, count: u32) {
    let line = format!("tidegate_connections_refused_total{{door=\"http\"}} {count}\n");
    wait_until(&line, DEADLINE, || {
        get_from_other(&format!("{}/metrics", server.url())).body.contains(&line)
    });
}

#[test]
fn trusted_proxies_have_no_bound_and_clients_that_they_name_have() {
    let folder = Folder::new();
    let config = "client_ip: { trusted_proxies: [127.0.0.1] }\n\
        listen: { http: { address: 127.0.0.1:0, max_connections: 12, proxy_protocol: true } }\n";
    let server = serve(&folder, config);
    let connect = |client: &str| {
        let mut stream = server.connect();
        let head = format!("PROXY TCP4 {client} 127.0.0.1 1 2\r\n");
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(format!("{head}{request}").as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).map(|()| stream)
    };
    let held: Vec<_> = (0..4).map(|_| connect("203.0.113.7")).collect();
    assert_eq!(held.iter().filter(|it| it.is_ok()).count(), 3, "a quarter of 12");
    let others: Vec<_> = (1..6).map(|last| connect(&format!("203.0.113.{last}0"))).collect();
    assert!(others.iter().all(Result::is_ok));
}

#[test]
fn one_client_cannot_take_all_requests_of_the_proxy() {
    let (folder, gate) = (Folder::new(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let opened = opened.clone();
        async move {
            let _ = opened.acquire().await;
            Response::new(Body::from("done"))
        }
    });
    let more = "client_ip: { trusted_proxies: [127.0.0.9] }\n";
    let proxy = Proxy::start(&folder, &origin.url(), ", max_requests: 12", more);
    let ask = |ip: &str, client: &str| {
        let mut stream = connect_from(ip, proxy.server.addr);
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let status = |mut stream: TcpStream| {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8(status.to_vec()).unwrap()
    };
    // One client with a name of its own each time, and one behind a trusted proxy.
    let mut held: Vec<_> = (0..3).map(|n| ask("127.0.0.1", &format!("198.51.100.{n}"))).collect();
    held.extend((0..3).map(|_| ask("127.0.0.9", "203.0.113.7")));
    wait_until("six are in flight", DEADLINE, || origin.requests() == 6);
    assert_eq!(status(ask("127.0.0.1", "198.51.100.9")), "HTTP/1.1 429");
    assert_eq!(status(ask("127.0.0.9", "203.0.113.7")), "HTTP/1.1 429");
    let shed = proxy.metric(r#"tidegate_proxy_shed_total{reason="per_client"}"#);
    assert_eq!((shed, origin.requests()), (Some(2.0), 6));
    held.push(ask(OTHER, ""));
    held.push(ask("127.0.0.9", "203.0.113.8"));
    wait_until("others are served", DEADLINE, || origin.requests() == 8);
    gate.add_permits(100);
    assert!(held.into_iter().all(|stream| status(stream) == "HTTP/1.1 200"));
    assert_eq!(status(ask("127.0.0.1", "")), "HTTP/1.1 200");
}

#[test]
fn wrong_passwords_are_counted_and_logged() {
    let folder = Folder::new();
    let config = "admin: { token: a-token-of-sixteen-bytes }\n";
    let (path, log) = (folder.write("tidegate.yaml", config), folder.path("log"));
    let password = folder.write("password", "a-password-of-ours\n");
    let doors = ["--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
    let file = ["--resp-password-file", &password];
    let args = [&["serve", "-c", &path], &doors[..], &file].concat();
    let mut server = Server::start_logged(&args, &log);
    let flood = "AUTH no-password-of-ours\r\n".repeat(1000);
    let mut stream = server.resp_connect();
    stream.write_all(flood.as_bytes()).unwrap();
    let mut reply = String::new();
    let _ = stream.read_to_string(&mut reply);
    assert_eq!(reply.matches("-WRONGPASS").count(), 3, "{reply}");
    let headers = [("authorization", "Bearer no-token-of-sixteen-bytes")];
    assert_eq!(server.send("PUT", "/v1/pressure/db", &headers, b"1").status, 401);
    assert_eq!(server.send("PUT", "/v1/pressure/db", &[], b"1").status, 401);
    let failures =
        |door| server.metric(&format!("tidegate_auth_failures_total{{door=\"{door}\"}}"));
    assert_eq!((failures("resp"), failures("http")), (Some(3.0), Some(1.0)));
    assert_eq!(server.stop("TERM").code(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("wrong password or token").count(), 4, "{log}");
    assert!(!log.contains("of-ours") && !log.contains("sixteen"), "{log}");
}

#[test]
fn a_short_password_is_valid_with_a_warning() {
    let folder = Folder::new();
    let path = |password: &str| {
        let listen =
            format!("listen: {{ resp: {{ address: 127.0.0.1:0, password: {password} }} }}\n");
        folder.write("tidegate.yaml", listen)
    };
    let output = run(&["validate", &path("hunter2")]);
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("listen.resp.password: is shorter than 16 bytes"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let output = run(&["validate", &path("a-password-of-ours")]);
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(!text.contains("shorter"), "{text}");
}

#[test]
fn queued_and_unfinished_commands_of_all_clients_are_bounded() {
    let server = crate::resp_support::start(&[]);
    let before = resident_mib(&server);
    let echo = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "x".repeat(60_000));
    let queue = |ip: &str| {
        let mut stream = connect_from(ip, server.resp_addr());
        stream.write_all(format!("MULTI\r\n{}", echo.repeat(4)).as_bytes()).unwrap();
        let (mut reply, mut bytes) = (String::new(), [0; 1024]);
        while reply.matches("\r\n").count() < 5 {
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "closed: {reply}");
            reply.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        (stream, reply)
    };
    let held: Vec<_> = (0..200).map(|_| queue("127.0.0.1")).collect();
    let refused = held.iter().filter(|(_, reply)| reply.contains("-ERR too many queued")).count();
    assert!((100..200).contains(&refused), "{refused} of 200 refused");
    let (other, reply) = queue(OTHER);
    assert_eq!(reply.matches("+QUEUED").count(), 4, "others have room: {reply}");
    drop((held, other));
    // The same with commands of which the end is missing.
    let unfinished: Vec<_> = (0..500)
        .map(|_| {
            let mut stream = connect_from("127.0.0.1", server.resp_addr());
            stream.write_all(&echo.as_bytes()[..echo.len() - 2]).unwrap();
            stream
        })
        .collect();
    let mut refused = 0;
    for mut stream in unfinished {
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        refused += usize::from(reply.contains("-ERR too many unfinished commands"));
    }
    assert!((100..500).contains(&refused), "{refused} of 500 refused");
    let grown = resident_mib(&server).saturating_sub(before);
    assert!(grown < 128, "{grown} MiB");
    assert_eq!(server.resp_line("PING"), "+PONG\r\n");
}
