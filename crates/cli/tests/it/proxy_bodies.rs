//! Bodies through the proxy: however large, however slow, in whatever direction, and what becomes of those that break off.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};

use crate::processes::wait_until;
use crate::programs::curl;
use crate::proxy_support::{Origin, Proxy, by_hand, read_answer, read_head};
use crate::support::DEADLINE;
use crate::support::Folder;

const MIB: u64 = 1 << 20;
const LARGE: u64 = 256 * MIB;
/// What a body may cost beyond what is in the kernel: far less than one that is gathered.
const GROWTH_MIB_MAX: u64 = 32;

/// A body of so many bytes that is made when it is asked for, and counts what was.
struct Endless {
    left: u64,
    made: Arc<AtomicU64>,
}

impl hyper::body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static PIECE: [u8; 64 << 10] = [b'x'; 64 << 10];
        let size = self.left.min(PIECE.len() as u64);
        self.left -= size;
        self.made.fetch_add(size, SeqCst);
        let piece = Bytes::from_static(&PIECE[..usize::try_from(size).unwrap()]);
        Poll::Ready((size > 0).then(|| Ok(Frame::data(piece))))
    }
}

/// Gives a large body, and counts what it is given.
fn large() -> (Origin, Arc<AtomicU64>) {
    let bytes = Arc::<AtomicU64>::default();
    let counted = bytes.clone();
    let origin = Origin::start(move |request: Request<Incoming>| {
        let counted = counted.clone();
        async move {
            if request.method() == "GET" {
                return Response::new(Body::new(Endless { left: LARGE, made: counted }));
            }
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                counted.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, SeqCst);
            }
            Response::new(Body::from(counted.load(SeqCst).to_string()))
        }
    });
    (origin, bytes)
}

#[test]
fn large_bodies_go_through_in_flat_memory() {
    let (folder, (origin, _)) = (Folder::new(), large());
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    assert_eq!(proxy.server.send("HEAD", "/", &[], b"").status, 200);
    let (before, _) = proxy.resident_mib();
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let url = proxy.url("/");
        let told = ["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
        let said = curl(&[&[version][..], &told, &[&url]].concat());
        assert_eq!(said, format!("200 {LARGE}"), "{version}");
    }
    let (origin, bytes) = large();
    let proxy_up = Proxy::start(&folder, &origin.url(), "", "");
    let url = proxy_up.url("/");
    let upload = format!("head -c {LARGE} /dev/zero | curl -sS --max-time 60 -T - -X POST {url}");
    let ran = Command::new("bash").args(["-ec", &upload]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), LARGE.to_string());
    assert_eq!(bytes.load(SeqCst), LARGE);
    for proxy in [&proxy, &proxy_up] {
        let (_, peak) = proxy.resident_mib();
        assert!(peak < before + GROWTH_MIB_MAX, "from {before} to {peak} MiB");
    }
}

#[test]
fn a_reader_that_pauses_stops_the_upstream_and_not_the_others() {
    let (folder, (origin, made)) = (Folder::new(), large());
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    assert_eq!(proxy.server.send("HEAD", "/", &[], b"").status, 200);
    let (before, _) = proxy.resident_mib();
    let mut slow: Vec<TcpStream> = (0..4).map(|_| proxy.server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(read_head(stream).starts_with("HTTP/1.1 200 OK"));
    }
    // What is on its way fills the kernel's buffers, and then nothing more is made.
    let mut last = 0;
    wait_until("the upstream is stopped", DEADLINE, || {
        let now = made.load(SeqCst);
        let is_still = now > 0 && now == last;
        last = now;
        std::thread::sleep(Duration::from_millis(200));
        is_still
    });
    assert!(last < LARGE, "all of {last} was made, and nobody has read it");
    let (_, peak) = proxy.resident_mib();
    assert!(peak < before + GROWTH_MIB_MAX, "from {before} to {peak} MiB");
    assert_eq!(proxy.server.send("HEAD", "/", &[], b"").status, 200, "others are served");
    let mut stream = slow.remove(0);
    drop(slow);
    // In chunks, so that a little more than the body comes.
    let mut bytes = vec![0; 1 << 20];
    let mut read = 0;
    while read < LARGE {
        let count = stream.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "ended after {read}");
        read += count as u64;
    }
}

#[test]
fn what_breaks_off_behind_breaks_off_here() {
    let folder = Folder::new();
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n",
    ] {
        let origin = by_hand(move |mut stream| {
            read_head(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let args = ["-sS", "-m", "20", version, &proxy.url("/")];
            let ran = Command::new("curl").args(args).output().unwrap();
            assert!(!ran.status.success(), "{version} took a part for the whole of {answer:?}");
            // HTTP/2 takes back what it has not sent yet.
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(said == "only this" || (version != "--http1.1" && said.is_empty()), "{said}");
        }
    }
}

#[test]
fn an_upstream_that_is_not_there_or_does_not_answer_is_told_apart() {
    let folder = Folder::new();
    let closed = crate::programs::free_port();
    let silent = by_hand(|mut stream| {
        let mut bytes = [0; 1024];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let hangs_up = by_hand(|mut stream| {
        read_head(&mut stream);
        stream.read_exact(&mut [0; 6]).unwrap();
    });
    let babbles = by_hand(|mut stream| {
        read_head(&mut stream);
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").unwrap();
    });
    for (upstream, status, expected) in [
        (format!("127.0.0.1:{closed}"), 502, "cannot be connected to: connection refused"),
        (silent.to_string(), 504, "did not answer in time"),
        (hangs_up.to_string(), 502, "closed the connection without an answer"),
        (babbles.to_string(), 502, "did not answer in HTTP"),
    ] {
        let options = ", response_timeout: 300ms";
        let proxy = Proxy::start(&folder, &format!("http://{upstream}"), options, "");
        let reply = proxy.server.post("/", "a body");
        assert_eq!(reply.status, status, "{}", reply.body);
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(expected) && !detail.contains("127.0.0.1"), "{detail}");
    }
}

#[test]
fn a_body_that_pauses_is_given_up_in_either_direction() {
    let folder = Folder::new();
    let origin = by_hand(|mut stream| {
        let head = read_head(&mut stream);
        if head.starts_with("GET") {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        }
        // And now nothing, until the other side has had enough.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let options = ", idle_timeout: 300ms, response_timeout: 300ms";
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), options, "");
    let answer = proxy.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nhalf"), "{answer}");
    let answer = proxy.raw(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf");
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[test]
fn a_long_upload_is_no_silence() {
    let (folder, received) = (Folder::new(), Arc::<AtomicUsize>::default());
    let counted = received.clone();
    let origin = Origin::start(move |request: Request<Incoming>| {
        let counted = counted.clone();
        async move {
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {
                counted.fetch_add(1, SeqCst);
            }
            Response::new(Body::from("thanks"))
        }
    });
    let proxy =
        Proxy::start(&folder, &origin.url(), ", response_timeout: 3s, idle_timeout: 30s", "");
    let mut stream = proxy.server.connect();
    let head =
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // Longer than an answer may take.
    for _ in 0..12 {
        let before = received.load(SeqCst);
        stream.write_all(b"1\r\nx\r\n").unwrap();
        wait_until("a piece has arrived", DEADLINE, || received.load(SeqCst) > before);
        std::thread::sleep(Duration::from_millis(300));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("thanks"), "{answer}");
}

#[test]
fn a_client_that_leaves_takes_its_request_along() {
    let folder = Folder::new();
    let origin = Origin::start(|_| async {
        std::future::pending::<()>().await;
        Response::new(Body::empty())
    });
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    let mut stream = proxy.server.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    wait_until("it is under way", DEADLINE, || origin.requests() == 1);
    drop(stream);
    let series = |name: &str| format!(r#"{name}{{upstream="{}""#, origin.url());
    let abandoned =
        format!(r#"{},status="abandoned"}}"#, series("tidegate_upstream_requests_total"));
    wait_until("it was given up", DEADLINE, || proxy.metric(&abandoned) == Some(1.0));
    assert_eq!(proxy.metric(&format!("{}}}", series("tidegate_upstream_under_way"))), Some(0.0));
}

#[test]
fn both_bodies_can_be_under_way_at_once() {
    let folder = Folder::new();
    let origin = Origin::start(|request: Request<Incoming>| async {
        Response::new(Body::new(request.into_body()))
    });
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    let mut stream = proxy.server.connect();
    let head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"5\r\nhello\r\n").unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200 OK"));
    let expect = |stream: &mut TcpStream, expected: &[u8]| {
        let mut got = vec![0; expected.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected));
    };
    expect(&mut stream, b"5\r\nhello\r\n");
    stream.write_all(b"5\r\nworld\r\n0\r\n\r\n").unwrap();
    expect(&mut stream, b"5\r\nworld\r\n0\r\n\r\n");
    stream.write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(read_answer(&mut stream).body, "ok", "and the connection is as good as new");
}

#[test]
fn an_answer_before_the_body_was_read_leaves_a_sound_connection_or_none() {
    let folder = Folder::new();
    let origin = Origin::mirror();
    let more = "policies: { none: { algorithm: sliding-log, limit: 1/h } }\n\
        routes: [{ match: { path: /few }, policy: none }]";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    assert_eq!(proxy.server.get("/few").status, 200);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    // What is short is read and thrown away, so that the next request is the next request.
    let mut stream = proxy.server.connect();
    for framed in [
        format!("Content-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
            smuggled.len()
        ),
    ] {
        stream.write_all(format!("POST /few HTTP/1.1\r\nHost: x\r\n{framed}").as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).status, 429);
        stream.write_all(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut stream).json()["uri"], "/next");
    }
    // What is long ends the connection, and the answer still arrives.
    let long = format!("POST /few HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n");
    let mut stream = proxy.server.connect();
    stream.write_all(long.as_bytes()).unwrap();
    for _ in 0..8 {
        stream.write_all(&smuggled.as_bytes().repeat(100)).unwrap();
    }
    assert_eq!(read_answer(&mut stream).status, 429);
    let piece = smuggled.as_bytes().repeat(1000);
    while stream.write_all(&piece).is_ok() {}
    assert_eq!(origin.requests(), 3, "nothing of a body was taken for a request");
}

#[test]
fn a_real_server_behind_it_is_what_it_is_without() {
    let (folder, port) = (Folder::new(), crate::programs::free_port());
    let body: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    folder.write("large.bin", &body);
    let root = folder.path("");
    let root = root.as_str();
    let config = folder.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid {root}nginx.pid; error_log stderr notice;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {root}a; proxy_temp_path {root}b; fastcgi_temp_path {root}c;\n\
             uwsgi_temp_path {root}d; scgi_temp_path {root}e; gzip on; gzip_proxied any; gzip_types *;\n\
             server {{ listen 127.0.0.1:{port}; root {root}; }} }}"
        ),
    );
    let mut command = Command::new("/usr/sbin/nginx");
    command.args(["-p", root, "-c", &config]).stdin(Stdio::null());
    let _nginx = crate::programs::Program::start(&mut command, &folder);
    crate::programs::wait_for_port(port);
    let direct = format!("http://127.0.0.1:{port}");
    let proxy = Proxy::start(&folder, &direct, "", "");
    for args in [
        &["/large.bin"][..],
        &["/large.bin", "-r", "1000-2000"],
        &["/large.bin", "-I"],
        &["/large.bin", "--compressed"],
        &["/large.bin", "-H", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"],
        &["/missing"],
        &["/large.bin", "-X", "POST", "-d", "x"],
    ] {
        let ask = |base: &str| {
            let out = folder.path("out");
            let url = format!("{base}{}", args[0]);
            let told = [
                "-o",
                &out,
                "-w",
                "%{http_code} %header{content-length} %header{content-range} %header{etag}",
            ];
            let said = curl(&[&args[1..], &told, &[&url]].concat());
            let is_head = args.contains(&"-I");
            (said, if is_head { Vec::new() } else { std::fs::read(out).unwrap_or_default() })
        };
        let (direct, through) = (ask(&direct), ask(&proxy.url("")));
        assert_eq!(direct.0, through.0, "{args:?}");
        assert!(direct.1 == through.1, "{args:?}: other bytes");
    }
}
