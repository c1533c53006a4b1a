//! RESP on tokio alone: large reads, one write for all that was read.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"*5\r\n:0\r\n:1000001\r\n:1000000\r\n:-1\r\n:1\r\n";

pub(super) async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream));
    }
}

async fn connection(mut stream: TcpStream) -> Option<()> {
    let (mut bytes, mut filled) = (vec![0; 64 << 10], 0);
    let mut out = Vec::with_capacity(16 << 10);
    loop {
        filled += Some(stream.read(&mut bytes[filled..]).await.ok()?).filter(|count| *count > 0)?;
        let mut done = 0;
        while let Some(length) = command(&bytes[done..filled]) {
            done += length;
            out.extend_from_slice(ANSWER);
        }
        bytes.copy_within(done..filled, 0);
        filled -= done;
        stream.write_all(&out).await.ok()?;
        out.clear();
    }
}

/// How long the command at the beginning is, once it is all there.
fn command(bytes: &[u8]) -> Option<usize> {
    let (parts, mut at) = number(bytes, b'*', 0)?;
    for _ in 0..parts {
        let (length, start) = number(bytes, b'$', at)?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some(at)
}

/// A number behind its mark, and where the next line begins.
fn number(bytes: &[u8], mark: u8, at: usize) -> Option<(usize, usize)> {
    assert_eq!(*bytes.get(at)?, mark, "a client of our own");
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate().skip(at + 1) {
        if *byte == b'\r' {
            return Some((number, index + 2));
        }
        number = number * 10 + usize::from(byte - b'0');
    }
    None
}
