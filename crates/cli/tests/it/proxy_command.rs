//! `tidegate proxy`: its options, and what people and browsers see of it.

use std::fs;
use std::process::Command;

use crate::processes::wait_until;
use crate::proxy_support::{Origin, Proxy};
use crate::support::{DEADLINE, Folder, Reply, run, tidegate};

const HTML: (&str, &str) = ("Accept", "text/html,*/*;q=0.8");

fn proxy(upstream: &str, options: &[&str]) -> Proxy {
    Proxy::launched(&mut command(upstream, options))
}

fn command(upstream: &str, options: &[&str]) -> Command {
    let always = ["proxy", "--upstream", upstream, "--listen", "127.0.0.1:0"];
    tidegate(&[&always, options].concat())
}

fn get(proxy: &Proxy, path: &str, headers: &[(&str, &str)]) -> Reply {
    proxy.server.send("GET", path, headers, b"")
}

fn statuses(proxy: &Proxy, path: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| get(proxy, path, &[]).status).collect()
}

fn retry_after(reply: &Reply) -> u64 {
    reply.header("retry-after").expect("a wait").parse().unwrap()
}

#[test]
fn a_fast_url_is_refused_above_adaptive_max_and_the_log_says_how_to_raise_it() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let log = folder.path("log");
    let options = ["--adaptive", "--adaptive-max", "20/min"];
    let proxy = Proxy::logged(&mut command(&origin.url(), &options), &log);
    let got = statuses(&proxy, "/app.css", 30);
    assert_eq!(got.iter().filter(|status| **status == 429).count(), 10, "{got:?}");
    assert_eq!(statuses(&proxy, "/other.css", 1), [200], "each URL has its own");
    let hints = || {
        let written = fs::read_to_string(&log).unwrap();
        let hint = |line: &&str| line.contains("all clients together") && line.contains("/app.css");
        written.lines().filter(hint).count()
    };
    wait_until("the log has the hint", DEADLINE, || hints() > 0);
    // Once, however many are refused.
    assert_eq!(hints(), 1);
}

#[test]
fn without_a_cap_fast_urls_are_never_refused_and_slow_ones_are_limited() {
    let origin = Origin::start(|request| async move {
        if request.uri().path() == "/slow" {
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        }
        axum::http::Response::new(axum::body::Body::empty())
    });
    let options = ["--adaptive", "--adaptive-max", "none", "--http", "127.0.0.1:0"];
    let proxy = proxy(&origin.url(), &options);
    let got = statuses(&proxy, "/app.css", 300);
    assert!(got.iter().all(|status| *status == 200), "{got:?}");
    let reply = get(&proxy, "/app.css", &[]);
    assert_eq!((reply.status, reply.header("ratelimit-policy")), (200, None), "no number to tell");
    assert_eq!(get(&proxy, "/slow", &[]).status, 200);
    let effective = || proxy.metric(r#"rate_limit_effective_limit{policy="limit/url"}"#);
    wait_until("the slow URL is limited", DEADLINE, || effective().is_some_and(|it| it < 240.0));
    let limited = || get(&proxy, "/slow", &[]);
    wait_until("its limit is told", DEADLINE, || limited().header("ratelimit-policy").is_some());
}

#[test]
fn assets_do_not_use_up_the_budget_of_pages() {
    let origin = Origin::mirror();
    let proxy = proxy(&origin.url(), &["--limit", "sliding-log 2/h"]);
    assert_eq!(statuses(&proxy, "/", 3), [200, 200, 429]);
    // The seven assets of a page that was admitted, and thirteen more.
    let got = statuses(&proxy, "/app.css", 21);
    assert_eq!((got.iter().filter(|status| **status == 200).count(), got[20]), (20, 429));
    // Neither headers nor a name below /api turn a document into an asset.
    let style = [("Accept", "text/css"), ("Sec-Fetch-Dest", "style")];
    assert_eq!(get(&proxy, "/login", &style).status, 429);
    assert_eq!(get(&proxy, "/api/chart.png", &[]).status, 429);
    assert_eq!(proxy.server.send("POST", "/app.css", &[], b"").status, 429);
}

#[test]
fn without_a_limit_on_assets_only_pages_are_counted() {
    let origin = Origin::mirror();
    let options = ["--limit", "sliding-log 1/h", "--asset-limit", "none"];
    let proxy = proxy(&origin.url(), &options);
    assert_eq!(statuses(&proxy, "/", 2), [200, 429]);
    assert!(statuses(&proxy, "/app.js", 30).iter().all(|status| *status == 200));
}

#[test]
fn the_countdown_waits_for_the_assets_of_the_page_too() {
    let origin = Origin::mirror();
    let limits = ["--limit", "sliding-log 1/min", "--asset-limit", "sliding-log 10/h"];
    let proxy = proxy(&origin.url(), &limits);
    assert_eq!(get(&proxy, "/", &[HTML]).status, 200);
    let page = get(&proxy, "/", &[HTML]);
    assert_eq!(page.status, 429);
    assert!(retry_after(&page) <= 72, "its assets have room: {page:?}");
    assert_eq!(statuses(&proxy, "/app.css", 5), [200; 5]);
    let page = get(&proxy, "/", &[HTML]);
    let wait = retry_after(&page);
    assert!(page.status == 429 && wait > 3000, "half of a page would be refused: {page:?}");
    assert!(page.body.contains(&format!(r#"content="{wait}""#)), "{}", page.body);
    // A program needs no assets.
    let program = get(&proxy, "/", &[("Accept", "application/json")]);
    assert!(retry_after(&program) <= 72, "{program:?}");
}

#[test]
fn a_browser_gets_a_page_while_the_upstream_is_down() {
    let proxy = proxy("http://127.0.0.1:1", &[]);
    let page = get(&proxy, "/shop", &[HTML]);
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/html; charset=utf-8")));
    assert!(page.body.contains("<title>Back Soon</title>"), "{}", page.body);
    assert!((10..=12).contains(&retry_after(&page)));
    for (path, headers) in [
        ("/shop", &[("Accept", "application/json")][..]),
        ("/shop", &[]),
        ("/app.css", &[HTML]),
        ("/api/shop", &[HTML]),
    ] {
        let problem = get(&proxy, path, headers);
        assert_eq!(problem.status, 502, "{path}");
        assert_eq!(problem.json()["type"], "urn:tidegate:bad-gateway", "{path} {headers:?}");
    }
}

#[test]
fn the_printed_command_is_answered() {
    let origin = Origin::mirror();
    for options in [&["--limit", "5/s"][..], &["--adaptive"], &["--limit", "5/s", "--adaptive"]] {
        let proxy = proxy(&origin.url(), &[options, &["--http", "127.0.0.1:0"]].concat());
        let line = proxy.server.welcome.lines().find_map(|line| line.strip_prefix("try it:  "));
        let ran = Command::new("sh").args(["-c", line.expect("a command")]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(said.contains(r#""allowed":true"#), "{options:?}: {said}");
    }
}

#[test]
fn an_exposed_api_is_refused_with_a_flag_that_the_command_has() {
    let exposed = run(&["proxy", "--upstream", "http://127.0.0.1:1", "--http", "0.0.0.0:0"]);
    assert_eq!(exposed.code, Some(1));
    let mut flags = exposed.stderr.split_whitespace().filter(|word| word.starts_with("--"));
    let flag = flags.next().expect("a flag");
    let help = run(&["proxy", "--help"]).stdout;
    assert!(help.contains(flag), "{flag} in {help}");
}

#[test]
fn trusted_proxies_name_the_client() {
    let origin = Origin::mirror();
    let from = |proxy: &Proxy, client| get(proxy, "/", &[("X-Forwarded-For", client)]).status;
    let limit = ["--limit", "sliding-log 1/h"];
    let trusting =
        proxy(&origin.url(), &[&limit[..], &["--trusted-proxies", "127.0.0.0/8"]].concat());
    let asked = ["192.0.2.1", "192.0.2.2", "192.0.2.1"].map(|client| from(&trusting, client));
    assert_eq!(asked, [200, 200, 429]);
    let wary = proxy(&origin.url(), &limit);
    let asked = ["192.0.2.1", "192.0.2.2"].map(|client| from(&wary, client));
    assert_eq!(asked, [200, 429], "the peer is the client");
}
