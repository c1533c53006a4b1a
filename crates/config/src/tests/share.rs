//! Shares of a limit: what cannot be shared, and what a share cannot have.

use super::{STORES, check, lookup};
use crate::Config;

#[test]
fn what_cannot_be_shared_says_why() {
    let share = |of: &str, more: &str| {
        format!("policies:\n  total: {of}\n  api: {{ share: {{ of: total, by: tenant }}{more} }}\n")
    };
    let at = |problem: &str| format!("f:3:22: policies.api.share.of: {problem}");
    let several = at("shares `total`, which needs exactly one limit, with `key: global`");
    let whole = at(
        "shares `total`, whose limit has no parts: use gcra, token-bucket, fixed-window, sliding-window or sliding-log",
    );
    let leased = "a share, and the policy it shares, cannot be leased: leave lease out";
    for (of, more, expected) in [
        ("{ limit: 9/s, key: global }", "", None),
        ("{ all: [{ name: x, limit: 9/s, key: global }] }", "", None),
        ("{ algorithm: sliding-log, limit: 9/s, key: global }", ", mode: shadow", None),
        ("9/s", "", Some(several.clone())),
        ("{ limit: 9/s, key: client_ip }", "", Some(several.clone())),
        ("{ limit: 9/s, key: [global, path] }", "", Some(several.clone())),
        (
            "{ all: [{ name: x, limit: 9/s, key: global }, { name: y, limit: 9/h, key: global }] }",
            "",
            Some(several),
        ),
        ("{ algorithm: quota, limit: 9, every: month, key: global }", "", Some(whole.clone())),
        ("{ algorithm: concurrency, limit: 9, key: global }", "", Some(whole.clone())),
        ("{ algorithm: leaky-bucket, limit: 9/s, max_wait: 1s, key: global }", "", Some(whole)),
        ("{ limit: 900/s, key: global, lease: true }", "", Some(at(leased))),
        (
            "{ limit: 900/s, key: global }",
            ", lease: true",
            Some(format!("f:3:52: policies.api.lease: {leased}")),
        ),
        (
            "{ limit: 9/s, key: global }",
            ", limit: 5/s",
            Some("f:3:52: policies.api.limit: is given beside `share`: move it into the policy `total`".into()),
        ),
        (
            "{ limit: 9/s, key: global }",
            ", all: [{ limit: 5/s }]",
            Some("f:3:50: policies.api.all: is given beside `share`: move it into the policy `total`".into()),
        ),
        (
            "{ limit: 9/s, key: global }",
            ", adaptive: { source: cpu }",
            Some(
                "f:3:55: policies.api.adaptive: a share moves by itself: make the limit of `total` adaptive"
                    .into(),
            ),
        ),
    ] {
        let text = share(of, more);
        let problems = super::problems(&text);
        let found = problems.first().map(|it| without_column(it));
        assert_eq!(found, expected.as_deref().map(without_column), "{text}{problems:?}");
    }
}

/// A problem without its column, which depends on what was written before it.
fn without_column(problem: &str) -> String {
    let parts: Vec<&str> = problem.splitn(4, ':').collect();
    format!("{}:{}:{}", parts[0], parts[1], parts[3])
}

#[test]
fn shares_name_policies_and_weights() {
    let text = |share: &str| {
        format!("policies:\n  total: {{ limit: 9/s, key: global }}\n  api: {{ share: {share} }}\n")
    };
    for (share, expected) in [
        (
            "{ of: totl, by: tenant }",
            "policies.api.share.of: no policy is called `totl`, did you mean `total`?",
        ),
        ("{ of: api, by: tenant }", "policies.api.share.of: shares `api`, which is a share itself"),
        ("{ of: total }", "policies.api.share"),
        ("{ of: total, by: '' }", "policies.api.share.by: has no name for tenants"),
        ("{ of: total, by: global }", "policies.api.share.by: "),
        ("{ of: total, by: tenant, weights: { by: plan, gold: 4 } }", "policies.api.share.weights"),
        (
            "{ of: total, by: tenant, weights: { by: plan, else: 1 } }",
            "names 0 weights: expected 1 to 64",
        ),
        ("{ of: total, by: tenant, weights: { by: plan, gold: 0, else: 1 } }", "share.weights"),
        (
            "{ of: total, by: tenant, weights: { by: plan, gold: 4, else: 0 } }",
            "share.weights.else",
        ),
        ("{ of: total, by: tenant, weights: { by: plan, gold: 1001, else: 1 } }", "share.weights"),
        ("{ of: total, by: tenant, weights: { by: plan, gold: -4, else: 1 } }", "share.weights"),
    ] {
        let problems = super::problems(&text(share));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{share}: {problems:?}");
    }
    check(&text("{ of: total, by: tenant, weights: { by: plan, gold: 4, else: 1 } }"), &[]);
}

#[test]
fn routes_ask_shares_by_what_requests_have() {
    let text = |by: &str, weights: &str, route: &str| {
        format!(
            "policies:\n  total: {{ limit: 9/s, key: global }}\n  \
             api: {{ share: {{ of: total, by: '{by}', weights: {{ by: '{weights}', gold: 4, else: 1 }} }} }}\n\
             client_ip: {{ trusted_proxies: [127.0.0.0/8] }}\nroutes: [{{ policy: api{route} }}]\n"
        )
    };
    for (by, weights, route, expected) in [
        ("header:x-tenant", "header:x-plan", "", None),
        ("tenant", "header:x-plan", ", key: 'header:x-tenant|client_ip'", None),
        (
            "tenant",
            "header:x-plan",
            "",
            Some("shares by `tenant`, which is no key part of a request: give it a `key`"),
        ),
        ("client_ip", "plan", "", Some("has weights by a plan: `plan` cannot choose")),
    ] {
        let parsed = Config::parse(&text(by, weights, route), &lookup, STORES);
        let problems: Vec<_> =
            parsed.err().into_iter().flatten().map(|problem| problem.message).collect();
        let fits = match expected {
            Some(expected) => problems.len() == 1 && problems[0].contains(expected),
            None => problems.is_empty(),
        };
        assert!(fits, "{by} {weights} {route}: {problems:?}");
    }
}

#[test]
fn what_decides_tenants_and_weights_is_named_where_it_is_written() {
    let text = |share: &str| {
        format!(
            "policies:\n  total: {{ limit: 9/s, key: global }}\n  api: {{ share: {share} }}\n\
             routes: [{{ policy: api }}, {{ policy: api, match: {{ path: /x }} }}]\n"
        )
    };
    let problems = super::problems(&text("{ of: total, by: 'jwt:org' }"));
    assert!(problems.len() == 1 && problems[0].contains("policies.api.share.by: "), "{problems:?}");
    let weighed =
        "{ of: total, by: client_ip, weights: { by: 'header:x-plan', gold: 4, else: 1 } }";
    let warnings = Config::parse(&text(weighed), &lookup, STORES).unwrap().warnings;
    let about_weights =
        warnings.iter().filter(|it| format!("{it:?}").contains("policies.api.share.weights"));
    assert_eq!(about_weights.count(), 1, "{warnings:?}");
}

/// What the server refuses to start with is no valid file.
#[test]
fn a_shared_limit_has_no_limit_of_a_key() {
    let text = |what: &str| {
        format!(
            "policies:\n  total: {{ limit: 9/s, burst: 1, key: global }}\n  api: {{ share: {{ of: total, by: tenant }} }}\n\
             overrides: [{{ policy: total, {what} }}]\n"
        )
    };
    let problems = super::problems(&text("key: global, limit: 5/s"));
    assert!(
        problems.len() == 1 && problems[0].contains("other policies share this limit"),
        "{problems:?}"
    );
    check(&text("key: global, allow: true"), &[]);
    let warnings =
        Config::parse(&text("key: acme, allow: true"), &lookup, STORES).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].message.contains("counts `global`"), "{warnings:?}");
}
