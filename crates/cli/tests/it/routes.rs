//! Routes that match by what a request carries, at forward-auth and at the proxy of the real binary.

use crate::proxy_support::{Origin, Proxy};
use crate::support::{Folder, Reply, Server};

const CONFIG: &str = r#"
policies:
  office: { algorithm: sliding-log, limit: 9/h }
  pro: { algorithm: sliding-log, limit: 4/h }
  beta: { algorithm: sliding-log, limit: 3/h }
  export: { algorithm: sliding-log, limit: 1/h }
  free: { algorithm: sliding-log, limit: 2/h }
routes:
  - { match: { network: [10.0.0.0/8, "fd00::/8"] }, policy: office }
  - { match: { header: { x-plan: pro } }, policy: pro }
  - { match: { cookie: { beta: "yes" } }, policy: beta }
  - { match: { query: { export: "*" } }, policy: export }
  - { policy: free }
client_ip: { trusted_proxies: [127.0.0.1] }
"#;

type Headers<'a> = &'a [(&'a str, &'a str)];

/// Requests of a client until one is refused: how many were admitted, and the last status.
fn asked(send: impl Fn(Headers<'_>) -> Reply, client: &str, headers: Headers<'_>) -> (usize, u16) {
    let all = [&[("x-forwarded-for", client)], headers].concat();
    for admitted in 0..20 {
        let status = send(&all).status;
        if status != 200 {
            return (admitted, status);
        }
    }
    (20, 200)
}

/// Each row with a client of its own: what it sends, its target, and how many requests it has.
const ROWS: [(&str, Headers<'static>, &str, (usize, u16)); 9] = [
    ("10.1.2.3", &[], "/", (9, 429)),
    ("fd00::1", &[("x-plan", "pro")], "/", (9, 429)),
    ("192.0.2.1", &[("x-plan", "pro")], "/", (4, 429)),
    ("192.0.2.2", &[("cookie", "a=b; beta=yes")], "/", (3, 429)),
    ("192.0.2.3", &[], "/?export=csv", (1, 429)),
    ("192.0.2.4", &[("x-plan", "gold")], "/?export=", (2, 429)),
    ("192.0.2.5", &[("x-plan", "pro"), ("x-plan", "free")], "/", (0, 400)),
    ("192.0.2.6", &[("cookie", "beta=yes; Beta=no")], "/", (0, 400)),
    ("192.0.2.7", &[], "/?export=1&%65xport=2", (0, 400)),
];

const PLANS: &str = r#"
policies:
  api-free: { algorithm: sliding-log, limit: 2/h }
  api-pro: { algorithm: sliding-log, limit: 4/h, key: "header:x-user" }
routes:
  - { policy: { by: "header:x-plan", free: api-free, pro: api-pro, else: api-free } }
client_ip: { trusted_proxies: [127.0.0.1] }
"#;

#[test]
fn a_plan_chooses_the_policy_and_its_key_at_both_doors() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let server = Server::with_config(&folder, PLANS);
    let proxy = Proxy::start(&folder, &origin.url(), "", PLANS);
    let auth = |all: Headers<'_>| {
        server.send("GET", "/v1/auth", &[&[("x-forwarded-uri", "/")], all].concat(), b"")
    };
    let direct = |all: Headers<'_>| proxy.server.send("GET", "/", all, b"");
    let doors: [&dyn Fn(Headers<'_>) -> Reply; 2] = [&auth, &direct];
    for door in doors {
        let ann = [("x-plan", "pro"), ("x-user", "ann")];
        assert_eq!(asked(door, "192.0.2.1", &ann), (4, 429));
        assert_eq!(asked(door, "192.0.2.2", &ann), (0, 429), "the policy counts by its own key");
        assert_eq!(asked(door, "192.0.2.1", &[("x-plan", "free")]), (2, 429));
        assert_eq!(asked(door, "192.0.2.3", &[("x-plan", "platinum")]), (2, 429));
        assert_eq!(asked(door, "192.0.2.4", &[("x-plan", "pro"), ("x-plan", "pro")]), (0, 400));
    }
    let series = r#"rate_limit_requests_total{policy="api-pro",status="allowed"}"#;
    assert_eq!((server.metric(series), proxy.metric(series)), (Some(4.0), Some(4.0)));
}

#[test]
fn a_plan_that_an_untrusted_client_names_does_not_count() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let config = PLANS.replace("[127.0.0.1]", "[192.0.2.250]");
    let proxy = Proxy::start(&folder, &origin.url(), "", &config);
    let send = |all: Headers<'_>| proxy.server.send("GET", "/", all, b"");
    assert_eq!(asked(send, "192.0.2.1", &[("x-plan", "pro"), ("x-user", "ann")]), (2, 429));
}

#[test]
fn forward_auth_routes_by_headers_cookies_parameters_and_networks() {
    let folder = Folder::new();
    let server = Server::with_config(&folder, CONFIG);
    for (client, headers, uri, expected) in ROWS {
        let headers = [&[("x-forwarded-uri", uri)], headers].concat();
        let send = |all: Headers<'_>| server.send("GET", "/v1/auth", all, b"");
        assert_eq!(asked(send, client, &headers), expected, "{client} {headers:?}");
    }
}

#[test]
fn the_proxy_routes_by_headers_cookies_parameters_and_networks() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", CONFIG);
    for (client, headers, uri, expected) in ROWS {
        let send = |all: Headers<'_>| proxy.server.send("GET", uri, all, b"");
        assert_eq!(asked(send, client, headers), expected, "{client} {headers:?} {uri}");
    }
}
