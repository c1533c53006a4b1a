//! Whose request it is: what a client makes up must not matter.

use std::net::IpAddr;

use http::Request;
use http::request::Parts;
use tidegate::ManualClock;
use tidegate::tower::{ClientIp, RateLimitLayer};

const PROXY: &str = "10.0.0.1";
const XFF: &str = "x-forwarded-for";

fn request(peer: &str, name: &str, lines: &[&str]) -> Parts {
    let mut request = Request::get("/").extension(peer.parse::<IpAddr>().unwrap());
    for line in lines {
        request = request.header(name, line.as_bytes());
    }
    request.body(()).unwrap().into_parts().0
}

/// Trusts `10.0.0.0/8` and `fd00::/8`.
fn client_ip() -> ClientIp {
    let trusting = ClientIp::new().trust("10.0.0.0/8").unwrap().trust("fd00::/8").unwrap();
    trusting.peer(|extensions| extensions.get::<IpAddr>().copied())
}

fn check(peer: &str, lines: &[&str], expected: &str) {
    let found = client_ip().find(&request(peer, XFF, lines)).unwrap();
    assert_eq!(found.to_string(), expected, "peer {peer}, {lines:?}");
}

fn check_forwarded(lines: &[&str], expected: &str) {
    let found = client_ip().forwarded().find(&request(PROXY, "forwarded", lines)).unwrap();
    assert_eq!(found.to_string(), expected, "{lines:?}");
}

#[test]
fn an_untrusted_peer_is_the_client_whatever_it_says() {
    check("203.0.113.7", &[], "203.0.113.7");
    check("203.0.113.7", &["1.1.1.1"], "203.0.113.7");
    check("203.0.113.7", &["10.0.0.9"], "203.0.113.7");
    check("2001:db8::1", &["1.1.1.1, 10.0.0.9"], "2001:db8::1");
    check("::ffff:203.0.113.7", &["1.1.1.1"], "203.0.113.7");
    let nobody = ClientIp::new().peer(|extensions| extensions.get::<IpAddr>().copied());
    let request = request("127.0.0.1", XFF, &["1.1.1.1"]);
    assert_eq!(nobody.find(&request).unwrap().to_string(), "127.0.0.1");
}

#[test]
fn the_rightmost_untrusted_address_is_the_client() {
    check(PROXY, &["203.0.113.7"], "203.0.113.7");
    check(PROXY, &["1.1.1.1, 203.0.113.7"], "203.0.113.7");
    check(PROXY, &["1.1.1.1,203.0.113.7 ,\t10.0.0.2"], "203.0.113.7");
    check(PROXY, &["1.1.1.1", "203.0.113.7", "10.0.0.2"], "203.0.113.7");
    check(PROXY, &["10.9.9.9, 203.0.113.7"], "203.0.113.7"); // a made-up trusted one
    check("::ffff:10.0.0.1", &["203.0.113.7"], "203.0.113.7");
    check("fd00::1", &["2001:db8::7, ::ffff:10.0.0.2"], "2001:db8::7");
}

#[test]
fn a_chain_of_trusted_proxies_ends_at_its_left() {
    check(PROXY, &[], "10.0.0.1");
    check(PROXY, &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
    check(PROXY, &["10.0.0.3", "10.0.0.2"], "10.0.0.3");
}

#[test]
fn an_unreadable_entry_ends_the_walk_at_the_last_proxy() {
    for garbage in [
        "",
        " ",
        "unknown",
        "1.1.1.1.1",
        "1.1.1",
        "01.1.1.1",
        "0x1.1.1.1",
        "16843009",
        "1.1.1.1;",
        "1.1.1.1 1.1.1.2",
        "[1.1.1.1]",
        "[2001:db8::1",
        "2001:db8::1]",
        "1.1.1.1:99999",
        "fe80::1%eth0",
        "<script>",
        "\"1.1.1.1",
        "1.1.1.1\u{e9}",
        "localhost",
        "1.1.1.1/32",
    ] {
        check(PROXY, &[garbage], "10.0.0.1");
        check(PROXY, &[&format!("1.1.1.1, {garbage}, 10.0.0.2")], "10.0.0.2");
        // Left of the client's address, it is not even looked at.
        check(PROXY, &[&format!("{garbage}, 203.0.113.7, 10.0.0.2")], "203.0.113.7");
    }
}

#[test]
fn bytes_that_are_no_text_spoil_their_own_entry_only() {
    let parts = |line: &[u8]| {
        let request = Request::get("/").extension(PROXY.parse::<IpAddr>().unwrap());
        request.header(XFF, line).body(()).unwrap().into_parts().0
    };
    let find = |line| client_ip().find(&parts(line)).unwrap().to_string();
    assert_eq!(find(b"\xff\xfe, 203.0.113.7"), "203.0.113.7");
    assert_eq!(find(b"1.1.1.1, 203.0.113.7\xff"), "10.0.0.1");
}

#[test]
fn ports_brackets_and_spellings_are_one_address() {
    check(PROXY, &["203.0.113.7:4711"], "203.0.113.7");
    check(PROXY, &["::ffff:203.0.113.7"], "203.0.113.7");
    check(PROXY, &["::FFFF:cb00:7107"], "203.0.113.7");
    check(PROXY, &["[::ffff:203.0.113.7]:80"], "203.0.113.7");
    for spelling in
        ["2001:db8::1", "2001:0DB8:0::1", "[2001:db8::1]", "[2001:db8::1]:80", "\"[2001:db8::1]\""]
    {
        check(PROXY, &[spelling], "2001:db8::1");
    }
}

#[test]
fn the_standard_header_is_read_by_its_grammar() {
    check_forwarded(&[r#"for="[2001:db8::1]:4711""#], "2001:db8::1");
    check_forwarded(&["for=203.0.113.7"], "203.0.113.7");
    check_forwarded(&[r#"for="203.0.113.7:80""#], "203.0.113.7");
    check_forwarded(&["FOR=203.0.113.7;proto=https; by=10.0.0.1"], "203.0.113.7");
    check_forwarded(&["proto=https;for=203.0.113.7"], "203.0.113.7");
    check_forwarded(&["for=1.1.1.1, for=203.0.113.7, for=10.0.0.2"], "203.0.113.7");
    check_forwarded(&["for=1.1.1.1", "for=203.0.113.7", "for=10.0.0.2"], "203.0.113.7");
    check_forwarded(&[r#"for=203.0.113.7;host="a,b;for=1.1.1.1""#], "203.0.113.7");
}

#[test]
fn the_standard_header_cannot_be_bent() {
    for element in [
        "for=unknown",
        "for=_hidden",
        "for=",
        "for",
        "by=1.1.1.1",
        "1.1.1.1",
        "for=1.1.1.1;for=1.1.1.2",
        r#"for="1.1.1.1"#,
        r#"for="1.1.1.1\"""#,
        r#"host="a\";for=1.1.1.1;x=""#,
    ] {
        check_forwarded(&[element], "10.0.0.1");
        check_forwarded(&[&format!("for=1.1.1.1, {element}")], "10.0.0.1");
        check_forwarded(&[&format!("{element}, for=203.0.113.7")], "203.0.113.7");
    }
    // A quote left open swallows nothing that a proxy appended.
    check_forwarded(&[r#"for=1.1.1.1;x=", for="203.0.113.7""#], "203.0.113.7");
    check_forwarded(&[r#"for=1.1.1.1;x=""#, "for=203.0.113.7"], "203.0.113.7");
    // Nor, when the proxy repeats a Host with a quote in it, does it lend the client a voice.
    check_forwarded(&[r#"for=1.1.1.1;z=", for=203.0.113.7;host="x\"y""#], "10.0.0.1");
}

#[test]
fn only_the_header_that_the_proxies_write_is_read() {
    let forwarded = request(PROXY, "forwarded", &["for=1.1.1.1"]);
    assert_eq!(client_ip().find(&forwarded).unwrap().to_string(), PROXY);
    let x_forwarded_for = request(PROXY, XFF, &["1.1.1.1"]);
    assert_eq!(client_ip().forwarded().find(&x_forwarded_for).unwrap().to_string(), PROXY);
}

fn check_hops(hops: usize, lines: &[&str], expected: &str) {
    let client_ip = ClientIp::new().trust_hops(hops).unwrap();
    let client_ip = client_ip.peer(|extensions| extensions.get::<IpAddr>().copied());
    let found = client_ip.find(&request(PROXY, XFF, lines)).unwrap();
    assert_eq!(found.to_string(), expected, "{hops} hops, {lines:?}");
}

#[test]
fn behind_counted_proxies_the_client_stands_in_their_place_from_the_right() {
    for (hops, lines, expected) in [
        (1, &["203.0.113.7"][..], "203.0.113.7"),
        (1, &["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        (1, &["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
        (2, &["203.0.113.7, 192.0.2.9"], "203.0.113.7"),
        (2, &["1.1.1.1, 203.0.113.7, 192.0.2.9"], "203.0.113.7"),
        (2, &["1.1.1.1,203.0.113.7:80", "[2001:db8::9]:443"], "203.0.113.7"),
        (3, &["203.0.113.7", "192.0.2.9, 192.0.2.8"], "203.0.113.7"),
        (
            16,
            &[
                "203.0.113.7, 1.0.0.1, 1.0.0.2, 1.0.0.3, 1.0.0.4, 1.0.0.5, 1.0.0.6, 1.0.0.7, 1.0.0.8, 1.0.0.9, 1.0.0.10, 1.0.0.11, 1.0.0.12, 1.0.0.13, 1.0.0.14, 1.0.0.15",
            ],
            "203.0.113.7",
        ),
    ] {
        check_hops(hops, lines, expected);
        // Whatever a client writes stands further left.
        for made_up in
            ["9.9.9.9", "unknown", "", "10.0.0.1, 127.0.0.1", "\"", "9.9.9.9, 9.9.9.9, 9.9.9.9"]
        {
            check_hops(hops, &[&[made_up], lines].concat(), expected);
            let joined = format!("{made_up}, {}", lines.join(", "));
            check_hops(hops, &[&joined], expected);
        }
    }
}

#[test]
fn with_fewer_addresses_than_counted_proxies_the_peer_is_the_client() {
    for hops in [1, 2, 3, 16] {
        check_hops(hops, &[], PROXY);
        check_hops(hops, &[""], PROXY);
        check_hops(hops, &["203.0.113.7, unknown"], PROXY);
    }
    check_hops(2, &["203.0.113.7"], PROXY);
    check_hops(3, &["203.0.113.7", "192.0.2.9"], PROXY);
    // The proxy's own entry must be readable, or it is not one of those that were counted.
    check_hops(2, &["203.0.113.7, _hidden"], PROXY);
    check_hops(2, &["unknown, 192.0.2.9"], PROXY);
}

#[test]
fn proxies_are_counted_or_named_and_not_both() {
    use tidegate::tower::SetupError;
    for hops in [0, 17, usize::MAX] {
        assert_eq!(ClientIp::new().trust_hops(hops).err(), Some(SetupError::Hops(hops)));
    }
    let both = Some(SetupError::HopsAndNetworks);
    assert_eq!(ClientIp::new().trust_hops(1).unwrap().trust("10.0.0.1").err(), both);
    assert_eq!(ClientIp::new().trust("10.0.0.1").unwrap().trust_hops(1).err(), both);
    let counting = ClientIp::new().trust_hops(1).unwrap().trust_hops(2).unwrap();
    assert!(counting.trusts("203.0.113.7".parse().unwrap()), "any peer is the last proxy");
}

/// Whether two clients draw on one budget.
async fn check_budget(prefix: u8, first: &str, second: &str, same: bool) {
    use tower::{Layer, ServiceExt, service_fn};
    let limiter = tidegate::Limiter::builder("1/h").clock(ManualClock::default()).build().unwrap();
    let layer = RateLimitLayer::new(limiter).client_ip(client_ip().ipv6_prefix(prefix));
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(String::new()))
    }));
    for (client, refused) in [(first, false), (second, same)] {
        let request = Request::from_parts(request(PROXY, XFF, &[client]), ());
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status() == 429, refused, "/{prefix}: {first}, {second}");
    }
}

#[tokio::test]
async fn rotating_through_a_prefix_gains_nothing() {
    check_budget(64, "2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true).await;
    check_budget(64, "2001:db8::1", "2001:db8:0:1::1", false).await;
    check_budget(56, "2001:db8::1", "2001:db8:0:ff::1", true).await;
    check_budget(56, "2001:db8::1", "2001:db8:0:100::1", false).await;
    check_budget(128, "2001:db8::1", "2001:db8::2", false).await;
    check_budget(200, "2001:db8::1", "2001:db8::2", false).await;
    check_budget(0, "2001:db8::1", "2002::1", true).await;
    check_budget(64, "203.0.113.7", "::ffff:203.0.113.7", true).await;
    check_budget(64, "203.0.113.7", "::ffff:203.0.113.8", false).await;
}
