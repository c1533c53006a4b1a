//! Clients that send nothing or read nothing, with short bounds.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::doors::test_server::{
    self, LONG, TestServer, http2_frame, read_to_end, wait_until_reset,
};
use crate::net::AcceptBounds;
use crate::service::{AppState, demo};

const SHORT: Duration = Duration::from_millis(50);
/// The HTTP/2 preface, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn start(timeouts: Timeouts) -> TestServer {
    let service = Service::new(AppState::new(demo::draft())).unwrap();
    let door = GrpcDoor::new(service, GrpcBounds { timeouts, ..GrpcBounds::default() });
    let bounds = AcceptBounds { connections_max: 10, notice: SHORT, drain: 10 * LONG };
    test_server::start(door, bounds).await
}

async fn connected(server: &TestServer, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

/// Whether a ping comes back.
async fn is_alive(stream: &mut TcpStream) -> bool {
    let (ping, pong) = (b"\0\0\x08\x06\0\0\0\0\0tidegate", b"\0\0\x08\x06\x01\0\0\0\0tidegate");
    stream.write_all(ping).await.unwrap();
    let mut bytes = Vec::new();
    while !bytes.windows(pong.len()).any(|window| window == pong) {
        let read = tokio::time::timeout(LONG, stream.read_buf(&mut bytes)).await.unwrap();
        if !read.is_ok_and(|count| count > 0) {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn a_client_without_a_preface_is_disconnected_and_an_idle_one_stays() {
    let server = start(Timeouts { head: SHORT, write: LONG }).await;
    let mut idle = connected(&server, PREFACE).await;
    assert!(is_alive(&mut idle).await);
    for silent in [&b""[..], b"PRI * HT", &PREFACE[..23]] {
        read_to_end(&mut connected(&server, silent).await).await; // takes as long as the timeout
    }
    assert!(is_alive(&mut idle).await);
}

#[tokio::test]
async fn a_client_without_a_preface_does_not_delay_the_shutdown() {
    let server = start(Timeouts { head: 10 * LONG, write: LONG }).await;
    let before = [connected(&server, b"").await, connected(&server, b"PRI * HT").await];
    // Accepted after them.
    assert!(is_alive(&mut connected(&server, PREFACE).await).await);
    server.stop.send(()).unwrap();
    tokio::time::timeout(LONG, server.done).await.expect("still waiting").unwrap();
    drop(before);
}

/// A health check, with a flow control window of this size.
fn question(window: u8) -> Vec<u8> {
    let path = "/grpc.health.v1.Health/Check";
    // `:method: POST`, `:scheme: http`, then names of the static table with literal values.
    let head = [
        &[0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()][..],
        path.as_bytes(),
        &[0x01, 1, b'x', 0x0f, 0x10, 16],
        b"application/grpc",
    ];
    // `SETTINGS_INITIAL_WINDOW_SIZE`; an empty message after its length.
    let settings = http2_frame(4, 0, 0, &[0, 4, 0, 0, 0, window]);
    let preface = &PREFACE[..24];
    [preface, &settings, &http2_frame(1, 4, 1, &head.concat()), &http2_frame(0, 1, 1, &[0; 5])]
        .concat()
}

#[tokio::test]
async fn a_response_that_is_not_read_is_reset_and_its_connection_stays() {
    let server = start(Timeouts { head: LONG, write: SHORT }).await;
    let mut reading = connected(&server, &question(255)).await;
    assert!(is_alive(&mut reading).await);
    wait_until_reset(&mut connected(&server, &question(0)).await).await;
    // Of a response as small as this, a part is sent: its connection ends.
    read_to_end(&mut connected(&server, &question(1)).await).await;
    assert!(is_alive(&mut reading).await);
}
