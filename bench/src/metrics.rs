//! What a server of tidegate says about itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Decisions so far, by what decided, of the server on this port.
pub fn decisions_by_source(port: u16) -> BTreeMap<String, u64> {
    let mut decisions = BTreeMap::new();
    for line in metrics(port).lines() {
        let Some(labels) = line.strip_prefix("tidegate_decisions_total{") else { continue };
        let source = labels.split("source=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count = labels.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
        let source = source.expect("a label").to_owned();
        *decisions.entry(source).or_default() += count.expect("a count");
    }
    decisions
}

fn metrics(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let request = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("a server that reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
