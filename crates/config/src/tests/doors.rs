//! What doors, routes and tokens have to be.

use super::STORES;
use super::*;

#[test]
fn what_a_route_counts_by_is_what_the_limits_of_its_policy_name() {
    let pages =
        "{ key: url, algorithm: sliding-window, limit: 240/min, adaptive: { source: latency } }";
    let named =
        "{ all: [{ name: a, key: client_ip, limit: 1/s }, { name: b, key: global, limit: 9/s }] }";
    let foreign =
        "{ all: [{ name: a, key: client_ip, limit: 1/s }, { name: b, key: domain, limit: 9/s }] }";
    for (policy, key, expected) in [
        (pages, "", ""),
        (pages, ", key: url", ""),
        (pages, ", key: path", ""),
        (
            pages,
            ", key: client_ip",
            "key: the policy follows URLs and counts by them: remove the key",
        ),
        (
            pages,
            ", key: [url, client_ip]",
            "key: the policy follows URLs and counts by them: remove the key",
        ),
        (named, "", ""),
        (
            named,
            ", key: client_ip",
            "key: each limit of the policy has a key of its own: remove this one",
        ),
        (
            foreign,
            "",
            "policy: counts by identifiers that are not key parts of a request, like client_ip or header:x-user: use key parts in each of its limits",
        ),
    ] {
        let text = format!("policies:\n  p: {policy}\nroutes:\n  - {{ policy: p{key} }}");
        let reported = Config::parse(&text, &lookup, STORES).err().unwrap_or_default();
        let reported: Vec<_> = reported.into_iter().map(|problem| problem.message).collect();
        let expected: Vec<_> = Some(expected)
            .filter(|it| !it.is_empty())
            .map(|it| format!("routes[0].{it}"))
            .into_iter()
            .collect();
        assert_eq!(reported, expected, "{policy} {key}");
    }
}

#[test]
fn proxies_are_counted_or_named() {
    for (client_ip, expected) in [
        ("trusted_hops: 1", ""),
        ("trusted_hops: 16, forwarded: true, ipv6_prefix: 56", ""),
        ("trusted_hops: 2, trusted_proxies: []", ""),
        ("trusted_hops: 0", "client_ip.trusted_hops: expected a whole number from 1 to 16"),
        ("trusted_hops: 17", "client_ip.trusted_hops: expected a whole number from 1 to 16"),
        ("trusted_hops: -1", "client_ip.trusted_hops: expected a whole number from 1 to 16"),
        (
            "trusted_hops: 1, trusted_proxies: [10.0.0.0/8]",
            "client_ip.trusted_hops: and `trusted_proxies` are both given: give one of them",
        ),
    ] {
        let text = format!("client_ip: {{ {client_ip} }}");
        let reported = Config::parse(&text, &lookup, STORES).err().unwrap_or_default();
        let reported: Vec<_> = reported.into_iter().map(|problem| problem.message).collect();
        assert_eq!(reported.join("; "), expected, "{client_ip}");
    }
}

#[test]
fn what_no_request_can_match_is_no_route() {
    for (policy, path, expected) in [
        ("1/s", "/q", ""),
        ("1/s", "/q%3Fx=1", ""),
        (
            "1/s",
            "/q?x=1",
            "match.path: `/q?x=1` is not a path: expected one without `?` and `#`: only the path is matched",
        ),
        (
            "1/s",
            "/q#x",
            "match.path: `/q#x` is not a path: expected one without `?` and `#`: only the path is matched",
        ),
        ("concurrency 5", "/q", "policy: limits concurrency: forward-auth cannot release a permit"),
        (
            " concurrency 5",
            "/q",
            "policy: limits concurrency: forward-auth cannot release a permit",
        ),
        (
            "\tleaky-bucket 1/s max-wait 1s",
            "/q",
            "policy: is a leaky bucket, which delays: forward-auth can only admit or refuse",
        ),
    ] {
        let text = format!(
            "policies:\n  p: '{policy}'\nroutes:\n  - {{ policy: p, match: {{ path: '{path}' }} }}"
        );
        let reported = problems(&text);
        match expected {
            "" => assert_eq!(reported, [""; 0], "{text}"),
            _ => assert!(
                reported.len() == 1 && reported[0].ends_with(&format!(": routes[0].{expected}")),
                "{text}: {reported:?}"
            ),
        }
    }
}

#[test]
fn a_dialect_is_one_of_three_and_off_says_what_is_left() {
    check(
        "headers: { dialect: draft-7 }",
        &["f:1:21: headers.dialect: unknown `draft-7`, did you mean `draft-11`?"],
    );
    for (headers, warns) in [
        ("dialect: off", true),
        ("dialect: off, legacy: off", false),
        ("dialect: off, legacy: epoch", false),
        ("dialect: legacy", false),
        ("legacy: off", false),
    ] {
        let warned = super::advice::warnings(&format!(
            "policies: {{ p: sliding-log 1/s }}\nheaders: {{ {headers} }}"
        ));
        let is_told =
            warned.iter().any(|it| it.contains("headers.dialect: leaves the X-RateLimit"));
        assert_eq!((is_told, warned.len()), (warns, usize::from(warns)), "{headers}: {warned:?}");
    }
}

#[test]
fn the_proxy_protocol_has_to_come_from_somebody() {
    let no_trusted_proxy = |position: &str| {
        format!(
            "f:{position}.proxy_protocol: is accepted from trusted proxies only, and there are none, so that every \
             connection would be closed: add the senders to `client_ip.trusted_proxies`"
        )
    };
    let doors = "listen:\n  http: { address: '127.0.0.1:1', proxy_protocol: true }\n  \
        resp: { proxy_protocol: true, address: '[::1]:2' }\n  \
        grpc: { address: 'unix:/a', proxy_protocol: true }\n";
    let expected = [no_trusted_proxy("2:51: listen.http"), no_trusted_proxy("3:27: listen.resp")];
    for no_proxies in
        ["", "client_ip: { ipv6_prefix: 48 }\n", "client_ip: { trusted_proxies: [] }\n"]
    {
        check(&format!("{doors}{no_proxies}"), &expected.each_ref().map(String::as_str));
    }
    check(&format!("{doors}client_ip: {{ trusted_proxies: [10.0.0.0/8] }}\n"), &[]);
    let counted = problems(&format!("{doors}client_ip: {{ trusted_hops: 1 }}\n"));
    let advice = ".proxy_protocol: needs `trusted_proxies` in place of `trusted_hops`: ";
    assert!(counted.len() == 2 && counted.iter().all(|it| it.contains(advice)), "{counted:?}");
    check(&doors.replace("true", "false"), &[]);
}

#[test]
fn a_token_that_would_be_no_use_is_told_where_it_stands() {
    let (short, unfit) = (
        "is shorter than 16 bytes: it can be guessed",
        "needs visible ASCII characters without spaces, to fit into a header",
    );
    for (token, why) in [
        ("short               ", short),
        ("a s3cret token of ours", unfit),
        ("s3cret-token-öf-ours", unfit),
    ] {
        let text = format!("policies: {{ a: 5/s }}\nadmin: {{ token: '{token}' }}");
        check(&text, &[&format!("f:2:17: admin.token: {why}")]);
    }
}

#[test]
fn only_the_redis_protocol_has_a_password() {
    check("listen: { resp: { address: '127.0.0.1:6380', password: x } }", &[]);
    check(
        "listen:\n  http: { address: '127.0.0.1:80', password: x }\n  grpc: 127.0.0.1:81\n  resp: { address: 'unix:/r', password: '', password_file: y }",
        &[
            "f:2:9: listen.http: has no password: only `resp` has one",
            "f:4:60: listen.resp.password_file: and `password` are both given: give one of them",
        ],
    );
}
