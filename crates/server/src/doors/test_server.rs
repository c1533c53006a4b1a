//! Test helper: a door that listens on a free port, and what clients of it send and read.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::net::{AcceptBounds, ConnectionHandler, Listener, accept};
use tidegate_config::Address;

/// Far longer than any test takes, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) struct TestServer {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: oneshot::Sender<()>,
    pub(crate) done: JoinHandle<()>,
}

pub(crate) async fn start(door: impl ConnectionHandler, bounds: AcceptBounds) -> TestServer {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let Ok(Address::Tcp(addr)) = listener.address() else { panic!("no address") };
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.map_or(Duration::ZERO, |()| Duration::ZERO) };
    let done = tokio::spawn(accept(listener, door, bounds, stopped));
    TestServer { addr, stop, done }
}

/// What the server sends until it closes the connection. If it cuts the client off, the end may be an error.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut reply = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut reply));
    let _ = read.await.expect("still open");
    reply
}

/// Reads frames of HTTP/2 until there is one of this kind, and returns its payload. `None` if the server closes first.
pub(crate) async fn read_http2_frame(stream: &mut TcpStream, kind: u8) -> Option<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        let read = tokio::time::timeout(LONG, stream.read_exact(&mut head));
        read.await.expect("sent nothing").ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        let read = tokio::time::timeout(LONG, stream.read_exact(&mut payload));
        read.await.expect("sent half a frame").ok()?;
        // Not the acknowledgement of settings.
        if head[3] == kind {
            return Some(payload);
        }
    }
}

/// Whether the server answers a ping of HTTP/2.
pub(crate) async fn answers_ping(stream: &mut TcpStream) -> bool {
    stream.write_all(&http2_frame(6, 0, 0, b"tidegate")).await.unwrap();
    read_http2_frame(stream, 6).await.is_some_and(|payload| payload == b"tidegate")
}

/// Waits until the server resets a stream, which must be cancelled, and alone.
pub(crate) async fn wait_until_reset(stream: &mut TcpStream) {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    assert_eq!(read_http2_frame(stream, 3).await.expect("closed"), CANCEL);
    assert!(answers_ping(stream).await, "the connection goes on");
}

/// A frame of HTTP/2: length, kind, flags, stream.
pub(crate) fn http2_frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}
