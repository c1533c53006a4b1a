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
            "key: the policy follows URLs, and so counts by them: leave it out",
        ),
        (
            pages,
            ", key: [url, client_ip]",
            "key: the policy follows URLs, and so counts by them: leave it out",
        ),
        (named, "", ""),
        (
            named,
            ", key: client_ip",
            "key: the limits of the policy say what they count by: leave it out",
        ),
        (
            foreign,
            "",
            "policy: counts by identifiers that are no parts of a request, like client_ip or header:x-user, in each of its limits",
        ),
    ] {
        let text = format!("policies:\n  p: {policy}\nroutes:\n  - {{ policy: p{key} }}");
        let told = Config::parse(&text, &lookup, STORES).err().unwrap_or_default();
        let told: Vec<_> = told.into_iter().map(|problem| problem.message).collect();
        let expected: Vec<_> = Some(expected)
            .filter(|it| !it.is_empty())
            .map(|it| format!("routes[0].{it}"))
            .into_iter()
            .collect();
        assert_eq!(told, expected, "{policy} {key}");
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
            "match.path: `/q?x=1` is no path: expected one without `?` and `#`, since only the path is matched",
        ),
        (
            "1/s",
            "/q#x",
            "match.path: `/q#x` is no path: expected one without `?` and `#`, since only the path is matched",
        ),
        (
            "concurrency 5",
            "/q",
            "policy: limits concurrency: a proxy that asks cannot give a place back",
        ),
        (
            " concurrency 5",
            "/q",
            "policy: limits concurrency: a proxy that asks cannot give a place back",
        ),
        (
            "\tleaky-bucket 1/s max-wait 1s",
            "/q",
            "policy: is a leaky bucket, which delays: a proxy that asks can only be told yes or no",
        ),
    ] {
        let text = format!(
            "policies:\n  p: '{policy}'\nroutes:\n  - {{ policy: p, match: {{ path: '{path}' }} }}"
        );
        let told = problems(&text);
        match expected {
            "" => assert_eq!(told, [""; 0], "{text}"),
            _ => assert!(
                told.len() == 1 && told[0].ends_with(&format!(": routes[0].{expected}")),
                "{text}: {told:?}"
            ),
        }
    }
}

#[test]
fn the_proxy_protocol_has_to_come_from_somebody() {
    let believed_from_nobody = |place: &str| {
        format!(
            "f:{place}.proxy_protocol: is believed from nobody, so that every connection would be closed: name the \
             networks of those who send it in `client_ip.trusted_proxies`"
        )
    };
    let doors = "listen:\n  http: { address: '127.0.0.1:1', proxy_protocol: true }\n  \
        resp: { proxy_protocol: true, address: '[::1]:2' }\n  \
        grpc: { address: 'unix:/a', proxy_protocol: true }\n";
    let expected =
        [believed_from_nobody("2:51: listen.http"), believed_from_nobody("3:27: listen.resp")];
    for nobody in ["", "client_ip: { ipv6_prefix: 48 }\n", "client_ip: { trusted_proxies: [] }\n"] {
        check(&format!("{doors}{nobody}"), &expected.each_ref().map(String::as_str));
    }
    check(&format!("{doors}client_ip: {{ trusted_proxies: [10.0.0.0/8] }}\n"), &[]);
    check(&doors.replace("true", "false"), &[]);
}

#[test]
fn a_token_that_would_be_no_use_is_told_where_it_stands() {
    let (short, unfit) = (
        "is shorter than 16 bytes: it can be guessed",
        "has to be of visible ASCII characters, without spaces, to fit into a header",
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
            "f:2:9: listen.http: has no password: only `resp` has",
            "f:4:60: listen.resp.password_file: and `password` are both given: give one of them",
        ],
    );
}
