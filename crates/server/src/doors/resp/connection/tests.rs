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

fn patient() -> RespBounds {
    RespBounds { idle_timeout: None, frame_timeout: LONG, write_deadline: LONG }
}

#[tokio::test]
async fn a_command_that_never_ends_is_cut_off() {
    let server = start(RespBounds { frame_timeout: SHORT, ..patient() }).await;
    for half in ["*1\r\n$4\r\nPI", "PIN", "*"] {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(format!("PING\r\n{half}").as_bytes()).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, b"+PONG\r\n", "{half:?}");
    }
}

#[tokio::test]
async fn who_sends_a_byte_now_and_then_is_cut_off_too() {
    let server = start(RespBounds { frame_timeout: SHORT, ..patient() }).await;
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
async fn silence_ends_a_connection_only_where_it_should() {
    let server = start(RespBounds { idle_timeout: Some(SHORT), ..patient() }).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, b"");

    let server = start(RespBounds { frame_timeout: SHORT, ..patient() }).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let silence = stream.read_u8();
    assert!(tokio::time::timeout(SHORT * 4, silence).await.is_err(), "idle is no command");
}

#[tokio::test]
async fn who_never_reads_is_cut_off_and_nothing_piles_up() {
    let server = start(RespBounds { write_deadline: SHORT, ..patient() }).await;
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
    assert!(tokio::time::timeout(LONG, flood).await.expect("neither read nor cut off"));
}

#[tokio::test]
async fn the_end_answers_what_has_come_and_closes() {
    let server = start(patient()).await;
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
async fn thousands_of_questions_at_once_are_answered_in_order() {
    let server = start(patient()).await;
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
async fn an_answer_that_tls_could_not_send_at_once_is_not_kept_back() {
    let app = AppState::new(demo::draft());
    let (stream, client) = stalled_client::connection().await;
    let door = RespDoor::new(app.clone(), None, patient());
    tokio::spawn(door.serve(stream, Peer::Unix, Shutdown::never()));
    let reply = client.ask(&app, "TG.CHECK login ann 5\r\n").await;
    assert!(reply.starts_with("*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n"), "{reply}");
}

#[tokio::test]
async fn who_never_reads_is_not_said_goodbye_to_for_ever() {
    let bounds = RespBounds { write_deadline: SHORT, ..patient() };
    let door = RespDoor::new(AppState::new(demo::draft()), None, bounds);
    let (stream, _client) = stalled_client::connection().await;
    let leaving = Connection::new(&door.0, stream, Session::new(1, Peer::Unix, true)).close();
    let left = tokio::time::timeout(LONG, leaving).await.expect("still open");
    assert_eq!(left.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
