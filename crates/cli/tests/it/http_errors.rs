//! Bad input: the status, the field, and that nothing is charged.

use crate::support::{Reply, Server};

/// Expects a problem; `field` is empty if it names none.
fn check(reply: &Reply, status: u16, field: &str, detail: &str, sent: &str) {
    assert_eq!(reply.status, status, "{sent}: {}", reply.body);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"), "{sent}");
    let problem = reply.json();
    assert_eq!(problem["status"], status, "{sent}");
    assert!(problem["type"].is_string() && problem["title"].is_string(), "{sent}: {problem}");
    assert_eq!(problem["field"].as_str().unwrap_or_default(), field, "{sent}: {problem}");
    assert!(problem["detail"].as_str().unwrap().contains(detail), "{sent}: {problem}");
}

/// Body, status, field, and a part of the detail.
type Row = (&'static str, u16, &'static str, &'static str);

const CHECK_ROWS: [Row; 38] = [
    ("", 400, "", "empty"),
    ("{", 400, "", "EOF"),
    ("nonsense", 400, "", "expected"),
    ("[]", 400, "", "expected an object"),
    (r#"["api","k",null,1]"#, 400, "", "expected an object"),
    ("null", 400, "", "expected an object"),
    ("7", 400, "", "expected an object"),
    (r#"{"policy":"api","key":"k"} x"#, 400, "", "trailing"),
    (r#"{"policy":"api","key":"k""#, 400, "", "EOF"),
    ("{}", 400, "policy", "missing"),
    (r#"{"key":"k"}"#, 400, "policy", "missing"),
    (r#"{"policy":7,"key":"k"}"#, 400, "policy", "expected a string"),
    (r#"{"policy":"api"}"#, 400, "key", "missing"),
    (r#"{"policy":"api","key":""}"#, 400, "key", "empty"),
    (r#"{"policy":"api","key":7}"#, 400, "key", "expected a string"),
    (r#"{"policy":"api","key":["k"]}"#, 400, "key", "expected a string"),
    (r#"{"policy":"api","key":"\ud800"}"#, 400, "key", ""),
    (r#"{"policy":"api","key":"k","key":"k"}"#, 400, "key", "duplicate"),
    (r#"{"policy":"api","key":"k","keys":{"a":"b"}}"#, 400, "keys", "both"),
    (r#"{"policy":"api","keys":{}}"#, 400, "keys", "empty"),
    (r#"{"policy":"api","keys":["k"]}"#, 400, "keys", "expected an object"),
    (r#"{"policy":"api","keys":{"a":7}}"#, 400, "keys.a", "expected a string"),
    (r#"{"policy":"api","keys":{"a":""}}"#, 400, "keys.a", "empty"),
    (r#"{"policy":"api","keys":{"a":"b","a":"c"}}"#, 400, "keys", "same name"),
    (r#"{"policy":"api","keys":{"a":"b","c":"d"}}"#, 400, "key", "one key"),
    (r#"{"policy":"signup","key":"k"}"#, 400, "keys.ip", "counts by `ip`"),
    (r#"{"policy":"signup","keys":{"ip":"k"}}"#, 400, "keys.email_domain", "email_domain"),
    (r#"{"policy":"api","key":"k","cots":1}"#, 400, "cots", "unknown field"),
    (r#"{"policy":"api","key":"k","a\r\nb":1}"#, 400, r"a\r\nb", "unknown field"),
    (r#"{"policy":"export","key":"k"}"#, 400, "policy", "/v1/reserve"),
    (r#"{"policy":"apii","key":"k"}"#, 404, "policy", "GET /v1/policies lists all policies"),
    (r#"{"policy":"zebra","key":"k"}"#, 404, "policy", "/v1/policies"),
    (r#"{"policy":"","key":"k"}"#, 404, "policy", "no policy"),
    (r#"{"policy":"a\r\nb\u001b","key":"k"}"#, 404, "policy", r"`a\r\nb\u{1b}`"),
    (r#"{"policy":"api","key":"k","cost":"1"}"#, 400, "cost", "expected an integer"),
    (r#"{"policy":"api","key":"k","cost":null}"#, 400, "cost", "expected an integer"),
    (r#"{"policy":"api","key":"k","cost":true}"#, 400, "cost", "expected an integer"),
    (r#"{"policy":"api","key":"k","cost":{}}"#, 400, "cost", "expected an integer"),
];

/// Values that are not integers from 0 to 2^53.
const BAD_COSTS: [&str; 12] = [
    "NaN",
    "nan",
    "inf",
    "Infinity",
    "-1",
    "1.5",
    "1.0",
    "1e400",
    "-1e400",
    "9007199254740993",
    "18446744073709551616",
    "01",
];

#[test]
fn bad_input_names_its_field_and_costs_nothing() {
    let server = Server::start();
    for (body, status, field, detail) in CHECK_ROWS {
        for path in ["/v1/check", "/v1/peek", "/v1/refund", "/v1/reset"] {
            check(&server.post(path, body), status, field, detail, body);
        }
    }
    assert_eq!(server.remaining("api", "k"), 20);
}

#[test]
fn a_cost_that_is_no_integer_charges_nothing() {
    let server = Server::start();
    for cost in BAD_COSTS {
        for policy in ["api", "export"] {
            let path = if policy == "api" { "/v1/check" } else { "/v1/reserve" };
            let body = format!(r#"{{"policy":"{policy}","key":"k","cost":{cost}}}"#);
            check(&server.post(path, &body), 400, "cost", "", &body);
        }
    }
    assert_eq!(server.remaining("api", "k"), 20);
}

#[test]
fn reserve_requires_a_leaky_bucket() {
    let server = Server::start();
    for (body, status, field, detail) in [
        (r#"{"policy":"api","key":"k"}"#, 400, "policy", "/v1/check"),
        (r#"{"policy":"exprt","key":"k"}"#, 404, "policy", "GET /v1/policies lists all policies"),
        (r#"{"policy":"export","keys":{"a":"b","c":"d"}}"#, 400, "key", "one key"),
        (r#"{"policy":"export"}"#, 400, "key", "missing"),
    ] {
        check(&server.post("/v1/reserve", body), status, field, detail, body);
    }
    assert_eq!(server.remaining("api", "k"), 20);
}

#[test]
fn a_batch_with_a_bad_element_charges_nothing() {
    let server = Server::start();
    let good = r#"{"policy":"api","key":"k"}"#;
    for (bad, status, field) in [
        (r#"{"policy":"apii","key":"k"}"#, 404, "checks[3].policy"),
        (r#"{"policy":"export","key":"k"}"#, 400, "checks[3].policy"),
        (r#"{"policy":"signup","key":"k"}"#, 400, "checks[3].keys.ip"),
        (r#"{"key":"k"}"#, 400, "checks[3].policy"),
        (r#"{"policy":"api","key":""}"#, 400, "checks[3].key"),
        (r#"{"policy":"api","key":"k","cost":-1}"#, 400, "checks[3].cost"),
        (r#"{"policy":"api","key":"k","x":1}"#, 400, "checks[3].x"),
        (r#"{"policy":"api","key":"k","key":"k"}"#, 400, "checks[3].key"),
        (r#"["api","k",null,1]"#, 400, "checks[3]"),
        ("7", 400, "checks[3]"),
    ] {
        let body = format!(r#"{{"checks":[{good},{good},{good},{bad},{good}]}}"#);
        check(&server.post("/v1/check/batch", &body), status, field, "", &body);
    }
    let too_many = format!(r#"{{"checks":[{}]}}"#, vec![good; 1001].join(","));
    for (body, field, detail) in [
        (too_many.as_str(), "checks", "1000"),
        ("{}", "checks", "missing"),
        (r#"{"checks":{}}"#, "checks", "list"),
        (r#"{"checks":[],"x":1}"#, "x", "unknown"),
        ("[]", "", "object"),
    ] {
        check(&server.post("/v1/check/batch", body), 400, field, detail, body);
    }
    assert_eq!(server.remaining("api", "k"), 20);
}

#[test]
fn unknown_paths_are_404_and_wrong_methods_405() {
    let server = Server::start();
    for (method, path, status, allow) in [
        ("GET", "/nope", 404, None),
        ("POST", "/v1/check/", 404, None),
        ("POST", "//v1/check", 404, None),
        ("GET", "/%0d%0aSet-Cookie:x", 404, None),
        ("GET", "/v1/check", 405, Some("POST")),
        ("PUT", "/v1/check/batch", 405, Some("POST")),
        ("DELETE", "/v1/reset", 405, Some("POST")),
        ("POST", "/v1/policies", 405, Some("GET,HEAD")),
        ("POST", "/", 405, Some("GET,HEAD")),
    ] {
        let reply = server.send(method, path, &[], b"");
        check(&reply, status, "", "", path);
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

#[test]
fn a_too_large_body_gets_an_error_response() {
    let server = Server::start();
    let small = r#"{"policy":"login","key":"k"}"#;
    let padded = |bytes: usize| small.to_owned() + &" ".repeat(bytes - small.len());
    assert_eq!(server.post("/v1/check", &padded(64 << 10)).status, 200);
    for bytes in [(64 << 10) + 1, 5 << 20] {
        check(&server.post("/v1/check", &padded(bytes)), 413, "", "65536", "a large body");
    }
    let batch =
        |bytes: usize| format!(r#"{{"checks":[{small}]{}}}"#, " ".repeat(bytes - small.len() - 13));
    assert_eq!(server.post("/v1/check/batch", &batch(1 << 20)).status, 200);
    let reply = server.post("/v1/check/batch", &batch((1 << 20) + 1));
    check(&reply, 413, "", "1048576", "a large batch");
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000)).repeat(2);
    let head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked";
    let reply = server.raw(format!("{head}\r\n\r\n{chunk}0\r\n\r\n").as_bytes());
    check(&Reply::read(&reply), 413, "", "65536", "large chunks");
    assert_eq!(server.remaining("login", "k"), 3);
}

#[test]
fn long_input_is_truncated_in_errors() {
    let server = Server::start();
    let long = "x".repeat(60_000);
    for body in [
        format!(r#"{{"policy":"{long}","key":"k"}}"#),
        format!(r#"{{"policy":"api","key":"k","{long}":1}}"#),
        format!(r#"{{"policy":"api","key":"k","cost":"{long}"}}"#),
        format!(r#"{{"policy":"signup","keys":{{"{long}":""}}}}"#),
        "[".repeat(60_000),
        format!(r#"{{"policy":{}"#, "[".repeat(60_000)),
    ] {
        let reply = server.post("/v1/check", &body);
        assert!((400..=404).contains(&reply.status), "{}", reply.status);
        assert!(reply.body.len() < 2000, "{} bytes", reply.body.len());
    }
    let path = server.get(&format!("/{long}"));
    assert_eq!(path.status, 431, "a request line counts towards the head");
}

#[test]
fn reset_is_for_this_machine_only() {
    let server = Server::start();
    let body = br#"{"policy":"login","key":"k"}"#;
    assert_eq!(server.send("POST", "/v1/check", &[], body).status, 200);
    for header in [
        ("X-Forwarded-For", "192.0.2.1"),
        ("Forwarded", "for=192.0.2.1"),
        ("Origin", "https://evil.example"),
    ] {
        let reply = server.send("POST", "/v1/reset", &[header], body);
        check(&reply, 403, "", "machine", header.0);
    }
    assert_eq!(server.remaining("login", "k"), 4);
    let own = ("Origin", server.url());
    assert_eq!(server.send("POST", "/v1/reset", &[(own.0, &own.1)], body).status, 200);
    assert_eq!(server.remaining("login", "k"), 5);
}

#[test]
fn broken_framing_is_refused_and_the_server_keeps_running() {
    let server = Server::start();
    for request in [
        "nonsense\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxx",
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ] {
        let reply = Reply::read(&server.raw(request.as_bytes()));
        assert_eq!(reply.status, 400, "{request}");
    }
    assert_eq!(server.get("/healthz").status, 200);
}
