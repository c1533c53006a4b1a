use http::Request;
use proptest::prelude::*;

use super::*;
use crate::{BadToken, ClientIp, Peer, TokenAlgorithm, TokenRules, TokenVerifier};
use tidegate::{Clock, ManualClock, Timestamp};

/// The key that `parts` make of a request of 192.0.2.7 to `/a/b/?user=ann&x=1`, with some headers.
fn key(parts: &[&str], headers: &[(&str, &str)]) -> String {
    key_of("/a//b/?user=%61nn&x=1", parts, headers).unwrap()
}

fn key_of(
    target: &str,
    parts: &[&str],
    headers: &[(&str, &str)],
) -> Result<String, AmbiguousRequest> {
    let client_ip = ClientIp::new();
    let mut request = Request::post(target).header("host", "Shop.example:80");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer::Ip("192.0.2.7".parse().unwrap());
    let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
    let route = MatchedRoute { name: Some("POST /a/*"), ..MatchedRoute::default() };
    let key = KeyParts::read(parts.iter().copied()).unwrap().key_for(&seen, route)?;
    Ok(String::from_utf8(key).unwrap())
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
fn a_repeated_part_is_refused() {
    for (part, headers) in [
        ("header:x-user", &[("x-user", "ann"), ("x-user", "ben")][..]),
        ("header:x-user", &[("x-user", "ann"), ("x-user", "ann")]),
        ("header:x-user", &[("x-user", ""), ("x-user", "ann")]),
        ("header:x-user", &[("x_user", "ann")]),
        ("header:x-user|client_ip", &[("x-user", "ann"), ("X_User", "ben")]),
        ("header:x-user", &[("x.user", "ben")]),
        ("cookie:sid", &[("cookie", "sid=a; sid=b")]),
        ("cookie:sid", &[("cookie", "sid=a"), ("cookie", "sid=b")]),
        ("cookie:sid", &[("cookie", "sid=a;x=1;\tsid =a")]),
        ("cookie:sid", &[("cookie", "%73id=a; sid=b")]),
        ("cookie:sid", &[("cookie", "SID=a; sid=b")]),
        ("cookie:sid", &[("cookie", "sid; sid=b")]),
        ("cookie:sid", &[("cookie", "sid[0]=b")]),
        ("cookie:sid", &[("cookie", "sid=r0; x=1 sid=ann")]),
        ("cookie:sid", &[("cookie", "sid=r0 sid=ann")]),
        ("cookie:sid", &[("cookie", "x=1 sid=ann")]),
        ("cookie:sid", &[("cookie", "x=1\tSid =ann")]),
        ("cookie:sid", &[("cookie", "x sid=ann")]),
        ("cookie:sid", &[("cookie", "x=1, sid=2")]),
        ("cookie:sid", &[("cookie", "x=1,sid=2")]),
        ("cookie:sid", &[("cookie", "x=y=1 s%69d=2")]),
        ("cookie:api_key", &[("cookie", "api_key=r0; api[key=ann")]),
    ] {
        let refused = key_of("/", &[part], headers);
        assert!(matches!(refused, Err(AmbiguousRequest::Repeated(_))), "{headers:?}: {refused:?}");
    }
    for query in [
        "a=1&a=2",
        "a=1&a=1",
        "a=&a=1",
        "a&a=1",
        "%61=1&a=2",
        "a=1&%61=2",
        "A=1&a=2",
        "a=1&+a=2",
        "a=1&a[]=2",
        "a[]=2",
        "a%5B0%5D=2",
        "a=1;a=2",
        "x=1;a=2",
        "a=1&x=1;a=2",
        "a%00b=1",
    ] {
        let refused = key_of(&format!("/?{query}"), &["query:a"], &[]);
        assert!(matches!(refused, Err(AmbiguousRequest::Repeated(_))), "{query}: {refused:?}");
    }
    for query in ["a_b=r0&a[b=real", "a_b=r0&a%5Bb=real", "a_b=r0&A%5bb=real", "a[b%00=real"] {
        let refused = key_of(&format!("/?{query}"), &["query:a_b"], &[]);
        assert!(matches!(refused, Err(AmbiguousRequest::Repeated(_))), "{query}: {refused:?}");
    }
    assert_eq!(
        key_of("/?a=1;b=2", &["query:a"], &[]).unwrap_err().to_string(),
        "the query parameter `a` has a semicolon, where some servers begin another: send it as %3B"
    );
    let refused = key_of("/?a.b=1&a_b=2", &["query:a_b"], &[]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the query parameter `a_b` is repeated, or in a spelling that servers read differently: send it once, as it is named here"
    );
}

#[test]
fn what_a_key_does_not_read_may_be_repeated() {
    let headers = [
        ("accept", "a"),
        ("accept", "b"),
        ("cookie", "x=1; x=2; y=1 x=sid, z; sid=s"),
        ("x-user", "a, b"),
    ];
    for (part, expected) in [("cookie:sid", "s"), ("query:b", "3"), ("header:x-user", "a, b")] {
        assert_eq!(key_of("/?a=1&a=2&b=3&ab=4", &[part], &headers).as_deref(), Ok(expected));
    }
    let crumbs = [("cookie", "a=1"), ("cookie", "b=2")];
    assert_eq!(key_of("/", &["header:cookie"], &crumbs).as_deref(), Ok("a=1; b=2"));
}

#[test]
fn another_spelling_of_a_value_is_the_same_value() {
    for cookie in ["sid=a/b==", "sid=%61%2fb==", "sid=\"a/b==\"", "Sid = a/b== ", "%53id=a%2Fb=%3D"]
    {
        assert_eq!(
            key_of("/", &["cookie:sid"], &[("cookie", cookie)]).as_deref(),
            Ok("a/b=="),
            "{cookie}"
        );
    }
    for (cookie, expected) in [
        (r#"sid="\141nn""#, "ann"),
        (r#"sid="\a\n\n""#, "ann"),
        (r#"sid="\04561nn""#, "ann"),
        (r#"sid="a\\n\"""#, r#"a\n""#),
        (r#"sid="\000x""#, "%00x"),
        (r"sid=\141nn", r"\141nn"), // not quoted
        (r#"sid="ann\""#, "ann\\"),
    ] {
        let key = key_of("/", &["cookie:sid"], &[("cookie", cookie)]);
        assert_eq!(key.as_deref(), Ok(expected), "{cookie}");
    }
    assert_eq!(key_of("/?a[b=ann", &["query:a_b"], &[]).as_deref(), Ok("ann"));
    assert_eq!(
        key_of("/", &["cookie:sid"], &[("cookie", "sid=%00global")]).as_deref(),
        Ok("%00global")
    );
    for query in ["user=ann", "User=%61nn", "%55ser=ann", "+user=ann"] {
        assert_eq!(
            key_of(&format!("/?{query}"), &["query:user"], &[]).as_deref(),
            Ok("ann"),
            "{query}"
        );
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
        ("jwt", "expected a claim after it, like jwt:sub"),
        ("jwt:", "expected the name of a claim, like jwt:sub"),
        ("jwt: sub", "expected the name of a claim, like jwt:sub"),
        ("jwt:/sub", "expected the name of a claim, like jwt:sub"),
        ("jwt:$.plan", "expected the name of a claim, like jwt:sub"),
        ("jwt.sub", "expected one of client_ip"),
        ("jvt:sub", "did you mean `jwt:`?"),
        ("json", "expected a pointer after it, like json:/user/id"),
        ("json:user", "expected a JSON pointer, like json:/user/id"),
        ("json:/a~2", "expected a JSON pointer, like json:/user/id"),
        ("zebra", "expected one of client_ip, header:NAME"),
        ("client_ip|", "expected one of"),
        ("", "expected one of"),
    ] {
        let error = KeyParts::read([word]).unwrap_err();
        assert!(error.contains(expected), "{word}: {error}");
    }
    assert!(KeyParts::read([]).is_err());
}

#[test]
fn a_key_has_a_bounded_number_of_parts_and_alternatives() {
    let alternatives = |count| vec!["query:b"; count].join("|");
    let parts = |count| vec!["query:b"; count];
    assert!(KeyParts::read([&*alternatives(ALTERNATIVES_MAX)]).is_ok());
    assert!(KeyParts::read(parts(PARTS_MAX)).is_ok());
    for (read, expected) in [
        (KeyParts::read([&*alternatives(ALTERNATIVES_MAX + 1)]), "too many alternatives"),
        (KeyParts::read([&*alternatives(100_000)]), "expected at most 8"),
        (KeyParts::read(parts(PARTS_MAX + 1)), "too many key parts: expected at most 8"),
    ] {
        let error = read.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
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

/// Tokens of `PyJWT`: the subject is ann, her organisation 7.
const GOLDEN: &str = include_str!("../../../../testdata/jwt/golden.json");

/// What else a request of 192.0.2.7 can bring to be counted by.
#[derive(Default)]
struct Brought<'a> {
    headers: &'a [(&'a str, &'a str)],
    body: Option<&'a str>,
}

fn golden() -> serde_json::Value {
    serde_json::from_str(GOLDEN).unwrap()
}

fn bearer(algorithm: &str) -> String {
    format!("Bearer {}", golden()["tokens"][algorithm].as_str().unwrap())
}

/// The key of a request where tokens are verified and bodies read. `Err` if it is ambiguous.
fn signed_key(parts: &[&str], brought: &Brought<'_>) -> Result<Vec<u8>, AmbiguousRequest> {
    let secret = golden()["secret"].as_str().unwrap().to_owned();
    let rules = TokenRules::new(vec![TokenAlgorithm::Hs256], Vec::new(), Vec::new()).unwrap();
    let verifier = TokenVerifier::with_keys(secret.as_bytes(), rules).unwrap();
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let client_ip = ClientIp::new();
    let mut request = Request::post("/").header("host", "shop.example");
    for (name, value) in brought.headers {
        request = request.header(*name, *value);
    }
    let (request, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer::Ip("192.0.2.7".parse().unwrap());
    let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
    let mut seen = seen.verified_by(&verifier, &clock);
    if let Some(body) = brought.body {
        seen = seen.with_body(body.as_bytes());
    }
    KeyParts::read(parts.iter().copied()).unwrap().key_for(&seen, MatchedRoute::default())
}

#[test]
fn a_verified_claim_is_a_key_and_any_other_token_is_as_none() {
    let right = bearer("HS256");
    let spelled = right.replacen("Bearer ", "bEARER   ", 1) + " ";
    for (part, token, expected) in [
        ("jwt:sub", &*right, "ann"),
        ("jwt:sub", &*spelled, "ann"),
        ("jwt:sub", &*right.replacen(' ', "\t", 1), "ann"),
        ("jwt:org.id", &*right, "7"),
        ("jwt:missing|jwt:plan", &*right, "gold"),
        ("jwt:sub|client_ip", &*right, "ann"),
        ("jwt:sub", &*bearer("RS256"), "192.0.2.7"),
        ("jwt:sub|client_ip", &*format!("{right}x"), "192.0.2.7"),
        ("jwt:sub|global", &*format!("{right}x"), "global"),
        ("jwt:sub|client_ip", "", "192.0.2.7"),
        ("jwt:sub|client_ip", "Bearer", "192.0.2.7"),
        ("jwt:sub|client_ip", "Bearer ", "192.0.2.7"),
        ("jwt:sub|client_ip", "Bearerx.y.z", "192.0.2.7"),
        ("jwt:sub|client_ip", &right.replacen("Bearer", "Basic", 1), "192.0.2.7"),
        ("jwt:sub|client_ip", &right.replacen("Bearer", "Bearer Bearer", 1), "192.0.2.7"),
        ("jwt:sub|client_ip", &format!("{right}, {right}"), "192.0.2.7"),
    ] {
        let headers = [("authorization", token)];
        let key = signed_key(&[part], &Brought { headers: &headers, body: None }).unwrap();
        assert_eq!(String::from_utf8(key).unwrap(), expected, "{part} {token}");
    }
    // Servers would read one of them each.
    let twice = [("authorization", &*right), ("authorization", "Bearer x")];
    assert!(signed_key(&["jwt:sub"], &Brought { headers: &twice, body: None }).is_err());
}

#[test]
fn without_a_verifier_no_token_counts() {
    let token = bearer("HS256");
    assert_eq!(key(&["jwt:sub"], &[("authorization", &token)]), "192.0.2.7");
}

#[test]
fn a_value_of_the_body_is_a_key_if_the_body_was_read_and_is_json() {
    let json = [("content-type", "application/json")];
    let with = |part: &str, headers, body| {
        signed_key(&[part], &Brought { headers, body }).map(|key| String::from_utf8(key).unwrap())
    };
    let body = Some(r#"{"user":{"id":7},"a|b":"x"}"#);
    assert_eq!(with("json:/user/id", &json, body), Ok("7".to_owned()));
    assert_eq!(with("json:/user/name|json:/user/id", &json, body), Ok("7".to_owned()));
    assert_eq!(with("json:/user/name|global", &json, body), Ok("global".to_owned()));
    assert_eq!(with("json:/user/id", &json, None), Ok("192.0.2.7".to_owned()));
    assert_eq!(with("json:/user/id", &[], body), Ok("192.0.2.7".to_owned()));
    let twice = with("json:/a", &json, Some(r#"{"a":1,"a":2}"#)).unwrap_err();
    assert!(twice.to_string().starts_with("`/a` of the body is repeated"), "{twice}");
}

#[test]
fn what_clients_choose_never_passes_for_a_subject_or_an_address() {
    let (token, json) = (bearer("HS256"), ("content-type", "application/json"));
    let parts = ["jwt:sub|header:x-user|json:/user|client_ip"];
    let key =
        |headers: &[(&str, &str)], body| signed_key(&parts, &Brought { headers, body }).unwrap();
    let ann = key(&[("authorization", &token)], None);
    assert_eq!(ann, b"ann");
    let client = key(&[], None);
    assert_eq!(client, b"192.0.2.7");
    let mut known = vec![ann, client];
    for (headers, body) in [
        (&[("x-user", "ann")][..], None),
        (&[("x-user", "192.0.2.7")], None),
        (&[json], Some(r#"{"user":"bob"}"#)),
        (&[json], Some(r#"{"user":"192.0.2.8"}"#)),
        (&[json], Some(r#"{"user":"global"}"#)),
        (&[json], Some(r#"{"user":"fingerprint-1"}"#)),
    ] {
        let key = key(headers, body);
        assert!(!known.contains(&key), "{headers:?} {body:?}: {key:?}");
        known.push(key);
    }
    // A mark cannot be sent.
    for body in [r#"{"user":"\u0000ann"}"#, r#"{"user":"\u0000\u0000192.0.2.7"}"#] {
        assert_eq!(key(&[json], Some(body)), b"192.0.2.7", "as absent");
    }
    // Where no token is a part, a value is the key itself, so that an override can name it.
    let plain = Brought { headers: &[json], body: Some(r#"{"user":"ann"}"#) };
    assert_eq!(signed_key(&["json:/user|client_ip"], &plain).unwrap(), b"ann");
    let address = Brought { headers: &[json], body: Some(r#"{"user":"192.0.2.8"}"#) };
    assert_eq!(signed_key(&["json:/user"], &address).unwrap(), b"\x00192.0.2.8");
}

#[test]
fn a_token_is_verified_once_and_only_if_something_asks_for_it() {
    let client_ip = ClientIp::new();
    let rules = TokenRules::new(vec![TokenAlgorithm::Hs256], Vec::new(), Vec::new()).unwrap();
    let verifier = TokenVerifier::with_keys(&[b'k'; 32], rules).unwrap();
    let asked = Counted::default();
    let request = Request::get("/").header("authorization", bearer("HS256"));
    let (request, ()) = request.header("x-user", "ann").body(()).unwrap().into_parts();
    let peer = Peer::Ip("192.0.2.7".parse().unwrap());
    let seen = ClientRequest::direct(&client_ip, peer, &request).unwrap();
    let seen = seen.verified_by(&verifier, &asked);
    let key = |parts: &[&str]| {
        let parts = KeyParts::read(parts.iter().copied()).unwrap();
        parts.key_for(&seen, MatchedRoute::default()).unwrap();
        (asked.0.load(std::sync::atomic::Ordering::Relaxed), seen.bad_token())
    };
    assert_eq!(key(&["header:x-user|jwt:sub", "client_ip"]), (0, None));
    assert_eq!(key(&["jwt:sub"]), (1, Some(BadToken::Signature)));
    assert_eq!(key(&["jwt:plan|jwt:sub", "jwt:sub"]), (1, Some(BadToken::Signature)));
}

/// A clock that counts its readers.
#[derive(Default)]
struct Counted(std::sync::atomic::AtomicU32);

impl Clock for Counted {
    fn now(&self) -> Timestamp {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Timestamp::from_micros(1_700_000_000_000_000)
    }
}

proptest! {
    #[test]
    fn different_bodies_and_headers_make_different_keys(
        a in "[a-c0-9:,./|\u{e9}]{0,6}", b in "[a-c0-9:,.]{0,6}",
        c in "[a-c0-9:,./|\u{e9}]{0,6}", d in "[a-c0-9:,.]{0,6}",
    ) {
        let key = |body: &str, header: &str| {
            let headers = [("content-type", "application/json"), ("x-b", header)];
            let body = serde_json::json!({"a": body}).to_string();
            signed_key(&["json:/a", "jwt:sub|header:x-b"], &Brought { headers: &headers, body: Some(&body) })
        };
        prop_assert_eq!(key(&a, &b).unwrap() == key(&c, &d).unwrap(), (a, b) == (c, d));
    }
}
