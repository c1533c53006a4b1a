use http::Request;
use proptest::prelude::*;

use super::*;
use tidegate_testkit::fuzz::{self, Grammar};

const PROXY: &str = "10.0.0.1";
const STRANGER: &str = "198.51.100.9";

/// What is seen of a request from `peer`, as `client method host path query`.
fn seen(peer: &str, headers: &[(&str, &str)]) -> Result<String, AmbiguousRequest> {
    seen_by(&ClientIp::new(), peer, headers)
}

fn seen_by(
    client_ip: &ClientIp,
    peer: &str,
    headers: &[(&str, &str)],
) -> Result<String, AmbiguousRequest> {
    let client_ip = client_ip.clone().trust("10.0.0.0/8").unwrap();
    let mut request = Request::get("/v1/auth?own=1").header("host", "tidegate");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let peer = match peer {
        "unix" => Peer::Unix,
        ip => Peer::Ip(ip.parse().unwrap()),
    };
    ClientRequest::forwarded(&client_ip, peer, &parts, TargetHeader::Optional).map(|seen| {
        let ClientRequest { client, method, host, path, query, .. } = &seen;
        format!("{client} {method} {host} {} {}", path.as_str(), query)
    })
}

fn check(peer: &str, headers: &[(&str, &str)], expected: &str) {
    assert_eq!(seen(peer, headers).as_deref(), Ok(expected), "{peer} {headers:?}");
}

#[test]
fn a_trusted_proxy_is_believed() {
    check(
        PROXY,
        &[
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-method", "post"),
            ("x-forwarded-host", "Shop.Example.:8443"),
            ("x-forwarded-uri", "/api//login?next=%2F"),
        ],
        "192.0.2.7 POST shop.example /api/login next=%2F",
    );
    check(
        PROXY,
        &[
            ("x-forwarded-for", "192.0.2.7"),
            ("x-original-method", "PUT"),
            ("x-original-uri", "http://shop.example/a?b"),
        ],
        "192.0.2.7 PUT shop.example /a b",
    );
    check(PROXY, &[("x-original-uri", "http://shop.example")], "10.0.0.1 GET shop.example / ");
    // What ingress-nginx sends.
    check(
        PROXY,
        &[
            ("x-original-url", "https://Shop.Example:443/api/login?a=1"),
            ("x-original-method", "POST"),
            ("x-auth-request-redirect", "/api/login?a=1"),
            ("x-forwarded-for", "192.0.2.7"),
        ],
        "192.0.2.7 POST shop.example /api/login a=1",
    );
}

#[test]
fn a_method_has_one_spelling() {
    let client_ip = ClientIp::new().trust("10.0.0.0/8").unwrap();
    for (sent, expected) in [("post", "POST"), ("PoSt", "POST"), ("POST", "POST"), ("x-1", "X-1")] {
        let (parts, ()) = Request::builder().method(sent).body(()).unwrap().into_parts();
        for peer in [PROXY, STRANGER] {
            let peer = Peer::Ip(peer.parse().unwrap());
            for seen in [
                ClientRequest::direct(&client_ip, peer, &parts),
                ClientRequest::forwarded(&client_ip, peer, &parts, TargetHeader::Optional),
            ] {
                assert_eq!(seen.unwrap().method, expected, "{sent} from {peer:?}");
            }
        }
    }
}

#[test]
fn a_stranger_is_not() {
    let all = [
        ("x-forwarded-for", "192.0.2.7"),
        ("forwarded", "for=192.0.2.7"),
        ("x-forwarded-method", "POST"),
        ("x-forwarded-host", "shop.example"),
        ("x-forwarded-uri", "/api/login"),
        ("x-original-uri", "/api/other"),
    ];
    check(STRANGER, &all, "198.51.100.9 GET tidegate /v1/auth own=1");
}

#[test]
fn made_up_addresses_are_left_of_the_real_one() {
    let chain = |text| [("x-forwarded-for", text)];
    check(PROXY, &chain("1.1.1.1, 192.0.2.7"), "192.0.2.7 GET tidegate /v1/auth own=1");
    check(PROXY, &chain("1.1.1.1, 192.0.2.7, 10.0.0.9"), "192.0.2.7 GET tidegate /v1/auth own=1");
    check(PROXY, &chain("::ffff:192.0.2.7"), "192.0.2.7 GET tidegate /v1/auth own=1");
    check(PROXY, &chain("192.0.2.7, rubbish"), "10.0.0.1 GET tidegate /v1/auth own=1");
}

#[test]
fn a_socket_of_this_machine_needs_no_trust() {
    check("unix", &[], "127.0.0.1 GET tidegate /v1/auth own=1");
    let forwarded = [("x-forwarded-for", "1.1.1.1, 192.0.2.7"), ("x-forwarded-uri", "/a")];
    check("unix", &forwarded, "192.0.2.7 GET tidegate /a ");
}

#[test]
fn headers_that_connection_names_are_not_read() {
    let named = [("connection", "X-Forwarded-For"), ("x-forwarded-for", "192.0.2.7")];
    check(PROXY, &named, "10.0.0.1 GET tidegate /v1/auth own=1");
}

#[test]
fn two_tales_are_no_tale() {
    let tales = |one, other| [("x-forwarded-uri", one), ("x-original-uri", other)];
    check(PROXY, &tales("/a", "/a"), "10.0.0.1 GET tidegate /a ");
    let doubt = seen(PROXY, &tales("/cheap", "/dear"));
    assert_eq!(doubt, Err(AmbiguousRequest::Conflict("x-forwarded-uri", "x-original-uri")));
    let methods = [("x-forwarded-method", "GET"), ("x-original-method", "POST")];
    assert!(matches!(seen(PROXY, &methods), Err(AmbiguousRequest::Conflict(..))));
}

#[test]
fn a_path_without_one_meaning_is_doubtful() {
    for uri in ["/a%00", "/a%2F..%2Fb", "relative"] {
        let doubt = seen(PROXY, &[("x-forwarded-uri", uri)]);
        assert!(matches!(doubt, Err(AmbiguousRequest::Path(_))), "{uri}: {doubt:?}");
    }
}

#[test]
fn all_headers_that_name_a_target_must_agree() {
    let url = ("x-original-url", "https://shop.example/a");
    let conflict = |header| {
        let doubt = seen(PROXY, &[url, header]);
        assert!(matches!(doubt, Err(AmbiguousRequest::Conflict(..))), "{header:?}: {doubt:?}");
    };
    conflict(("x-forwarded-uri", "/cheap"));
    conflict(("x-original-uri", "/a?b"));
    conflict(("x-original-url", "https://other.example/a"));
    conflict(("x-forwarded-host", "other.example"));
    check(PROXY, &[url, ("x-forwarded-uri", "/a")], "10.0.0.1 GET shop.example /a ");
    check(PROXY, &[url, ("x-forwarded-host", "SHOP.example:443")], "10.0.0.1 GET shop.example /a ");
    check(PROXY, &[url, ("x-forwarded-uri", "")], "10.0.0.1 GET shop.example /a ");
}

#[test]
fn a_trusted_proxy_has_to_name_the_target_that_routes_match() {
    let client_ip = ClientIp::new().trust("10.0.0.0/8").unwrap();
    let (parts, ()) = Request::get("/v1/auth").body(()).unwrap().into_parts();
    let ask = |peer| {
        let seen = ClientRequest::forwarded(&client_ip, peer, &parts, TargetHeader::Required);
        seen.map(|seen| seen.path.as_str().to_owned())
    };
    let [proxy, stranger] = [PROXY, STRANGER].map(|ip| Peer::Ip(ip.parse().unwrap()));
    assert_eq!(ask(proxy), Err(AmbiguousRequest::NoTarget));
    assert_eq!(ask(Peer::Unix), Err(AmbiguousRequest::NoTarget));
    assert_eq!(ask(stranger).as_deref(), Ok("/v1/auth"));
}

#[test]
fn an_unknown_peer_has_no_rights() {
    let client_ip = ClientIp::new().trust("0.0.0.0/0").unwrap().trust("::/0").unwrap();
    assert!(!Peer::Unknown.is_trusted(&client_ip) && !Peer::Unknown.is_local());
    let request = Request::get("/a").header("x-forwarded-for", "192.0.2.7");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let seen = ClientRequest::direct(&client_ip, Peer::Unknown, &parts).unwrap();
    assert_eq!(seen.client_name(), "0.0.0.0");
}

#[test]
fn a_host_that_does_not_parse_is_doubtful() {
    for (name, value) in [
        ("x-forwarded-host", "shop.example:x"),
        ("x-forwarded-host", "shop.example, shop.example:80:80"),
        ("x-forwarded-host", "shop.example,"),
        ("x-original-url", "https:///a"),
        ("x-original-url", "https://shop.example:%38/a"),
        ("x-original-uri", "http://ann@shop.example/a"),
        ("x-forwarded-uri", "HTTP://shop.example::/a"),
        ("host", "tidegate"),
    ] {
        let doubt = seen(PROXY, &[(name, value)]);
        let is_host = name == "host"; // a second line
        assert_eq!(matches!(doubt, Err(AmbiguousRequest::RepeatedHost)), is_host, "{doubt:?}");
        assert!(
            is_host || matches!(doubt, Err(AmbiguousRequest::Authority(_))),
            "{value}: {doubt:?}"
        );
    }
    assert!(seen(PROXY, &[("x-original-url", "ftp://shop.example/a")]).is_err());
}

#[test]
fn the_proxy_passes_on_no_forwarded_host_that_does_not_parse() {
    let client_ip = ClientIp::new().trust(PROXY).unwrap();
    for (host, parses) in [
        ("shop.example, www.shop.example:8443", true),
        ("shop.example:x", false),
        ("shop.example:80:80, shop.example", false),
        ("shop.example,", false),
        ("", true),
    ] {
        let request = Request::get("/a").header("host", "a.example");
        let request = request.header("x-forwarded-host", host);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let is_read = |peer: &str| {
            let peer = Peer::Ip(peer.parse().unwrap());
            ClientRequest::direct(&client_ip, peer, &parts).is_ok()
        };
        assert_eq!(is_read(PROXY), parses, "{host}");
        // The header of an untrusted client is not passed on.
        assert!(is_read(STRANGER), "{host}");
    }
}

/// What proxies write, what clients make up, and what confuses whoever reads it.
const GRAMMAR: Grammar = Grammar {
    whole: &["192.0.2.1, 10.0.0.9", "for=192.0.2.1;proto=https, for=\"[2001:db8::1]:80\""],
    words: &[
        "192.0.2.1",
        "10.0.0.9",
        "2001:db8::1",
        "[2001:db8::1]",
        "[2001:db8::1]:80",
        "192.0.2.1:80",
        "::ffff:192.0.2.1",
        "unknown",
        "_hidden",
        ",",
        ", ",
        ";",
        "for=",
        "For=",
        "by=",
        "host=",
        "proto=https",
        "\"",
        "\\\"",
        "\\",
        "for=\"[2001:db8::1]\"",
        "for=192.0.2.1",
        "=",
        " ",
        "\t",
        "for=\"",
        "]",
        "[",
        "%",
        "0x7f.1",
        "1",
        "/a/../b",
        "%2e%2e",
        "//",
        "?",
        "#",
        "shop.example",
    ],
};

/// What fits into a header.
fn header_like() -> impl Strategy<Value = String> {
    let visible =
        |text: String| text.replace(|char: char| !(' '..='~').contains(&char) && char != '\t', "");
    fuzz::text_like(GRAMMAR).prop_map(visible)
}

proptest! {
    #![proptest_config(fuzz::config(5_000))]

    #[test]
    fn nothing_that_a_stranger_sends_makes_it_somebody_else(text in header_like()) {
        for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
            let said = fuzz::held_to(20, text.as_bytes(), || seen(STRANGER, &[(name, &text)]));
            prop_assert_eq!(said.as_deref(), Ok("198.51.100.9 GET tidegate /v1/auth own=1"));
        }
    }

    #[test]
    fn whatever_a_client_makes_up_its_proxy_has_the_last_word(text in header_like(), uri in header_like()) {
        let hops = format!("{text}, 203.0.113.7");
        let forwarded = format!("{text}, for=203.0.113.7");
        let ways = [(ClientIp::new(), ("x-forwarded-for", &*hops)), (ClientIp::new().forwarded(), ("forwarded", &*forwarded))];
        for (client_ip, (name, value)) in ways {
            let (headers, sent) = ([(name, value), ("x-forwarded-uri", &*uri)], [value, &uri].concat());
            let said = fuzz::held_to(20, sent.as_bytes(), || seen_by(&client_ip, PROXY, &headers));
            // Where nobody can tell what was meant, it is refused, or everybody behind the proxy is one.
            let client = said.as_deref().map_or("", |said| said.split(' ').next().unwrap());
            prop_assert!(["", "203.0.113.7", PROXY].contains(&client), "{name}: {value}: {client}");
        }
    }
}

#[test]
fn what_connection_names_is_gone() {
    let header = |(name, value): (&'static str, &'static str)| {
        (HeaderName::from_static(name), value.parse().unwrap())
    };
    let sent = [("connection", "close, X-User ,te"), ("x-user", "ann"), ("x-other", "ben")];
    let headers: HeaderMap = sent.into_iter().map(header).collect();
    let kept = without_named(&headers);
    assert!(!kept.contains_key("x-user") && kept.contains_key("x-other"), "{kept:?}");
}
