//! Clients that send slowly, send nothing or read nothing, with short bounds.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Connection, Session};
use crate::doors::resp::{RespBounds, RespDoor};
use crate::doors::stalled_client;
use crate::doors::test_server::{self, LONG, TestServer, read_to_end};
use crate::net::{AcceptBounds, ConnectionHandler, Shutdown};
use crate::service::{AppState, demo};
use tidegate_request::Peer;

const SHORT: Duration = Duration::from_millis(50);

async fn start(bounds: RespBounds) -> TestServer {
    let door = RespDoor::new(AppState::new(demo::draft()), None, bounds);
    let short = AcceptBounds { connections_max: 10, notice: SHORT, drain: LONG };
    test_server::start(door, short).await
}

fn long_timeouts() -> RespBounds {
    RespBounds { idle_timeout: None, frame_timeout: LONG, write_deadline: LONG }
}

#[tokio::test]
async fn an_unfinished_command_times_out() {
    let server = start(RespBounds { frame_timeout: SHORT, ..long_timeouts() }).await;
    for half in ["*1\r\n$4\r\nPI", "PIN", "*"] {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(format!("PING\r\n{half}").as_bytes()).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"+PONG\r\n", "{half:?}");
    }
}

#[tokio::test]
async fn a_slow_sender_times_out_as_well() {
    let server = start(RespBounds { frame_timeout: SHORT, ..long_timeouts() }).await;
    let (mut reading, mut writing) = TcpStream::connect(server.addr).await.unwrap().into_split();
    let dripping = tokio::spawn(async move {
        let mut interval = tokio::time::interval(SHORT / 5);
        while writing.write_all(b"x").await.is_ok() {
            interval.tick().await;
        }
    });
    let mut reply = Vec::new();
    let read = reading.read_to_end(&mut reply);
    let _ = tokio::time::timeout(LONG, read).await.expect("still open");
    assert_eq!(reply, b"");
    drop(reading);
    tokio::time::timeout(LONG, dripping).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_connection_is_closed_only_with_an_idle_timeout() {
    let server = start(RespBounds { idle_timeout: Some(SHORT), ..long_timeouts() }).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, b"");

    let server = start(RespBounds { frame_timeout: SHORT, ..long_timeouts() }).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let silence = stream.read_u8();
    assert!(
        tokio::time::timeout(SHORT * 4, silence).await.is_err(),
        "an idle connection is not an unfinished command"
    );
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected_and_replies_do_not_pile_up() {
    let server = start(RespBounds { write_deadline: SHORT, ..long_timeouts() }).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let echo = format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}\r\n", "x".repeat(60_000));
    let flood = async {
        // The kernel buffers a few megabytes; the server would have to keep more than a hundred.
        for _ in 0..2_000 {
            if stream.write_all(echo.as_bytes()).await.is_err() {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(LONG, flood).await.expect("neither read nor disconnected"));
}

#[tokio::test]
async fn a_shutdown_answers_received_commands_and_closes() {
    let server = start(long_timeouts()).await;
    let mut idle = TcpStream::connect(server.addr).await.unwrap();
    let mut busy = TcpStream::connect(server.addr).await.unwrap();
    busy.write_all(b"PING\r\n").await.unwrap();
    let mut pong = [0; 7];
    busy.read_exact(&mut pong).await.unwrap();
    server.stop.send(()).unwrap();
    busy.write_all(b"TG.CHECK login ann\r\n").await.unwrap();
    assert!(read_to_end(&mut busy).await.starts_with(b"*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n"));
    assert_eq!(read_to_end(&mut idle).await, b"");
    drop((busy, idle));
    tokio::time::timeout(LONG, server.done).await.unwrap().unwrap();
}

#[tokio::test]
async fn thousands_of_pipelined_commands_are_answered_in_order() {
    let server = start(long_timeouts()).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let (mut sent, mut expected) = (String::new(), String::new());
    for number in (0..3_000).map(|n: u32| n.to_string()) {
        sent.extend(["ECHO ", &number, "\r\n"]);
        expected.extend(["$", &number.len().to_string(), "\r\n", &number, "\r\n"]);
    }
    stream.write_all((sent + "QUIT\r\n").as_bytes()).await.unwrap();
    let reply = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert_eq!(reply, expected + "+OK\r\n");
}

#[tokio::test]
async fn a_response_that_tls_had_to_buffer_is_flushed() {
    let app = AppState::new(demo::draft());
    let (stream, client) = stalled_client::connection().await;
    let door = RespDoor::new(app.clone(), None, long_timeouts());
    tokio::spawn(door.serve(stream, Peer::Unix, Shutdown::never()));
    let reply = client.ask(&app, "TG.CHECK login ann 5\r\n").await;
    assert!(reply.starts_with("*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n"), "{reply}");
}

#[tokio::test]
async fn closing_a_connection_that_never_reads_times_out() {
    let bounds = RespBounds { write_deadline: SHORT, ..long_timeouts() };
    let door = RespDoor::new(AppState::new(demo::draft()), None, bounds);
    let (stream, _client) = stalled_client::connection().await;
    let closing = Connection::new(&door.0, stream, Session::new(1, Peer::Unix, true)).close();
    let closed = tokio::time::timeout(LONG, closing).await.expect("still open");
    assert_eq!(closed.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
