//! `POST /v1/check` over HTTP/1.1 as it is on the wire: in pieces, several at once, while the server ends.

use std::io::{Read, Write};

use crate::support::{DEADLINE, Server};

const PLAIN: &str = "";
const UNUSUAL: &str = "te: trailers\r\n";
/// Has the server close, once it has answered all that was sent before.
const GOODBYE: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

fn check(header: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{header}content-length: {length}\r\n\r\n{body}")
}

/// All that a server says to requests sent at once, without what the time of day makes of it.
fn answers(server: &Server, requests: &[String]) -> Vec<String> {
    let said = server.raw((requests.concat() + GOODBYE).as_bytes());
    let timeless =
        |line: &&str| !line.starts_with("date: ") && !line.starts_with("x-ratelimit-reset: ");
    said.lines().filter(timeless).map(str::to_owned).collect()
}

#[test]
fn a_header_that_means_nothing_changes_no_answer() {
    let bodies = [
        r#"{"policy":"api","key":"a"}"#,
        r#"{"policy":"api","key":"b","cost":7}"#,
        r#"{"policy":"api","key":"c","cost":1000}"#,
        r#"{"policy":"apj","key":"a"}"#,
        r#"{"policy":"api"}"#,
        r#"{"policy":"api","key":"a","cost":-1}"#,
        "{",
        "",
        "[]",
    ];
    let said = |header| {
        let requests: Vec<_> = bodies.iter().map(|body| check(header, body)).collect();
        answers(&Server::start(), &requests)
    };
    let (plain, unusual) = (said(PLAIN), said(UNUSUAL));
    assert_eq!(plain, unusual);
    let plain = plain.join("\n");
    let statuses: Vec<_> = plain.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(statuses, ["200", "200", "200", "404", "400", "400", "400", "400", "400", "200"]);
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let server = Server::start();
    let spent = check(PLAIN, r#"{"policy":"api","key":"a","cost":20}"#);
    let said = answers(&server, &[spent, check(PLAIN, r#"{"policy":"api","key":"a"}"#)]);
    assert!(said.iter().any(|line| line == "retry-after: 1"), "{said:?}");
}

#[test]
fn a_check_that_comes_in_pieces_is_one_check() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let request = check(PLAIN, r#"{"policy":"api","key":"a"}"#) + GOODBYE;
    for piece in request.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.contains(r#""remaining":19"#) && said.ends_with("ok\n"), "{said}");
    assert_eq!(server.remaining("api", "a"), 19);
}

#[test]
fn checks_sent_together_are_answered_in_order_and_once_each() {
    let server = Server::start();
    let keys = ["a", "b", "a", "c", "a"];
    let body = |key: &&str| format!(r#"{{"policy":"api","key":"{key}"}}"#);
    let requests: Vec<_> = keys.iter().map(|key| check(PLAIN, &body(key))).collect();
    let said = answers(&server, &requests).join("\n");
    let left: Vec<_> = said
        .match_indices("x-ratelimit-remaining: ")
        .map(|(at, name)| &said[at + name.len()..at + name.len() + 2])
        .collect();
    assert_eq!(left, ["19", "19", "18", "19", "17"]);
}

#[test]
fn whoever_waits_is_let_go_when_the_server_ends() {
    let mut server = Server::start();
    let mut stream = server.connect();
    stream.write_all(check(PLAIN, r#"{"policy":"api","key":"a"}"#).as_bytes()).unwrap();
    let mut some = [0; 1024];
    assert!(stream.read(&mut some).unwrap() > 0);
    server.signal("TERM");
    // While it ends it still answers, and says that it is the last time.
    stream.write_all(check(PLAIN, r#"{"policy":"api","key":"a"}"#).as_bytes()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains(r#""remaining":18"#), "{said}");
    assert!(server.ended().success());
}
