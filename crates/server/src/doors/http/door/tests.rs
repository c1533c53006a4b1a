use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, mpsc};

use super::super::body;
use super::super::router::{HandlerResult, Route, get, post, whole};
use super::*;
use crate::dashboard::Feed;
use crate::doors::stalled_client;
use crate::doors::test_server::{
    self, TestServer, http2_frame, read_http2_frame, wait_until_reset,
};
use crate::net::http::{Activity, TimedStream, Timeouts};
use crate::net::{AcceptBounds, ConnectionHandler};
use crate::service::{AppState, demo};
use tidegate_request::Peer;

const SHORT: (AcceptBounds, HttpBounds) = (
    AcceptBounds {
        connections_max: 2,
        notice: Duration::from_millis(50),
        drain: Duration::from_secs(5),
    },
    HttpBounds {
        head_timeout: Duration::from_millis(50),
        idle_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(5),
        head_bytes_max: 8 << 10,
        streams_max: 4,
    },
);

fn door(routes: impl IntoIterator<Item = Route>, bounds: HttpBounds) -> HttpDoor {
    let api = Api::new(AppState::new(demo::draft()), Arc::default());
    HttpDoor::new(Router::new(api, routes).unwrap(), bounds)
}

async fn start(
    routes: impl IntoIterator<Item = Route>,
    (bounds, http): (AcceptBounds, HttpBounds),
) -> TestServer {
    test_server::start(door(routes, http), bounds).await
}

fn hello() -> [Route; 1] {
    [("/", get(|_| async { answer("hello") }))]
}

#[expect(clippy::unnecessary_wraps, reason = "as handlers return it")]
fn answer(body: impl Into<Bytes>) -> HandlerResult {
    Ok(whole(Response::new(body.into())))
}

/// Sends `head` and reads until the server closes, for at most five seconds.
async fn until_closed(addr: SocketAddr, head: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(head.as_ref()).await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(5), read).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn an_unfinished_head_times_out() {
    let server = start(hello(), SHORT).await;
    for head in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n", "PRI * HTTP/2.0\r\n"] {
        let answer = until_closed(server.addr, head).await;
        assert!(!answer.contains("hello"), "{head:?} got {answer:?}");
    }
}

/// The HTTP/2 preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn the_http2_preface_is_recognised_in_any_two_pieces() {
    let waits = Timeouts { head: SHORT.1.head_timeout, write: SHORT.1.write_timeout };
    for (cut, last, is_http2) in
        (0..PREFACE.len()).flat_map(|cut| [(cut, b'\n', true), (cut, b'x', false)])
    {
        let (mut client, server) = UnixStream::pair().unwrap();
        let line = Arc::new(Activity::default());
        let (first, rest) = PREFACE.split_at(cut);
        let mut timed = TimedStream::new(Stream::Unix(server), line.clone(), waits);
        client.write_all(first).await.unwrap();
        if cut > 0 {
            timed.read_exact(&mut vec![0; cut]).await.unwrap();
        }
        client.write_all(&rest[..rest.len() - 1]).await.unwrap();
        client.write_all(&[last]).await.unwrap();
        timed.read_exact(&mut vec![0; PREFACE.len() - 1 - cut]).await.unwrap();
        assert!(!line.is_http2(), "cut at {cut}, and incomplete");
        timed.read_exact(&mut [0]).await.unwrap();
        assert_eq!(line.is_http2(), is_http2, "cut at {cut}, ends in {last}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = start(hello(), SHORT).await;
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(9 << 10));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(101));
    for head in [large, many] {
        let answer = until_closed(server.addr, head).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test]
async fn head_returns_the_headers_of_get_and_opens_no_stream() {
    let feed = Arc::<Feed>::default();
    feed.publish("1".to_owned(), "1".to_owned());
    let events = feed.clone();
    let live = get(move |_| {
        let watching = events.watch("1").unwrap();
        async { Ok(Response::new(ApiBody::Events(watching))) }
    });
    let server = start(hello().into_iter().chain([("/live", live)]), SHORT).await;
    let head = async |path| {
        let request =
            format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        until_closed(server.addr, request).await
    };
    let answer = head("/").await;
    assert!(
        answer.contains("\r\ncontent-length: 5\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    assert!(head("/live").await.ends_with("\r\n\r\n"));
    assert_eq!(feed.watchers(), 0);
}

#[tokio::test]
async fn idle_connections_at_the_cap_time_out_and_make_room() {
    let server = start(hello(), SHORT).await;
    let mut idle = Vec::new();
    for _ in 0..SHORT.0.connections_max {
        idle.push(TcpStream::connect(server.addr).await.unwrap());
    }
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(until_closed(server.addr, request).await.ends_with("hello"));
}

/// A route that reports each request, and answers once it gets a permit.
fn gated() -> ([Route; 1], Arc<Semaphore>, mpsc::Receiver<()>) {
    let (reached, was_reached) = mpsc::channel(1);
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let handler = get(move |_| {
        let (reached, opened) = (reached.clone(), opened.clone());
        async move {
            reached.send(()).await.unwrap();
            let _ = opened.acquire().await;
            answer("finished")
        }
    });
    ([("/", handler)], gate, was_reached)
}

#[tokio::test]
async fn a_request_in_flight_is_finished_before_the_shutdown() {
    let (routes, gate, mut reached) = gated();
    let server = start(routes, SHORT).await;
    let client =
        tokio::spawn(until_closed(server.addr, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    reached.recv().await.unwrap();
    server.stop.send(()).unwrap();
    gate.add_permits(1);
    assert!(client.await.unwrap().ends_with("finished"));
    server.done.await.unwrap();
    assert!(TcpStream::connect(server.addr).await.is_err(), "still accepting");
}

#[tokio::test]
async fn a_draining_server_answers_kept_and_new_connections() {
    let long = Duration::from_secs(5);
    let server = start(
        hello(),
        (AcceptBounds { notice: long, ..SHORT.0 }, HttpBounds { head_timeout: long, ..SHORT.1 }),
    )
    .await;
    let mut kept = TcpStream::connect(server.addr).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    kept.write_all(request).await.unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"hello") {
        assert_ne!(kept.read_buf(&mut first).await.unwrap(), 0);
    }
    server.stop.send(()).unwrap();
    // The server cannot stop while a connection is open, so these are answered whenever they arrive.
    let fresh = until_closed(
        server.addr,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert!(fresh.await.ends_with("hello"));
    kept.write_all(request).await.unwrap();
    let mut last = String::new();
    kept.read_to_string(&mut last).await.unwrap();
    assert!(last.contains("connection: close") && last.ends_with("hello"), "{last}");
    tokio::time::timeout(long, server.done).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_request_that_never_finishes_does_not_delay_the_shutdown() {
    let (routes, _gate, mut reached) = gated();
    let server =
        start(routes, (AcceptBounds { drain: Duration::from_millis(50), ..SHORT.0 }, SHORT.1))
            .await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    reached.recv().await.unwrap();
    server.stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), server.done).await.unwrap().unwrap();
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection that has received its first answer.
async fn kept(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    request_hello(&mut stream).await;
    stream
}

async fn request_hello(stream: &mut TcpStream) {
    stream.write_all(GET).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "closed");
    }
}

async fn wait_until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // Reset or ended.
    let _ = tokio::time::timeout(Duration::from_secs(5), read).await.expect("still open");
}

#[tokio::test]
async fn a_connection_may_be_idle_for_longer_than_the_head_timeout() {
    let server = start(hello(), (AcceptBounds { connections_max: 9, ..SHORT.0 }, SHORT.1)).await;
    let (mut idle, mut slow) = (kept(server.addr).await, kept(server.addr).await);
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    wait_until_closed(&mut slow).await; // takes as long as the timeout
    request_hello(&mut idle).await;
}

#[tokio::test]
async fn a_late_body_does_not_start_the_head_timeout() {
    let reading = post(|request| async {
        body::read(request.body).await?;
        answer("hello")
    });
    let routes = hello().into_iter().chain([("/post", reading)]);
    let server = start(routes, (AcceptBounds { connections_max: 9, ..SHORT.0 }, SHORT.1)).await;
    let (mut idle, mut slow) = (kept(server.addr).await, kept(server.addr).await);
    let head =
        b"POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    idle.write_all(head).await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        assert_ne!(idle.read_buf(&mut received).await.unwrap(), 0);
    }
    idle.write_all(b"ok").await.unwrap();
    while !received.ends_with(b"hello") {
        assert_ne!(idle.read_buf(&mut received).await.unwrap(), 0);
    }
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    wait_until_closed(&mut slow).await; // takes as long as the timeout
    request_hello(&mut idle).await;
}

#[tokio::test]
async fn a_head_behind_an_answered_request_times_out() {
    let reading = post(|request| async {
        body::read(request.body).await?;
        answer("hello")
    });
    let routes = hello().into_iter().chain([("/post", reading)]);
    let bounds = AcceptBounds { connections_max: 99, ..SHORT.0 };
    let idle_timeout = Duration::from_mins(1);
    let server = start(routes, (bounds, HttpBounds { idle_timeout, ..SHORT.1 })).await;
    let get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let post = "POST /post HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nok";
    let chunked = "POST /post HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    for whole in [get, post, chunked] {
        // Two requests at once are complete too.
        let mut idle = TcpStream::connect(server.addr).await.unwrap();
        idle.write_all(whole.repeat(2).as_bytes()).await.unwrap();
        read_until_times(&mut idle, "hello", 2).await;
        for part in ["G", "GET / HTTP/1.1\r\nHost:", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
            let mut slow = TcpStream::connect(server.addr).await.unwrap();
            slow.write_all(format!("{whole}{part}").as_bytes()).await.unwrap();
            read_until(&mut slow, "hello").await;
            wait_until_closed(&mut slow).await; // takes as long as the timeout
        }
        idle.write_all(GET).await.unwrap();
        read_until(&mut idle, "hello").await;
    }
}

#[tokio::test]
async fn a_transfer_coding_other_than_chunked_is_not_implemented() {
    let server = start(hello(), (AcceptBounds { connections_max: 9, ..SHORT.0 }, SHORT.1)).await;
    for (coding, status) in [
        ("gzip, chunked", "501 "),
        ("gzip\r\nTransfer-Encoding: chunked", "501 "),
        ("identity, chunked", "501 "),
        ("chunked, chunked", "400 "),
        ("gzip", "400 "),
    ] {
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n");
        let answer = until_closed(server.addr, format!("{head}0\r\n\r\n")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{coding:?}: {answer}");
    }
}

#[tokio::test]
async fn an_idle_connection_times_out() {
    let idle_timeout = Duration::from_millis(20);
    let server = start(hello(), (SHORT.0, HttpBounds { idle_timeout, ..SHORT.1 })).await;
    wait_until_closed(&mut kept(server.addr).await).await;
}

#[tokio::test]
async fn an_unread_response_times_out_and_frees_its_connection_slot() {
    // Needs no room, which all tests share.
    let shared = Bytes::from(vec![b'x'; 64 << 20]);
    let large = get(move |_| {
        let body = ApiBody::Shared(Full::new(shared.clone()));
        async { Ok(Response::new(body)) }
    });
    let routes = hello().into_iter().chain([("/large", large)]);
    let bounds = AcceptBounds { connections_max: 1, ..SHORT.0 };
    let write_timeout = Duration::from_millis(50);
    let server = start(routes, (bounds, HttpBounds { write_timeout, ..SHORT.1 })).await;
    let mut stalled = TcpStream::connect(server.addr).await.unwrap();
    stalled.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // Served only after the other connection has lost its place.
    let mut next = TcpStream::connect(server.addr).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), request_hello(&mut next)).await.unwrap();
    drop(stalled);
}

/// Requests `/` over HTTP/2, with a flow control window of this size.
async fn http2_request(addr: SocketAddr, window: u32) -> TcpStream {
    let settings = http2_frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat());
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let head = http2_frame(1, 0x5, 1, &HTTP2_GET);
    stream.write_all(&[PREFACE, &settings, &head].concat()).await.unwrap();
    stream
}

/// `:method: GET`, `:scheme: http`, `:path: /`, `:authority: localhost`, as HPACK has them.
const HTTP2_GET: [u8; 14] = *b"\x82\x86\x84\x41\x09localhost";

/// A chunk of a response that reports when it is dropped.
struct Kept(mpsc::Sender<()>, Vec<u8>);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.try_send(());
    }
}

/// A route with a response of this size, and what is received when it is freed.
fn kept_response(bytes: usize) -> ([Route; 1], mpsc::Receiver<()>) {
    let (gone, is_gone) = mpsc::channel(9);
    let kept = get(move |_| {
        let kept = Kept(gone.clone(), vec![b'x'; bytes]);
        async { answer(Bytes::from_owner(kept)) }
    });
    ([("/", kept)], is_gone)
}

async fn is_freed(is_gone: &mut mpsc::Receiver<()>) {
    tokio::time::timeout(Duration::from_secs(5), is_gone.recv()).await.expect("still kept");
}

#[tokio::test]
async fn an_unread_http2_response_is_reset_alone_and_freed() {
    let times = HttpBounds { write_timeout: Duration::from_millis(50), ..SHORT.1 };
    // Of the last, a part is sent.
    for (bytes, window) in [
        (5, 0),
        (2000, 0),
        (2000, 1),
        (2000, 1999),
        (100_000, 1),
        (100_000, 65_000),
        (100_000, 99_999),
    ] {
        let (routes, mut is_gone) = kept_response(bytes);
        let server = start(routes, (SHORT.0, times)).await;
        let mut stream = http2_request(server.addr, window).await;
        wait_until_reset(&mut stream).await;
        is_freed(&mut is_gone).await;
        // Another request on the same connection, with a window for its response.
        let settings = http2_frame(4, 0, 0, &[0, 4, 0, 0x0f, 0, 0]);
        let more = http2_frame(8, 0, 0, &[0, 0x0f, 0, 0]);
        let next = http2_frame(1, 0x5, 3, &HTTP2_GET);
        stream.write_all(&[settings, more, next].concat()).await.unwrap();
        let sent = read_http2_frame(&mut stream, 0).await;
        assert!(sent.is_some_and(|data| !data.is_empty()), "{bytes} bytes, window {window}");
    }
}

#[tokio::test]
async fn a_small_http2_response_of_which_a_part_is_unread_times_out_and_is_freed() {
    let times = HttpBounds { write_timeout: Duration::from_millis(50), ..SHORT.1 };
    let (routes, mut is_gone) = kept_response(5);
    let server = start(routes, (SHORT.0, times)).await;
    wait_until_closed(&mut http2_request(server.addr, 1).await).await;
    is_freed(&mut is_gone).await;
}

#[tokio::test]
async fn unread_http2_responses_are_refused_when_they_are_too_many() {
    // Each connection may keep one of any size.
    let (routes, _is_gone) = kept_response(30 << 20);
    let bounds = AcceptBounds { connections_max: 9, ..SHORT.0 };
    let server = start(routes, (bounds, SHORT.1)).await;
    let mut streams = Vec::new();
    let mut refused = 0;
    for _ in 0..4 {
        let mut stream = http2_request(server.addr, 0).await;
        let head = read_http2_frame(&mut stream, 1).await.unwrap();
        // `:status: 200` is the eighth entry of the static table.
        refused += usize::from(head[0] != 0x88);
        streams.push(stream);
    }
    assert_eq!(refused, 2, "64 MiB are kept");
}

async fn read_until(stream: &mut TcpStream, end: &str) {
    read_until_times(stream, end, 1).await;
}

async fn read_until_times(stream: &mut TcpStream, end: &str, times: usize) {
    let mut received = Vec::new();
    let found = |received: &[u8]| {
        received.windows(end.len()).filter(|window| *window == end.as_bytes()).count()
    };
    while found(&received) < times {
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_buf(&mut received));
        assert_ne!(read.await.expect("sent nothing in time").unwrap(), 0, "closed");
    }
}

#[tokio::test]
async fn an_http2_response_may_pause_for_longer_than_the_write_timeout() {
    let feed = Arc::<Feed>::default();
    feed.publish("1".to_owned(), "1".to_owned());
    let events = feed.clone();
    let paused = get(move |_| {
        let watching = events.watch("1").unwrap();
        async { Ok(Response::new(ApiBody::Events(watching))) }
    });
    let times = HttpBounds { write_timeout: Duration::from_millis(50), ..SHORT.1 };
    let server = start([("/", paused)], (SHORT.0, times)).await;
    let mut reading = http2_request(server.addr, 255).await;
    read_until(&mut reading, "snapshot").await;
    wait_until_reset(&mut http2_request(server.addr, 0).await).await; // takes as long as the timeout
    feed.publish("2".to_owned(), "2".to_owned());
    read_until(&mut reading, "tick").await;
}

/// Connects repeatedly until nothing listens; every accepted connection gets an answer.
async fn reconnects(addr: SocketAddr) -> usize {
    let mut answered = 0;
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    while let Ok(mut stream) = TcpStream::connect(addr).await {
        let mut answer = String::new();
        let exchange = async {
            stream.write_all(request).await?;
            stream.read_to_string(&mut answer).await
        };
        exchange.await.unwrap_or_else(|error| panic!("after {answered} answers: {error}"));
        assert!(answer.ends_with("hello"), "{answer:?}");
        answered += 1;
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_resets_no_accepted_connection() {
    let (bounds, http) = SHORT;
    let server = start(hello(), (AcceptBounds { connections_max: 100, ..bounds }, http)).await;
    let clients: Vec<_> = (0..8).map(|_| tokio::spawn(reconnects(server.addr))).collect();
    tokio::task::yield_now().await;
    server.stop.send(()).unwrap();
    for client in clients {
        client.await.unwrap();
    }
    server.done.await.unwrap();
}

#[tokio::test]
async fn a_response_that_tls_had_to_buffer_is_flushed() {
    let app = AppState::new(demo::draft());
    let (stream, client) = stalled_client::connection().await;
    let router = Router::new(Api::new(app.clone(), Arc::default()), routes()).unwrap();
    let door = HttpDoor::new(router, HttpBounds::default());
    tokio::spawn(door.serve(stream, Peer::Unix.into(), Shutdown::never()));
    let body = r#"{"policy":"login","key":"ann","cost":5}"#;
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {}", body.len());
    let received = client.ask(&app, &format!("{head}\r\n\r\n{body}")).await;
    assert!(received.starts_with("HTTP/1.1 200 OK\r\n"), "{received}");
}
