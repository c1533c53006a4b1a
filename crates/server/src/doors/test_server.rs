//! Test helper: a door that listens on a free port, and what clients of it send and read.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
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

/// A frame of HTTP/2: length, kind, flags, stream.
pub(crate) fn http2_frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}
