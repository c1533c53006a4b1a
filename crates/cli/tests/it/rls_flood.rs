//! A gRPC client that floods the server does not affect other clients.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::fleet::question;
use crate::http2::{ended_by_server, frame};
use crate::processes::wait_until;
use crate::support::{DEADLINE, Folder, Server, tidegate};

const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The HTTP/2 error code `ENHANCE_YOUR_CALM`.
const CALM: u32 = 0xb;

/// The header block of a gRPC call in HPACK, without the dynamic table.
fn head() -> Vec<u8> {
    let text = |index: u8, text: &str| {
        [&[index, u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat()
    };
    // `:method: POST` and `:scheme: http` are in the static table, and so are the names of the other headers.
    [
        &[0x83, 0x86][..],
        &text(0x04, METHOD),
        &text(0x01, "x"),
        &[0x0f, 0x10],
        &text(0, "application/grpc")[1..],
    ]
    .concat()
}

/// A call that is reset at once.
fn reset_call(stream: u32) -> Vec<u8> {
    [frame(1, 0x4, stream, &head()), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// The error code of the server's GOAWAY, if there is one.
fn goaway_error(mut frames: &[u8]) -> Option<u32> {
    while let Some((head, rest)) = frames.split_at_checked(9) {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (payload, rest) = rest.split_at_checked(length)?;
        if head[3] == 7 {
            return Some(u32::from_be_bytes(payload.get(4..8)?.try_into().ok()?));
        }
        frames = rest;
    }
    None
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.grpc.as_deref().unwrap()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    stream
}

#[test]
fn rapid_resets_end_their_connection_and_do_not_affect_others() {
    let folder = Folder::new();
    let mut command = tidegate(&["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    // A single heap, so that freed memory is visible.
    command.env("MALLOC_ARENA_MAX", "1");
    let server = Server::launched(command.stderr(Stdio::null()));
    let question = folder.write("question", question());
    let others = Command::new("h2load")
        .args(["-n", "20000", "-c", "4", "-m", "16", "-d", &question])
        .args(["-H", "content-type: application/grpc", "-H", "te: trailers"])
        .arg(format!("http://{}{METHOD}", server.grpc.as_deref().unwrap()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cannot start h2load; `./dev clients` installs what the tests need");
    let flood: Vec<u8> = (0..10_000).flat_map(|number| reset_call(2 * number + 1)).collect();
    let memory = || server.metric("process_resident_memory_bytes").unwrap();
    let mut after = Vec::new();
    for _ in 0..12 {
        let output = ended_by_server(connect(&server), &flood);
        assert_eq!(goaway_error(&output), Some(CALM), "{output:?}");
        after.push(memory());
    }
    let others = others.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&others.stdout);
    assert!(output.contains("20000 succeeded, 0 failed, 0 errored"), "{output}");
    let (early, last) = (after[2], after[11]);
    assert!(last < early + 4e6, "{after:?}");
    let open = || server.metric("tidegate_connections{door=\"grpc\"}").unwrap();
    wait_until("no connection is left", DEADLINE, || open() < 1.0);
}
