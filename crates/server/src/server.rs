//! The accept loop: connections in, requests to the router, and an orderly end.
//!
//! Every bound is here: how many connections, how long a request head may take and how large it may be, how
//! long the last requests have at the end. The listener and the stop signal are parameters.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bounds of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many connections are served at once; the next one waits to be accepted.
    pub(crate) connections_max: usize,
    /// How long a request head may take, and so how long a connection may idle.
    pub(crate) head_timeout: Duration,
    /// How large a request head may be. How many headers it has, at most 100, is hyper's default: a number of
    /// our own would cost an allocation per request.
    pub(crate) head_bytes_max: usize,
    /// How long those who are connected have, once the server is told to stop, to get an answer that says that it
    /// is the last; and as long again once nobody can connect any more.
    pub(crate) farewell: Duration,
    /// How long requests in flight have after that.
    pub(crate) drain: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            head_timeout: Duration::from_secs(5),
            head_bytes_max: 32 << 10,
            farewell: Duration::from_secs(1),
            drain: Duration::from_secs(10),
        }
    }
}

/// The address at the other end of the connection, for handlers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Serves until `stop` is ready, then ends without failing anybody.
///
/// A connection that is kept alive cannot simply be closed: its next request may be on its way. So first every
/// answer says `Connection: close`, and new connections are still served; then the listener goes; then what is
/// left is idle, and is closed.
pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    stop: impl Future<Output = ()>,
) {
    let graceful = GracefulShutdown::new();
    let stopping = Arc::new(AtomicBool::new(false));
    {
        let mut accepting = pin!(accept(&listener, &router, bounds, &graceful, &stopping));
        tokio::select! {
            () = &mut accepting => {}
            () = stop => {}
        }
        stopping.store(true, Ordering::Relaxed);
        tokio::select! {
            () = accepting => {}
            () = emptied(&graceful, bounds.farewell) => {}
        }
    }
    drop(listener);
    emptied(&graceful, bounds.farewell).await;
    let in_flight = graceful.count();
    if tokio::time::timeout(bounds.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(in_flight, "stopped with requests unfinished");
    }
}

/// Ready when no connection is left, or after `at_most`.
async fn emptied(graceful: &GracefulShutdown, at_most: Duration) {
    let empty = async {
        while graceful.count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(at_most, empty).await;
}

async fn accept(
    listener: &TcpListener,
    router: &Router,
    bounds: Bounds,
    graceful: &GracefulShutdown,
    stopping: &Arc<AtomicBool>,
) {
    let slots = Arc::new(Semaphore::new(bounds.connections_max));
    let http = http(bounds);
    // Closed only when the semaphore is, and nobody closes it.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let to = Handler {
                    router: TowerToHyperService::new(router.clone()),
                    peer: Peer(peer.ip().to_canonical()),
                    stopping: stopping.clone(),
                };
                serve(stream, to, &http, graceful, slot);
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

fn http(bounds: Bounds) -> http1::Builder {
    let mut http = http1::Builder::new();
    // Without the timer the timeout would be a number that nobody looks at.
    http.timer(TokioTimer::new()).header_read_timeout(bounds.head_timeout);
    // The buffer bounds the head, also one that never ends; hyper's `max_header_size` looks at whole heads only.
    http.max_buf_size(bounds.head_bytes_max);
    // Answers are small: one buffer and a plain write, instead of two gathered by the kernel.
    http.writev(false);
    http
}

/// What answers the requests of one connection.
#[derive(Clone)]
struct Handler {
    router: TowerToHyperService<Router>,
    peer: Peer,
    stopping: Arc<AtomicBool>,
}

fn serve(
    stream: TcpStream,
    handler: Handler,
    http: &http1::Builder,
    graceful: &GracefulShutdown,
    slot: OwnedSemaphorePermit,
) {
    // An answer is one small write: waiting for more would only delay it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(handler.clone(), request));
    let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended");
        }
        drop(slot);
    });
}

async fn answer(handler: Handler, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(handler.peer);
    let mut response = hyper::service::Service::call(&handler.router, request).await?;
    if handler.stopping.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// A connection that died before it was accepted says nothing about the next one. Anything else, such as no
/// file descriptors left, does not pass at once: trying again without a pause would only burn a core.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::error!(%error, "cannot accept connections, trying again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::{mpsc, oneshot};
    use tokio::task::JoinHandle;

    use super::*;

    const SHORT: Bounds = Bounds {
        connections_max: 2,
        head_timeout: Duration::from_millis(50),
        head_bytes_max: 8 << 10,
        farewell: Duration::from_millis(50),
        drain: Duration::from_secs(5),
    };

    struct Running {
        addr: SocketAddr,
        stop: oneshot::Sender<()>,
        done: JoinHandle<()>,
    }

    async fn start(router: Router, bounds: Bounds) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap_or_default() };
        let done = tokio::spawn(run(listener, router, bounds, stopped));
        Running { addr, stop, done }
    }

    fn hello() -> Router {
        Router::new().route("/", get(async || "hello"))
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
    async fn a_head_that_never_ends_is_cut_off() {
        let server = start(hello(), SHORT).await;
        for head in ["", "GET / HTTP/1.1\r\nHost: x\r\n"] {
            let answer = until_closed(server.addr, head).await;
            assert!(!answer.contains("hello"), "{head:?} got {answer:?}");
        }
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused() {
        let server = start(hello(), SHORT).await;
        let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(9 << 10));
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(101));
        for head in [large, many] {
            let answer = until_closed(server.addr, head).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        }
    }

    #[tokio::test]
    async fn idle_connections_over_the_cap_give_way_in_the_end() {
        let server = start(hello(), SHORT).await;
        let mut idle = Vec::new();
        for _ in 0..SHORT.connections_max {
            idle.push(TcpStream::connect(server.addr).await.unwrap());
        }
        let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        assert!(until_closed(server.addr, request).await.ends_with("hello"));
    }

    /// A route that says when it was reached, and answers once it gets a permit.
    fn gated() -> (Router, Arc<Semaphore>, mpsc::Receiver<()>) {
        let (reached, was_reached) = mpsc::channel(1);
        let gate = Arc::new(Semaphore::new(0));
        let opened = gate.clone();
        let handler = get(async move || {
            reached.send(()).await.unwrap();
            let _ = opened.acquire().await;
            "finished"
        });
        (Router::new().route("/", handler), gate, was_reached)
    }

    #[tokio::test]
    async fn a_request_in_flight_is_finished_before_the_end() {
        let (router, gate, mut reached) = gated();
        let server = start(router, SHORT).await;
        let client = tokio::spawn(until_closed(server.addr, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        reached.recv().await.unwrap();
        server.stop.send(()).unwrap();
        gate.add_permits(1);
        assert!(client.await.unwrap().ends_with("finished"));
        server.done.await.unwrap();
        assert!(TcpStream::connect(server.addr).await.is_err(), "still accepting");
    }

    #[tokio::test]
    async fn a_kept_connection_gets_a_last_answer_and_so_do_new_ones() {
        let long = Duration::from_secs(5);
        let server = start(hello(), Bounds { head_timeout: long, farewell: long, ..SHORT }).await;
        let mut kept = TcpStream::connect(server.addr).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        kept.write_all(request).await.unwrap();
        let mut first = Vec::new();
        while !first.ends_with(b"hello") {
            assert_ne!(kept.read_buf(&mut first).await.unwrap(), 0);
        }
        server.stop.send(()).unwrap();
        // The server cannot end while a connection is open, so that these are answered whenever they come.
        let fresh =
            until_closed(server.addr, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(fresh.await.ends_with("hello"));
        kept.write_all(request).await.unwrap();
        let mut last = String::new();
        kept.read_to_string(&mut last).await.unwrap();
        assert!(last.contains("connection: close") && last.ends_with("hello"), "{last}");
        tokio::time::timeout(long, server.done).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_that_never_finishes_does_not_keep_the_server_up() {
        let (router, _gate, mut reached) = gated();
        let server = start(router, Bounds { drain: Duration::from_millis(50), ..SHORT }).await;
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        reached.recv().await.unwrap();
        server.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(5), server.done).await.unwrap().unwrap();
    }
}
