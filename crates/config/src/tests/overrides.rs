//! Overrides that would undo each other, or that no request matches.

use tidegate::Engine;

use super::{STORES, check, lookup, problems};
use crate::Config;

#[test]
fn overrides_for_the_same_are_told_however_they_are_spelled() {
    for (first, second, is_same) in [
        ("10.0.0.0/8", "10.1.2.3/8", true),
        ("10.0.0.0/8", "::ffff:10.0.0.0/104", true),
        ("10.1.2.3", "10.1.2.3/32", true),
        ("192.0.2.9", "::ffff:192.0.2.9", true),
        ("2001:db8::1", "2001:DB8:0::1/128", true),
        ("ann", "ann", true),
        ("ann", "Ann", false),
        ("10.0.0.0/8", "10.0.0.0/9", false),
    ] {
        let text = format!(
            "policies: {{ p: 1/s, q: 1/s }}\noverrides:\n  - {{ policy: p, key: '{first}', block: true }}\n  \
             - {{ policy: q, key: '{second}', allow: true }}\n  - {{ policy: p, key: '{second}', allow: true }}"
        );
        let expected = format!("f:5:23: overrides[2].key: `{second}` has an override already");
        let expected = is_same.then_some(expected.as_str());
        check(&text, expected.as_slice());
    }
}

#[test]
fn an_override_for_a_part_of_a_client_is_warned_of() {
    let warned = |key: &str, more: &str| {
        let text = format!(
            "policies: {{ p: 1/s }}\noverrides: [{{ policy: p, key: '{key}', block: true }}]\n{more}"
        );
        let warnings = Config::parse(&text, &lookup, STORES).unwrap().warnings;
        warnings.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    let routed = "routes: [{ policy: p }]";
    for key in ["2001:db8:1:2::5", "2001:DB8:1:2::5/128"] {
        let reported = format!(
            "overrides[0].key: `{key}` never matches: routes count IPv6 clients by their /64: write `2001:db8:1:2::/64`, or raise \
             `client_ip.ipv6_prefix`"
        );
        assert_eq!(warned(key, routed), [&*reported]);
        assert_eq!(warned(key, "routes: [{ policy: p, key: client_ip }]"), [&*reported]);
    }
    for (key, more) in [
        ("2001:db8:1:2::/64", routed),
        ("2001:db8::/32", routed),
        ("192.0.2.9", routed),
        ("::ffff:192.0.2.9", routed),
        ("192.0.2.8/30", routed),
        ("ann", routed),
        ("2001:db8:1:2::5", ""),
        ("2001:db8:1:2::5", "routes: [{ policy: p, key: 'header:x-ip' }]"),
        ("2001:db8:1:2::5", "routes: [{ policy: p }]\nclient_ip: { ipv6_prefix: 128 }"),
    ] {
        assert_eq!(warned(key, more), [""; 0], "{key} {more}");
    }
}

#[test]
fn an_address_is_meant_in_all_of_its_spellings() {
    let text =
        "policies: { p: 9/s }\noverrides: [{ policy: p, key: '::ffff:192.0.2.9', block: true }]";
    let policy = Config::parse(text, &lookup, STORES).unwrap().policies.remove("p").unwrap();
    let engine = Engine::builder().policy("p", policy).build().unwrap();
    let allowed = |key: &str| engine.check("p", key).now().unwrap().decision.allowed();
    assert!(!allowed("192.0.2.9") && !allowed("::ffff:192.0.2.9") && allowed("192.0.2.8"));
}

const PLAN: &str = "policies:\n  plan: { all: [{ name: second, limit: 10/s }, { name: day, algorithm: fixed-window, limit: 100/day }] }\n  \
                    api: 5/h\noverrides:\n";

#[test]
fn an_override_replaces_the_limit_that_it_names() {
    let text = format!(
        "{PLAN}  - {{ policy: plan, limit_name: day, key: ann, limit: 5000/day }}\n  \
         - {{ policy: plan, limit_name: second, key: ann, limit: 9000/s }}\n  \
         - {{ policy: plan, limit_name: day, key: 10.0.0.0/8, limit: 1/day }}"
    );
    let policy = Config::parse(&text, &lookup, STORES).unwrap().policies.remove("plan").unwrap();
    let engine = Engine::builder().policy("plan", policy).build().unwrap();
    let left = |key: &str| {
        let answer = engine.check("plan", key).now().unwrap();
        (answer.binding, answer.decision.remaining())
    };
    assert_eq!(left("ann"), ("day", 4999));
    assert_eq!(left("ben"), ("second", 9));
    assert_eq!(left("10.1.2.3"), ("day", 0));
}

#[test]
fn a_limit_name_that_makes_no_sense_is_told_with_the_names() {
    for (entry, expected) in [
        (
            "{ policy: plan, key: ann, limit: 5/day }",
            "f:5:38: overrides[0].limit: replaces one limit, and policy `plan` has several: add `limit_name`, one of \
             second, day",
        ),
        (
            "{ policy: plan, limit_name: dya, key: ann, limit: 5/day }",
            "f:5:33: overrides[0].limit_name: no limit is called `dya`, did you mean `day`?",
        ),
        (
            "{ policy: plan, limit_name: month, key: ann, limit: 5/day }",
            "f:5:33: overrides[0].limit_name: no limit is called `month`: expected one of second, day",
        ),
        (
            "{ policy: api, limit_name: hour, key: ann, limit: 5/day }",
            "f:5:32: overrides[0].limit_name: policy `api` has one limit: leave `limit_name` out",
        ),
        (
            "{ policy: plan, limit_name: day, key: ann, allow: true }",
            "f:5:33: overrides[0].limit_name: is given with `allow` or `block`, which are for the whole policy: leave \
             it out",
        ),
    ] {
        check(&format!("{PLAN}  - {entry}"), &[expected]);
    }
    for policy in ["{ name: day, limit: 5/day }", "{ all: [{ name: day, limit: 5/day }] }"] {
        let [bare, named] = ["", " limit_name: day,"]
            .map(|it| format!("  - {{ policy: p,{it} key: ann, limit: 9/day }}\n"));
        for entries in [format!("{bare}{named}"), format!("{named}{bare}")] {
            let found = problems(&format!("policies: {{ p: {policy} }}\noverrides:\n{entries}"));
            let expected = "overrides[1].key: `ann` has an override already";
            assert!(found.len() == 1 && found[0].ends_with(expected), "{policy}: {found:?}");
        }
    }
    let twice = "  - { policy: plan, limit_name: day, key: ann, limit: 5/day }\n";
    check(
        &format!("{PLAN}{twice}{twice}"),
        &["f:6:43: overrides[1].key: `ann` has an override of the limit `day` already"],
    );
}

#[test]
fn a_limit_of_a_key_never_lifts_its_block() {
    let single = [
        "5/h",
        "{ limit: 5/h }",
        "{ limit: 5/h, name: hour }",
        "{ all: [{ name: hour, limit: 5/h }] }",
        "{ any: [{ name: hour, limit: 5/h }] }",
    ];
    for policy in single {
        for whole in ["block", "allow"] {
            let (whole, limit) = (format!("{whole}: true"), "limit: 7/h".to_owned());
            for [first, second] in [[&whole, &limit], [&limit, &whole]] {
                let text = format!(
                    "policies: {{ p: {policy} }}\noverrides:\n  - {{ policy: p, key: ann, {first} }}\n  - {{ policy: p, \
                     key: ann, {second} }}"
                );
                check(&text, &["f:4:23: overrides[1].key: `ann` has an override already"]);
            }
        }
    }
}

#[test]
fn a_limit_that_an_override_of_the_whole_policy_makes_meaningless_is_told() {
    let whole = "  - { policy: plan, key: ann, block: true }\n";
    let day = "  - { policy: plan, key: ann, limit_name: day, limit: 5/day }\n";
    let expected = "f:6:26: overrides[1].key: `ann` has an override already: with `allow` or `block` for the whole policy, \
                    a limit of its own is never asked";
    for entries in [format!("{whole}{day}"), format!("{day}{whole}")] {
        check(&format!("{PLAN}{entries}"), &[expected]);
    }
    let other = "  - { policy: plan, key: ben, limit_name: day, limit: 5/day }\n";
    check(&format!("{PLAN}{whole}{other}"), &[]);
}

/// Of one identifier, while another one of the same policy has a limit.
#[test]
fn who_is_allowed_by_one_identifier_may_be_limited_by_another() {
    let policy = "policies: { p: { all: [{ name: user, key: user, limit: 5/day }, { name: ip, key: ip, limit: 9/day }] } }\n";
    let entries = "overrides:\n  - { policy: p, key: ann, allow: true }\n  - { policy: p, key: ann, limit_name: user, limit: 9/day }\n";
    check(&format!("{policy}{entries}"), &[]);
}

#[test]
fn a_limit_without_a_name_is_told_once() {
    let bare = "  - { policy: plan, key: ann, limit: 7/h }\n";
    let day = "  - { policy: plan, key: ann, limit_name: day, limit: 5/day }\n";
    let found = problems(&format!("{PLAN}{bare}{day}"));
    assert!(found.len() == 1 && found[0].contains("add `limit_name`"), "{found:?}");
}
