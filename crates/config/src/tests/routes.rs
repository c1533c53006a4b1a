//! What routes may match by, and what is said where they cannot.

use super::advice::warnings;
use super::*;

/// What is said about a route of the policy `api`, without its position.
fn said(route: &str) -> Vec<String> {
    let text =
        format!("policies: {{ api: 5/s burst 1, pro: 9/s burst 1 }}\nroutes:\n  - {route}\n");
    let reported = Config::parse(&text, &lookup, STORES).err().unwrap_or_default();
    reported.into_iter().map(|problem| problem.message).collect()
}

#[test]
fn conditions_that_make_no_sense_are_told_at_their_name() {
    for (matched, expected) in [
        (
            "header: { x-plan: pro }, cookie: { plan: pro }, query: { a: \"*\" }, network: 10.0.0.0/8",
            "",
        ),
        ("network: [10.0.0.0/8, \"fd00::/8\", 192.0.2.7]", ""),
        (
            "header: { \"x-plan:\": pro }",
            "routes[0].match.header.x-plan:: `x-plan:` is not a name: expected one like x-plan",
        ),
        (
            "header: { x-plan: \"\" }",
            "routes[0].match.header.x-plan: `` is not a value: expected one like pro, or `*` for any that is not empty",
        ),
        (
            "query: { version: 2 }",
            "routes[0].match.query.version: expected text, got a number (put it in quotes)",
        ),
        (
            "header: { x-plan: pro, X-Plan: free }",
            "routes[0].match.header.x-plan: `x-plan` is not a second name: expected one that is not there in another spelling",
        ),
        (
            "headers: { x-plan: pro }",
            "routes[0].match: unknown key `headers`, did you mean `header`?",
        ),
        (
            "network: [10.0.0.0/33]",
            "routes[0].match.network[0]: network `10.0.0.0/33`: the prefix is not a number from 0 to 32",
        ),
        (
            "network: office",
            "routes[0].match.network: network `office`: expected an address and a prefix, like 10.0.0.0/8 or fd00::/8",
        ),
        (
            "network: []",
            "routes[0].match.network: is empty: expected a network like 10.0.0.0/8; without `network`, all match",
        ),
    ] {
        let expected: Vec<&str> = Some(expected).filter(|it| !it.is_empty()).into_iter().collect();
        assert_eq!(
            said(&format!("{{ match: {{ {matched} }}, policy: api }}")),
            expected,
            "{matched}"
        );
    }
}

#[test]
fn routes_match_by_a_bounded_number_of_headers() {
    let route =
        |number: usize| format!("{{ match: {{ header: {{ x-{number}: a }} }}, policy: api }}");
    let routes = |count: usize| (0..count).map(route).collect::<Vec<_>>().join("\n  - ");
    assert!(said(&routes(32)).is_empty());
    assert_eq!(
        said(&routes(33)),
        ["routes: match by 33 different headers, cookies and parameters: expected at most 32"]
    );
}

#[test]
fn a_route_behind_one_with_fewer_conditions_is_never_reached() {
    let warned = |first: &str, second: &str| {
        let text = format!(
            "policies: {{ api: 5/s burst 1 }}\nroutes:\n  - {{ match: {{ {first} }}, policy: api }}\n  - {{ match: {{ {second} }}, policy: api }}\n"
        );
        warnings(&text).iter().any(|it| it.contains("routes[1]: is never reached"))
    };
    for (first, second, expected) in [
        ("path: \"/*\"", "header: { x-plan: pro }", true),
        ("header: { x-plan: \"*\" }", "header: { x-plan: pro }, path: /a", true),
        ("header: { x-plan: pro }", "path: /a", false),
        ("header: { x-plan: pro }", "header: { x-plan: free }", false),
        ("network: 10.0.0.0/8", "network: [10.1.0.0/16, 10.2.0.0/16]", true),
        ("network: 10.0.0.0/8", "network: [10.1.0.0/16, 11.0.0.0/8]", false),
        ("cookie: { plan: pro }", "query: { plan: pro }", false),
    ] {
        assert_eq!(warned(first, second), expected, "{first} / {second}");
    }
}

#[test]
fn plans_that_make_no_sense_are_told_at_their_value() {
    for (keys, expected) in [
        ("policy: { by: \"header:x-plan\", pro: pro, else: api }", &[][..]),
        ("policy: { by: \"cookie:plan\", \"gold & more\": pro, else: api }, key: path", &[]),
        (
            "policy: { by: \"header:x-plan\", pro: prro, else: apj }",
            &[
                "routes[0].policy.pro: no policy is called `prro`, did you mean `pro`?",
                "routes[0].policy.else: no policy is called `apj`, did you mean `api`?",
            ],
        ),
        ("policy: { by: \"header:x-plan\", pro: pro }", &["routes[0].policy: `else` is missing"]),
        ("policy: { pro: pro, else: api }", &["routes[0].policy: `by` is missing"]),
        (
            "policy: { by: client_ip, pro: pro, else: api }",
            &[
                "routes[0].policy.by: `client_ip` cannot choose: expected header:NAME, cookie:NAME, query:NAME or jwt:CLAIM",
            ],
        ),
        (
            "policy: { by: x-plan, pro: pro, else: api }",
            &[
                "routes[0].policy.by: `x-plan` cannot choose: expected header:NAME, cookie:NAME, query:NAME or jwt:CLAIM",
            ],
        ),
        (
            "policy: { by: \"header:x-plan\", else: api }",
            &[
                "routes[0].policy: names no value: add some, as in `{ by: \"header:x-plan\", pro: api-pro, else: api-free }`",
            ],
        ),
        (
            "policy: api, priority: { by: \"header:x-plan\", pro: critical, else: batch }",
            &[
                "routes[0].priority: needs the `in_flight` of some policy: otherwise nothing is shed. `proxy.in_flight` has no priorities",
            ],
        ),
        (
            "policy: api, priority: { by: \"header:x-plan\", pro: urgent, else: batch }",
            &[
                "routes[0].priority.pro: unknown `urgent`: expected one of critical, default, batch, best-effort",
            ],
        ),
    ] {
        assert_eq!(said(&format!("{{ {keys} }}")), expected, "{keys}");
    }
}

#[test]
fn a_plan_that_nobody_can_name_is_warned_of() {
    let text = |more: &str| {
        format!(
            "policies: {{ api: 5/s burst 1, pro: 9/s burst 1 }}\nroutes:\n  - policy: {{ by: \"header:x-plan\", pro: pro, else: api }}\n{more}"
        )
    };
    let warned = warnings(&text(""));
    assert!(warned.len() == 1 && warned[0].contains("every request takes `else`"), "{warned:?}");
    assert!(warnings(&text("client_ip: { trusted_proxies: [10.0.0.1] }")).is_empty());
}

#[test]
fn a_cost_that_never_fits_is_warned_of() {
    let warned = |policy: &str, cost: u64| {
        let text =
            format!("policies: {{ api: {policy} }}\nroutes: [{{ policy: api, cost: {cost} }}]\n");
        warnings(&text).iter().any(|it| it.contains("routes[0].cost: never fits into policy `api`"))
    };
    for (policy, fits, never) in [
        ("5/s burst 3", 3, 4),
        ("sliding-log 3/h", 3, 4),
        (
            "{ all: [{ name: a, limit: 9/s, burst: 9 }, { name: b, limit: 9/s, burst: 9, cost: 4 }] }",
            2,
            3,
        ),
    ] {
        assert!(!warned(policy, fits) && warned(policy, never), "{policy}");
    }
    assert!(!warned(
        "{ any: [{ name: a, limit: 9/s, burst: 9 }, { name: b, limit: 3/s, burst: 3 }] }",
        5
    ));
}
