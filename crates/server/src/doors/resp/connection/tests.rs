//! Clients that send slowly, send nothing or read nothing, with short bounds.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{Connection, Session};
use crate::doors::resp::handshake::Password;
use crate::doors::resp::{RespBounds, RespDoor};
use crate::doors::stalled_client;
use crate::doors::test_server::{self, LONG, TestServer, read_to_end};
use crate::net::{AcceptBounds, Client, ConnectionHandler, Shutdown};
use crate::service::{AppState, demo};
use tidegate_request::Peer;

const SHORT: Duration = Duration::from_millis(50);

async fn start(bounds: RespBounds) -> TestServer {
    let door = RespDoor::new(AppState::new(demo::draft()), None, bounds);
    let short = AcceptBounds { connections_max: 10, notice: SHORT, drain: LONG };
    test_server::start(door, short).await
}

fn long_timeouts() -> RespBounds {
    RespBounds {
        opening_timeout: LONG,
        idle_timeout: None,
        transaction_timeout: LONG,
        frame_timeout: LONG,
        write_deadline: LONG,
        wrong_password_delay: Duration::ZERO,
    }
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
    tokio::spawn(door.serve(stream, Peer::Unix.into(), Shutdown::never()));
    let reply = client.ask(&app, "TG.CHECK login ann 5\r\n").await;
    assert!(reply.starts_with("*5\r\n:0\r\n:5\r\n:0\r\n:-1\r\n"), "{reply}");
}

#[tokio::test]
async fn closing_a_connection_that_never_reads_times_out() {
    let bounds = RespBounds { write_deadline: SHORT, ..long_timeouts() };
    let door = RespDoor::new(AppState::new(demo::draft()), None, bounds);
    let (stream, _client) = stalled_client::connection().await;
    let (client, session) = (Client::from(Peer::Unix), Session::new(1, Peer::Unix, true));
    let closing = Connection::new(&door.0, stream, &client, session).close();
    let closed = tokio::time::timeout(LONG, closing).await.expect("still open");
    assert_eq!(closed.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

/// A server with the password `right`.
async fn start_locked(bounds: RespBounds) -> TestServer {
    let app = AppState::new(demo::draft());
    let door = RespDoor::new(app, Some(Password::new("right")), bounds);
    let short = AcceptBounds { connections_max: 10, notice: SHORT, drain: LONG };
    test_server::start(door, short).await
}

async fn send(server: &TestServer, commands: &str) -> TcpStream {
    send_from("127.0.0.1", server, commands).await
}

async fn send_from(ip: &str, server: &TestServer, commands: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((ip.parse::<Ipv4Addr>().unwrap(), 0).into()).unwrap();
    let mut stream = socket.connect(server.addr).await.unwrap();
    stream.write_all(commands.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn who_does_not_authenticate_in_time_is_disconnected() {
    let server = start_locked(RespBounds { opening_timeout: SHORT, ..long_timeouts() }).await;
    let mut right = send(&server, "AUTH right\r\n").await;
    for (sent, expected) in [("", ""), ("PING\r\n", "-NOAUTH"), ("*1\r\n", "")] {
        let reply = read_to_end(&mut send(&server, sent).await).await;
        assert!(String::from_utf8(reply).unwrap().starts_with(expected), "{sent:?}");
    }
    // Also after `RESET`, and for a silent client of a door without a password.
    let reply = read_to_end(&mut send(&server, "AUTH right\r\nRESET\r\n").await).await;
    assert_eq!(reply, b"+OK\r\n+RESET\r\n");
    right.write_all(b"QUIT\r\n").await.unwrap();
    assert_eq!(read_to_end(&mut right).await, b"+OK\r\n+OK\r\n");
    let open = start(RespBounds { opening_timeout: SHORT, ..long_timeouts() }).await;
    assert_eq!(read_to_end(&mut send(&open, "").await).await, b"");
}

#[tokio::test]
async fn a_connection_gets_three_wrong_passwords_answered() {
    let server = start_locked(long_timeouts()).await;
    for wrong in [
        "AUTH wrong\r\n",
        "AUTH default wrong\r\n",
        "AUTH ann right\r\n",
        "HELLO 3 AUTH default wrong\r\n",
    ] {
        let mut flood = send(&server, &wrong.repeat(1000)).await;
        let reply = String::from_utf8(read_to_end(&mut flood).await).unwrap();
        assert_eq!(reply.matches("-WRONGPASS").count(), 3, "{wrong:?}: {reply}");
    }
    // Authenticated or not, in between or in a transaction.
    let mixed =
        "AUTH wrong\r\nAUTH right\r\nMULTI\r\nAUTH wrong\r\nAUTH wrong\r\nPING\r\nEXEC\r\nPING\r\n";
    let reply = String::from_utf8(read_to_end(&mut send(&server, mixed).await).await).unwrap();
    assert_eq!(
        (reply.matches("-WRONGPASS").count(), reply.matches("PONG").count()),
        (3, 0),
        "{reply}"
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_passwords_of_a_client_are_answered_one_after_the_other() {
    let delay = Duration::from_millis(250);
    let server = start_locked(RespBounds { wrong_password_delay: delay, ..long_timeouts() }).await;
    let began = tokio::time::Instant::now();
    let guess = async || {
        let mut guessing = send(&server, &"AUTH wrong\r\n".repeat(3)).await;
        read_to_end(&mut guessing).await
    };
    let right = async {
        let mut right = send_from("127.0.0.2", &server, "AUTH right\r\nQUIT\r\n").await;
        assert_eq!(read_to_end(&mut right).await, b"+OK\r\n+OK\r\n");
        began.elapsed()
    };
    let (_, _, waited) = tokio::join!(guess(), guess(), right);
    assert!(began.elapsed() >= 6 * delay, "{:?}", began.elapsed());
    assert!(waited < 2 * delay, "another client does not wait: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_wait_for_the_answer_learns_nothing() {
    let delay = Duration::from_millis(250);
    let server = start_locked(RespBounds { wrong_password_delay: delay, ..long_timeouts() }).await;
    for login in
        ["AUTH right\r\n", "HELLO 2 AUTH default right\r\n", "MULTI\r\nAUTH right\r\nEXEC\r\n"]
    {
        let began = tokio::time::Instant::now();
        let mut guess = send(&server, "ECHO x\r\nAUTH wrong\r\n").await;
        // Without the reply to the password.
        drop(guess.read_u8().await);
        drop(guess);
        let mut right = send(&server, &format!("{login}QUIT\r\n")).await;
        let reply = String::from_utf8(read_to_end(&mut right).await).unwrap();
        assert!(reply.ends_with("+OK\r\n") && !reply.contains("WRONGPASS"), "{login:?}: {reply}");
        assert!(began.elapsed() >= delay, "{login:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn who_hangs_up_while_a_password_waits_gives_its_place_back() {
    let bounds = RespBounds { wrong_password_delay: LONG, ..long_timeouts() };
    let server = start_locked(bounds).await;
    // More than there are places for connections.
    for _ in 0..30 {
        drop(send(&server, "AUTH wrong\r\n").await);
    }
    let reply = async || {
        let mut stream = send_from("127.0.0.2", &server, "AUTH right\r\nQUIT\r\n").await;
        read_to_end(&mut stream).await
    };
    let served = async { while reply().await != b"+OK\r\n+OK\r\n" {} };
    tokio::time::timeout(LONG / 2, served).await.expect("a place is free again");
}

#[tokio::test]
async fn an_idle_transaction_times_out() {
    let server = start(RespBounds { transaction_timeout: SHORT, ..long_timeouts() }).await;
    let reply = read_to_end(&mut send(&server, "MULTI\r\nPING\r\n").await).await;
    assert_eq!(reply, b"+OK\r\n+QUEUED\r\n");
    let mut ended = send(&server, "MULTI\r\nDISCARD\r\n").await;
    let silence = async { ended.read_exact(&mut [0; 11]).await };
    assert!(tokio::time::timeout(SHORT * 4, silence).await.is_err(), "no transaction, no timeout");
}
