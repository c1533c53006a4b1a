//! Request smuggling: a request that two servers could parse differently is normalised or refused.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use crate::programs::curl;
use crate::proxy_support::{Origin, Proxy, by_hand, read_answer, read_head};
use crate::support::{Folder, Reply};

/// An upstream that records every byte, and answers each request head.
fn recorder() -> (std::net::SocketAddr, Arc<Mutex<String>>) {
    let received = Arc::<Mutex<String>>::default();
    let kept = received.clone();
    let addr = by_hand(move |mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(count) = stream.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            kept.lock().unwrap().push_str(&text);
            if count == 0
                || stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err()
            {
                return;
            }
        }
    });
    (addr, received)
}

/// The request that an attacker tries to smuggle.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn badly_framed_requests_are_refused_and_not_forwarded() {
    let (folder, (origin, received)) = (Folder::new(), recorder());
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    for head in [
        // Two lengths.
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n",
        // Transfer codings that only some servers understand.
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n",
        "POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        // Line ends that only some servers accept.
        "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n folded: c\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n X-A: b\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\rX-B: c\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX-A: b\0c\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX-A\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n: b\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nX A: b\r\n",
        "GET  / HTTP/1.1\r\nHost: x\r\n",
        "GET / HTTP/1.1 \r\nHost: x\r\n",
        "GET /a b HTTP/1.1\r\nHost: x\r\n",
        "GET / HTTP/2.0\r\nHost: x\r\n",
        "G\tET / HTTP/1.1\r\nHost: x\r\n",
        // Ambiguous hosts.
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost: a b\r\n",
        "GET / HTTP/1.1\r\nHost: a@b\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n",
        "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n",
        "GET http://a:x/ HTTP/1.1\r\nHost: a:x\r\n",
        "GET / HTTP/1.1\r\nHost: a:x\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n",
    ] {
        let answers = proxy.raw(format!("{head}Connection: close\r\n\r\n{SMUGGLED}").as_bytes());
        let status = answers.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "431", "505", ""].contains(&status), "{head:?} got {answers:?}");
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{head:?} got {answers:?}");
        assert_eq!(*received.lock().unwrap(), "", "{head:?}");
    }
}

#[test]
fn badly_framed_chunks_never_complete_a_request() {
    let (folder, (origin, received)) = (Folder::new(), recorder());
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "zz\r\nhello\r\n0\r\n\r\n",
    ] {
        let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answers = proxy.raw(format!("{head}{body}{SMUGGLED}").as_bytes());
        assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{body:?} got {answers:?}");
        let received = std::mem::take(&mut *received.lock().unwrap());
        assert!(
            !received.contains("/smuggled") && !received.contains("0\r\n\r\n"),
            "{body:?} sent {received:?}"
        );
    }
}

/// The proxy removes `Transfer-Encoding`, so the upstream would not know the coding of the body.
#[test]
fn transfer_codings_other_than_chunked_are_refused() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    for (coding, status, passed_on) in [
        ("gzip, chunked", 501, 0),
        ("identity, chunked", 501, 0),
        ("chunked, chunked", 400, 0),
        ("gzip\r\nTransfer-Encoding: chunked", 501, 0),
        ("Chunked", 200, 1),
    ] {
        let framed = format!("Transfer-Encoding: {coding}\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        let sent = format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{framed}");
        let answer = Reply::read(&proxy.raw(sent.as_bytes()));
        assert_eq!((answer.status, origin.requests()), (status, passed_on), "{coding}: {answer:?}");
    }
}

/// RFC 9112, 6.3: chunks win, the length is not forwarded, and the connection is closed.
#[test]
fn with_length_and_chunks_only_chunks_are_forwarded_and_the_connection_closes() {
    let (folder, (origin, received)) = (Folder::new(), recorder());
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    for both in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nContent-Length: 7",
    ] {
        let sent = format!("POST / HTTP/1.1\r\nHost: x\r\n{both}\r\n\r\n0\r\n\r\n{SMUGGLED}");
        let answers = proxy.raw(sent.as_bytes());
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{both:?} got {answers:?}");
        let received = std::mem::take(&mut *received.lock().unwrap()).to_lowercase();
        assert!(
            !received.contains("content-length") && !received.contains("/smuggled"),
            "{received:?}"
        );
        assert!(received.ends_with("0\r\n\r\n"), "{received:?}");
    }
}

/// RFC 9110, 8.6: equal lengths may be replaced by one, which is all that is forwarded.
#[test]
fn a_repeated_equal_length_is_forwarded_once() {
    let (folder, (origin, received)) = (Folder::new(), recorder());
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    let sent = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    assert!(proxy.raw(sent.as_bytes()).starts_with("HTTP/1.1 200"), "{sent}");
    let received = received.lock().unwrap().to_lowercase();
    assert_eq!(received.matches("content-length: 5\r\n").count(), 1, "{received}");
}

/// If a body is longer than its `Content-Length`, the rest is the next request on the client's connection, and is not
/// forwarded as part of this one.
#[test]
fn bytes_after_a_body_are_a_separate_request() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let more = "policies: { one: { algorithm: sliding-log, limit: 1/h } }\n\
        routes: [{ match: { path: /smuggled }, policy: one }]";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    let mut stream = proxy.server.connect();
    for expected in [200, 429] {
        let sent = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok{SMUGGLED}");
        stream.write_all(sent.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).json()["body"], "ok");
        assert_eq!(read_answer(&mut stream).status, expected, "the second request is charged");
    }
}

/// CGI and WSGI treat `X_Forwarded_For` as `X-Forwarded-For`, and some servers treat trailers as headers.
#[test]
fn no_header_spelling_lets_a_client_forge_its_address() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let sent = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
        X-Real-IP: claim\r\nX-Original-URL: claim\r\nX-Rewrite-URL: claim\r\nX-Forwarded-Ssl: claim\r\n\
        X_Forwarded_For: trick\r\nx_real-ip: trick\r\nX_User: mine\r\nTrailer: X-Forwarded-For, X-Sum\r\n\r\n\
        2\r\nok\r\n0\r\nX-Forwarded-For: trick\r\nX-Sum: mine\r\n\r\n";
    for (config, claims) in [("", 0), ("client_ip: { trusted_proxies: [127.0.0.1] }", 4)] {
        let proxy = Proxy::start(&folder, &origin.url(), "", config);
        let seen = Reply::read(&proxy.raw(sent.as_bytes())).json().to_string();
        for (output, times) in [("claim", claims), ("trick", 0), ("mine", 2)] {
            assert_eq!(seen.matches(output).count(), times, "{output} with {config:?}: {seen}");
        }
    }
}

#[test]
fn badly_framed_answers_are_bad_gateway() {
    let folder = Folder::new();
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX-A: b\r\n folded: c\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX-A: b\0\r\n\r\n",
        "HTTP/1.1 99 Odd\r\n\r\n",
        "\r\n\r\n",
    ] {
        let origin = by_hand(move |mut stream| {
            read_head(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
        let reply = proxy.server.get("/");
        assert_eq!(reply.status, 502, "{answer:?} became {reply:?}");
    }
}

#[test]
fn in_an_answer_with_length_and_chunks_the_chunks_count() {
    let folder = Folder::new();
    let origin = by_hand(|mut stream| {
        while !read_head(&mut stream).is_empty() {
            let framed =
                "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{framed}").as_bytes()).unwrap();
        }
    });
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    assert_eq!(curl(&[&proxy.url("/")]), "hello");
    let answer = proxy.raw(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(!answer.contains("content-length"), "{answer}");
}

#[test]
fn surplus_answers_are_not_used_for_the_next_request() {
    let folder = Folder::new();
    let origin = by_hand(|mut stream| {
        let mut number = 0;
        while !read_head(&mut stream).is_empty() {
            number += 1;
            let own = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
            let extra = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
            if stream.write_all(format!("{own}{extra}").as_bytes()).is_err() {
                return;
            }
        }
    });
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", "");
    for _ in 0..20 {
        let reply = proxy.server.get("/");
        assert!(!reply.body.contains("poison"), "{reply:?}");
    }
}
