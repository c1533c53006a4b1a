//! `tidegate validate` and `tidegate config`: problems, schema, example and imports.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::json;

use crate::programs::root;
use crate::support::{Folder, run, run_with};

#[test]
fn problems_are_reported_with_line_and_column() {
    let folder = Folder::new();
    let good = folder.write("good.yaml", "policies: { api: 100/min burst 20 }\n");
    let bad = folder.write("bad.yaml", "polices: {}\nmode: shadwo\n");
    let output = run(&["validate", &good]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "1 file checked: all right\n"));
    let output = run(&["validate", &good, &bad]);
    let expected = format!(
        "{bad}:1:1: unknown key `polices`, did you mean `policies`?\n\
         {bad}:2:7: mode: unknown `shadwo`, did you mean `shadow`?\n"
    );
    assert_eq!((output.code, output.stderr, output.stdout.as_str()), (Some(1), expected, ""));
    let output = run(&["validate", "--json", &good, &bad]);
    let problems: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(output.code, Some(1));
    assert_eq!(problems[0]["file"], bad);
    assert_eq!((&problems[1]["line"], &problems[1]["column"]), (&2.into(), &7.into()));
    assert_eq!(problems[1]["message"], "mode: unknown `shadwo`, did you mean `shadow`?");
    let output = run(&["validate", "/nowhere.yaml"]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with("/nowhere.yaml:1:1: cannot be read: "), "{}", output.stderr);
    assert_eq!(run(&["validate"]).code, Some(64));
}

#[test]
fn a_hundred_problems_and_ten_names_are_printed_and_the_rest_is_counted() {
    let folder = Folder::new();
    let policies = |count: usize, limit: &str| {
        let rows: Vec<_> = (0..count).map(|n| format!("  p{n:05}: {limit}\n")).collect();
        let rows = rows.concat();
        folder.write("many.yaml", format!("policies:\n{rows}"))
    };
    for (count, lines, last) in [(100, 100, "p00099"), (10_000, 101, "many.yaml: and 9900 more")] {
        let file = policies(count, "5/fortnight");
        let output = run(&["validate", &file]);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(1), lines), "{count}");
        assert!(output.stderr.lines().last().unwrap().contains(last), "{}", output.stderr);
        let json = run(&["validate", "--json", &file]).stdout;
        let problems: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        assert_eq!(problems.len(), count);
    }
    for (count, end) in [(11, "p00009, p00010.\n"), (1000, "p00010 and 989 more.\n")] {
        let output = run(&["validate", &policies(count, "100/min")]);
        assert_eq!(output.code, Some(0));
        assert!(output.stderr.ends_with(end), "{}", output.stderr);
    }
}

#[test]
fn validate_against_the_old_file_warns_of_what_a_reload_forgets() {
    let folder = Folder::new();
    let policies =
        |store: &str, policies: &str| format!("store: \"{store}\"\npolicies: {policies}\n");
    let one = "{ p: { all: [{ name: ip, key: ip, limit: 1/h }] }, q: 1/s }";
    let two = "{ p: { all: [{ name: ip, key: ip, limit: 1/h }, { name: m, key: m, limit: 1/h }] }, \
               q: sliding-log 1/s }";
    let algorithm = "the limit of policy `q` is sliding-log instead of gcra: it starts from zero";
    for (store, tag) in [
        ("redis+cluster://10.0.0.1:7000", true),
        ("redis://10.0.0.1", false),
        ("redis+sentinel://10.0.0.1:26379/mymaster", false),
        ("memory:", false),
    ] {
        let old = folder.write("old.yaml", policies(store, one));
        let new = folder.write("new.yaml", policies(store, two));
        let output = run(&["validate", &new, "--against", &old]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        assert!(
            output.stderr.contains(&format!("warning: {new}: {algorithm}\n")),
            "{}",
            output.stderr
        );
        assert_eq!(
            output.stderr.contains("move to another slot"),
            tag,
            "{store}: {}",
            output.stderr
        );
        assert_eq!(run(&["validate", &new, "--against", &new]).stderr, "");
        assert_eq!(run(&["validate", &new, &new, "--against", &old]).code, Some(64));
    }
    let bad = folder.write("bad.yaml", "policies: { p: 5 }\n");
    let good = folder.write("good.yaml", "policies: { p: 5/s }\n");
    let output = run(&["validate", &good, "--against", &bad]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.starts_with(&format!("{bad}:1:")), "{}", output.stderr);
}

#[test]
fn validate_against_the_old_file_lists_changes_of_tokens_shares_and_places() {
    let folder = Folder::new();
    let file = |name: &str, keys: &str, algorithm: &str, weight: u32, places: u32| {
        let text = format!(
            "listen: {{ proxy: 127.0.0.1:8000 }}
proxy: {{ upstream: http://127.0.0.1:3000, in_flight: {{ max: {places} }} }}
jwt: {{ jwks_file: {keys}, algorithms: {algorithm} }}
client_ip: {{ trusted_proxies: [10.0.0.1] }}
policies:
  total: {{ limit: 9/s, key: global }}
  t: {{ share: {{ of: total, by: tenant, weights: {{ by: \"header:x-plan\", gold: {weight}, else: 1 }} }} }}
routes: [{{ policy: t, key: \"jwt:sub\" }}]
"
        );
        folder.write(name, text)
    };
    let old = file("old.yaml", "a.json", "RS256", 2, 100);
    let new = file("new.yaml", "b.json", "ES256", 4, 200);
    let output = run(&["validate", &new, "--against", &old, "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let rows: Vec<_> = json["changes"].as_array().unwrap().iter().collect();
    let rows: Vec<_> = rows
        .iter()
        .map(|it| ["setting", "before", "after", "effect"].map(|name| it[name].as_str().unwrap()))
        .collect();
    let clients = "clients may be counted under other keys, which start from zero";
    let expected = [
        ["jwt.algorithms", "RS256", "ES256", clients],
        ["jwt.jwks_file", "a.json", "b.json", clients],
        ["policies.t.share.weights.gold", "2", "4", "counters are kept"],
        ["proxy.in_flight.max", "100", "200", "takes effect at once"],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn validate_against_the_old_file_lists_every_setting_that_a_reload_changes() {
    let folder = Folder::new();
    let old = folder.write(
        "old.yaml",
        "store: redis://app:canary-1@10.0.0.1
admin: { token: canary-2-canary-2 }
policies:
  api: 100/min
  gone: 5/h
  called: { limit: 7/h, burst: 2 }
  paced: { limit: 5/h, on_store_error: allow }
  plan: { all: [{ name: second, limit: 10/s }, { name: day, limit: 100/day }] }
overrides: [{ policy: api, key: ann, limit: 5/s }]
routes:
  - { match: { path: /login, method: POST }, policy: api, key: client_ip }
  - { match: { path: /old }, policy: api }
client_ip: { ipv6_prefix: 64 }
",
    );
    let new = folder.write(
        "new.yaml",
        "store: redis://app:canary-3@10.0.0.2
admin: { token: canary-4-canary-4 }
policies:
  api: { limit: 200/min }
  renamed: { limit: 7/h, burst: 2 }
  paced: { limit: 5/h, on_store_error: deny }
  plan: { all: [{ name: second, limit: 10/s }, { name: day, algorithm: sliding-log, limit: 100/day }] }
  fresh: 1/s
overrides: [{ policy: api, key: ann, limit: 9/s }]
routes:
  - { match: { path: /login, method: POST }, policy: api, key: 'header:x-user' }
client_ip: { ipv6_prefix: 56 }
",
    );
    let output = run(&["validate", &new, "--against", &old, "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(json["problems"], serde_json::json!([]));
    let changes = json["changes"].as_array().unwrap();
    let rows: Vec<_> = changes
        .iter()
        .map(|it| {
            ["setting", "before", "after", "effect"].map(|name| it[name].as_str().unwrap_or("-"))
        })
        .collect();
    let keys = "its requests are counted under other keys, which start from zero";
    let expected = [
        ["admin.token", "…", "…", "takes effect at once"],
        [
            "client_ip.ipv6_prefix",
            "64",
            "56",
            "clients may be counted under other keys, which start from zero",
        ],
        ["overrides[api, ann].limit", "5/s", "9/s", "takes effect at once"],
        ["policies.api.limit", "100/min", "200/min", "counters are kept"],
        [
            "policies.called",
            "burst: 2, 7/h",
            "-",
            "is called renamed now: what it has counted is forgotten",
        ],
        ["policies.fresh", "-", "1/s", "starts from zero"],
        [
            "policies.gone",
            "5/h",
            "-",
            "checks of it are errors, and what it has counted is forgotten",
        ],
        ["policies.paced.on_store_error", "allow", "deny", "counters are kept"],
        ["policies.plan.all[day].algorithm", "-", "sliding-log", "starts from zero"],
        ["policies.renamed", "-", "burst: 2, 7/h", "starts from zero"],
        ["routes[path: /login, method: POST].key", "client_ip", "header:x-user", keys],
        ["routes[path: /old]", "match.path: /old, policy: api", "-", "takes effect at once"],
        ["store.url", "redis://10.0.0.1", "redis://10.0.0.2", "takes effect at the next start"],
    ];
    assert_eq!(rows, expected);
    let output = run(&["validate", &new, "--against", &old]);
    let text = output.stdout.clone() + &output.stderr;
    assert!(!text.contains("canary") && text.contains("counters are kept"), "{text}");
    let row = text.lines().find(|line| line.starts_with("policies.api.limit ")).unwrap();
    assert!(row.contains("  100/min  "), "{row}");
    let same = run(&["validate", &new, "--against", &new]);
    assert!(same.stdout.contains("no setting differs from"), "{}", same.stdout);
    assert!(!same.stdout.contains("effect"), "{}", same.stdout);
}

#[test]
fn validate_against_the_old_file_lists_routes_that_change_places() {
    let folder = Folder::new();
    let file = |name: &str, routes: [&str; 4]| {
        let routes =
            routes.iter().map(|it| format!("  - {{ {it} }}\n")).collect::<Vec<_>>().concat();
        folder.write(name, format!("policies: {{ a: 1/s, b: 2/s }}\nroutes:\n{routes}"))
    };
    let changes = |old: &str, new: &str| {
        let output = run(&["validate", new, "--against", old, "--json"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let changes = json["changes"].as_array().unwrap().clone();
        let row = |it: &serde_json::Value| {
            ["setting", "before", "after", "effect"]
                .map(|name| it[name].as_str().unwrap_or("-").to_owned())
        };
        changes.iter().map(row).collect::<Vec<_>>()
    };
    let [all, login, folded] = [
        "match: { path: '/api/*' }, policy: a",
        "match: { path: /api/login }, policy: b",
        "match: { path: /api/login }, policy: a, case: insensitive",
    ];
    let old = file("old.yaml", ["match: { path: /x }, policy: a", login, all, folded]);
    let new = file("new.yaml", ["match: { path: /x }, policy: a", all, login, folded]);
    let (login_name, all_name) = ("[path: /api/login]", "[path: /api/*]");
    let moved = [
        "routes.order".to_owned(),
        format!("{login_name}, {all_name}"),
        format!("{all_name}, {login_name}"),
        "requests that several of these match take the first of them".to_owned(),
    ];
    assert_eq!(changes(&old, &new), [moved]);
    // One that is gone moves no other.
    let shorter = file("shorter.yaml", [login, all, folded, "policy: b"]);
    let without = changes(&old, &shorter);
    assert!(without.iter().all(|row| row[0] != "routes.order"), "{without:?}");
    // Two for the same requests are two.
    let twice = |policy: &str, folded: &str| {
        let second = format!("match: {{ path: /api/login }}, policy: {policy}");
        let folded = format!("match: {{ path: /api/login }}, policy: {folded}, case: insensitive");
        file(
            &format!("{policy}{folded}.yaml").replace(['/', ' '], ""),
            [login, all, &second, &folded],
        )
    };
    let names = changes(&twice("a", "a"), &twice("b", "b")).into_iter().map(|[name, ..]| name);
    let expected = [
        "routes[path: /api/login (2)].policy",
        "routes[path: /api/login, case: insensitive].policy",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// The rows of `validate NEW --against OLD`: setting, before, after, effect.
fn changes(folder: &Folder, old: &str, new: &str) -> Vec<[String; 4]> {
    let (old, new) = (folder.write("old.yaml", old), folder.write("new.yaml", new));
    let output = run(&["validate", &new, "--against", &old, "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let row = |it: &serde_json::Value| {
        ["setting", "before", "after", "effect"].map(|name| it[name].as_str().unwrap_or("-").into())
    };
    json["changes"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn validate_against_says_whether_more_callers_are_refused() {
    let folder = Folder::new();
    let (more, fewer) = (
        "more callers are refused; counters are kept",
        "fewer callers are refused; counters are kept",
    );
    for (old, new, rows) in [
        ("{ P, mode: shadow }", "{ P }", &[["policies.a.mode", "shadow", "-", more]][..]),
        ("{ P }", "{ P, mode: shadow }", &[["policies.a.mode", "-", "shadow", fewer]]),
        (
            "{ P, enforce: 10% }",
            "{ P, enforce: 50% }",
            &[["policies.a.enforce", "10%", "50%", more]],
        ),
        ("{ P }", "{ P, enforce: 50% }", &[["policies.a.enforce", "-", "50%", fewer]]),
        (
            "{ P, mode: shadow }",
            "{ P, enforce: 1% }",
            &[["policies.a.enforce", "-", "1%", more], ["policies.a.mode", "shadow", "-", more]],
        ),
        (
            "{ P }",
            "{ P, mode: enforce }",
            &[["policies.a.mode", "-", "enforce", "counters are kept"]],
        ),
        ("{ P }\nmode: shadow", "{ P }", &[["mode", "shadow", "-", more]]),
        ("{ P }", "{ P }\nmode: shadow", &[["mode", "-", "shadow", fewer]]),
        ("{ P }\nmode: enforce", "{ P }", &[["mode", "enforce", "-", "takes effect at once"]]),
        (
            "{ P, enforce: 1% }\nmode: shadow",
            "{ P, enforce: 2% }\nmode: shadow",
            &[["policies.a.enforce", "1%", "2%", "counters are kept"]],
        ),
    ] {
        let file =
            |policy: &str| format!("policies:\n  a: {}\n", policy.replace('P', "limit: 5/h"));
        assert_eq!(changes(&folder, &file(old), &file(new)), rows, "{old} {new}");
    }
}

#[test]
fn validate_against_says_of_each_limit_what_its_counters_become() {
    let folder = Folder::new();
    let file = |limits: &str| format!("policies:\n  a: {{ {limits} }}\n");
    let hour = "all: [{ name: hour, limit: 5/h }";
    for (old, new, rows) in [
        (
            format!("{hour}, {{ name: day, limit: 9/day }}]"),
            format!("{hour}, {{ name: daily, limit: 9/day }}]"),
            &[
                ["policies.a.all[daily].limit", "-", "9/day", "starts from zero"],
                [
                    "policies.a.all[day].limit",
                    "9/day",
                    "-",
                    "is called daily now: what it has counted is forgotten",
                ],
            ][..],
        ),
        (
            format!("{hour}, {{ name: day, limit: 9/day }}]"),
            format!("{hour}]"),
            &[[
                "policies.a.all[day].limit",
                "9/day",
                "-",
                "is gone: what it has counted is forgotten",
            ]],
        ),
        (
            "name: hour, limit: 5/h".to_owned(),
            format!("{hour}, {{ name: day, limit: 9/day }}]"),
            &[
                ["policies.a.all[day].limit", "-", "9/day", "starts from zero"],
                ["policies.a.all[hour].limit", "-", "5/h", "counters are kept"],
                ["policies.a.limit", "5/h", "-", "counters are kept"],
                ["policies.a.name", "hour", "-", "counters are kept"],
            ],
        ),
        (
            "limit: 5/h".to_owned(),
            format!("{hour}]"),
            &[
                ["policies.a.all[hour].limit", "-", "5/h", "starts from zero"],
                [
                    "policies.a.limit",
                    "5/h",
                    "-",
                    "is called hour now: what it has counted is forgotten",
                ],
            ],
        ),
    ] {
        assert_eq!(changes(&folder, &file(&old), &file(&new)), rows, "{old} {new}");
    }
}

/// Two ways to write the same are no change, and no counter starts from zero.
#[test]
fn validate_against_compares_what_is_meant() {
    let folder = Folder::new();
    let route = |policy: &str, route: &str| {
        format!(
            "client_ip: {{ trusted_proxies: [10.0.0.1] }}\npolicies: {{ a: {policy} }}\nroutes: [{{ policy: a{route} }}]\n"
        )
    };
    let routes = "routes[all requests].key";
    let (kept, other) =
        ("counters are kept", "its requests are counted under other keys, which start from zero");
    let may = "counters are kept; requests may be counted under other keys, which start from zero";
    let next = "takes effect at the next start";
    for (old, new, rows) in [
        (route("5/h", ", key: client_ip"), route("5/h", ", key: [client_ip]"), &[][..]),
        (route("5/h", ", match: { method: GET }"), route("5/h", ", match: { method: [GET] }"), &[]),
        (route("5/h", ""), route("5/h", ", key: client_ip"), &[[routes, "-", "client_ip", kept]]),
        (
            route("{ limit: 5/h, key: host }", ""),
            route("{ limit: 5/h, key: host }", ", key: [host]"),
            &[[routes, "-", "host", kept]],
        ),
        (
            route("5/h", ", key: \"header:X-User\""),
            route("5/h", ", key: \"header:x-user\""),
            &[[routes, "header:X-User", "header:x-user", kept]],
        ),
        (route("5/h", ""), route("5/h", ", key: host"), &[[routes, "-", "host", other]]),
        (
            route("5/h", ", key: client_ip"),
            route("5/h", ", key: [client_ip, host]"),
            &[[routes, "client_ip", "[client_ip, host]", other]],
        ),
        (
            route("5/h", ""),
            route("{ limit: 5/h, key: client_ip }", ""),
            &[["policies.a.key", "-", "client_ip", kept]],
        ),
        (
            route("5/h", ""),
            route("{ limit: 5/h, key: host }", ""),
            &[["policies.a.key", "-", "host", may]],
        ),
        (
            "store: redis://h".to_owned(),
            "store: { url: redis://h, deadline: 30ms }".to_owned(),
            &[["store.deadline", "-", "30ms", next]],
        ),
        (
            "listen: { http: 127.0.0.1:1 }".to_owned(),
            "listen: { http: { address: 127.0.0.1:1 }, grpc: 127.0.0.1:2 }".to_owned(),
            &[["listen.grpc", "-", "127.0.0.1:2", next]],
        ),
    ] {
        assert_eq!(changes(&folder, &old, &new), rows, "{old} {new}");
    }
}

#[test]
fn validate_against_says_when_requests_under_way_are_counted_anew() {
    let folder = Folder::new();
    let file = |proxy: &str| {
        format!(
            "store: redis://h\nlisten: {{ proxy: 127.0.0.1:8000 }}\nproxy: {{ upstream: {proxy} }}\n"
        )
    };
    let anew =
        "requests at the upstreams are counted from zero: those under way are not counted any more";
    let (fleet, at_once) = ("in_flight: { max: 9, scope: fleet }", "takes effect at once");
    let (scope, upstream) = ("proxy.in_flight.scope", "proxy.upstream");
    for (old, new, rows) in [
        (
            "unix:/a, in_flight: { max: 9 }".to_owned(),
            format!("unix:/a, {fleet}"),
            &[[scope, "-", "fleet", anew]][..],
        ),
        (
            "unix:/a, in_flight: { max: 9 }".to_owned(),
            "unix:/a, in_flight: { max: 9, scope: node }".to_owned(),
            &[[scope, "-", "node", at_once]],
        ),
        (
            format!("unix:/a, {fleet}"),
            format!("unix:/b, {fleet}"),
            &[[upstream, "unix:/a", "unix:/b", anew]],
        ),
        (
            format!("[unix:/a, unix:/b], {fleet}"),
            format!("[unix:/b, unix:/a], {fleet}"),
            &[[upstream, "[unix:/a, unix:/b]", "[unix:/b, unix:/a]", at_once]],
        ),
        (
            "unix:/a, in_flight: { max: 9 }".to_owned(),
            "unix:/b, in_flight: { max: 9 }".to_owned(),
            &[[upstream, "unix:/a", "unix:/b", at_once]],
        ),
    ] {
        assert_eq!(changes(&folder, &file(&old), &file(&new)), rows, "{old} {new}");
    }
}

#[test]
fn validate_against_says_that_the_policy_of_a_plan_counts_its_requests() {
    let folder = Folder::new();
    let file = |by: &str, gold: &str| {
        format!(
            "client_ip: {{ trusted_proxies: [10.0.0.1] }}\npolicies: {{ free: 1/s, gold: 2/s, pro: 3/s }}\n\
             routes: [{{ policy: {{ by: \"header:{by}\", gold: {gold}, else: free }} }}]\n"
        )
    };
    let some = "some of its requests are counted by another policy";
    let rows = [
        ["routes[all requests].policy.by", "header:x-plan", "header:x-tier", some],
        ["routes[all requests].policy.gold", "gold", "pro", some],
    ];
    assert_eq!(changes(&folder, &file("x-plan", "gold"), &file("x-tier", "pro")), rows);
}

#[test]
fn validate_against_warns_of_a_policy_that_another_store_counts() {
    let folder = Folder::new();
    let file = |name: &str, quorum: bool| {
        let store = "store: { url: memory, quorum: 'redis+quorum://10.0.0.1,10.0.0.2,10.0.0.3' }";
        let policies = format!(
            "{{ pay: {{ limit: 5/h, quorum: {quorum} }}, b: {{ limit: 1/s, quorum: true }} }}"
        );
        folder.write(name, format!("{store}\npolicies: {policies}\n"))
    };
    let (old, new) = (file("old.yaml", false), file("new.yaml", true));
    let output = run(&["validate", &new, "--against", &old]);
    let warned = "policy `pay` is counted by the quorum now: it starts from zero";
    assert!(output.stderr.contains(warned), "{}", output.stderr);
    assert!(
        output.stdout.contains("policies.pay.quorum  false   true   starts from zero"),
        "{}",
        output.stdout
    );
}

/// Files that a start reads: the text of the configuration, the file, and what is wrong with it.
const NAMED_FILES: &[(&str, &str, &str)] = &[
    (
        "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: http://127.0.0.1:1, refusal: { page: FILE } }",
        "a {{wait}} b",
        ":2:57: proxy.refusal.page: FILE: `{{wait}}` is unknown",
    ),
    (
        "jwt: { keys_file: FILE, algorithms: HS256 }",
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n",
        ":1:19: jwt.keys_file: FILE ",
    ),
    (
        "jwt: { jwks_file: FILE, algorithms: RS256 }",
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n",
        ":1:19: jwt.jwks_file: FILE ",
    ),
    (
        "admin: { token_file: FILE }",
        "canary",
        ":1:22: admin.token_file: FILE is shorter than 16 bytes",
    ),
    ("store: { url_file: FILE }", "gopher://canary", ":1:20: store.url_file: "),
    (
        "store: { hash_key_file: FILE }",
        "canary",
        ":1:25: store.hash_key_file: FILE: expected 32 hexadecimal digits",
    ),
    (
        "listen: { resp: { address: 127.0.0.1:0, password_file: FILE } }",
        "\n",
        ":1:56: listen.resp.password_file: cannot read FILE: it is empty",
    ),
    (
        "listen: { http: { address: 127.0.0.1:0, tls: { cert: FILE, key: FILE } } }",
        "canary",
        ":1:46: listen.http.tls: FILE: no certificate",
    ),
    (
        "listen: { proxy: 127.0.0.1:0 }\nproxy: { upstream: https://127.0.0.1:1, ca_file: FILE }",
        "canary",
        ":2:50: proxy.ca_file: FILE: no certificate",
    ),
    (
        "policies: { a: { limit: 5/s, burst: 1, adaptive: { source: { probe: 'https://h/', token_file: FILE } } } }",
        "",
        ":1:50: policies.a.adaptive.token_file: cannot read FILE: it is empty",
    ),
];

#[test]
fn validate_refuses_what_a_start_would_refuse_in_a_named_file() {
    let folder = Folder::new();
    for (text, content, expected) in NAMED_FILES {
        let named = folder.write("named", content);
        let file = folder.write("t.yaml", text.replace("FILE", &named));
        let output = run(&["validate", &file]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{text}");
        let expected = format!("{file}{}", expected.replace("FILE", &named));
        assert!(output.stderr.contains(&expected), "{expected}: {}", output.stderr);
        assert!(!output.stderr.contains("canary"), "{}", output.stderr);
        let started = run(&["serve", "-c", &file]);
        assert_eq!(started.code, Some(1), "{text}: {}", started.stderr);
    }
}

/// `hash_key_file` is given the secret itself.
#[test]
fn a_secret_in_the_place_of_its_file_is_not_printed() {
    const SECRET: &str = "00112233445566778899aabbccddeeff";
    let folder = Folder::new();
    let file = folder.write("t.yaml", format!("store: {{ hash_key_file: {SECRET} }}"));
    for args in [&["validate", &file][..], &["serve", "-c", &file], &["doctor", "-c", &file]] {
        let output = run(args);
        let all = output.stdout + &output.stderr;
        assert!(all.contains("is a secret, not a file"), "{args:?}: {all}");
        assert!(!all.contains(SECRET), "{args:?}: {all}");
    }
}

/// A machine of CI often lacks secrets.
#[test]
fn a_named_file_that_is_not_there_is_a_warning() {
    let folder = Folder::new();
    for (text, ..) in NAMED_FILES {
        let missing = folder.path("missing");
        let file = folder.write("t.yaml", text.replace("FILE", &missing));
        let output = run(&["validate", &file]);
        assert_eq!(output.code, Some(0), "{text}: {}", output.stderr);
        let expected = format!("{missing} was not read, and a start needs it: No such file");
        assert!(output.stderr.contains(&expected), "{text}: {}", output.stderr);
        assert!(output.stderr.contains("warning: "), "{text}: {}", output.stderr);
    }
}

#[test]
fn named_files_that_are_right_are_not_mentioned() {
    let folder = Folder::new();
    let page = folder.write("page.html", "<p>{{retry_after}}</p>");
    let secret = folder.write("secret", "0123456789abcdef0123456789abcdef\n");
    let text = format!(
        "listen: {{ proxy: 127.0.0.1:0, resp: {{ address: 127.0.0.1:0, password_file: {secret} }} }}
proxy: {{ upstream: http://127.0.0.1:1, refusal: {{ page: {page} }} }}
jwt: {{ keys_file: {secret}, algorithms: HS256 }}
admin: {{ token_file: {secret} }}
store: {{ hash_key_file: {secret} }}
policies: {{ a: 5/s burst 1 }}
routes: [{{ policy: a, key: \"jwt:sub\" }}]
"
    );
    let output = run(&["validate", &folder.write("t.yaml", text)]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_example_is_valid() {
    let folder = Folder::new();
    let example = folder.write("example.yaml", &run(&["config", "example"]).stdout);
    let output = run(&["validate", &example]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);
    let example = serde_saphyr::from_str(&run(&["config", "example"]).stdout).unwrap();
    assert_eq!(schema_errors(&folder, &example), "");
}

/// Validates a file by the schema with Python's jsonschema. Returns the paths of errors, one per line.
fn schema_errors(folder: &Folder, file: &serde_json::Value) -> String {
    let schema = folder.write("schema.json", run(&["config", "schema"]).stdout);
    let file = folder.write("file.json", file.to_string());
    let python = root().join("target/clients/python/bin/python");
    assert!(python.exists(), "{} is missing: `./dev clients` installs it", python.display());
    let script = "import json, sys, jsonschema
schema, file = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
for error in jsonschema.Draft202012Validator(schema).iter_errors(file): print(error.json_path)";
    let ran = Command::new(python).args(["-c", script, &schema, &file]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_schema_accepts_variables_for_any_value() {
    let folder = Folder::new();
    let with = |value: serde_json::Value| {
        json!({
            "mode": value,
            "store": { "url": "redis://${HOST}", "nodes": value, "breaker": value },
            "client_ip": { "ipv6_prefix": value },
            "policies": {
                "api": { "limit": "100/min", "burst": value, "lease": value, "algorithm": value, "on_store_error": value },
                "web": {
                    "limit": "100/min",
                    "adaptive": {
                        "source": { "fixed": value },
                        "absence": { "failed": value, "unknown": value },
                        "hysteresis": { "play": value },
                        "smoothing": { "alpha": value },
                    },
                },
            },
        })
    };
    assert_eq!(schema_errors(&folder, &with(json!("${VALUE}"))), "");
    assert_eq!(schema_errors(&folder, &with(json!("${VALUE:-7}"))), "");
    // Other texts are errors. An error in one of several alternatives is reported at their parent.
    let errors = schema_errors(&folder, &with(json!("nonsense")));
    let errors: BTreeSet<_> = errors.lines().collect();
    let expected = ["$.client_ip", "$.mode", "$.policies.api", "$.policies.web", "$.store"];
    assert_eq!(errors, expected.into());
}

#[test]
fn the_schema_accepts_the_same_empty_values_as_validate() {
    let folder = Folder::new();
    for (text, is_right) in [
        ("store:\nlisten:\npolicies:\nroutes:\noverrides:\nmode:\n", true),
        ("admin: { token: }\nclient_ip: { trusted_proxies: , ipv6_prefix: }\n", true),
        ("policies: { a: { limit: 1/s, burst: , adaptive: } }\n", true),
        ("policies: { a: }\n", false),
        ("policies: { a: { limit: 1/s, adaptive: { chains: [~] } } }\n", false),
        ("routes: [~]\n", false),
        ("telemetry: { otlp: }\n", false),
    ] {
        let file = folder.write("t.yaml", text);
        assert_eq!(run(&["validate", &file]).code == Some(0), is_right, "{text}");
        let errors = schema_errors(&folder, &serde_saphyr::from_str(text).unwrap());
        assert_eq!(errors.is_empty(), is_right, "{text}: {errors}");
    }
}

#[test]
fn a_limit_that_may_oscillate_is_valid_with_a_warning() {
    let folder = Folder::new();
    let file = folder.write(
        "t.yaml",
        "policies:\n  p: { limit: 9/s, adaptive: { source: { probe: 'http://h/' }, smoothing: none } }\n",
    );
    let output = run(&["validate", &file]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "1 file checked: all right\n"));
    let begin = format!("warning: {file}:2:30: policies.p.adaptive: will oscillate: ");
    assert!(output.stderr.starts_with(&begin), "{}", output.stderr);
}

#[test]
fn configurations_of_other_limiters_are_imported() {
    let folder = Folder::new();
    let envoy = "domain: edge\ndescriptors:\n  - key: tier\n    value: gold\n    descriptors:\n      \
                 - key: api_key\n        rate_limit: { unit: MINUTE, requests_per_unit: 500 }\n        \
                 shadow_mode: true\n  - key: blocked\n    rate_limit: { unit: day, requests_per_unit: 0 }\n";
    let ours = |key: &str, unit: &str, more: &str| {
        format!(
            "  - {{ key: {key}, value: x, rate_limit: {{ unit: {unit}, requests_per_unit: 5, {more} }} }}\n"
        )
    };
    let envoy = [
        envoy.to_owned(),
        ours("paced", "second", "algorithm: gcra, burst: 9, on_store_error: deny"),
        ours("filled", "hour", "algorithm: token-bucket, burst: 9"),
        ours("monthly", "month", "algorithm: quota"),
        ours("yearly", "year", "algorithm: quota"),
    ];
    let limitador = "- { namespace: shop, max_value: 10, seconds: 60, variables: [user_id] }\n\
                     - { namespace: shop, max_value: 5, seconds: 1, name: burst, conditions: [\"m == 'POST'\"], variables: [] }\n";
    folder.write("envoy/a.yaml", envoy.concat());
    folder.write("envoy/note.txt", "no YAML: [");
    let limitador = folder.write("limits.yaml", limitador);
    for (from, path, lines) in [
        (
            "envoy",
            folder.path("envoy"),
            &[
                r#"  "edge/tier_gold/api_key": { algorithm: fixed-window, limit: 500/min, mode: shadow }"#,
                "  # edge/tier_gold/api_key: one counter per value; give the value as the key",
                "  # edge/blocked: refuses everything; block keys by overrides",
                r#"  "edge/paced_x": { limit: 5/s, burst: 9, on_store_error: deny }"#,
                r#"  "edge/filled_x": { algorithm: token-bucket, capacity: 9, refill: 5/h }"#,
                r#"  "edge/monthly_x": { algorithm: quota, limit: 5, every: month }"#,
                r#"  "edge/yearly_x": { algorithm: quota, limit: 5, every: 365day }"#,
            ][..],
        ),
        (
            "limitador",
            limitador,
            &[
                "  \"shop\":",
                "  # when m == 'POST'",
                "  \"shop/burst\":",
                r#"      - { name: "limit-1", key: "user_id", algorithm: fixed-window, limit: 10/60s }"#,
                r#"      - { name: "burst", key: "global", algorithm: fixed-window, limit: 5/1s }"#,
            ],
        ),
    ] {
        let output = run(&["config", "import", from, &path]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        for line in lines {
            assert!(output.stdout.lines().any(|it| it == *line), "{line} in {}", output.stdout);
        }
        let ours = folder.write("ours.yaml", &output.stdout);
        assert_eq!(run(&["validate", &ours]).code, Some(0), "{}", output.stdout);
    }
    let bad = folder.write("bad.yaml", "domain: edge\ndescriptors: [{ kye: x }]\n");
    let output = run(&["config", "import", "envoy", &bad]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains(":2:17: unknown field `kye`"), "{}", output.stderr);
}

#[test]
fn secrets_are_never_printed() {
    const CANARY: &str = "canary-3f1c9a";
    let folder = Folder::new();
    let url_file = folder.write("url", format!("redis://app:{CANARY}@127.0.0.1:1\n"));
    let token_file = folder.write("token", format!("{CANARY}{CANARY}\n"));
    let secrets = [("CANARY", CANARY)];
    for text in [
        format!("store: redis://app:{CANARY}@127.0.0.1:1\nmode: x"),
        "store: redis://app:${CANARY}@127.0.0.1:port".to_owned(),
        "store: redis://app:${CANARY}@127.0.0.1:1/x".to_owned(),
        "store: ${CANARY}".to_owned(),
        format!("store: {{ url_file: {url_file}, nodes: x }}"),
        "admin: { token: '${CANARY}', token_file: x }".to_owned(),
        "admin: { token: ['${CANARY}'] }".to_owned(),
        format!("admin: {{ token_file: {token_file} }}\nlisten: {{ http: 192.0.2.1:1 }}"),
        format!("store: {{ url: 'redis://:{CANARY}@h', url_file: {url_file} }}"),
        "policies: { a: { limit: 5/s, adaptive: { source: { probe: 'db:9?token=${CANARY}' } } } }".to_owned(),
        "policies: { a: { limit: 5/s, adaptive: { source: { probe: 'http://u:${CANARY}@db:9/' } } } }".to_owned(),
        format!("policies: {{ a: {{ limit: 5/s, adaptive: {{ source: {{ probe: 'https://db/', token_file: '{token_file}', every: x }} }} }} }}"),
        format!("policies: {{ a: {{ limit: 5/s, adaptive: {{ source: {{ probe: 'http://db/', token_file: '{token_file}' }} }} }} }}"),
    ] {
        let file = folder.write("config.yaml", &text);
        for args in [&["validate", &file][..], &["serve", "-c", &file], &["doctor", "-c", &file]] {
            let output = run_with(args, &secrets);
            let all = output.stdout + &output.stderr;
            assert!(!all.contains(CANARY), "{args:?} {text}: {all}");
        }
    }
}

#[test]
fn the_pages_say_of_the_first_period_what_validate_says() {
    let folder = Folder::new();
    let file = folder.write("tidegate.yaml", "policies: { api: 100/min, b: 5/s }");
    let output = run(&["validate", &file]);
    let minute = std::time::Duration::from_mins(1);
    let said = tidegate_core::text::first_period(100, minute);
    let note = format!("note: {file}: policies.api: {said} The same holds for b.\n");
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), note.as_str()));
    for page in ["README.md", "docs/guide.md"] {
        let path = format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains(&said), "{page} does not say: {said}");
    }
    // What has a burst of its own, or none, needs no note.
    let file = folder.write("calm.yaml", "policies: { a: 100/min burst 5, b: sliding-window 5/s }");
    assert_eq!(run(&["validate", &file]).stderr, "");
}
