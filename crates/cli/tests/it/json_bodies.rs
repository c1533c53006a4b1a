//! Requests counted by a value in their JSON body, at the proxy: the body reaches the upstream as it was sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::processes::wait_until;
use crate::programs::curl;
use crate::proxy_support::{Origin, Proxy, read_answer, received};
use crate::support::{DEADLINE, Folder, Reply, Server};

const JSON: (&str, &str) = ("content-type", "application/json");
const BYTES_MAX: usize = 64 << 10;

const LIMITS: &str = r#"
policies:
  user: { algorithm: sliding-log, limit: 1/h }
routes:
  - { match: { path: /login }, policy: user, key: "json:/user/name|global" }
  - { match: { path: /two }, policy: user, key: ["json:/a", "json:/b"] }
  - { match: { path: /head }, policy: user, key: "header:x-user" }
"#;

fn proxy(folder: &Folder, origin: &Origin) -> Proxy {
    Proxy::start(folder, &origin.url(), "", LIMITS)
}

/// A body of so many bytes that names somebody.
fn padded(name: &str, bytes: usize) -> String {
    let body = format!(r#"{{"user":{{"name":"{name}"}},"x":""}}"#);
    body.replace(r#""x":"""#, &format!(r#""x":"{}""#, "x".repeat(bytes - body.len())))
}

#[test]
fn each_value_has_a_limit_in_every_spelling_and_what_has_none_shares_one() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = proxy(&folder, &origin);
    let status = |headers: &[(&str, &str)], body: &[u8]| {
        proxy.server.send("POST", "/login", headers, body).status
    };
    for (body, expected) in [
        (r#"{"user":{"name":"ann"}}"#, 200),
        (r#"{"user":{"name":"ann"}}"#, 429),
        (r#" {"x":[[{}]],"user":{"n\u0061me":" \u0061nn "}} "#, 429),
        ("\u{feff}{\"user\":{\"name\":\"ann\"}}", 429),
        (&padded("ann", BYTES_MAX), 429),
        (r#"{"user":{"name":"Ann"}}"#, 200),
        (r#"{"user":{"name":7}}"#, 200),
        (r#"{"user":{"name":7.0}}"#, 429),
        (r#"{"user":{"name":"7"}}"#, 429),
        (r#"{"user":{"name":70e-1}}"#, 429),
        // One server would read the first, another the last, Go any letter case.
        (r#"{"user":{"name":"eve","name":"ann"}}"#, 400),
        (r#"{"user":{"name":"eve","NAME":"ann"}}"#, 400),
        (r#"{"user":{"name":"eve"},"user":{"name":"ann"}}"#, 400),
        (r#"{"User":{"name":"ann"}}"#, 400),
        // The first without a value uses up the limit that all of them share.
        (r#"{"user":{}}"#, 200),
        (r#"{"user":{"name":["ann"]}}"#, 429),
        (r#"{"user":{"name":""}}"#, 429),
        (r#"{"user":{"name":"\u0000ann"}}"#, 429),
        (r#"{"user":{"name":null}}"#, 429),
        (r#"{"user":{"name":1e400}}"#, 429),
        (r#"{"user":{"name":9007199254740993}}"#, 429),
        (r#"{"user":{"name":"ann"}"#, 429),
        // Some servers ignore what follows.
        (r#"{"user":{"name":"ann"}}//"#, 429),
        (r#"{"user":{"name":"ann"}}{"user":{"name":"eve"}}"#, 429),
        ("", 429),
        (&padded("bob", BYTES_MAX + 1), 429),
        // Nobody can pass for all others.
        (r#"{"user":{"name":"global"}}"#, 200),
    ] {
        assert_eq!(status(&[JSON], body.as_bytes()), expected, "{body:.100}");
    }
    let bob = br#"{"user":{"name":"bob"}}"#;
    assert_eq!(status(&[JSON, ("content-encoding", "gzip")], bob), 429, "as absent");
    assert_eq!(status(&[("content-type", "text/plain")], bob), 429, "as absent");
    assert_eq!(status(&[], bob), 429, "as absent");
    assert_eq!(status(&[JSON], b"{\"user\":{\"name\":\"\xff\"}}"), 429, "as absent");
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    assert_eq!(status(&[JSON], deep.as_bytes()), 429, "as absent");
    assert_eq!(status(&[JSON], bob), 200);
}

/// Guesses at one account count together, however its name is written.
#[test]
fn letter_case_makes_no_other_account_where_the_route_says_so() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let limits = LIMITS.replace("|global\" }", "|global\", case: insensitive }");
    let proxy = Proxy::start(&folder, &origin.url(), "", &limits);
    for (body, expected) in [
        (r#"{"user":{"name":"ann@x.example"}}"#, 200),
        (r#"{"user":{"name":"Ann@X.example"}}"#, 429),
        (r#"{"user":{"name":" ANN@x.EXAMPLE "}}"#, 429),
        (r#"{"user":{"name":"J\u00d6RG"}}"#, 200),
        (r#"{"user":{"name":"j\u00f6rg"}}"#, 429),
        (r#"{"user":{"name":true}}"#, 200),
        (r#"{"user":{"name":"TRUE"}}"#, 429),
        // Nobody can pass for all others.
        (r#"{"user":{}}"#, 200),
        (r#"{"user":{"name":"GLOBAL"}}"#, 200),
    ] {
        let status = proxy.server.send("POST", "/login", &[JSON], body.as_bytes()).status;
        assert_eq!(status, expected, "{body}");
    }
}

#[test]
fn no_text_moves_from_one_value_to_the_next() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = proxy(&folder, &origin);
    for body in [
        r#"{"a":"x","b":"y"}"#,
        r#"{"a":"xy","b":""}"#,
        r#"{"a":"x,1:y","b":"z"}"#,
        r#"{"a":"x","b":"y,1:z"}"#,
        r#"{"a":"1:x,","b":"y"}"#,
    ] {
        let statuses =
            [200, 429].map(|_| proxy.server.send("POST", "/two", &[JSON], body.as_bytes()).status);
        assert_eq!(statuses, [200, 429], "{body}");
    }
}

#[test]
fn a_body_that_was_read_ahead_is_forwarded_byte_for_byte() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = proxy(&folder, &origin);
    for (index, size) in [60, 4096, 4097, 40_000, BYTES_MAX - 1, BYTES_MAX, BYTES_MAX + 1, 300_000]
        .into_iter()
        .enumerate()
    {
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            for framing in ["content-length", "chunked"] {
                // Beyond the bound all share one limit: a proxy of its own for each.
                let own = (size > BYTES_MAX).then(|| self::proxy(&folder, &origin));
                let proxy = own.as_ref().unwrap_or(&proxy);
                let name = format!("u{index}{}{}", version.len(), framing.len());
                let body = padded(&name, size);
                let file = folder.write("body", &body);
                let data = format!("@{file}");
                let mut args =
                    vec![version, "-H", "content-type: application/json", "--data-binary", &data];
                if framing == "chunked" {
                    args.extend(["-H", "transfer-encoding: chunked"]);
                }
                let url = proxy.url("/login");
                args.push(&url);
                let mirror: serde_json::Value = serde_json::from_str(&curl(&args)).unwrap();
                let arrived = mirror["body"].as_str().unwrap();
                assert!(arrived == body, "{size} {version} {framing}: {} bytes", arrived.len());
                // What was read to its end has a length, however it was framed.
                let length = received(&mirror, "content-length").first().map(|it| it.parse());
                let is_told = length == Some(Ok(body.len()));
                let may_be_chunked = size > BYTES_MAX && framing == "chunked" && length.is_none();
                assert!(is_told || may_be_chunked, "{size} {version} {framing}: {length:?}");
            }
        }
    }
}

#[test]
fn trailers_follow_a_body_that_was_read_ahead() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = proxy(&folder, &origin);
    let request = "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTE: trailers\r\n\
                   Trailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"use\r\n13\r\nr\":{\"name\":\"tina\"}}\r\n0\r\nx-sum: 42\r\n\r\n";
    let reply = Reply::read(&proxy.raw(request.as_bytes()));
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mirror = reply.json();
    assert_eq!(mirror["body"], r#"{"user":{"name":"tina"}}"#);
    assert_eq!(mirror["trailers"], serde_json::json!([["x-sum", "42"]]));
    assert_eq!(Reply::read(&proxy.raw(request.as_bytes())).status, 429);
}

#[test]
fn after_a_refusal_the_connection_serves_the_next_request() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = proxy(&folder, &origin);
    let mut stream = proxy.server.connect();
    for (path, expected) in [("/login", 200), ("/login", 429), ("/login", 429), ("/free", 200)] {
        let body = r#"{"user":{"name":"kim"}}"#;
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        assert_eq!(read_answer(&mut stream).status, expected, "{path}");
    }
}

/// An app that answers with the first piece of a body, before the rest has arrived.
fn first_piece() -> (Origin, mpsc::Receiver<String>) {
    let (send, arrived) = mpsc::channel();
    let origin = Origin::start(move |request: Request<Incoming>| {
        let send = send.clone();
        async move {
            let mut body = request.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                let piece = frame.into_data().unwrap_or_default();
                send.send(String::from_utf8_lossy(&piece).into_owned()).unwrap();
            }
            Response::new(Body::empty())
        }
    });
    (origin, arrived)
}

#[test]
fn a_body_that_no_key_needs_streams_and_one_that_is_too_long_goes_on() {
    let (folder, (origin, arrived)) = (Folder::new(), first_piece());
    let proxy = proxy(&folder, &origin);
    let begin = |path: &str, media: &str| {
        let mut stream = proxy.server.connect();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: x\r\nX-User: {media}\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n[1234,\r\n").unwrap();
        stream
    };
    for (path, media) in
        [("/head", "application/json"), ("/free", "application/json"), ("/login", "text/plain")]
    {
        let mut stream = begin(path, media);
        assert_eq!(arrived.recv_timeout(DEADLINE).unwrap(), "[1234,", "{path} {media}");
        stream.write_all(b"2\r\n5]\r\n0\r\n\r\n").unwrap();
        assert_eq!(arrived.recv_timeout(DEADLINE).unwrap(), "5]");
        assert_eq!(read_answer(&mut stream).status, 200);
    }
    // The key is in this one: nothing is forwarded until it is there, or cannot be.
    let own = self::proxy(&folder, &origin);
    let mut stream = own.server.connect();
    write!(stream, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n[1234,\r\n").unwrap();
    let piece = "x".repeat(BYTES_MAX);
    write!(stream, "{BYTES_MAX:x}\r\n{piece}\r\n").unwrap();
    let mut sent = format!("[1234,{piece}");
    while !sent.is_empty() {
        let piece = arrived.recv_timeout(DEADLINE).unwrap();
        sent = sent.strip_prefix(&*piece).expect("in order").to_owned();
    }
    assert!(arrived.try_recv().is_err());
    stream.write_all(b"3\r\nend\r\n0\r\n\r\n").unwrap();
    assert_eq!(arrived.recv_timeout(DEADLINE).unwrap(), "end");
    assert_eq!(read_answer(&mut stream).status, 200);
}

#[test]
fn a_client_that_stops_sending_is_told_and_one_that_leaves_is_forgotten() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let settings = ", idle_timeout: 1s, max_requests: 1, per_client: off";
    let proxy = Proxy::start(&folder, &origin.url(), settings, LIMITS);
    let head = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{\"user\":";
    let mut stream = proxy.server.connect();
    stream.write_all(head).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    let mut leaving = proxy.server.connect();
    leaving.write_all(head).unwrap();
    drop(leaving);
    // Its place is free again. On a slow machine an answer may take longer than the timeout, so each try is another user.
    let mut tries = 0;
    let mut reached = 0;
    wait_until("the proxy serves", DEADLINE, || {
        tries += 1;
        let body = format!(r#"{{"user":{{"name":"lea-{tries}"}}}}"#);
        let status = proxy.server.send("POST", "/login", &[JSON], body.as_bytes()).status;
        reached += usize::from(![408, 429].contains(&status));
        status == 200
    });
    assert!(origin.requests() <= reached, "a part of a body was forwarded");
}

/// Begins a body of so many bytes for a client of a trusted proxy, and does not end it.
fn unfinished(proxy: &Proxy, client: &str, bytes: usize) -> TcpStream {
    let mut stream = proxy.server.connect();
    write!(stream, "POST /login HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: {client}\r\nContent-Type: application/json\r\nContent-Length: {BYTES_MAX}\r\n\r\n").unwrap();
    // A refused one may be closed.
    let _ = stream.write_all(&vec![b' '; bytes]);
    stream
}

#[test]
fn unfinished_bodies_of_one_client_behind_a_proxy_leave_room_for_others() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let trusting = format!("{LIMITS}client_ip: {{ trusted_proxies: [127.0.0.1] }}\n");
    let proxy = Proxy::start(&folder, &origin.url(), "", &trusting);
    let (ann, bob) = ("192.0.2.1", "192.0.2.2");
    // The client's quarter of 64 MiB.
    let part = || (0..256).map(|_| unfinished(&proxy, ann, BYTES_MAX - 1)).collect::<Vec<_>>();
    let mut held = part();
    let large = padded("bob", BYTES_MAX);
    let status = |client: &str| {
        let headers = [JSON, ("x-forwarded-for", client)];
        proxy.server.send("POST", "/login", &headers, large.as_bytes()).status
    };
    wait_until("its bodies are refused", DEADLINE, || {
        held.extend((0..8).map(|_| unfinished(&proxy, ann, BYTES_MAX - 1)));
        status(ann) == 503
    });
    assert!([200, 429].contains(&status(bob)));
}

#[test]
fn without_a_place_at_the_upstream_no_body_is_read() {
    let (folder, (origin, arrived)) = (Folder::new(), first_piece());
    let proxy = Proxy::start(&folder, &origin.url(), ", in_flight: { max: 1 }", LIMITS);
    let mut holder = proxy.server.connect();
    write!(
        holder,
        "POST /free HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    )
    .unwrap();
    assert_eq!(arrived.recv_timeout(DEADLINE).unwrap(), "x");
    let mut refused = unfinished(&proxy, "192.0.2.1", 10);
    let mut answer = [0; 12];
    refused.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 429");
    holder.write_all(b"0\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut holder).status, 200);
}

#[test]
fn forward_auth_never_has_the_body() {
    let folder = Folder::new();
    let server = Server::with_config(
        &folder,
        &format!("{LIMITS}client_ip: {{ trusted_proxies: [127.0.0.1] }}\n"),
    );
    let ask = |name: &str| {
        let headers = [("x-forwarded-uri", "/login"), JSON];
        let body = format!(r#"{{"user":{{"name":"{name}"}}}}"#);
        server.send("POST", "/v1/auth", &headers, body.as_bytes()).status
    };
    assert_eq!([ask("ann"), ask("bob")], [200, 429], "both as absent");
}
