//! Commands of the Redis protocol.

use std::fmt::Write;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Appends a command.
pub fn command(text: &mut String, parts: &[&str]) {
    let _ = write!(text, "*{}\r\n", parts.len());
    for part in parts {
        let _ = write!(text, "${}\r\n{part}\r\n", part.len());
    }
}

/// Sends so many commands at once, and waits for their answers: arrays of so many integers.
pub async fn exchange(
    stream: &mut TcpStream,
    text: &str,
    commands: usize,
    integers: usize,
    bytes: &mut [u8],
) {
    stream.write_all(text.as_bytes()).await.expect("a server that reads");
    let mut lines = 0;
    while lines < commands * (1 + integers) {
        let count = stream.read(bytes).await.expect("an answer");
        assert!(count > 0, "the server closed the connection");
        let answer = &bytes[..count];
        assert!(lines > 0 || answer[0] == b'*', "{}", String::from_utf8_lossy(answer));
        lines += answer.iter().filter(|byte| **byte == b'\n').count();
    }
}
