//! What people type in their first hour, and what they are told to write instead.

use super::*;

#[track_caller]
pub(super) fn warnings(text: &str) -> Vec<String> {
    let config = Config::parse(text, &lookup, STORES).unwrap_or_else(|it| panic!("{text}: {it:?}"));
    Problems::new("f".as_ref(), config.warnings).lines()
}

#[test]
fn all_problems_of_a_file_are_told_at_once() {
    check(
        "policies:\n  a: 100\n  b: 5/fortnight\n  c: { limit: 100/mn, deadline: soon }\n  d: { rate: 100/min }\n  \
         e: { algorithm: quota, limit: 100, every: year }\n  f: ${NOPE}\nstore: gopher://host\nroutes:\n  - { policy: a }\n  \
         - { policy: g }\n",
        &[
            "f:2:6: policies.a: `100` has no time unit: write `a: 100/min`",
            "f:3:6: policies.b.limit: unit `fortnight` is unknown: expected us, ms, s, min, h, day or week",
            "f:4:15: policies.c.limit: unit `mn` is unknown: expected us, ms, s, min, h, day or week",
            "f:4:33: policies.c.deadline: `soon`: expected a duration like 5s or 250ms",
            "f:5:8: policies.d: unknown key `rate`: expected one of adaptive, algorithm, all, any, buckets, burst, \
             capacity, deadline, deny_cache, enforce, every, key, lease, limit, max_wait, mode, name, on_store_error, priority, \
             quorum, refill, replicas, rolling, share, time_zone, ttl, utc_offset",
            "f:6:45: policies.e.every: `year`: expected day, week, month or a duration like 90s, 12h or 365day",
            "f:7:6: the environment variable NOPE is not set: set it, or write `${NOPE:-default}`",
            "f:8:8: store: store `gopher:…` is unknown; expected memory:, redis://…, rediss://…, redis+unix://…, \
             redis+cluster://…, rediss+cluster://…, redis+sentinel://…, rediss+sentinel://…",
            "f:11:15: routes[1].policy: no policy is called `g`",
        ],
    );
}

#[test]
fn what_is_left_out_causes_no_problem_of_its_own() {
    for (text, problem) in [
        (
            "policies:\n  a: { limit: 5/s, tll: 3s, adaptive: { source: latency, in_flight: 16 } }\n  \
             b: { limit: 5/s, priority: batch }\noverrides: [{ policy: a, key: x, capacity: 5 }]",
            "unknown key `tll`",
        ),
        ("listen: { proxy: 80 }\nproxy: { upstream: http://127.0.0.1:1 }", "no address"),
        (
            "listen: { proxy: 127.0.0.1:80 }\nproxy: { upstrem: x }\npolicies: { a: leaky-bucket 2/s max-wait 5s }\n\
             routes: [{ policy: a }]",
            "unknown key `upstrem`",
        ),
        ("policies: [{ a: 5/s }]\nroutes: [{ policy: a }]", "without `-`"),
    ] {
        let told = problems(text);
        let is_of_proxy = |line: &String| line.contains("`upstream` is missing");
        let told: Vec<_> = told.iter().filter(|line| !is_of_proxy(line)).collect();
        assert!(told.len() == 1 && told[0].contains(problem), "{text}: {told:?}");
    }
}

#[test]
fn a_number_without_its_unit_gets_the_corrected_line() {
    check(
        "listen:\n  http: 8080\npolicies:\n  a: { limit: 100/min, deadline: 20 }\n",
        &[
            "f:2:9: listen.http: `8080` is no address: write `http: 127.0.0.1:8080`",
            "f:4:34: policies.a.deadline: `20` has no unit: write `deadline: 20ms` or `deadline: 20s`",
        ],
    );
    // What is told to be written is right.
    let written = "listen:\n  http: 127.0.0.1:8080\nstore: redis://h\npolicies:\n  a: { limit: 100/min, deadline: 20ms }";
    check(written, &[]);
}

#[test]
fn wrong_indentation_and_lists_say_what_to_write() {
    for (text, problem) in [
        (
            "policies:\n  api:\n  limit: 100/min\n  burst: 20\n",
            "f:2:3: policies.api: is empty: write `api: 100/min`, or indent the lines that belong to `api` further than it",
        ),
        (
            "policies:\napi:\n  limit: 100/min\n",
            "f:2:1: `api` looks like a policy: indent it below `policies:`",
        ),
        (
            "api: 100/min burst 20\n",
            "f:1:1: `api` looks like a policy: indent it below `policies:`",
        ),
        (
            "policies:\n- api: 100/min\n",
            "f:2:3: policies: expected names with values: write `NAME: 100/min burst 20` below it, without `-`",
        ),
        (
            "policies: 100/min\n",
            "f:1:11: policies: expected names with values: write `NAME: 100/min burst 20` below it",
        ),
        (
            "policies: { api: 5/s }\nroutes: { policy: api }\n",
            "f:2:9: routes: expected a list: begin each of its items with `- `",
        ),
    ] {
        check(text, &[problem]);
    }
    let odd = problems("policies:\n  api:\n    limit: 100/min\n   burst: 5\n");
    assert!(odd.len() == 1 && odd[0].contains("begin in the same column"), "{odd:?}");
}

#[test]
fn only_near_words_are_suggested() {
    for (typed, meant) in
        [("limt", Some("limit")), ("brust", Some("burst")), ("rate", None), ("max", None)]
    {
        let told = problems(&format!("policies:\n  api: {{ mode: shadow, {typed}: 3 }}"));
        let suggestion = meant.map(|meant| format!("did you mean `{meant}`?"));
        assert_eq!(told[0].contains("did you mean"), meant.is_some(), "{typed}: {told:?}");
        assert!(told[0].contains(&suggestion.unwrap_or_default()), "{typed}: {told:?}");
    }
}

#[test]
fn routes_that_are_never_reached_and_empty_files_are_warned_of() {
    let routes =
        |routes: &str| format!("policies: {{ a: 5/s burst 1, b: 6/s burst 1 }}\nroutes:\n{routes}");
    let shadowed = routes("  - { policy: a }\n  - { match: { path: /login }, policy: b }\n");
    assert_eq!(
        warnings(&shadowed),
        [
            "f:4:5: routes[1]: is never reached: routes[0] matches all of its requests, and the first match wins. Move this \
          one before it"
        ]
    );
    let in_order = routes("  - { match: { path: /login }, policy: b }\n  - { policy: a }\n");
    assert!(warnings(&in_order).is_empty());
    for empty in ["", "# nothing yet\n", "{}"] {
        let told = warnings(empty);
        assert!(told.len() == 1 && told[0].contains("the file is empty"), "{empty:?}: {told:?}");
    }
    assert!(warnings("listen: { http: 127.0.0.1:1 }").is_empty());
}

#[test]
fn limits_whose_burst_is_the_whole_limit_are_noted_with_their_numbers() {
    let text =
        "policies:\n  api: 100/min\n  calm: 100/min burst 5\n  exact: sliding-window 100/min\n";
    let config = Config::parse(text, &lookup, STORES).unwrap();
    let noted = first_periods(&config.policies);
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0].0, "api");
    assert!(noted[0].1.contains("up to twice in the first period: 200 in a minute"), "{noted:?}");
}

#[test]
fn bounds_on_requests_at_the_upstreams_say_what_to_write() {
    let file = |in_flight: &str, store: &str| {
        format!(
            "store: {store}\nlisten: {{ proxy: 127.0.0.1:80 }}\nproxy: {{ upstream: \"http://app.internal:1\", \
             in_flight: {in_flight} }}\n"
        )
    };
    for (in_flight, problem) in [
        ("200", "proxy.in_flight: expected a map: write `in_flight: { max: 200 }`"),
        ("{ max: 0 }", "proxy.in_flight.max: expected a whole number from 1 to 10000"),
        ("{ max: 20000, scope: fleet }", "expected a whole number from 1 to 10000"),
        ("{ max: 200, scope: flet }", "fleet"),
        ("{ scope: fleet }", "`max`"),
    ] {
        let told = problems(&file(in_flight, "redis://h"));
        assert!(told.len() == 1 && told[0].contains(problem), "{in_flight}: {told:?}");
    }
    for (in_flight, store, warning) in [
        ("{ max: 200, scope: fleet }", "redis://h", None),
        ("{ max: 200 }", "\"memory:\"", None),
        ("{ max: 200, scope: fleet }", "\"memory:\"", Some("counts this process alone")),
        ("{ max: 200 }, max_requests: 100", "redis://h", Some("is never reached: `max_requests`")),
    ] {
        let told = warnings(&file(in_flight, store));
        let is_told = |warning: &str| told.len() == 1 && told[0].contains(warning);
        assert!(warning.map_or(told.is_empty(), is_told), "{in_flight} {store}: {told:?}");
    }
}

#[test]
fn one_mistake_hides_no_other() {
    // A wrong key beside a wrong URL.
    let told = problems("store: { url: 'redsi://x', deadlin: 5ms }\npolicies: { a: 5/min }");
    let has = |told: &[String], part: &str| told.iter().any(|line| line.contains(part));
    assert!(told.len() == 2 && has(&told, "`deadlin`") && has(&told, "store.url: "), "{told:?}");
    // Without a URL that could be read, the rest of the store is not judged.
    let told = problems("store: { url: [x], deadline: 5ms }\npolicies: { a: 5/min }");
    assert!(told.len() == 1 && has(&told, "store.url: "), "{told:?}");
    // A doubled key beside a variable that is not set, and beside a limit that is wrong.
    let told = problems("store: ${NOPE}\npolicies:\n  a: 5/min\n  a: 6/min\n  b: 5/fortnight\n");
    let expected = ["NOPE is not set", "f:4:3: `a` is given twice", "`fortnight`"];
    assert!(told.len() == 3 && expected.iter().all(|part| has(&told, part)), "{told:?}");
}

#[test]
fn warnings_are_told_beside_problems() {
    let text = "policies: { a: 5/s burst 1, b: 5/fortnight }\nroutes:\n  - { policy: a }\n  \
                - { match: { path: /x }, policy: a }\n";
    let (parsed, warnings) = Config::examine(text, &lookup, STORES);
    assert_eq!(parsed.map(drop).unwrap_err().len(), 1);
    assert!(warnings.len() == 1 && warnings[0].message.contains("never reached"), "{warnings:?}");
}

#[test]
fn limits_is_all_or_limit_or_policies_by_its_value() {
    for (text, meant) in [
        ("policies: { a: { limits: [{ name: x, limit: 5/s }] } }", "did you mean `all`, a list of"),
        ("policies: { a: { limits: { limit: 5/s } } }", "did you mean `all`, a list of"),
        ("policies: { a: { limits: 5/s } }", "did you mean `limit`?"),
        ("limits: { a: 5/s }", "did you mean `policies`?"),
    ] {
        let told = problems(text);
        assert!(told.iter().any(|line| line.contains(meant)), "{text}: {told:?}");
    }
}

#[test]
fn a_line_under_limit_gets_the_map_to_write() {
    for (line, map) in [
        ("sliding-window 5/min", "{ algorithm: sliding-window, limit: 5/min }"),
        ("5/min burst 2", "{ limit: 5/min, burst: 2 }"),
        ("leaky-bucket 5/s max-wait 5s", "{ algorithm: leaky-bucket, limit: 5/s, max_wait: 5s }"),
        ("token-bucket 5/s capacity 9", "{ algorithm: token-bucket, capacity: 9, refill: 5/s }"),
    ] {
        let expected = format!(
            "f:1:{}: policies.a.limit: `{line}` is more than a rate: write `{map}`",
            "policies: { a: { limit: ".len() + 1
        );
        check(&format!("policies: {{ a: {{ limit: {line} }} }}"), &[&expected]);
        // What is told to be written is right.
        check(&format!("policies: {{ a: {map} }}"), &[]);
    }
}

#[test]
fn keys_in_the_wrong_place_are_told_where_they_belong() {
    let store = |name: &str| format!("`{name}` belongs to `store`: write `store: {{ {name}: … }}`");
    let proxy = |name: &str| format!("`{name}` belongs to `proxy`: write `proxy: {{ {name}: … }}`");
    let policy = "looks like a policy: indent it below `policies:`";
    for (text, told) in [
        ("max_bytes: 512MB", store("max_bytes")),
        ("snapshot: /tmp/x", store("snapshot")),
        ("hash_key_file: /k", store("hash_key_file")),
        ("hash_keys: true", store("hash_keys")),
        ("refusal: { page: a.html }", proxy("refusal")),
        ("in_flight: { max: 200 }", proxy("in_flight")),
        // Also with a wrong value.
        ("in_flight: 200", proxy("in_flight")),
        ("enforce: 10%", "`enforce` belongs to a policy: indent it below that".to_owned()),
        ("limit: 100/min", "`limit` belongs to a policy: indent it below that".to_owned()),
        ("every: 10s", "`every` belongs to a policy or `store`: indent it below that".to_owned()),
        // Policies with the name of a setting.
        ("health: 100/min", format!("`health` {policy}")),
        ("in_flight: { limit: 5/s }", format!("`in_flight` {policy}")),
        (
            "policies: { a: { limit: 5/s, source: cpu } }",
            "policies.a: `source` belongs to `adaptive`: write `adaptive: { source: … }`"
                .to_owned(),
        ),
        (
            "policies: { a: { limit: 5/s, adaptive: { observe: db } } }",
            "policies.a.adaptive: `observe` belongs to `source`: write `source: { observe: … }`"
                .to_owned(),
        ),
        (
            "policies: { a: { limit: 5/s, adaptive: { probe: \"http://h/\" } } }",
            "policies.a.adaptive: `probe` belongs to `source`: write `source: { probe: … }`"
                .to_owned(),
        ),
        (
            "policies: { a: { limit: 5/s, adaptive: { source: latency, in_flight: { max: 16, scope: fleet } } } }",
            "policies.a.adaptive.in_flight: unknown key `max`, did you mean `proxy.in_flight`?"
                .to_owned(),
        ),
        // What is there already was not meant.
        (
            "store: { hash_keys: true, hash_key: x, url: redis://h }",
            "store: unknown key `hash_key`, did you mean `hash_key_file`?".to_owned(),
        ),
        (
            "store: { hash_keys: true, hash_keyz: x }",
            "store: unknown key `hash_keyz`: expected one of breaker".to_owned(),
        ),
        ("snapshots: /tmp/x", "unknown key `snapshots`: expected one of".to_owned()),
    ] {
        let said = problems(text);
        let told = format!(": {told}");
        assert!(said.iter().any(|line| line.contains(&told)), "{text}: {said:?}");
    }
}

#[test]
fn a_secret_in_the_place_of_its_file_is_refused_and_not_repeated() {
    let secret = "00112233445566778899aabbccddeeff";
    for (before, key, after) in [
        ("store: { ", "hash_key_file", " }"),
        ("store: { hash_keys: true, ", "hash_key_file", " }"),
        ("store: { ", "url_file", " }"),
        ("store: { ", "quorum_file", " }"),
        ("admin: { ", "token_file", " }"),
        ("listen: { resp: { address: 127.0.0.1:1, ", "password_file", " } }"),
        ("jwt: { algorithms: HS256, ", "keys_file", " }"),
        (
            "policies: { a: { limit: 5/s, adaptive: { source: { probe: \"https://h/\", ",
            "token_file",
            " } } } }",
        ),
    ] {
        let said = problems(&format!("{before}{key}: \"{secret}\"{after}"));
        let told =
            format!("{key}: is a secret, not a file: write it into a file and name that file");
        assert!(said.len() == 1 && said[0].ends_with(&told), "{key}: {said:?}");
        assert!(!said[0].contains(secret), "{said:?}");
    }
    // The name of a file has other letters.
    check("store: { hash_key_file: /00112233445566778899aabbccddeeff }", &[]);
}

/// Checks the only problem of a file, without its place.
#[track_caller]
fn check_message(text: &str, told: &str) {
    let said = problems(text);
    let messages: Vec<_> = said.iter().map(|line| line.splitn(4, ':').last().unwrap()).collect();
    assert_eq!(messages, [format!(" {told}")], "{text}");
}

#[test]
fn what_other_programs_call_otherwise_gets_what_to_write() {
    let route = |more: &str| format!("policies: {{ a: 5/s }}\nroutes: [{{ policy: a, {more} }}]");
    for (text, told) in [
        (
            "jwt: { jwks_file: \"https://a/jwks\", algorithms: RS256 }".to_owned(),
            "jwt.jwks_file: is a URL: tidegate fetches nothing. Write `jwks_file: /etc/tidegate/jwks.json`, and let a timer \
             write that file and reload",
        ),
        (
            "jwt: { keys_file: \"https://a/key.pem\", algorithms: RS256 }".to_owned(),
            "jwt.keys_file: is a URL: tidegate fetches nothing. Write `jwks_file: /etc/tidegate/jwks.json`, and let a timer \
             write that file and reload",
        ),
        (
            "jwt: { keys_file: k, algorithms: RS256, aud: api }".to_owned(),
            "jwt: unknown key `aud`, did you mean `audience`?",
        ),
        (
            "policies: { plan: { all: [{ name: day, limit: 5/day }, { name: s, limit: 5/s }] } }\n\
             overrides: [{ policy: plan.day, key: k, limit: 7/day }]"
                .to_owned(),
            "overrides[0].policy: no policy is called `plan.day`: write `policy: plan, limit_name: day`",
        ),
        (
            "policies: { a: { limit: 5/s, adaptive: { source: \"http://u:hunter2@h/\" } } }"
                .to_owned(),
            "policies.a.adaptive.source: a URL needs a name: write `source: { probe: … }`",
        ),
        (
            route("match: { header: x-plan }"),
            "routes[0].match.header: expected names with values: write `header: { x-plan: \"*\" }` for any value",
        ),
        (
            route("key: jwt.sub"),
            "routes[0].key: unknown key part `jwt.sub`, did you mean `jwt:sub`?",
        ),
        (
            route("key: \"json:email\""),
            "routes[0].key: unknown key part `json:email`, did you mean `json:/email`?",
        ),
        (
            route("key: [host, \"json:$.user.email|client_ip\"]"),
            "routes[0].key: unknown key part `json:$.user.email`, did you mean `json:/user/email`?",
        ),
        (
            "listen: { proxy: 127.0.0.1:80 }\nproxy: { refusal: { page: a.html } }".to_owned(),
            "proxy: `upstream` is missing: `refusal` is what the reverse proxy answers, which needs one",
        ),
        (
            "store: { snapshot: true }".to_owned(),
            "store.snapshot: expected text like /var/lib/tidegate/counters, got true or false",
        ),
    ] {
        check_message(&text, told);
    }
    // What is told to be written is right.
    check(&route("match: { header: { x-plan: \"*\" } }"), &[]);
}

#[test]
fn likely_mistakes_get_what_to_write() {
    let proxy = |refusal: &str| {
        format!(
            "listen: {{ proxy: 127.0.0.1:80 }}\nproxy: {{ upstream: \"http://127.0.0.1:1\", refusal: {refusal} }}"
        )
    };
    let policy = |policy: &str| format!("policies: {{ a: {policy} }}");
    let jwt = |more: &str| format!("jwt: {{ keys_file: k, algorithms: RS256, {more} }}");
    for (text, told) in [
        (
            "jwt: { jwks_url: \"https://a/jwks\", jwks_file: k, algorithms: RS256 }".to_owned(),
            "jwt: unknown key `jwks_url`: tidegate fetches nothing. Write `jwks_file: /etc/tidegate/jwks.json`, and let a \
             timer write that file and reload",
        ),
        (
            jwt("secret: hunter2"),
            "jwt: unknown key `secret`: write the secret into a file, and name the file as `keys_file`",
        ),
        (
            "jwt: { keys_file: k, algorithms: rs256 }".to_owned(),
            "jwt.algorithms: unknown algorithm `rs256`, did you mean `RS256`?",
        ),
        (
            "policies: { a: { all: [{ name: x, limit: 5/s }, { name: y, limit: 9/h }] } }\n\
             overrides: [{ policy: a, name: x, key: k, limit: 7/s }]"
                .to_owned(),
            "overrides[0]: unknown key `name`, did you mean `limit_name`?",
        ),
        (
            policy("{ all: [{ name: x, limit: 5/s, enforce: 10% }] }"),
            "policies.a.all[0]: `enforce` belongs to the policy, not to one of its limits: write it beside `all`",
        ),
        (
            policy("{ any: [{ name: x, limit: 5/s, mode: shadow }] }"),
            "policies.a.any[0]: `mode` belongs to the policy, not to one of its limits: write it beside `any`",
        ),
        (
            policy("5/s enforce 10%"),
            "policies.a: `enforce` does not go into a line: write a map, as in `a: { limit: 100/min, enforce: 10% }`",
        ),
        (
            policy("sliding-log 5/min mode shadow"),
            "policies.a: `mode` does not go into a line: write a map, as in `a: { limit: 100/min, mode: shadow }`",
        ),
        (proxy("page.html"), "proxy.refusal: expected a map: write `refusal: { page: page.html }`"),
        (
            policy("{ share: total }"),
            "policies.a.share: expected a map: write `share: { of: total, by: tenant }`",
        ),
        (proxy("{ assets: css }"), "proxy.refusal.assets: expected a list: write `assets: [css]`"),
        (
            proxy("{ page: \"\" }"),
            "proxy.refusal.page: is empty: name the file with the page, or leave `page` out for the built-in one",
        ),
        (
            "client_ip: { trusted_proxies: 10.0.0.0/8 }".to_owned(),
            "client_ip.trusted_proxies: expected a list: write `trusted_proxies: [10.0.0.0/8]`",
        ),
        (
            policy("{ limit: 5/s, deny_cache: 5s }"),
            "policies.a.deny_cache: expected true, false or a map: write `deny_cache: { ttl: 5s }`",
        ),
        (
            "headers: { dialect: draft-6 }".to_owned(),
            "headers.dialect: unknown `draft-6`, did you mean `legacy`?",
        ),
        (
            "headers: { dialect: draft-8 }".to_owned(),
            "headers.dialect: unknown `draft-8`, did you mean `draft-11`?",
        ),
    ] {
        check_message(&text, told);
    }
    // Nothing of a secret is repeated.
    for text in [
        "client_ip: { trusted_proxies: '${PASSWORD}' }".to_owned(),
        proxy("'${PASSWORD}'"),
        policy("'5/s enforce ${PASSWORD}'"),
    ] {
        let said = problems(&text).concat();
        assert!(!said.is_empty() && !said.contains("hunter2"), "{text}: {said}");
    }
}

#[test]
fn a_choice_that_cannot_be_made_is_told_at_its_part_with_an_example() {
    let file = |route: &str| {
        format!(
            "policies: {{ a: 5/s burst 1, b: {{ limit: 5/s, burst: 1, adaptive: {{ source: latency, in_flight: 16 }} }} }}\n\
             routes: [{{ {route} }}]\n"
        )
    };
    let part =
        "`client_ip` cannot choose: expected header:NAME, cookie:NAME, query:NAME or jwt:CLAIM";
    let none = "names no value: add some, as in";
    for (route, told) in [
        ("policy: { by: client_ip, gold: a, else: b }", format!("routes[0].policy.by: {part}")),
        (
            "policy: { by: \"header:x-plan\", else: b }",
            format!(
                "routes[0].policy: {none} `{{ by: \"header:x-plan\", pro: api-pro, else: api-free }}`"
            ),
        ),
        (
            "policy: a, priority: { by: client_ip, gold: critical, else: batch }",
            format!("routes[0].priority.by: {part}"),
        ),
        (
            "policy: a, priority: { by: \"header:x-plan\", else: batch }",
            format!(
                "routes[0].priority: {none} `{{ by: \"header:x-plan\", pro: critical, else: batch }}`"
            ),
        ),
    ] {
        let (parsed, warnings) = Config::examine(&file(route), &lookup, STORES);
        let said: Vec<_> = parsed.map(drop).unwrap_err().into_iter().map(|it| it.message).collect();
        assert_eq!(said, [told], "{route}");
        let is_about_choices = |it: &Problem| it.message.contains("trusted_proxies");
        assert_eq!(warnings.iter().any(is_about_choices), !route.contains("client_ip"), "{route}");
    }
}
