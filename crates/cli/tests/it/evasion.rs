//! Requests that try to get around a limit: a host, key, path or method that tidegate would read otherwise than the server
//! behind it.

use std::io::Write;

use serde_json::Value;

use crate::http2::{ended_by_server, frame};
use crate::processes::wait_until;
use crate::programs::on_socket;
use crate::proxy_support::{Origin, Proxy, received};
use crate::support::{DEADLINE, Folder, Reply, Server, run, tidegate};

const LIMITS: &str = r#"
policies:
  shop: { algorithm: sliding-log, limit: 1/h }
  user: { algorithm: sliding-log, limit: 1/h }
  login: { algorithm: sliding-log, limit: 1/h }
  pages: { algorithm: sliding-log, limit: 1/h }
routes:
  - { match: { host: shop.example }, policy: shop, key: global }
  - { match: { path: /header }, policy: user, key: "header:x-user" }
  - { match: { path: /cookie }, policy: user, key: "cookie:sid" }
  - { match: { path: /query }, policy: user, key: ["query:user|client_ip"] }
  - { match: { path: /token }, policy: user, key: ["jwt:sub|client_ip", "header:authorization|client_ip"] }
  - { match: { path: /login }, policy: login, key: global, case: insensitive }
  - { match: { path: "/pages/*" }, policy: pages, key: path, case: insensitive }
jwt: { keys_file: SECRET, algorithms: HS256 }
"#;

/// The limits, with a file for the secret of tokens.
fn limits(folder: &Folder) -> String {
    LIMITS.replace("SECRET", &folder.write("secret", "a secret of at least thirty-two bytes"))
}

/// Sends a request with these lines, and returns the status.
fn status(server: &Server, target: &str, lines: &[&str]) -> u16 {
    let head =
        format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{}\r\n\r\n", lines.join("\r\n"));
    Reply::read(&server.raw(head.as_bytes())).status
}

/// Asks forward-auth about a request with these lines, and returns the status.
fn auth_status(server: &Server, target: &str, lines: &[&str]) -> u16 {
    let target = format!("X-Forwarded-Uri: {target}");
    let asked = [&["Host: tidegate", &*target], lines].concat();
    status(server, "/v1/auth", &asked)
}

fn auth_server(folder: &Folder) -> Server {
    let limits = limits(folder);
    Server::with_config(folder, &format!("{limits}client_ip: {{ trusted_proxies: [127.0.0.1] }}\n"))
}

const JUNK_PORTS: [&str; 15] = [
    ":x", ":80:80", ":443.", ":-1", "::", ":%38", ":65536", ":+1", ":0x50", ":8 0", ":80@",
    ".:80.", "..", ":000080", "%2e",
];

#[test]
fn a_host_that_does_not_parse_is_refused_by_every_door() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", &limits(&folder));
    let auth = auth_server(&folder);
    assert_eq!(status(&proxy.server, "/", &["Host: shop.example"]), 200);
    assert_eq!(auth_status(&auth, "/", &["X-Forwarded-Host: shop.example"]), 200);
    for host in
        ["shop.example", "SHOP.example:443", "shop.example.", "shop.example:", "shop.example.:080"]
    {
        assert_eq!(status(&proxy.server, "/", &[&format!("Host: {host}")]), 429, "{host}");
        let lines = [&*format!("X-Forwarded-Host: {host}")];
        assert_eq!(auth_status(&auth, "/", &lines), 429, "{host}");
        let target = format!("http://{host}/");
        assert_eq!(status(&proxy.server, &target, &[&format!("Host: {host}")]), 429, "{target}");
    }
    for junk in JUNK_PORTS {
        let host = format!("shop.example{junk}");
        let line = format!("Host: {host}");
        assert_eq!(status(&proxy.server, "/", &[&line]), 400, "{host}");
        assert_eq!(auth_status(&auth, "/", &[&format!("X-Forwarded-Host: {host}")]), 400, "{host}");
        assert_eq!(status(&auth, "/v1/auth", &[&line, "X-Forwarded-Uri: /"]), 400, "{host}");
        assert_eq!(status(&auth, "/v1/policies", &[&line]), 400, "{host}");
        let url = format!("X-Original-URL: https://{host}/");
        assert_eq!(status(&auth, "/v1/auth", &["Host: tidegate", &url]), 400, "{host}");
    }
    assert_eq!(origin.requests(), 1, "nothing else was forwarded");
}

#[test]
fn the_upstream_gets_the_host_that_was_matched() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", "");
    for (host, expected) in [
        ("Other.EXAMPLE.:0080", "other.example:80"),
        ("other.example:", "other.example"),
        ("[2001:DB8:0::1]:80", "[2001:db8::1]:80"),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mirror = Reply::read(&proxy.raw(head.as_bytes())).json();
        assert_eq!(received(&mirror, "host"), [expected]);
        assert_eq!(received(&mirror, "x-forwarded-host"), [expected]);
    }
}

#[test]
fn a_repeated_part_of_a_key_is_refused_by_every_door() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", &limits(&folder));
    let auth = auth_server(&folder);
    for (target, lines, expected) in [
        ("/header", &["X-User: ann"][..], 200),
        ("/header", &["X-User: ann"], 429),
        ("/header", &["X-User: ben", "X-User: ann"], 400),
        ("/header", &["X-User: ann", "X-User: ann"], 400),
        ("/header", &["X-User: ben", "X_User: ann"], 400),
        ("/cookie", &["Cookie: sid=a"], 200),
        ("/cookie", &["Cookie: sid=%61"], 429),
        ("/cookie", &["Cookie: sid=b; sid=a"], 400),
        ("/cookie", &["Cookie: sid=b", "Cookie: sid=a"], 400),
        ("/cookie", &["Cookie: x=1; x=2; sid=c"], 200),
        ("/query?user=eve", &[], 200),
        ("/query?user=eve", &[], 429),
        ("/query?user=fay&user=eve", &[], 400),
        ("/query?%75ser=fay&user=eve", &[], 400),
        ("/query?user=fay;user=eve", &[], 400),
        ("/query?user[]=eve", &[], 400),
        ("/query?x=1&x=2&user=gus", &[], 200),
        ("/token", &["Authorization: Bearer x.y.z"], 200),
        ("/token", &["Authorization: Bearer x.y.z", "Authorization: Bearer a.b.c"], 400),
    ] {
        let sent = [&["Host: other.example"], lines].concat();
        assert_eq!(status(&proxy.server, target, &sent), expected, "{target} {lines:?}");
        assert_eq!(auth_status(&auth, target, lines), expected, "{target} {lines:?}");
    }
}

#[test]
fn behind_counted_proxies_no_header_chooses_another_client() {
    let limits = "policies: { one: { algorithm: sliding-log, limit: 1/h } }\nroutes: [{ policy: one, key: client_ip }]\n\
                  client_ip: { trusted_hops: 2 }\n";
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", limits);
    let auth = Server::with_config(&folder, limits);
    // The client's proxy appends the client, the next one appends that proxy.
    for (lines, expected) in [
        (&["X-Forwarded-For: 203.0.113.7, 192.0.2.1"][..], 200),
        (&["X-Forwarded-For: 203.0.113.7, 192.0.2.1"], 429),
        (&["X-Forwarded-For: 9.9.9.9, 203.0.113.7, 192.0.2.1"], 429),
        (&["X-Forwarded-For: 9.9.9.9", "X-Forwarded-For: 203.0.113.7, 192.0.2.1"], 429),
        (&["X-Forwarded-For: \", 203.0.113.7, 192.0.2.2"], 429),
        (&["Forwarded: for=9.9.9.9", "X-Forwarded-For: 203.0.113.7, 192.0.2.1"], 429),
        (&["X-Real-IP: 9.9.9.9", "X-Forwarded-For: ::ffff:203.0.113.7, 192.0.2.1"], 429),
        // Too few, or none that is an address: the peer, which all of these share.
        (&["X-Forwarded-For: 203.0.113.8"], 200),
        (&["X-Forwarded-For: 203.0.113.9"], 429),
        (&["X-Forwarded-For: 203.0.113.9, unknown"], 429),
        (&["X-Forwarded-For: nobody, 192.0.2.1"], 429),
        (&["Connection: close, X-Forwarded-For", "X-Forwarded-For: 203.0.113.9, 192.0.2.1"], 429),
        (&[], 429),
        (&["X-Forwarded-For: 203.0.113.9, 192.0.2.1"], 200),
    ] {
        let sent = [&["Host: other.example"], lines].concat();
        assert_eq!(status(&proxy.server, "/", &sent), expected, "{lines:?}");
        assert_eq!(auth_status(&auth, "/", lines), expected, "{lines:?}");
    }
}

#[test]
fn too_few_addresses_for_the_counted_proxies_are_logged_once() {
    let limits = "policies: { one: 9/s }\nroutes: [{ policy: one, key: client_ip }]\nclient_ip: { trusted_hops: 2 }\n";
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let warnings = |log: &str| {
        std::fs::read_to_string(log)
            .unwrap()
            .matches("fewer addresses than client_ip.trusted_hops")
            .count()
    };
    let file = folder.write("auth.yaml", limits);
    let log = folder.path("auth.log");
    let mut auth = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    // The control: as many addresses as proxies, and none at all, as a health check sends it.
    for lines in [&["X-Forwarded-For: 203.0.113.7, 192.0.2.1"][..], &[]] {
        auth_status(&auth, "/", lines);
    }
    assert_eq!(warnings(&log), 0);
    for _ in 0..3 {
        auth_status(&auth, "/", &["X-Forwarded-For: 203.0.113.7"]);
    }
    assert_eq!(auth.stop("TERM").code(), Some(0));
    assert_eq!(warnings(&log), 1);

    let proxy = format!(
        "{limits}proxy: {{ upstream: '{}' }}\nlisten: {{ proxy: 127.0.0.1:0 }}\n",
        origin.url()
    );
    let (file, log) = (folder.write("proxy.yaml", proxy), folder.path("proxy.log"));
    let proxy = Proxy::logged(&mut tidegate(&["serve", "-c", &file]), &log);
    for _ in 0..3 {
        status(&proxy.server, "/", &["Host: other.example", "X-Forwarded-For: 203.0.113.7"]);
    }
    wait_until("the proxy warns", DEADLINE, || warnings(&log) == 1);
}

#[test]
fn a_replay_refuses_what_the_doors_refuse() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", limits(&folder));
    let line = |target: &str| {
        format!("192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] \"GET {target} HTTP/1.1\" 200 1\n")
    };
    let targets = ["/query?user=ann", "/query?user=ann&user=ben", "/Login", "/LOGIN"];
    let log = folder.write("access.log", targets.map(line).concat());
    let output = run(&["replay", &log, "-c", &config, "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
    let of = |name: &str| {
        let policies = report["policies"].as_array().unwrap();
        let found = policies.iter().find(|policy| policy["policy"] == name).expect(name);
        (found["requests"].as_u64(), found["denied"].as_u64())
    };
    assert_eq!(of("user"), (Some(1), Some(0)), "{report}");
    assert_eq!(of("login"), (Some(2), Some(1)), "{report}");
}

#[test]
fn letter_case_gives_no_other_limit_where_the_server_ignores_it() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", &limits(&folder));
    let auth = auth_server(&folder);
    for (target, expected) in [
        ("/login", 200),
        ("/Login", 429),
        ("/LOGIN/", 429),
        ("/%4Cogin", 429),
        ("/lo%67In;x=1", 429),
        ("/pages/A", 200),
        ("/Pages/a", 429),
        ("/pages/b", 200),
        ("/Query", 200),
    ] {
        assert_eq!(status(&proxy.server, target, &["Host: other.example"]), expected, "{target}");
        assert_eq!(auth_status(&auth, target, &[]), expected, "{target}");
    }
    let mirror = proxy.mirrored("GET", "/PAGES/New", &[], b"");
    assert_eq!(mirror["uri"], "/PAGES/New", "the upstream gets the letters that were sent");
}

#[test]
fn claims_and_method_overrides_of_clients_do_not_reach_the_upstream() {
    let names = [
        "Forwarded",
        "X-Forwarded-Anything",
        "X-Forwarded",
        "WL-Proxy-Client-IP",
        "Proxy-Client-IP",
        "CF-Connecting-IP",
        "CF-Connecting-IPv6",
        "CF-Pseudo-IPv4",
        "True-Client-IP",
        "X-Real-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "X-Originating-IP",
        "X-Remote-IP",
        "X-Remote-Addr",
        "Fastly-Client-IP",
        "Client-IP",
        "X-Azure-ClientIP",
        "X-Original-URL",
        "X-Original-Forwarded-For",
        "X-Rewrite-URL",
        "X-Host",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
    ];
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let (stranger, trusted) = ("", "client_ip: { trusted_proxies: [127.0.0.1] }");
    for (config, kept) in [(stranger, 0), (trusted, names.len() - 1)] {
        let proxy = Proxy::start(&folder, &origin.url(), "", config);
        for (respelled, kept) in [(false, kept), (true, 0)] {
            let spelled =
                |name: &str| if respelled { name.replace('-', "_") } else { name.to_owned() };
            let is_sent = |name: &&&str| !respelled || name.contains('-');
            let sent: Vec<_> =
                names.iter().filter(is_sent).map(|name| (spelled(name), "claim")).collect();
            let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let mirror = proxy.mirrored("POST", "/", &sent, b"").to_string();
            // `Proxy-*` is for the next hop only.
            assert_eq!(mirror.matches("claim").count(), kept, "{config}: {mirror}");
        }
    }
}

#[test]
fn on_this_machine_the_api_answers_by_its_own_names_only() {
    let folder = Folder::new();
    let config = "policies: { api: 5/h }\nadmin: { hosts: [Limits.example] }\n";
    let server = Server::with_config(&folder, config);
    for path in ["/", "/v1/live", "/v1/policies", "/v1/status", "/metrics", "/openapi.json"] {
        for host in
            ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"]
        {
            assert_eq!(status(&server, path, &[&format!("Host: {host}")]), 403, "{path} {host}");
            let target = format!("http://{host}{path}");
            assert_eq!(status(&server, &target, &[&format!("Host: {host}")]), 403, "{target}");
        }
        if path == "/v1/live" {
            continue; // its answer does not end
        }
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:80",
            "0.0.0.0:8080",
            "192.0.2.1",
            "limits.example:443",
        ] {
            assert_eq!(status(&server, path, &[&format!("Host: {host}")]), 200, "{path} {host}");
        }
    }
    let check = r#"{"policy":"api","key":"ann"}"#;
    let post = |path: &str, host: &str| {
        let length = check.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{check}"
        );
        Reply::read(&server.raw(head.as_bytes())).status
    };
    assert_eq!(["/v1/check", "/v1/reset"].map(|path| post(path, "evil.example")), [403, 403]);
    assert_eq!(["/v1/check", "/v1/reset"].map(|path| post(path, "localhost")), [200, 200]);
    // Load balancers on this machine ask by other names.
    for path in ["/healthz", "/readyz", "/healthcheck"] {
        assert_eq!(status(&server, path, &["Host: node-1.internal"]), 200, "{path}");
    }
    // Proxies ask forward-auth with the host of their client's request.
    assert_eq!(status(&server, "/v1/auth/api", &["Host: shop.example"]), 200);
    // HTTP/2: `:method: GET`, `:scheme: http`, `:path: /metrics`, `:authority: e.example`, and GOAWAY after it.
    let authority = [&[0x41, 0x09][..], b"e.example"].concat();
    let path = [&[0x44, 0x08][..], b"/metrics"].concat();
    let head = frame(1, 0x5, 1, &[&[0x82, 0x86][..], &path, &authority].concat());
    let answer = ended_by_server(server.connect(), &[head, frame(7, 0, 0, &[0; 8])].concat());
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("foreign-host") && !answer.contains("tidegate_build_info"), "{answer}");
}

#[test]
fn over_a_unix_socket_there_are_no_foreign_hosts() {
    let folder = Folder::new();
    let (_program, socket) = on_socket(&folder, "policies: { api: 5/h }");
    // Some clients write the path of the socket, or nothing.
    for host in ["tidegate", "%2Frun%2Ftidegate.sock", ""] {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head =
            format!("GET /v1/policies HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{host:?}: {answer}");
    }
}

#[test]
fn a_secret_in_the_url_of_a_probe_is_not_logged() {
    let folder = Folder::new();
    let probe = "http://127.0.0.1:1/p4th-canary/pressure?token=${CANARY}";
    let config = format!(
        "listen: {{ http: 127.0.0.1:0 }}\n\
         policies: {{ api: {{ limit: 5/s, adaptive: {{ source: {{ probe: '{probe}' }}, ramp: pressure }} }} }}\n"
    );
    let path = folder.write("tidegate.yaml", &config);
    let log = folder.path("log");
    let mut command = crate::support::tidegate(&["serve", "-c", &path]);
    let file = std::fs::File::create(&log).unwrap();
    let server = Server::launched(command.env("CANARY", "qu3ry-canary").stderr(file));
    let text = || std::fs::read_to_string(&log).unwrap();
    wait_until("the probe has failed", DEADLINE, || text().contains("load probe failed"));
    assert!(text().contains("127.0.0.1:1") && !text().contains("canary"), "{}", text());
    for path in ["/v1/pressure", "/v1/status", "/v1/policies", "/metrics"] {
        assert!(!server.get(path).body.contains("canary"), "{path}");
    }
}
