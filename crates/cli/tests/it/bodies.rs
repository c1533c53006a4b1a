//! The memory bound of large bodies over all doors. Other requests do not wait for them.

use std::io::Write;
use std::net::TcpStream;

use crate::processes::{DEADLINE, wait_until};
use crate::programs::output;
use crate::rls_grpc::python;
use crate::support::Server;

/// Just below the maximum of `/json`, a batch and a gRPC call.
const LARGE: usize = (1 << 20) - 1;
/// How many of them reach the bound.
const ROOM: usize = 64;

/// Sends a large body without its last byte.
fn unfinished(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    let head = format!("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", LARGE + 1);
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
    let mut held: Vec<_> = (0..ROOM).map(|_| unfinished(&server)).collect();
    // No further large body is read until the first ones time out.
    wait_until("large bodies are refused", DEADLINE, || {
        held.extend((0..8).map(|_| unfinished(&server)));
        answers(&server) == refused
    });
    let small = r#"{"checks":[{"policy":"api","key":"ann"}]}"#;
    assert_eq!(server.post("/v1/check/batch", small).status, 200);
    drop(held);
    wait_until("large bodies are read again", DEADLINE, || answers(&server) == read);
}
