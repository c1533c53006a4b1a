//! Large bodies: how many at once, whichever door they come by, and that nobody else waits for them.

use std::io::Write;
use std::net::TcpStream;

use crate::processes::{DEADLINE, wait_until};
use crate::programs::output;
use crate::rls_grpc::python;
use crate::support::Server;

/// Just below what `/json`, a batch and a call may have.
const LARGE: usize = (1 << 20) - 1;
/// How many of them fill the server.
const ROOM: usize = 64;

/// A large body, but for its last byte.
fn unfinished(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    let head = format!("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", LARGE + 1);
    // Who finds no room may be hung up on.
    let _ = stream.write_all(&[head.as_bytes(), &vec![b' '; LARGE]].concat());
    stream
}

/// How each door that takes large bodies answers one. It makes no sense, and who has read it says so.
fn answers(server: &Server) -> (u16, u16, String) {
    let blank = " ".repeat(LARGE);
    let [batch, json] = ["/v1/check/batch", "/json"].map(|path| server.post(path, &blank).status);
    let said = output(&mut python(&[server.grpc.as_deref().unwrap(), "large"]));
    (batch, json, said.lines().next().unwrap().to_owned())
}

#[test]
fn all_large_bodies_share_one_room_and_small_ones_need_none() {
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let read = (400, 400, "INVALID_ARGUMENT".to_owned());
    let refused = (503, 503, "RESOURCE_EXHAUSTED".to_owned());
    assert_eq!(answers(&server), read);
    let mut held: Vec<_> = (0..ROOM).map(|_| unfinished(&server)).collect();
    // Until those that came first are given up, nothing fits beside them that is as large.
    wait_until("there is no room", DEADLINE, || {
        held.extend((0..8).map(|_| unfinished(&server)));
        answers(&server) == refused
    });
    let small = r#"{"checks":[{"policy":"api","key":"ann"}]}"#;
    assert_eq!(server.post("/v1/check/batch", small).status, 200);
    drop(held);
    wait_until("there is room again", DEADLINE, || answers(&server) == read);
}
