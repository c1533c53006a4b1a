//! Silent and slow clients, with short bounds.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::net::Listener;
use crate::net::{AcceptBounds, accept};
use crate::service::AppState;
use crate::service::demo;
use tidegate_config::Address;

const SHORT: Duration = Duration::from_millis(50);
/// Far more than anything here takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// How HTTP/2 begins, with settings that change nothing.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

struct Running {
    addr: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

async fn start(waits: Timeouts) -> Running {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
    let Ok(Address::Tcp(addr)) = listener.address() else { panic!("no address") };
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.map_or(Duration::ZERO, |()| Duration::ZERO) };
    let service = Service::new(AppState::new(demo::draft())).unwrap();
    let door = GrpcDoor::new(service, GrpcBounds { waits, ..GrpcBounds::default() });
    let bounds = AcceptBounds { connections_max: 10, notice: SHORT, drain: 10 * LONG };
    let done = tokio::spawn(accept(listener, door, bounds, stopped));
    Running { addr, stop, done }
}

async fn connected(server: &Running, said: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(said).await.unwrap();
    stream
}

async fn until_closed(stream: &mut TcpStream) {
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    // Reset or ended.
    let _ = tokio::time::timeout(LONG, read).await.expect("still open");
}

/// Whether a ping comes back.
async fn is_alive(stream: &mut TcpStream) -> bool {
    let (ping, pong) = (b"\0\0\x08\x06\0\0\0\0\0tidegate", b"\0\0\x08\x06\x01\0\0\0\0tidegate");
    stream.write_all(ping).await.unwrap();
    let mut said = Vec::new();
    while !said.windows(pong.len()).any(|window| window == pong) {
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut said)).await.unwrap();
        if !read.is_ok_and(|count| count > 0) {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn who_does_not_begin_to_speak_is_cut_off_and_who_has_may_be_silent() {
    let server = start(Timeouts { head: SHORT, write: LONG }).await;
    let mut speaking = connected(&server, HELLO).await;
    assert!(is_alive(&mut speaking).await);
    for silent in [&b""[..], b"PRI * HT", &HELLO[..23]] {
        until_closed(&mut connected(&server, silent).await).await; // and with it as much time has passed
    }
    assert!(is_alive(&mut speaking).await);
}

#[tokio::test]
async fn who_does_not_begin_to_speak_does_not_delay_the_end() {
    let server = start(Timeouts { head: 10 * LONG, write: LONG }).await;
    let before = [connected(&server, b"").await, connected(&server, b"PRI * HT").await];
    // Accepted after them.
    assert!(is_alive(&mut connected(&server, HELLO).await).await);
    server.stop.send(()).unwrap();
    tokio::time::timeout(LONG, server.done).await.expect("still waiting").unwrap();
    drop(before);
}

/// A frame of HTTP/2: length, kind, flags, stream.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// Asks how the server is, and lets it send so much of each answer.
fn question(window: u8) -> Vec<u8> {
    let path = "/grpc.health.v1.Health/Check";
    // `:method: POST`, `:scheme: http`, then names that everybody's table has with values of our own.
    let head = [
        &[0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()][..],
        path.as_bytes(),
        &[0x01, 1, b'x', 0x0f, 0x10, 16],
        b"application/grpc",
    ];
    // `SETTINGS_INITIAL_WINDOW_SIZE`; an empty message after its length.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, window]);
    let hello = &HELLO[..24];
    [hello, &settings, &frame(1, 4, 1, &head.concat()), &frame(0, 1, 1, &[0; 5])].concat()
}

#[tokio::test]
async fn who_takes_nothing_of_an_answer_is_cut_off_and_who_takes_it_stays() {
    let server = start(Timeouts { head: LONG, write: SHORT }).await;
    let mut taking = connected(&server, &question(255)).await;
    assert!(is_alive(&mut taking).await);
    for window in [0, 1] {
        until_closed(&mut connected(&server, &question(window)).await).await;
    }
    assert!(is_alive(&mut taking).await);
}
