//! What the section of tokens has to be, and what needs it.

use super::*;

/// The messages about a file whose section `jwt` is this one, with a route that counts by a claim.
fn said(jwt: &str) -> Vec<String> {
    let text = format!(
        "policies: {{ api: 5/s burst 1 }}\nroutes: [{{ policy: api, key: \"jwt:sub|client_ip\" }}]\njwt: {{ {jwt} }}"
    );
    let reported = Config::parse(&text, &lookup, STORES).err().unwrap_or_default();
    reported.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn tokens_need_keys_and_algorithms_of_one_kind() {
    for (jwt, expected) in [
        ("keys_file: a.pem, algorithms: RS256", &[][..]),
        ("jwks_file: a.json, algorithms: [RS256, ES256, EdDSA], issuer: [a, b], audience: c", &[]),
        ("keys_file: secret, algorithms: [HS256, HS512]", &[]),
        ("algorithms: RS256", &["jwt: has no keys: give `keys_file` or `jwks_file`"]),
        (
            "keys_file: a, jwks_file: b, algorithms: RS256",
            &["jwt.jwks_file: and `keys_file` are both given: give one of them"],
        ),
        ("keys_file: a", &["jwt: `algorithms` is missing"]),
        (
            "keys_file: a, algorithms: []",
            &["jwt.algorithms: is empty: name those that your issuer signs with, like RS256"],
        ),
        (
            "keys_file: a, algorithms: [RS256, none]",
            &[
                "jwt.algorithms[1]: unknown algorithm `none`: expected one of HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA",
            ],
        ),
        (
            "keys_file: a, algorithms: [RS256, HS256]",
            &[
                "jwt.algorithms: HS256 needs a secret and RS256 a public key: name algorithms of one kind, or whoever knows the public key could sign with it",
            ],
        ),
        (
            "keys_file: a, algorithms: RS256, leeway: 5s",
            &[
                "jwt: unknown key `leeway`: expected one of algorithms, audience, issuer, jwks_file, keys_file",
            ],
        ),
    ] {
        assert_eq!(said(jwt), expected, "{jwt}");
    }
}

#[test]
fn whatever_counts_by_a_claim_needs_the_section() {
    let needs = "`jwt:` needs the section `jwt`, with the keys of the issuer: otherwise no token can be verified";
    for (text, at) in [
        (
            "policies: { a: 5/s burst 1 }\nroutes: [{ policy: a, key: [path, \"header:x|jwt:sub\"] }]",
            "routes[0].key",
        ),
        ("policies: { a: { limit: 5/s, burst: 1, key: \"jwt:sub\" } }", "policies.a.key"),
        (
            "policies: { a: { all: [{ name: x, key: \"jwt:sub\", limit: 5/s, burst: 1 }] } }",
            "policies.a",
        ),
        (
            "policies: { a: 5/s burst 1 }\nroutes: [{ policy: { by: \"jwt:plan\", gold: a, else: a } }]",
            "routes[0].policy.by",
        ),
    ] {
        let reported = Config::parse(text, &lookup, STORES).err().unwrap_or_default();
        let reported: Vec<_> = reported.into_iter().map(|problem| problem.message).collect();
        assert_eq!(reported, [format!("{at}: {needs}")], "{text}");
        let with = format!("{text}\njwt: {{ keys_file: a.pem, algorithms: RS256 }}");
        assert_eq!(super::advice::warnings(&with), [""; 0], "{with}");
    }
}

#[test]
fn a_mistake_in_the_section_is_told_once_whatever_counts_by_a_claim() {
    for policies in [
        "a: { limit: 5/s, burst: 1, key: \"jwt:sub\" }",
        "a: { all: [{ name: x, key: \"jwt:sub\", limit: 5/s, burst: 1 }] }",
        "t: { limit: 5/s, burst: 1, key: global }, a: { share: { of: t, by: \"jwt:sub\", weights: { by: \"jwt:plan\", \
         gold: 2, else: 1 } } }",
    ] {
        let text =
            format!("policies: {{ {policies} }}\njwt: {{ key_file: a.pem, algorithms: RS256 }}");
        check(&text, &["f:2:8: jwt: unknown key `key_file`, did you mean `keys_file`?"]);
    }
}

#[test]
fn what_will_never_be_read_is_warned_of() {
    let unused = "policies: { a: 5/s burst 1 }\njwt: { keys_file: a.pem, algorithms: RS256 }";
    let warned = super::advice::warnings(unused);
    assert!(warned.len() == 1 && warned[0].contains("jwt: is used by nothing"), "{warned:?}");
    let body = "policies: { a: 5/s burst 1 }\nroutes: [{ policy: a, key: \"json:/user\" }]\n";
    let warned = super::advice::warnings(body);
    assert!(warned.len() == 1 && warned[0].contains("only the reverse proxy has"), "{warned:?}");
    let proxy = "listen: { proxy: 127.0.0.1:1 }\nproxy: { upstream: \"http://127.0.0.1:2\" }\n";
    assert_eq!(super::advice::warnings(&format!("{body}{proxy}")), [""; 0]);
}

#[test]
fn a_file_of_keys_is_read_within_bounds_and_not_repeated() {
    let folder = std::env::temp_dir().join(format!("tidegate-jwt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("keys");
    let text = format!("jwt: {{ keys_file: '{}', algorithms: HS256 }}", path.display());
    let config = Config::parse(&text, &lookup, STORES).unwrap();
    let keys = config.doors.token_keys.unwrap();
    let shown = path.display();
    let missing = keys.read().unwrap_err();
    assert!(missing.starts_with(&format!("jwt.keys_file: cannot read {shown}: ")), "{missing}");
    for (content, expected) in [
        (
            "canary".to_owned(),
            Some(format!(
                "jwt.keys_file: {shown} has a secret of 6 bytes: expected at least 32, or it can be guessed"
            )),
        ),
        (
            "canary".repeat(11_000),
            Some(format!("jwt.keys_file: cannot read {shown}: it is longer than 64 KiB")),
        ),
        ("canary".repeat(10_000), None),
    ] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(keys.read().err(), expected);
    }
    assert!(!format!("{:?}", keys.read()).contains("canary"));
    std::fs::remove_dir_all(&folder).unwrap();
}
