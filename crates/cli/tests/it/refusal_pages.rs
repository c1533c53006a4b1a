//! What refused people, assets and programs get from the proxy, with a page of the operator's own and with the built-in
//! ones in a real browser.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::processes::{RedisServer, wait_until};
use crate::programs::node;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{DEADLINE, Folder, Reply, run, tidegate};

const HTML: (&str, &str) = ("Accept", "text/html,*/*;q=0.8");
const PAGE: &str = "<!doctype html><html lang=\"en\"><title>Our shop</title><main><h1>One moment</h1>\
                    <p>in {{retry_after}} s, by {{policy}}, as {{ request_id }}</p></main></html>\n";

/// A limit that refuses all but the first request of an hour.
const ONE: &str = "policies: { 'shop & co': { algorithm: sliding-log, limit: 1/h } }\n\
                   routes: [{ policy: shop & co }]\n";

fn config(upstream: &str, refusal: &str) -> String {
    format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}\n\
         proxy: {{ upstream: {upstream}, refusal: {refusal} }}\n{ONE}"
    )
}

/// A proxy whose one request is used up.
fn used_up(command: &mut Command, log: &str) -> Proxy {
    let proxy = Proxy::logged(command, log);
    assert_eq!(proxy.server.get("/").status, 200);
    proxy
}

fn get(proxy: &Proxy, path: &str, headers: &[(&str, &str)]) -> Reply {
    let reply = proxy.server.send("GET", path, headers, b"");
    assert_eq!(reply.status, 429, "{path}: {reply:?}");
    reply
}

#[test]
fn people_get_the_own_page_assets_nothing_and_apis_a_problem() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let page = folder.write("page.html", PAGE);
    let refusal = format!("{{ page: {page}, assets: [.XYZ, css], api: [\"/rpc/*\"] }}");
    let file = folder.write("t.yaml", config(&origin.url(), &refusal));
    let proxy = used_up(&mut tidegate(&["serve", "-c", &file]), &folder.path("log"));

    let evil = "<script>alert(1)</script>";
    let shown = get(&proxy, "/shop", &[HTML, ("X-Request-Id", evil)]);
    let wait = shown.header("retry-after").unwrap();
    assert_eq!(shown.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(shown.header("cache-control").unwrap().starts_with("no-store"));
    let expected =
        format!("in {wait} s, by shop &amp; co, as &lt;script&gt;alert(1)&lt;/script&gt;</p>");
    assert!(shown.body.contains(&expected), "{}", shown.body);
    assert_eq!(shown.header("x-request-id"), Some(evil));
    // A new id is told in the header as well.
    let shown = get(&proxy, "/shop", &[HTML]);
    let id = shown.header("x-request-id").unwrap();
    assert!(shown.body.contains(&format!("as {id}</p>")), "{}", shown.body);

    for (path, headers, kind) in [
        ("/shop", &[HTML, ("Sec-Fetch-Dest", "document")][..], Some("text/html; charset=utf-8")),
        ("/shop", &[HTML, ("Sec-Fetch-Dest", "image")], None),
        ("/a.xyz", &[HTML], None),
        ("/a.css", &[HTML], None),
        // No asset by this list.
        ("/a.png", &[HTML], Some("text/html; charset=utf-8")),
        ("/rpc/orders", &[HTML], Some("application/problem+json")),
        ("/rpc", &[], Some("application/problem+json")),
        ("/rpcs", &[("Accept", "*/*")], None),
        ("/shop", &[("Accept", "application/json")], Some("application/problem+json")),
    ] {
        let reply = get(&proxy, path, headers);
        assert_eq!(reply.header("content-type"), kind, "{path} {headers:?}");
        assert_eq!(reply.body.is_empty(), kind.is_none(), "{path} {headers:?}");
        assert!(reply.header("retry-after").is_some(), "{path}");
    }
}

/// The own page says when to come back, and may reload by itself.
#[test]
fn who_is_blocked_gets_the_built_in_page() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let page = folder.write("page.html", PAGE);
    let config = config(&origin.url(), &format!("{{ page: {page} }}"));
    let blocked = "overrides: [{ policy: shop & co, key: 127.0.0.1, block: true }]\n";
    let file = folder.write("t.yaml", config + blocked);
    let proxy = Proxy::logged(&mut tidegate(&["serve", "-c", &file]), &folder.path("log"));
    let shown = get(&proxy, "/", &[HTML]);
    assert_eq!(shown.header("retry-after"), None);
    assert!(shown.body.contains("Trying again will not help"), "{}", shown.body);
}

#[test]
fn a_page_is_read_again_with_a_reload_and_a_bad_one_changes_nothing() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let (page, log) = (folder.write("page.html", PAGE), folder.path("log"));
    let file = folder.write("t.yaml", config(&origin.url(), &format!("{{ page: {page} }}")));
    let proxy = used_up(&mut tidegate(&["serve", "-c", &file]), &log);
    let shown = || get(&proxy, "/", &[HTML]).body;
    assert!(shown().contains("One moment"));

    fs::write(&page, PAGE.replace("One moment", "Two moments")).unwrap();
    proxy.server.signal("HUP");
    wait_until("the new page is shown", DEADLINE, || shown().contains("Two moments"));

    let logged = |words: &[&str]| {
        let written = fs::read_to_string(&log).unwrap();
        written.lines().any(|line| words.iter().all(|word| line.contains(word)))
    };
    fs::write(&page, "{{wait}}").unwrap();
    proxy.server.signal("HUP");
    let words = ["proxy.refusal.page", "`{{wait}}` is unknown", "{{request_id}}"];
    wait_until("the refusal is logged", DEADLINE, || logged(&words));
    assert!(shown().contains("Two moments"), "the page before stays");
}

#[test]
fn a_placeholder_in_single_braces_is_warned_of() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let (page, log) = (folder.path("page.html"), folder.path("log"));
    let file = folder.write("t.yaml", config(&origin.url(), &format!("{{ page: {page} }}")));
    fs::write(&page, "in {retry_after} s, by {{policy}}, body { color: red }").unwrap();
    let expected = "people see `{retry_after}` as it is written: a placeholder has two braces, \
                    `{{retry_after}}`";
    let checked = run(&["validate", &file]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert_eq!(checked.stderr.matches(expected).count(), 1, "{}", checked.stderr);
    assert!(checked.stderr.contains("t.yaml:2:"), "{}", checked.stderr);
    let _proxy = used_up(&mut tidegate(&["serve", "-c", &file]), &log);
    assert!(fs::read_to_string(&log).unwrap().contains(expected));

    fs::write(&page, PAGE).unwrap();
    assert!(!run(&["validate", &file]).stderr.contains("braces"));
}

/// Nobody writes into the pipe.
#[test]
fn a_pipe_in_place_of_a_file_is_an_error_at_once() {
    let folder = Folder::new();
    let pipe = folder.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let proxy = |options: &str| {
        format!(
            "listen: {{ proxy: 127.0.0.1:0 }}\nproxy: {{ upstream: http://127.0.0.1:1{options} }}\n"
        )
    };
    let http = "listen: { http: 127.0.0.1:0 }\n";
    for (field, file) in [
        ("proxy.refusal.page", proxy(&format!(", refusal: {{ page: {pipe} }}"))),
        ("proxy.ca_file", proxy(&format!(", ca_file: {pipe}")).replace("http:", "https:")),
        ("admin.token_file", format!("{http}admin: {{ token_file: {pipe} }}\n")),
        ("jwt.jwks_file", format!("{http}jwt: {{ jwks_file: {pipe}, algorithms: [RS256] }}\n")),
        (
            "listen.http.tls",
            format!(
                "listen: {{ http: {{ address: 127.0.0.1:0, tls: {{ cert: {pipe}, key: {pipe} }} }} }}\n"
            ),
        ),
    ] {
        let file = folder.write("t.yaml", format!("{file}{ONE}"));
        for command in [&["validate", &file][..], &["serve", "-c", &file]] {
            let mut started = tidegate(command);
            let log = fs::File::create(folder.path("log")).unwrap();
            let mut child = started.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            let mut ended = None;
            wait_until("it does not wait for the pipe", DEADLINE, || {
                ended = child.try_wait().unwrap();
                ended.is_some()
            });
            let said = fs::read_to_string(folder.path("log")).unwrap();
            assert_eq!(ended.and_then(|it| it.code()), Some(1), "{field}: {said}");
            let expected = "expected a regular file, no pipe, device or folder";
            let named = if command[0] == "validate" { field } else { "" };
            assert!(said.contains(named) && said.contains(expected), "{field}: {said}");
        }
    }
}

#[test]
fn a_server_with_a_bad_page_does_not_start() {
    let folder = Folder::new();
    let long = "x".repeat(70_000);
    for (page, expected) in [
        (
            &b"a {{wait}} b"[..],
            "`{{wait}}` is unknown: expected {{retry_after}}, {{policy}}, {{request_id}}",
        ),
        (b"{{policy", "`{{` has no end"),
        (long.as_bytes(), "is longer than 65536 bytes"),
        (b"\xff", "is not UTF-8"),
    ] {
        let page = folder.write("page.html", page);
        let refusal = format!("{{ page: {page} }}");
        let file = folder.write("t.yaml", config("http://127.0.0.1:1", &refusal));
        let ran = run(&["serve", "-c", &file]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(expected) && ran.stderr.contains(&page), "{}", ran.stderr);
    }
    let file = folder.write("t.yaml", config("http://127.0.0.1:1", "{ page: /no/such/file }"));
    assert!(run(&["serve", "-c", &file]).stderr.contains("/no/such/file"));
    let wrong = folder.write("t.yaml", config("http://127.0.0.1:1", "{ assets: [a/b], api: [x] }"));
    let said = run(&["validate", &wrong]).stderr;
    assert!(said.contains("proxy.refusal.assets[0]: `a/b`: expected a file extension"), "{said}");
    assert!(said.contains("proxy.refusal.api[0]: `x`: expected one like /api/login"), "{said}");
}

/// The working directory may be another one than people think: a service has `/`.
#[test]
fn a_page_that_is_not_there_is_named_with_its_whole_path() {
    let folder = Folder::new();
    let file = folder.write("t.yaml", config("http://127.0.0.1:1", "{ page: pages/wait.html }"));
    let ran = tidegate(&["serve", "-c", &file]).current_dir(folder.path("")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains(&folder.path("pages/wait.html")), "{said}");
}

#[test]
fn while_the_store_fails_people_get_a_page_and_programs_the_problem() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let page = folder.write("page.html", PAGE);
    for policy in [
        "limit: 5/h",
        "algorithm: leaky-bucket, limit: 1/s, max_wait: 1s",
        "algorithm: concurrency, limit: 5",
    ] {
        let proxy = Proxy::start(
            &folder,
            &origin.url(),
            &format!(", refusal: {{ page: {page} }}"),
            &format!(
                "store: redis://127.0.0.1:1\n\
                 policies: {{ login: {{ {policy}, on_store_error: {{ deny: 300s }} }} }}\n\
                 routes: [{{ policy: login }}]"
            ),
        );
        for (headers, kind) in [
            (&[HTML][..], "text/html; charset=utf-8"),
            (&[("Accept", "application/json")], "application/problem+json"),
            (&[], "application/problem+json"),
        ] {
            let reply = proxy.server.send("GET", "/", headers, b"");
            assert_eq!(reply.status, 503, "{policy}: {reply:?}");
            assert_eq!(reply.header("content-type"), Some(kind), "{policy}: {reply:?}");
            assert!(reply.header("cache-control").unwrap().starts_with("no-store"), "{reply:?}");
            let wait = reply.header("retry-after").unwrap();
            assert!((300..=360).contains(&wait.parse::<u64>().unwrap()), "{wait}");
            let (title, reload) = ("<title>Back Soon</title>", format!("content=\"{wait}\""));
            let is_page = reply.body.contains(title) && reply.body.contains(&reload);
            assert_eq!(is_page, kind.starts_with("text/html"), "{policy}: {reply:?}");
        }
    }
    assert_eq!(origin.requests(), 0);
}

#[test]
fn the_number_on_a_page_is_in_the_log_line_of_its_refusal() {
    let (redis, origin) = (RedisServer::start(), Origin::mirror());
    // Their answers come at once, and later. The deadline is long, because the machine may be slow.
    let in_redis = format!("store: {{ url: \"{}\", deadline: 5s }}\n", redis.url());
    for store in ["", &in_redis] {
        let folder = Folder::new();
        let (page, log) = (folder.write("page.html", PAGE), folder.path("log"));
        let config = config(&origin.url(), &format!("{{ page: {page} }}"));
        let file = folder.write("t.yaml", format!("{store}{config}"));
        let proxy = used_up(&mut tidegate(&["serve", "-c", &file]), &log);
        let ids = || {
            let text = fs::read_to_string(&log).unwrap();
            let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let refused = events.filter(|event| event["message"] == "refused");
            refused.map(|event| event["request_id"].clone()).collect::<Vec<_>>()
        };
        let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let shown = get(&proxy, "/", &[HTML]);
        get(&proxy, "/", &[("X-Request-Id", "a\tb")]);
        get(&proxy, "/", &[trace]);
        // Nobody is told a number here, and a long text is none.
        get(&proxy, "/", &[("X-Request-Id", &"x".repeat(200))]);
        wait_until("refusals are logged", DEADLINE, || ids().len() == 4);
        let new = shown.header("x-request-id").unwrap();
        let expected = [json!(new), json!("a\\tb"), json!(&trace.1[3..35]), Value::Null];
        assert_eq!(ids(), expected, "{store}");
    }
}

#[test]
fn the_pages_work_in_a_browser_and_on_a_phone() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let start = |name: &str, upstream: &str, more: &str| {
        let file = folder.write(
            &format!("{name}.yaml"),
            format!(
                "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}\n\
                 proxy: {{ upstream: {upstream} }}\n{more}"
            ),
        );
        Proxy::logged(&mut tidegate(&["serve", "-c", &file]), &folder.path(name))
    };
    let limited = start("limited", &origin.url(), ONE);
    let all = ONE.replace("{ policy: shop & co }", "{ policy: shop & co, key: global }");
    let busy = start("busy", &origin.url(), &all);
    let down = start("down", "http://127.0.0.1:1", "");
    for proxy in [&limited, &busy] {
        assert_eq!(proxy.server.get("/").status, 200);
    }
    let urls = [&limited, &busy, &down].map(|proxy| proxy.url("/"));
    let urls = urls.each_ref().map(String::as_str);
    let said = node(&["refusal_pages.mjs", "browser.mjs"], &urls);
    let expected = [
        "Whoa, Slow Down There!: counts down, fits a phone, is accessible",
        "Busy Right Now: counts down, fits a phone, is accessible",
        "Back Soon: counts down, fits a phone, is accessible",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}
