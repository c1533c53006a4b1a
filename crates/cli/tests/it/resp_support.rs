//! A minimal client of the Redis protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{DEADLINE, Server};

/// Starts a server with the RESP door.
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

    /// Sends bytes over a new connection, and reads until the server closes it.
    pub(crate) fn resp_raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.resp_connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    /// The reply to a line, after which the connection is still open.
    pub(crate) fn resp_line(&self, line: &str) -> String {
        let reply = self.resp_raw(format!("{line}\r\nQUIT\r\n").as_bytes());
        reply.strip_suffix("+OK\r\n").unwrap_or_else(|| panic!("{line}: {reply}")).to_owned()
    }

    /// The five integers of the reply to a line.
    pub(crate) fn cell_reply(&self, line: &str) -> [i64; 5] {
        parse_cell_reply(&self.resp_line(line))
            .unwrap_or_else(|| panic!("{line}: {}", self.resp_line(line)))
    }
}

/// Parses a reply of five integers.
pub(crate) fn parse_cell_reply(reply: &str) -> Option<[i64; 5]> {
    let lines = reply.strip_prefix("*5\r\n")?.split_terminator("\r\n");
    let numbers: Option<Vec<i64>> =
        lines.map(|line| line.strip_prefix(':')?.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// A command as an array of bulk strings.
pub(crate) fn array(words: &[&str]) -> String {
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    format!("*{}\r\n{}", words.len(), words.iter().map(bulk).collect::<String>())
}
