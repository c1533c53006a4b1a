//! Requests counted by what an issuer has signed about them, and by nothing that it has not. The tokens are signed by Node.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::processes::wait_until;
use crate::programs::{App, Program, curl, free_port, root, wait_for_port};
use crate::proxy_capacity::blocked_app;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{DEADLINE, Folder, Server};

const ISSUER: &str = "https://issuer.example";

/// What an issuer has made: its keys, and the tokens in the order asked for.
struct Issued(Value);

impl Issued {
    fn new(wanted: &Value) -> Self {
        let script = root().join("crates/cli/tests/clients/issuer.mjs");
        let ran = Command::new("node").arg(script).arg(wanted.to_string()).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        Self(serde_json::from_slice(&ran.stdout).unwrap())
    }

    fn token(&self, index: usize) -> &str {
        self.0["tokens"][index].as_str().unwrap()
    }

    fn bearer(&self, index: usize) -> String {
        format!("Bearer {}", self.token(index))
    }
}

#[expect(clippy::disallowed_methods, reason = "the server verifies tokens at the real time")]
fn now_s() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// Claims of ann that are right, with some of them changed.
fn claims(changed: &Value) -> Value {
    let mut claims = json!({
        "sub": "ann", "iss": ISSUER, "aud": "shop", "plan": "gold",
        "nbf": now_s() - 5, "exp": now_s() + 3600,
    });
    for (name, value) in changed.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

/// A limit of one request an hour for each subject, of four for each on the plan gold.
fn limits(keys: &str) -> String {
    format!(
        "policies:\n  user: {{ algorithm: sliding-log, limit: 1/h }}\n  gold: {{ algorithm: sliding-log, limit: 4/h }}\n\
         routes:\n  - {{ match: {{ path: /user }}, policy: user, key: \"jwt:sub|client_ip\" }}\n  \
         - {{ match: {{ path: /plan }}, policy: {{ by: \"jwt:plan\", gold: gold, else: user }}, key: [route, \"jwt:sub\"] }}\n\
         jwt: {{ {keys}, algorithms: [RS256, PS512, ES256, ES384, EdDSA], issuer: \"{ISSUER}\", audience: shop }}\n"
    )
}

#[test]
fn a_claim_chooses_the_priority() {
    let token = |changed: &Value| json!({"alg": "RS256", "claims": claims(changed)});
    let issued = Issued::new(&json!([token(&json!({})), token(&json!({"aud": "another"}))]));
    let (folder, (origin, gate)) = (Folder::new(), blocked_app());
    let set = folder.write("jwks.json", issued.0["jwks"].to_string());
    let more = format!(
        "policies: {{ site: {{ limit: 1000/s, adaptive: {{ source: latency, in_flight: 5 }} }} }}\n\
         routes:\n  - {{ policy: site, key: global, priority: {{ by: \"jwt:plan\", gold: critical, else: default }} }}\n\
         jwt: {{ jwks_file: {set}, algorithms: [RS256], issuer: \"{ISSUER}\", audience: shop }}\n"
    );
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    let ask =
        |bearer: &str| proxy.server.send("GET", "/", &[("Authorization", bearer)], b"").status;
    let (gold, of_another) = (issued.bearer(0), issued.bearer(1));
    std::thread::scope(|scope| {
        let held: Vec<_> = (0..8).map(|_| scope.spawn(|| proxy.server.get("/").status)).collect();
        wait_until("eight are in flight", DEADLINE, || origin.requests() == 8);
        assert_eq!(proxy.server.get("/").status, 429, "the rest is for critical requests");
        assert_eq!(ask(&of_another), 429, "a token that does not verify");
        let critical: Vec<_> = (0..2).map(|_| scope.spawn(|| ask(&gold))).collect();
        wait_until("ten are in flight", DEADLINE, || origin.requests() == 10);
        assert_eq!(ask(&gold), 429, "nothing is left");
        gate.add_permits(10);
        assert!(held.into_iter().chain(critical).all(|held| held.join().unwrap() == 200));
    });
}

#[test]
fn each_subject_has_a_limit_whatever_its_token_is_signed_with() {
    let algorithms = ["RS256", "PS512", "ES256", "ES384", "EdDSA"];
    let wanted = algorithms.map(|alg| json!({"alg": alg, "claims": claims(&json!({"sub": alg}))}));
    let issued = Issued::new(&json!(wanted));
    let folder = Folder::new();
    let set = folder.write("jwks.json", issued.0["jwks"].to_string());
    let pem = folder.write("keys.pem", issued.0["pem"].as_str().unwrap());
    for keys in [format!("jwks_file: {set}"), format!("keys_file: {pem}")] {
        let (origin, auth) =
            (Origin::mirror(), Server::with_config(&folder, &(limits(&keys) + TRUSTED)));
        let proxy = Proxy::start(&folder, &origin.url(), "", &limits(&keys));
        for expected in [200, 429] {
            for (index, algorithm) in algorithms.iter().enumerate() {
                let headers = [("authorization", &*issued.bearer(index))];
                let direct = proxy.server.send("GET", "/user", &headers, b"").status;
                let asked = asked(&auth, "/user", &headers);
                assert_eq!((direct, asked), (expected, expected), "{algorithm}");
            }
        }
    }
}

const TRUSTED: &str = "client_ip: { trusted_proxies: [127.0.0.1] }\n";

/// The status of forward-auth about a path.
fn asked(server: &Server, path: &str, headers: &[(&str, &str)]) -> u16 {
    let headers =
        [&[("x-forwarded-uri", path), ("x-forwarded-for", "192.0.2.9")], headers].concat();
    server.send("GET", "/v1/auth", &headers, b"").status
}

#[test]
fn a_token_that_is_not_right_is_as_none_and_counted_by_its_reason() {
    let right = claims(&json!({}));
    let of = |alg: &str, changed: Value| json!({"alg": alg, "claims": claims(&changed)});
    let long = "x".repeat(9000);
    let rows = [
        ("too_long", of("RS256", json!({"x": long}))),
        ("algorithm", json!({"alg": "none", "claims": right})),
        ("algorithm", json!({"alg": "confused", "claims": right})),
        ("signature", json!({"alg": "RS256", "with": "PS512", "claims": right})),
        ("signature", json!({"alg": "ES256", "with": "EdDSA", "claims": right})),
        (
            "signature",
            json!({"alg": "ES256", "header": {"alg": "RS256", "kid": "rsa"}, "claims": right}),
        ),
        ("unknown_key", json!({"alg": "RS256", "kid": "p256", "claims": right})),
        ("unknown_key", json!({"alg": "RS256", "kid": "another", "claims": right})),
        ("malformed", json!({"alg": "RS256", "header": {"crit": ["exp"]}, "claims": right})),
        ("malformed", of("RS256", json!({"exp": "soon"}))),
        ("expired", of("RS256", json!({"exp": now_s() - 3600}))),
        ("not_yet_valid", of("RS256", json!({"nbf": now_s() + 3600}))),
        ("issuer", of("RS256", json!({"iss": "https://evil.example"}))),
        ("audience", of("RS256", json!({"aud": ["another"]}))),
    ];
    let wanted: Vec<_> =
        rows.iter().map(|(_, wanted)| wanted.clone()).chain([of("RS256", json!({}))]).collect();
    let issued = Issued::new(&json!(wanted));
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let set = folder.write("jwks.json", issued.0["jwks"].to_string());
    let config = limits(&format!("jwks_file: {set}"));
    let proxy = Proxy::start(&folder, &origin.url(), "", &config);
    let status = |path: &str, token: &str| {
        proxy.server.send("GET", path, &[("authorization", token)], b"").status
    };
    // The client's own address, which all of them fall back to, is used up.
    assert_eq!(status("/user", ""), 200);
    for (index, (reason, wanted)) in rows.iter().enumerate() {
        let series = format!("tidegate_jwt_rejected_total{{reason=\"{reason}\"}}");
        let before = proxy.metric(&series).unwrap();
        assert_eq!(status("/user", &issued.bearer(index)), 429, "{wanted:.200}");
        assert_eq!(proxy.metric(&series), Some(before + 1.0), "{wanted:.200}");
    }
    // None of them has used what is ann's, or got her plan.
    let right = issued.bearer(rows.len());
    assert_eq!([status("/user", &right), status("/user", &right)], [200, 429]);
    for (index, (_, wanted)) in rows.iter().enumerate() {
        let expected = if index == 0 { 200 } else { 429 };
        assert_eq!(status("/plan", &issued.bearer(index)), expected, "{wanted:.200}");
    }
    let gold: Vec<_> = (0..5).map(|_| status("/plan", &right)).collect();
    assert_eq!(gold, [200, 200, 200, 200, 429]);
    // Servers would read one of two each.
    let twice = [("authorization", &*right), ("authorization", &*issued.bearer(0))];
    assert_eq!(proxy.server.send("GET", "/user", &twice, b"").status, 400);
    // What no route asks for is not verified.
    let before = proxy.metric("tidegate_jwt_rejected_total{reason=\"signature\"}");
    assert_eq!(status("/elsewhere", &issued.bearer(3)), 200);
    assert_eq!(proxy.metric("tidegate_jwt_rejected_total{reason=\"signature\"}"), before);
}

#[test]
fn a_reload_reads_the_keys_again_and_a_bad_file_changes_nothing() {
    let (old, new) = (
        Issued::new(&json!([{"alg": "RS256", "claims": claims(&json!({}))}])),
        Issued::new(&json!([{"alg": "RS256", "claims": claims(&json!({"sub": "ben"}))}])),
    );
    let folder = Folder::new();
    let set = folder.write("jwks.json", old.0["jwks"].to_string());
    let config = folder.write("tidegate.yaml", limits(&format!("jwks_file: {set}")) + TRUSTED);
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &config, "--listen", "127.0.0.1:0"], &log);
    let text = || std::fs::read_to_string(&log).unwrap();
    let ask = |issued: &Issued| asked(&server, "/user", &[("authorization", &*issued.bearer(0))]);
    assert_eq!([ask(&old), ask(&old)], [200, 429]);
    for (content, expected) in [
        ("{\"keys\":[]}".to_owned(), "has no key for RS256"),
        ("canary".to_owned(), "is not a JSON Web Key Set"),
        (json!({"keys": [{"kty": "oct", "k": "Y2FuYXJ5"}]}).to_string(), "has no key for RS256"),
        ("canary".repeat(20_000), "it is longer than 64 KiB"),
    ] {
        folder.write("jwks.json", &content);
        server.signal("HUP");
        wait_until("the reload is refused", DEADLINE, || text().contains(expected));
        assert!(text().contains("jwt.jwks_file: "), "{}", text());
    }
    assert!(!text().contains("canary") && !text().contains("Y2FuYXJ5"), "{}", text());
    // Whoever was ann is ann: her limit is used up, and a new issuer is nobody.
    assert_eq!([ask(&old), ask(&new)], [429, 200]);
    assert_eq!(ask(&new), 429, "counted by its address");
    let refused = text().matches("the new configuration is in force").count();
    folder.write("jwks.json", new.0["jwks"].to_string());
    server.signal("HUP");
    wait_until("the reload is done", DEADLINE, || {
        text().matches("the new configuration is in force").count() > refused
    });
    assert_eq!([ask(&new), ask(&new)], [200, 429], "ben");
    // A start with a bad file is refused, too.
    folder.write("jwks.json", "canary");
    let output = crate::support::run(&["serve", "-c", &config]);
    assert!(
        output.stderr.contains("jwt.jwks_file: ") && !output.stderr.contains("canary"),
        "{}",
        output.stderr
    );
}

#[test]
fn no_secret_token_or_claim_appears_in_any_output() {
    let secret = "canary-of-a-secret-for-HMAC-with-many-bytes";
    let folder = Folder::new();
    let file = folder.write("secret", secret);
    let text = format!(
        "policies: {{ user: {{ algorithm: sliding-log, limit: 1/h }} }}\n\
         routes: [{{ policy: user, key: \"jwt:sub|client_ip\" }}]\n\
         jwt: {{ keys_file: {file}, algorithms: HS256 }}\n{TRUSTED}"
    );
    let config = folder.write("tidegate.yaml", &text);
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &config, "--listen", "127.0.0.1:0"], &log);
    // {"alg":"HS256"} and {"sub":"canary"}, signed with another secret; and no token at all.
    let forged = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.Y2FuYXJ5";
    for token in [forged, "Bearer canary", forged, "Bearer canary.canary.canary"] {
        asked(&server, "/", &[("authorization", token)]);
    }
    let read = || std::fs::read_to_string(&log).unwrap();
    wait_until("the refusals are logged", DEADLINE, || read().contains("refused"));
    let mut shown = vec![read()];
    for path in ["/v1/status", "/v1/policies", "/metrics"] {
        shown.push(server.get(path).body);
    }
    for args in [&["validate", &config][..], &["validate", &config, "--json"]] {
        let output = crate::support::run(args);
        shown.push(output.stdout + &output.stderr);
    }
    for text in shown {
        for canary in ["canary", "eyJzdWIiOiJjYW5hcnkifQ", "Y2FuYXJ5"] {
            assert!(!text.contains(canary), "{text}");
        }
    }
}

#[test]
fn nginx_passes_the_token_on_to_forward_auth() {
    let issued = Issued::new(&json!([
        {"alg": "ES256", "claims": claims(&json!({}))},
        {"alg": "ES256", "claims": claims(&json!({"sub": "ben"}))},
        {"alg": "ES256", "claims": claims(&json!({"sub": "ben", "exp": now_s() - 3600}))},
    ]));
    let (folder, app, port) = (Folder::new(), App::start(), free_port());
    let set = folder.write("jwks.json", issued.0["jwks"].to_string());
    let config = limits(&format!("jwks_file: {set}")) + TRUSTED;
    let server = Server::with_config(&folder, &config);
    let site = std::fs::read_to_string(root().join("deploy/nginx/tidegate.conf")).unwrap();
    let site = site
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{}", server.addr.port()))
        .replace("127.0.0.1:3000", &format!("127.0.0.1:{}", app.port))
        .replace("127.0.0.1:8000", &format!("127.0.0.1:{port}"));
    let site = folder.write("site.conf", site);
    let root = folder.path("");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {root}{what}; "))
        .concat();
    let main = format!(
        "daemon off; master_process off; pid {root}nginx.pid; error_log stderr notice;\nevents {{}}\n\
         http {{ access_log off; {temporary} include {site}; }}\n"
    );
    let main = folder.write("nginx.conf", main);
    let mut command = Command::new("/usr/sbin/nginx");
    let _nginx = Program::start(command.args(["-p", &root, "-c", &main]), &folder);
    wait_for_port(port);
    let ask = |index: usize| {
        let (token, url) = (
            format!("Authorization: {}", issued.bearer(index)),
            format!("http://127.0.0.1:{port}/user"),
        );
        curl(&["-o", "/dev/null", "-w", "%{http_code}", "-H", &token, &url])
    };
    // Ann, Ann again, Ben, and an expired token of Ben's, which counts by the address.
    assert_eq!([0, 0, 1, 2, 2, 1].map(ask), ["200", "429", "200", "200", "429", "429"]);
}
