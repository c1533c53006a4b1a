use http::Request;
use proptest::prelude::*;

use super::*;
use crate::ClientIp;
use crate::Peer;

/// The key that `parts` make of a request of 192.0.2.7 to `/a/b/?user=ann&x=1`, with some headers.
fn key(parts: &[&str], headers: &[(&str, &str)]) -> String {
    let client_ip = ClientIp::new();
    let mut request = Request::post("/a//b/?user=%61nn&x=1").header("host", "Shop.example:80");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer::Ip("192.0.2.7".parse().unwrap());
    let seen = ClientRequest::forwarded(&client_ip, peer, &request).unwrap();
    let key = KeyParts::read(parts.iter().copied()).unwrap().key_for(&seen, Some("POST /a/*"));
    String::from_utf8(key).unwrap()
}

#[test]
fn each_part_is_what_it_says() {
    let cookies = [("cookie", "a=1; sid=s1"), ("cookie", "sid2=s2"), ("x-user", "ann")];
    for (part, expected) in [
        ("client_ip", "192.0.2.7"),
        ("header:x-user", "ann"),
        ("header:X-User", "ann"),
        ("cookie:sid", "s1"),
        ("cookie:sid2", "s2"),
        ("query:user", "ann"),
        ("query:x", "1"),
        ("host", "shop.example"),
        ("method", "POST"),
        ("path", "/a/b"),
        ("url", "shop.example/a/b?user=%61nn&x=1"),
        ("route", "POST /a/*"),
        ("global", "global"),
        ("header:x-team|header:x-user", "ann"),
        ("header:x-team|query:user", "ann"),
    ] {
        assert_eq!(key(&[part], &cookies), expected, "{part}");
    }
}

#[test]
fn nothing_present_is_the_client() {
    for part in ["header:x-user", "cookie:sid", "query:team", "header:x-user|cookie:sid"] {
        for headers in [&[][..], &[("x-user", "")], &[("x-user", " ")], &[("cookie", "sid=")]] {
            assert_eq!(key(&[part], headers), "192.0.2.7", "{part} {headers:?}");
        }
    }
}

#[test]
fn nobody_passes_for_an_address_or_for_everybody() {
    let fingerprint = key(&["fingerprint"], &[]);
    let ours = ["192.0.2.7", "10.0.0.0/8", "2001:db8::/64", "global", "3:ann,1:x,", &fingerprint];
    for value in ours {
        let made_up = key(&["header:x-user|client_ip"], &[("x-user", value)]);
        assert_eq!(made_up, format!("\0{value}"));
    }
    // What is nobody's but the client's stays as it is, for overrides name it.
    for value in ["ann:7", "5d41402abc4b2a76b9719d911017c592"] {
        assert_eq!(key(&["header:x-user"], &[("x-user", value)]), value);
    }
}

#[test]
fn several_parts_cannot_be_shifted() {
    let both = ["header:x-a", "header:x-b"];
    assert_eq!(key(&both, &[("x-a", "u"), ("x-b", "vw")]), "1:u,2:vw,");
    assert_ne!(
        key(&both, &[("x-a", "u,1:v"), ("x-b", "w")]),
        key(&both, &[("x-a", "u"), ("x-b", "v,1:w")])
    );
}

#[test]
fn a_fingerprint_knows_networks_and_programs_only() {
    let of = |agent| key(&["fingerprint"], &[("user-agent", agent)]);
    assert_eq!(of("curl"), of("curl"));
    assert_ne!(of("curl"), of("wget"));
    assert_eq!(of("curl").len(), "fingerprint-".len() + 32);
}

#[test]
fn words_that_name_no_part_are_explained() {
    for (word, expected) in [
        ("client-ip", "did you mean `client_ip`?"),
        ("heder:x", "did you mean `header:`?"),
        ("header", "expected a name"),
        ("header:", "not a header name"),
        ("header:a b", "not a header name"),
        ("cookie:", "expected a name"),
        ("cookie:a;b", "expected a name"),
        ("query:", "expected a name"),
        ("path:x", "did you mean `path`?"),
        ("zebra", "expected one of client_ip, header:NAME"),
        ("client_ip|", "expected one of"),
        ("", "expected one of"),
    ] {
        let error = KeyParts::read([word]).unwrap_err();
        assert!(error.contains(expected), "{word}: {error}");
    }
    assert!(KeyParts::read([]).is_err());
}

proptest! {
    #[test]
    fn different_values_make_different_keys(
        a in "[a-c0-9:,.]{0,6}", b in "[a-c0-9:,.]{0,6}",
        c in "[a-c0-9:,.]{0,6}", d in "[a-c0-9:,.]{0,6}",
    ) {
        let both = ["header:x-a", "header:x-b"];
        let one = key(&both, &[("x-a", &a), ("x-b", &b)]);
        let other = key(&both, &[("x-a", &c), ("x-b", &d)]);
        prop_assert_eq!(one == other, (a, b) == (c, d));
    }
}
