//! HTTP/2 upstreams that send GOAWAY or reset streams: only unprocessed requests are retried over another connection.
//! Frames are written by hand, in the worst order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;

use crate::http2::frame;
use crate::processes::DEADLINE;
use crate::proxy_support::{Proxy, by_hand};
use crate::support::Folder;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

/// The frames that answer a request on a stream.
type Answer = fn(u32) -> Vec<u8>;

/// `:status: 200`, and no body.
fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, 5, stream, &[0x88])
}

fn reset(stream: u32, why: u32) -> Vec<u8> {
    frame(3, 0, stream, &why.to_be_bytes())
}

fn go_away(last: u32) -> Vec<u8> {
    frame(7, 0, 0, &[last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat())
}

/// Starts an upstream that answers numbered requests with `answer`. Returns its address and the number of requests.
fn upstream(
    answer: impl Fn(usize, u32, &TcpStream) -> Vec<u8> + Clone + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    let addr = by_hand(move |mut stream| {
        let mut hello = [0; 24];
        // A connection without requests ends here.
        if stream.read_exact(&mut hello).is_err() {
            return;
        }
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        while let Some((kind, flags, number)) = read_frame(&mut stream) {
            let output = match kind {
                HEADERS => answer(counted.fetch_add(1, SeqCst), number, &stream),
                SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
                _ => continue,
            };
            // The proxy may have closed the connection.
            let _ = stream.write_all(&output);
        }
    });
    (addr, count)
}

fn read_frame(stream: &mut TcpStream) -> Option<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).ok()?;
    Some((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

#[test]
fn after_goaway_new_requests_use_another_connection() {
    let (folder, (send, held)) = (Folder::new(), mpsc::channel());
    let (addr, count) = upstream(move |request, stream, connection| match request {
        0 => {
            send.send(connection.try_clone().unwrap()).unwrap();
            Vec::new()
        }
        1 => [go_away(stream), ok(stream)].concat(),
        _ => ok(stream),
    });
    let proxy = Proxy::start(&folder, &format!("h2c://{addr}"), "", "");
    std::thread::scope(|scope| {
        let long = scope.spawn(|| proxy.server.get("/long").status);
        let mut first = held.recv_timeout(DEADLINE).unwrap();
        for number in 0..3 {
            assert_eq!(proxy.server.send("POST", "/", &[], b"x").status, 200, "{number}");
        }
        first.write_all(&ok(1)).unwrap();
        assert_eq!(long.join().unwrap(), 200);
    });
    assert_eq!(count.load(SeqCst), 4, "nothing was sent twice");
}

#[test]
fn only_unprocessed_requests_are_retried() {
    let folder = Folder::new();
    let (crossed, refused): (Answer, Answer) = (|_| go_away(0), |it| reset(it, REFUSED_STREAM));
    let failed: Answer = |it| reset(it, INTERNAL_ERROR);
    for (first, method, body, expected) in [
        (crossed, "GET", "", (200, 2)),
        (refused, "GET", "", (200, 2)),
        (refused, "PUT", "", (200, 2)),
        (refused, "POST", "", (502, 1)),
        (crossed, "PUT", "a body", (502, 1)),
        (failed, "GET", "", (502, 1)),
    ] {
        let (addr, count) = upstream(move |request, stream, _| match request {
            0 => first(stream),
            _ => ok(stream),
        });
        let proxy = Proxy::start(&folder, &format!("h2c://{addr}"), "", "");
        let status = proxy.server.send(method, "/", &[], body.as_bytes()).status;
        assert_eq!((status, count.load(SeqCst)), expected, "{method} {body:?}");
        assert_eq!(proxy.server.get("/").status, 200, "{method} {body:?}: the next is served");
    }
}

#[test]
fn retries_are_bounded() {
    let (folder, (addr, count)) =
        (Folder::new(), upstream(|_, stream, _| reset(stream, REFUSED_STREAM)));
    let proxy = Proxy::start(&folder, &format!("h2c://{addr}"), "", "");
    assert_eq!(proxy.server.get("/").status, 502);
    assert_eq!(count.load(SeqCst), 3);
}
