//! Forward-auth, as a proxy calls it: the client, the matching route, and the answer.

use std::io::{Read, Write};

use crate::programs::{curl, on_socket};
use crate::support::{Folder, Reply, Server};

const CONFIG: &str = r#"
policies:
  login: { algorithm: sliding-log, limit: 2/h }
  api: { algorithm: sliding-log, limit: 2/h, key: "header:x-user" }
  dear: { algorithm: sliding-log, limit: 10/h }
  pages: { algorithm: sliding-log, limit: 2/h }
routes:
  - { match: { path: /api/login, method: POST }, policy: login, key: [client_ip, "header:x-user"] }
  - { match: { path: /dear }, policy: dear, cost: 6 }
  - { match: { host: "*.shop.example" }, policy: pages, key: path }
  - { match: { path: "/api/*" }, policy: api }
client_ip: { trusted_proxies: [127.0.0.1] }
"#;

type Headers<'a> = &'a [(&'a str, &'a str)];

/// Sends the request of a proxy for a client.
fn auth(server: &Server, path: &str, client: &str, headers: Headers<'_>) -> Reply {
    let all = [&[("x-forwarded-for", client)], headers].concat();
    server.send("GET", path, &all, b"")
}

/// Sends requests until one is refused. Returns how many were admitted.
fn admitted(server: &Server, client: &str, headers: Headers<'_>) -> usize {
    (0..10).take_while(|_| auth(server, "/v1/auth", client, headers).status == 200).count()
}

#[test]
fn the_first_route_that_matches_decides() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    for (headers, expected) in [
        (&[("x-forwarded-uri", "/api/login"), ("x-forwarded-method", "POST")][..], 2),
        (&[("x-forwarded-uri", "/dear")], 1),
        (&[("x-forwarded-uri", "/api/x"), ("x-user", "ann")], 2),
        (&[("x-forwarded-uri", "/a"), ("x-forwarded-host", "www.shop.example:443")], 2),
        (&[("x-forwarded-uri", "/free")], 10),
    ] {
        assert_eq!(admitted(&server, "192.0.2.1", headers), expected, "{headers:?}");
    }
}

#[test]
fn different_spellings_of_a_path_match_the_same_route() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let login = |uri| [("x-forwarded-uri", uri), ("x-forwarded-method", "POST")];
    assert_eq!(admitted(&server, "192.0.2.1", &login("/api/login")), 2);
    for uri in [
        "//api/login",
        "/api/./login",
        "/x/../api/login",
        "/api/login/",
        "/api%2Flogin",
        "/api/%6Cogin",
        "/api/login?x=1",
        "/api/login;x=1",
        "/api/login%3bx",
        "/api;v=2/login;a;b/",
        "http://elsewhere/api/login",
    ] {
        assert_eq!(admitted(&server, "192.0.2.1", &login(uri)), 0, "{uri}");
    }
    for uri in [
        "/api/login%00",
        "/x%2F..%2Fapi%2Flogin",
        "/x/..;/api/login",
        "/x/..%3B/api/login",
        "/.;x/api/login",
        "/;x/api/login",
    ] {
        assert_eq!(auth(&server, "/v1/auth", "192.0.2.1", &login(uri)).status, 400, "{uri}");
    }
}

#[test]
fn the_client_is_the_one_that_the_proxy_names() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let api = [("x-forwarded-uri", "/api/x")];
    assert_eq!(admitted(&server, "192.0.2.1", &api), 2);
    assert_eq!(admitted(&server, "192.0.2.2", &api), 2);
    assert_eq!(admitted(&server, "198.51.100.1, 192.0.2.1", &api), 0, "made up, on the left");
    assert_eq!(
        admitted(&server, "::ffff:192.0.2.1", &api),
        0,
        "the same client in another notation"
    );
    assert_eq!(admitted(&server, "2001:db8::1", &api), 2);
    assert_eq!(admitted(&server, "2001:db8::2", &api), 0, "one network, one client");
    let posing = [("x-forwarded-uri", "/api/x"), ("x-user", "192.0.2.3")];
    assert_eq!(admitted(&server, "192.0.2.9", &posing), 2);
    assert_eq!(admitted(&server, "192.0.2.3", &api), 2, "each address has its own limit");
}

#[test]
fn a_proxy_that_does_not_name_the_target_gets_an_error() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    for headers in [&[][..], &[("x-forwarded-uri", "")], &[("x-forwarded-host", "a.shop.example")]]
    {
        let reply = auth(&server, "/v1/auth", "192.0.2.1", headers);
        assert_eq!(reply.status, 400, "{headers:?}: {}", reply.body);
        assert!(reply.body.contains("let it write `x-forwarded-uri`"), "{}", reply.body);
    }
}

/// `X-Original-URL` is `$scheme://$http_host$request_uri`; the client's other headers are passed on.
#[test]
fn what_ingress_nginx_sends_is_understood() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let login = [
        ("x-original-url", "https://app.example/api/login?next=%2F"),
        ("x-original-method", "POST"),
        ("x-sent-from", "nginx-ingress-controller"),
        ("x-real-ip", "192.0.2.1"),
        ("x-auth-request-redirect", "/api/login?next=%2F"),
    ];
    assert_eq!(admitted(&server, "192.0.2.1", &login), 2);
    let shop = [("x-original-url", "https://www.SHOP.example:443/a")];
    assert_eq!(admitted(&server, "192.0.2.1", &shop), 2, "the host is that of the URL");
    for claimed in [("x-forwarded-uri", "/free"), ("x-forwarded-host", "app.example")] {
        let reply = auth(&server, "/v1/auth", "192.0.2.1", &[&shop[..], &[claimed]].concat());
        assert_eq!(reply.status, 400, "{claimed:?}: {}", reply.body);
    }
}

#[test]
fn headers_of_untrusted_peers_are_ignored() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, &CONFIG.replace("[127.0.0.1]", "[192.0.2.250]"));
    let spent = (0..5).map(|client| {
        let client = format!("198.51.100.{client}");
        auth(&server, "/v1/auth/login", &client, &[("x-forwarded-uri", "/free")]).status
    });
    assert_eq!(spent.collect::<Vec<_>>(), [200, 200, 429, 429, 429], "all count as the peer");
}

#[test]
fn a_named_policy_has_its_own_key() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let ask = |user| auth(&server, "/v1/auth/api", "192.0.2.1", &[("x-user", user)]).status;
    assert_eq!(["ann", "ann", "ann", "ben"].map(ask), [200, 200, 429, 200]);
    let unknown = auth(&server, "/v1/auth/apj", "192.0.2.1", &[]);
    assert_eq!((unknown.status, unknown.json()["field"].as_str()), (404, Some("policy")));
}

#[test]
fn a_refusal_has_the_status_that_the_proxy_requests() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let json = [("accept", "application/json")];
    let ask = |query: &str| auth(&server, &format!("/v1/auth/login{query}"), "192.0.2.1", &json);
    let first = ask("");
    assert_eq!((first.status, first.body.as_str()), (200, ""));
    assert_eq!(first.header("ratelimit-policy"), Some("\"login\";q=2;w=3600"));
    assert_eq!(first.header("retry-after"), None);
    ask("");
    for (query, status) in [
        ("", 429),
        ("?deny_status=403", 403),
        ("?deny_status=401", 401),
        ("?deny_status=429&x=1", 429),
        ("?policy=dear&key=k&cost=0", 429),
    ] {
        let refused = ask(query);
        assert_eq!(refused.status, status, "{query}");
        assert_eq!(refused.header("x-tidegate-status"), Some("429"), "{query}");
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert!(refused.header("ratelimit").unwrap().starts_with("\"login\";r=0;t="));
        assert_eq!(refused.json()["type"], "urn:tidegate:limited");
        assert_eq!(refused.header("pragma"), Some("no-cache"), "{query}");
    }
    let page = auth(&server, "/v1/auth/login", "192.0.2.1", &[("accept", "text/html")]);
    assert!(page.body.contains("<title>Whoa, Slow Down There!</title>"), "{}", page.body);
    let script = [("accept", "text/html"), ("x-forwarded-uri", "/app.js")];
    assert_eq!(auth(&server, "/v1/auth/login", "192.0.2.1", &script).body, "");
    let bad = ask("?deny_status=200");
    assert_eq!((bad.status, bad.json()["field"].as_str()), (400, Some("deny_status")));
}

#[test]
fn every_method_is_accepted_and_contradictory_headers_are_refused() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let free = [("x-forwarded-uri", "/free")];
        assert_eq!(server.send(method, "/v1/auth", &free, b"").status, 200, "{method}");
    }
    let tales = [("x-forwarded-uri", "/free"), ("x-original-uri", "/dear")];
    let doubtful = auth(&server, "/v1/auth", "192.0.2.1", &tales);
    assert_eq!(doubtful.status, 400, "{}", doubtful.body);
    assert!(doubtful.body.contains("differ: let the proxy write one"), "{}", doubtful.body);
}

/// nginx sends the client's `Content-Length` without the body; and a body that is sent must not be parsed as a request.
#[test]
fn a_body_is_neither_awaited_nor_parsed_as_a_request() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let smuggled = "GET /v1/auth/login HTTP/1.1\r\nHost: x\r\n\r\n";
    for (announced, sent) in [
        ("Content-Length: 1000", ""),
        ("Content-Length: 1000", smuggled),
        ("Transfer-Encoding: chunked", ""),
        ("Transfer-Encoding: chunked", "5\r\nhello"),
    ] {
        let mut stream = server.connect();
        let head = format!(
            "POST /v1/auth HTTP/1.1\r\nHost: x\r\nX-Forwarded-Uri: /free\r\n{announced}\r\n\r\n{sent}"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answers = String::new();
        let _ = stream.read_to_string(&mut answers);
        assert!(answers.starts_with("HTTP/1.1 200 "), "{announced}: {answers}");
        assert!(answers.contains("connection: close"), "{announced}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1").count(), 1, "{announced}: {answers}");
    }
}

#[test]
fn a_proxy_on_a_unix_socket_is_trusted() {
    let folder = Folder::new();
    let (_program, socket) = on_socket(&folder, &CONFIG.replace("[127.0.0.1]", "[]"));
    let ask = |client: &str| {
        let client = format!("x-forwarded-for: {client}");
        let always = ["-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", &socket];
        curl(&[&always[..], &["-H", &client, "http://x/v1/auth/login"]].concat())
    };
    let asked = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"].map(ask);
    assert_eq!(asked, ["200", "200", "429", "200"]);
}

#[test]
fn forward_auth_checks_are_counted_like_others() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    let login = [("x-forwarded-uri", "/api/login"), ("x-forwarded-method", "POST")];
    assert_eq!(admitted(&server, "192.0.2.1", &login), 2);
    let page = server.get("/metrics").body;
    for (status, count) in [("allowed", 2), ("denied", 1)] {
        let line =
            format!(r#"rate_limit_requests_total{{policy="login",status="{status}"}} {count}"#);
        assert!(page.contains(&line), "{line} in {page}");
    }
}
