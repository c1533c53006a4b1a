//! Speaks the Redis protocol to the binary, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{DEADLINE, Server};

/// A server with that door open.
pub(crate) fn start(more: &[&str]) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--resp", "127.0.0.1:0"];
    Server::start_with(&[&args[..], more].concat())
}

impl Server {
    pub(crate) fn resp_addr(&self) -> SocketAddr {
        self.resp.expect("started with --resp")
    }

    pub(crate) fn resp_port(&self) -> String {
        self.resp_addr().port().to_string()
    }

    pub(crate) fn resp_connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.resp_addr()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends bytes on a connection of their own, and reads until the server closes it.
    pub(crate) fn resp_raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.resp_connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    /// What a line answers, and that the connection lives on.
    pub(crate) fn resp_line(&self, line: &str) -> String {
        let reply = self.resp_raw(format!("{line}\r\nQUIT\r\n").as_bytes());
        reply.strip_suffix("+OK\r\n").unwrap_or_else(|| panic!("{line}: {reply}")).to_owned()
    }

    /// The five integers that a line answers.
    pub(crate) fn five(&self, line: &str) -> [i64; 5] {
        five(&self.resp_line(line)).unwrap_or_else(|| panic!("{line}: {}", self.resp_line(line)))
    }
}

/// Five integers, if that is what they are.
pub(crate) fn five(reply: &str) -> Option<[i64; 5]> {
    let lines = reply.strip_prefix("*5\r\n")?.split_terminator("\r\n");
    let numbers: Option<Vec<i64>> =
        lines.map(|line| line.strip_prefix(':')?.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// A command as clients send it.
pub(crate) fn array(words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}
