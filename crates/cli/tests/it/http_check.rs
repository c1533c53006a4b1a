//! `POST /v1/check` over HTTP/1.1 on the wire: in pieces, pipelined, and during a shutdown.

use std::io::{Read, Write};

use crate::proxy_support::{Origin, Proxy};
use crate::support::{DEADLINE, Folder, Server};

const PLAIN: &str = "";
const UNUSUAL: &str = "te: trailers\r\n";
/// Lets the server close the connection after it has answered all requests before.
const CLOSE: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

fn check(header: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {length}\r\n\r\n{body}"
    )
}

/// The answers to pipelined requests, without parts that depend on the time.
fn answers(server: &Server, requests: &[String]) -> Vec<String> {
    let output = server.raw((requests.concat() + CLOSE).as_bytes());
    let timeless =
        |line: &&str| !line.starts_with("date: ") && !line.starts_with("x-ratelimit-reset: ");
    output.lines().filter(timeless).map(str::to_owned).collect()
}

#[test]
fn an_irrelevant_header_changes_no_answer() {
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
    let output = |header| {
        let requests: Vec<_> = bodies.iter().map(|body| check(header, body)).collect();
        answers(&Server::start(), &requests)
    };
    let (plain, unusual) = (output(PLAIN), output(UNUSUAL));
    assert_eq!(plain, unusual);
    let plain = plain.join("\n");
    let statuses: Vec<_> = plain.split("HTTP/1.1 ").skip(1).map(|it| &it[..3]).collect();
    assert_eq!(statuses, ["200", "200", "200", "404", "400", "400", "400", "400", "400", "200"]);
}

#[test]
fn a_refusal_has_a_retry_time() {
    let server = Server::start();
    let spent = check(PLAIN, r#"{"policy":"api","key":"a","cost":20}"#);
    let output = answers(&server, &[spent, check(PLAIN, r#"{"policy":"api","key":"a"}"#)]);
    assert!(
        output.iter().any(|line| ["retry-after: 1", "retry-after: 2"].contains(&line.as_str())),
        "{output:?}"
    );
}

#[test]
fn a_check_in_pieces_is_one_check() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    let request = check(PLAIN, r#"{"policy":"api","key":"a"}"#) + CLOSE;
    for piece in request.as_bytes().chunks(7) {
        stream.write_all(piece).unwrap();
    }
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    assert!(output.contains(r#""remaining":19"#) && output.ends_with("ok\n"), "{output}");
    assert_eq!(server.remaining("api", "a"), 19);
}

#[test]
fn checks_sent_together_are_answered_in_order_and_once_each() {
    let server = Server::start();
    let keys = ["a", "b", "a", "c", "a"];
    let body = |key: &&str| format!(r#"{{"policy":"api","key":"{key}"}}"#);
    let requests: Vec<_> = keys.iter().map(|key| check(PLAIN, &body(key))).collect();
    let output = answers(&server, &requests).join("\n");
    let left: Vec<_> = output
        .match_indices("x-ratelimit-remaining: ")
        .map(|(at, name)| &output[at + name.len()..at + name.len() + 2])
        .collect();
    assert_eq!(left, ["19", "19", "18", "19", "17"]);
}

#[test]
fn a_stopping_server_answers_and_closes_kept_connections() {
    let mut server = Server::start();
    let mut stream = server.connect();
    stream.write_all(check(PLAIN, r#"{"policy":"api","key":"a"}"#).as_bytes()).unwrap();
    let mut some = [0; 1024];
    assert!(stream.read(&mut some).unwrap() > 0);
    server.signal("TERM");
    // A stopping server still answers, with `connection: close`.
    stream.write_all(check(PLAIN, r#"{"policy":"api","key":"a"}"#).as_bytes()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut output = String::new();
    stream.read_to_string(&mut output).unwrap();
    assert!(
        output.starts_with("HTTP/1.1 200 OK") && output.contains(r#""remaining":18"#),
        "{output}"
    );
    assert!(server.ended().success());
}

#[test]
fn the_older_headers_replace_the_standard_ones() {
    let folder = Folder::new();
    let config = "headers: { dialect: legacy, legacy: off }\npolicies: { api: 100/min burst 20 }\n\
                  routes: [{ policy: api, key: 'header:x-user', cost: 5 }]\nclient_ip: { trusted_proxies: [127.0.0.1] }";
    let origin = Origin::mirror();
    let Proxy { mut server, api } = Proxy::start(&folder, &origin.url(), "", config);
    let body = r#"{"policy":"api","key":"check","cost":5}"#;
    for (addr, method, path, user, body) in [
        (server.addr, "GET", "/page", "proxy", ""),
        (api, "GET", "/v1/auth", "auth", ""),
        (api, "POST", "/v1/check", "", body),
    ] {
        server.addr = addr;
        let asked = [("x-user", user), ("x-forwarded-uri", "/page")];
        let ask = || server.send(method, path, &asked, body.as_bytes());
        let reply = ask();
        let names = ["limit", "remaining", "reset"].map(|name| format!("ratelimit-{name}"));
        let values = names.map(|name| reply.header(&name).map(str::to_owned));
        assert_eq!(
            values.each_ref().map(Option::as_deref),
            [Some("20"), Some("15"), Some("3")],
            "{path}"
        );
        let refused = (0..20).map(|_| ask()).find(|reply| reply.header("retry-after").is_some());
        let refused = refused.expect("a refusal");
        assert_eq!(refused.header("ratelimit-limit"), Some("20"), "{path}");
        for (reply, name) in [&reply, &refused].into_iter().flat_map(|reply| {
            ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"].map(|name| (reply, name))
        }) {
            assert_eq!(reply.header(name), None, "{path} {name}");
        }
    }
}
