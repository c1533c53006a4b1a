//! The memory bounds of large bodies: over all doors, and for one client. Other requests do not wait for them.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::bounds::{OTHER, connect_from};
use crate::processes::{DEADLINE, wait_until};
use crate::programs::output;
use crate::rls_grpc::python;
use crate::support::Server;

/// Just below the maximum of `/json`, a batch and a gRPC call.
const LARGE: usize = (1 << 20) - 1;
/// How many of them reach the bound.
const ROOM: usize = 64;

/// Sends a large body without its last byte.
fn unfinished(server: &Server, from: &str) -> TcpStream {
    let mut stream = connect_from(from, server.addr);
    let head =
        format!("POST /json HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", LARGE + 1);
    // Above the bound the server may close the connection.
    let _ = stream.write_all(&[head.as_bytes(), &vec![b' '; LARGE]].concat());
    stream
}

/// The answers of the doors to a large body. The body is invalid, so that a door that reads it answers with an error.
fn answers(server: &Server) -> (u16, u16, String) {
    let blank = " ".repeat(LARGE);
    let [batch, json] = ["/v1/check/batch", "/json"].map(|path| server.post(path, &blank).status);
    let printed = output(&mut python(&[server.grpc.as_deref().unwrap(), "large"]));
    (batch, json, printed.lines().next().unwrap().to_owned())
}

#[test]
fn large_bodies_share_one_memory_bound_and_small_ones_need_none() {
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let read = (400, 400, "INVALID_ARGUMENT".to_owned());
    let refused = (503, 503, "RESOURCE_EXHAUSTED".to_owned());
    assert_eq!(answers(&server), read);
    // One client takes a quarter at most.
    let unfinished = |client: usize| unfinished(&server, &format!("127.0.0.{}", 2 + client % 8));
    let mut held: Vec<_> = (0..ROOM).map(unfinished).collect();
    // No further large body is read until the first ones time out.
    wait_until("large bodies are refused", DEADLINE, || {
        held.extend((0..8).map(unfinished));
        answers(&server) == refused
    });
    let small = r#"{"checks":[{"policy":"api","key":"ann"}]}"#;
    assert_eq!(server.post("/v1/check/batch", small).status, 200);
    drop(held);
    wait_until("large bodies are read again", DEADLINE, || answers(&server) == read);
}

/// The status of the answer to a large body.
fn status_for(server: &Server, from: &str) -> String {
    let mut stream = unfinished(server, from);
    let _ = stream.write_all(b" ");
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

#[test]
fn large_bodies_of_one_client_leave_room_for_others() {
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let mut held: Vec<_> = (0..ROOM).map(|_| unfinished(&server, OTHER)).collect();
    wait_until("its large bodies are refused", DEADLINE, || {
        held.extend((0..8).map(|_| unfinished(&server, OTHER)));
        status_for(&server, OTHER) == "503"
    });
    assert_eq!(answers(&server), (400, 400, "INVALID_ARGUMENT".to_owned()));
}
