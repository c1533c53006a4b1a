mod adaptive;
mod advice;
mod doors;
mod jwt;
mod nonsense;
mod overrides;
mod policies;
mod routes;
mod share;

use std::time::Instant;

use super::*;

const STORES: tidegate::driver::StoreDrivers = tidegate::driver::StoreDrivers(&[
    &tidegate::driver::MemoryDriver,
    &tidegate_redis::RedisDriver,
]);

fn lookup(name: &str) -> Option<String> {
    match name {
        "BURST" => Some("7".to_owned()),
        "SHADOW" => Some("true".to_owned()),
        "RATE" => Some("5/h".to_owned()),
        "INJECTED" => Some("5/h, burst: 1 }\n  more: { limit: 1/s".to_owned()),
        "PIN" => Some("30417".to_owned()),
        "PASSWORD" => Some("hunter2".to_owned()),
        "TICKED" => Some("`a`hunter2`b".to_owned()),
        "LONG" => Some(format!("{} hunter2 {}", "5/h burst 3 ".repeat(40), "x".repeat(400))),
        _ => None,
    }
}

/// The problems of a file, one line each.
fn problems(text: &str) -> Vec<String> {
    let problems = Config::parse(text, &lookup, STORES).err().unwrap_or_default();
    Problems::new("f".as_ref(), problems).lines()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(problems(text), expected, "{text}");
}

#[test]
fn unknown_keys_and_words_are_told_with_what_was_meant() {
    check("polices: {}", &["f:1:1: unknown key `polices`, did you mean `policies`?"]);
    check(
        "policies:\n  api: { limt: 5/h }\n  web: { limit: 5/h, brust: 3 }",
        &[
            "f:2:10: policies.api: unknown key `limt`, did you mean `limit`?",
            "f:3:22: policies.web: unknown key `brust`, did you mean `burst`?",
        ],
    );
    check("mode: shadwo", &["f:1:7: mode: unknown `shadwo`, did you mean `shadow`?"]);
    check("mode: 7", &["f:1:7: mode: expected enforce, shadow, got a number"]);
    check(
        "policies: { a: { algorithm: leaky, limit: 1/s } }",
        &[
            "f:1:29: policies.a.algorithm: unknown `leaky`: expected one of gcra, token-bucket, leaky-bucket, \
           fixed-window, sliding-window, sliding-log, quota, concurrency",
        ],
    );
    check(
        "client_ip: { zebra: 1 }",
        &[
            "f:1:14: client_ip: unknown key `zebra`: expected one of forwarded, ipv6_prefix, trusted_hops, trusted_proxies",
        ],
    );
}

#[test]
fn values_of_another_kind_are_told_with_what_was_expected() {
    check(
        "policies: [a]",
        &[
            "f:1:11: policies: expected names with values: write `NAME: 100/min burst 20` below it, without `-`",
        ],
    );
    check("- a", &["f:1:1: expected a map, got a list"]);
    check(
        "policies: { a: }",
        &[
            "f:1:13: policies.a: is empty: write `a: 100/min`, or indent the lines that belong to `a` further than it",
        ],
    );
    check(
        "policies: { a: { limit: 1/s, burst: 1.5 } }",
        &["f:1:37: policies.a.burst: expected a whole number, got a number with a fraction"],
    );
    check(
        "policies: { a: { limit: 1/s, burst: 0, lease: 60s } }",
        &[
            "f:1:37: policies.a.burst: expected a whole number from 1 to 9007199254740992",
            "f:1:47: policies.a.lease: expected true or false, got text",
        ],
    );
    check(
        "overrides: [{ policy: a, key: 42, allow: true }]",
        &["f:1:31: overrides[0].key: expected text, got a number (put it in quotes)"],
    );
    check("overrides: [{ key: x, allow: true }]", &["f:1:13: overrides[0]: `policy` is missing"]);
    // What counts under no name, as CL.THROTTLE does, is never a policy's.
    for name in ["", "\\n", &"x".repeat(129)] {
        let reported = problems(&format!("policies: {{ \"{name}\": 5/h }}"));
        let expected = "expected a name of 1 to 128 bytes without control characters";
        assert!(matches!(&reported[..], [only] if only.ends_with(expected)), "{reported:?}");
    }
    for name in ["(unknown)", "(request)"] {
        check(
            &format!("policies: {{ {name}: 5/h }}"),
            &[&format!(
                "f:1:{}: policies.{name}: is the name of checks without a policy in metrics: choose another name",
                name.len() + 15
            )],
        );
    }
    // What is commented out leaves a name without a value.
    check("policies:\noverrides:\nadmin:\n", &[]);
    check("", &[]);
}

#[test]
fn limits_that_make_no_sense_are_told_where_they_stand() {
    for (policy, expected) in [
        (
            "{ limit: 100/fortnight }",
            "20: policies.p.limit: unit `fortnight` is unknown: expected us, ms, s, min, h, day or week",
        ),
        ("{ limit: 100 }", "20: policies.p.limit: `100` has no time unit: write 100/min"),
        ("{ burst: 5 }", "11: policies.p: `limit` is missing: expected one like 100/min"),
        (
            "{ limit: 0/s }",
            "20: policies.p.limit: limit is 0: give at least 1 (to refuse everything, block the key)",
        ),
        (
            "{ limit: 5/h, capacity: 3 }",
            "35: policies.p.capacity: does not belong to gcra, which has limit, burst",
        ),
        (
            "{ algorithm: token-bucket, limit: 5/s, refill: 5/s }",
            "45: policies.p.limit: does not belong to token-bucket, which has capacity, refill",
        ),
        (
            "{ algorithm: leaky-bucket, limit: 5/s }",
            "11: policies.p: `max_wait` is missing: the longest delay, like 5s",
        ),
        (
            "{ algorithm: quota, limit: 5 }",
            "11: policies.p: `every` is missing: day, week, month or a duration like 90s",
        ),
        (
            "{ algorithm: quota, limit: 5, every: month, time_zone: Mars/Olympus }",
            "66: policies.p.time_zone: `Mars/Olympus` is no time zone: expected a name like Europe/Berlin",
        ),
        (
            "{ algorithm: quota, limit: 5, every: 90s, time_zone: UTC }",
            "64: policies.p.time_zone: goes with a calendar day, week or month that is not rolling",
        ),
        (
            "{ algorithm: quota, limit: 5, every: day, utc_offset: 2 }",
            "65: policies.p.utc_offset: expected text like +02:00, got a number (put it in quotes)",
        ),
        (
            "{ algorithm: quota, limit: 5, every: day, utc_offset: '+2:75' }",
            "65: policies.p.utc_offset: `+2:75`: expected hours and minutes like +02:00",
        ),
        (
            "{ algorithm: sliding-window, limit: 5/s, buckets: 3 }",
            "61: policies.p.buckets: 3 buckets do not divide the period of 1000000µs into whole microseconds",
        ),
        (
            "{ algorithm: concurrency, limit: 5/s }",
            "44: policies.p.limit: `5/s` is a rate: expected a whole number alone",
        ),
        (
            "{ algorithm: concurrency, limit: 5, lease: true }",
            "11: policies.p: concurrency cannot be leased: leave lease out",
        ),
        (
            "sliding 5/s",
            "11: policies.p: unknown algorithm `sliding`: expected one of gcra, token-bucket, leaky-bucket, fixed-window, sliding-window, sliding-log, quota, concurrency",
        ),
        ("5/s burst", "11: policies.p: `burst` lacks its value: write `burst 20`"),
        (
            "5/s brust 7",
            "11: policies.p: unknown option `brust`: expected burst, capacity, buckets, max-wait, lease, at or rolling",
        ),
        ("{ all: [] }", "11: policies.p: no limit: add at least one"),
        (
            "{ all: [{ limit: 1/s }], any: [] }",
            "41: policies.p.any: and `all` are both given: give one of them",
        ),
        (
            "{ limit: 1/s, all: [{ limit: 1/s }] }",
            "20: policies.p.limit: is given beside `all`: move it into one of its limits",
        ),
        (
            "{ all: [{ name: a, algorithm: leaky-bucket, limit: 1/s, max_wait: 1s }] }",
            "41: policies.p.all[0].algorithm: a leaky bucket delays where other limits refuse: give it a policy of its own",
        ),
        (
            "{ limit: 1/s, replicas: { timeout: 2h } }",
            "46: policies.p.replicas.timeout: expected 1ms to 1min",
        ),
        (
            "{ limit: 1/s, deny_cache: { ttl: 2h } }",
            "44: policies.p.deny_cache.ttl: expected 1ms to 1min",
        ),
        (
            "{ limit: 1/s, priority: high }",
            "35: policies.p.priority: unknown `high`: expected one of critical, default, batch, best-effort",
        ),
        (
            "{ limit: 1/s, key: hedaer:x }",
            "30: policies.p.key: unknown key part `hedaer:x`, did you mean `header:`?",
        ),
    ] {
        check(&format!("policies:\n  p:      {policy}"), &[&format!("f:2:{expected}")]);
    }
}

#[test]
fn a_minute_is_the_same_in_a_file_and_in_code() {
    let file = "policies:\n  keys: { limit: 100/m, burst: 20 }\n  line: 100/m burst 20";
    let config = Config::parse(file, &lookup, STORES).unwrap();
    let minute = tidegate::Limit::per_minute(100).burst(20).build().unwrap();
    assert_eq!(config.policies.len(), 2);
    for (name, policy) in config.policies {
        let engine = tidegate::Engine::builder().policy(&*name, policy).build().unwrap();
        let mut members = engine.policies().flat_map(|policy| policy.members());
        assert_eq!(members.next().map(|member| &member.limit), Some(&minute), "{name}");
    }
}

#[test]
fn the_keys_of_the_memory_store_are_checked() {
    let only = "only for the memory store: this one keeps its counters by itself";
    for (store, expected) in [
        (
            "{ url: 'redis://h:1', snapshot: /a, every: 5s, max_bytes: 5MB }",
            vec![
                format!("f:1:40: store.snapshot: {only}"),
                format!("f:1:51: store.every: {only}"),
                format!("f:1:66: store.max_bytes: {only}"),
            ],
        ),
        (
            "{ every: 5s }",
            vec!["f:1:17: store.every: goes with `snapshot`, which names the file to write".into()],
        ),
        ("{ snapshot: /a, every: 100ms }", vec!["f:1:31: store.every: expected 1s to 1h".into()]),
        (
            "{ snapshot: /a/ }",
            vec![
                "f:1:20: store.snapshot: expected a file, as in /var/lib/tidegate/counters".into(),
            ],
        ),
        ("{ max_bytes: 512 }", vec!["f:1:21: store.max_bytes: expected 1MiB to 64GiB".into()]),
        (
            "{ max_bytes: 512M }",
            vec!["f:1:21: store.max_bytes: expected a size like 512MB or 256MiB".into()],
        ),
    ] {
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check(&format!("store: {store}\npolicies: {{ a: 5/s }}"), &expected);
    }
    let store = |text: &str| {
        let text = format!("store: {text}\npolicies: {{ a: 5/s }}");
        Config::parse(&text, &lookup, STORES).unwrap().store
    };
    let bytes = |text: &str| store(&format!("{{ max_bytes: {text} }}")).memory.max_bytes;
    assert_eq!(bytes("512MB"), Some(512_000_000));
    assert_eq!(bytes("256 MiB"), Some(256 << 20));
    assert_eq!(bytes("2097152"), Some(2 << 20));
    let choice = store("{ snapshot: /a, every: 5s }");
    assert_eq!(choice.memory.snapshot, Some("/a".into()));
    assert_eq!(choice.snapshot_every, std::time::Duration::from_secs(5));
}

/// Large maps are searched otherwise than small ones.
#[test]
fn a_problem_is_found_at_its_line_among_thousands() {
    for count in [10, 63, 64, 65, 2_000] {
        let policy =
            |number: usize| format!("  p{number}: {{ limit: 5/s, burst: {} }}\n", number % 7);
        let text: String = (0..count).map(policy).collect();
        let expected = (0..count).filter(|number| number % 7 == 0);
        // The first line is `policies:`.
        let expected = expected.map(|number| format!("f:{}:", number + 2)).collect::<Vec<_>>();
        let found = problems(&format!("policies:\n{text}"));
        assert_eq!(found.len(), expected.len(), "{count}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.starts_with(expected), "{found} {expected}");
        }
    }
    // Also where entries are left out, because they cannot be read.
    let policy = |number: usize| match number {
        5 => "  p5: { limt: 5/s }\n".to_owned(),
        150 => "  p150: { limit: 0/s }\n".to_owned(),
        _ => format!("  p{number}: 5/s\n"),
    };
    let text: String = (0..200).map(policy).collect();
    let found = problems(&format!("policies:\n{text}"));
    assert!(found.len() == 2, "{found:?}");
    assert!(found[0].starts_with("f:7:") && found[1].starts_with("f:152:"), "{found:?}");
}

/// Each search looks at every policy, so a file with many of both would take a search for each pair.
#[test]
fn only_the_first_wrong_names_get_a_suggestion() {
    for (section, wrong) in [
        ("routes:", "- { policy: ap }"),
        ("overrides:", "- { policy: ap, key: kN, allow: true }"),
        ("", "pN: { share: { of: ap, by: tenant } }"),
    ] {
        let line = |number: u32| format!("  {}\n", wrong.replace('N', &number.to_string()));
        let wrong: String = (0..150).map(line).collect();
        let found = problems(&format!("policies:\n  api: 5/s\n{section}\n{wrong}"));
        let suggested = found.iter().filter(|it| it.ends_with("`ap`, did you mean `api`?")).count();
        let bare = found.iter().filter(|it| it.ends_with("no policy is called `ap`")).count();
        assert_eq!((suggested, bare), (100, 50), "{section}");
    }
}

#[test]
fn hashed_keys_need_a_secret_and_are_shown_nowhere() {
    let policies = "policies: { a: 5/s }";
    check(
        &format!("store: {{ hash_keys: true }}\n{policies}"),
        &[
            "f:1:21: store.hash_keys: needs `hash_key_file`, a file with 32 hexadecimal digits: `openssl rand -hex 16` \
           makes them",
        ],
    );
    let why = "`store.hash_keys` hides all keys: leave this out, or `hash_keys`";
    for (section, column) in [("dashboard", 20), ("logs", 15)] {
        check(
            &format!(
                "store: {{ hash_keys: true, hash_key_file: /k }}\n{section}: {{ keys: shown }}\n{policies}"
            ),
            &[&format!("f:2:{column}: {section}.keys: {why}")],
        );
    }
    check(
        &format!("logs: {{ keys: clear }}\n{policies}"),
        &["f:1:15: logs.keys: unknown `clear`: expected one of hashed, shown"],
    );
    check(
        &format!("store: {{ hash_keys: sure }}\n{policies}"),
        &["f:1:21: store.hash_keys: expected true or false, got text"],
    );
    for fine in
        ["{ hash_key_file: /k }", "{ hash_keys: true, hash_key_file: /k, url: 'redis://h:1' }"]
    {
        let hashed = "dashboard: { keys: hashed }\nlogs: { keys: hashed }";
        check(&format!("store: {fine}\n{hashed}\n{policies}"), &[]);
    }
}

#[test]
fn all_problems_of_a_file_are_told_in_order() {
    let text = "\
store: { url: memory, deadline: 20ms }
listen: { http: nowhere }
policies:
  a: { limit: 1/x }
  b: { all: [{ limit: 1/s }, { limit: 2/s }] }
overrides:
  - { policy: c, key: x, allow: true }
  - { policy: d, key: 10.0.0.0/33, block: true }
  - { policy: d, key: x, allow: true, block: true }
  - { policy: e, key: x, limit: 5/s }
routes:
  - { policy: aa, key: clientip, match: { path: api, method: post, host: 'a:80' } }
client_ip: { trusted_proxies: [10.0.0.0/8, example.org] }
key_prefix: 'a b'
admin: { token: short }
";
    let text = text.replace(
        "\noverrides:",
        "\n  d: 1/s\n  e: { all: [{ name: x, limit: 1/s }, { name: y, limit: 2/s }] }\noverrides:",
    );
    check(
        &text,
        &[
            "f:1:33: store.deadline: goes with a store over the network: memory answers at once and alone",
            "f:2:17: listen.http: expected an address and a port, like 127.0.0.1:8080, or unix:/run/tidegate.sock",
            "f:4:15: policies.a.limit: unit `x` is unknown: expected us, ms, s, min, h, day or week",
            "f:5:14: policies.b.all[0]: `name` is missing: each of several limits needs one",
            "f:5:30: policies.b.all[1]: `name` is missing: each of several limits needs one",
            "f:9:15: overrides[0].policy: no policy is called `c`",
            "f:10:23: overrides[1].key: network `10.0.0.0/33`: the prefix is not a number from 0 to 32",
            "f:11:5: overrides[2]: expected one of `limit`, `allow: true` and `block: true`",
            "f:12:33: overrides[3].limit: replaces one limit, and policy `e` has several: add `limit_name`, one of x, y",
            "f:14:15: routes[0].policy: no policy is called `aa`, did you mean `a`?",
            "f:14:24: routes[0].key: unknown key part `clientip`, did you mean `client_ip`?",
            "f:14:49: routes[0].match.path: `api` is not a path: expected one like /api/login or /api/*",
            "f:14:62: routes[0].match.method: `post` is not a method: expected one like POST",
            "f:14:74: routes[0].match.host: `a:80` is not a host: expected one like api.example.com, without a port",
            "f:15:44: client_ip.trusted_proxies[1]: network `example.org`: expected an address and a prefix, like 10.0.0.0/8 or fd00::/8",
            "f:16:13: key_prefix: expected 1 to 64 letters, digits, `-`, `_`, `.` or `:`",
            "f:17:17: admin.token: is shorter than 16 bytes: it can be guessed",
        ],
    );
}

#[test]
fn yaml_that_cannot_be_read_is_told_with_its_place() {
    check("a: [1, 2\nb: 3", &["f:2:2: illegal placement of ':' indicator"]);
    check(
        "store: memory:",
        &[
            "f:1:14: mapping values are not allowed in this context (a value with a colon at its end or before a space needs quotes)",
        ],
    );
    let another =
        ["f:2:1: a second document begins here: a file is one document, remove the `---`"];
    check("mode: shadow\n---\n", &another);
    check("mode: shadow\n---\nmode: shadow", &another);
    check("---\nmode: shadow\n...\n", &[]);
    check("mode: shadow\nmode: shadow", &["f:2:1: `mode` is given twice: give it once"]);
    check(
        "policies:\n\ta: 1/s",
        &["f:2:2: tabs disallowed within this context (block indentation) (indent with spaces)"],
    );
    check(
        "policies: { a: { limit: ${RATE} } }",
        &[
            "f:1:26: while parsing a flow mapping, did not find expected ',' or '}' (inside of brackets and braces `${…}` needs quotes)",
        ],
    );
}

#[test]
fn variables_become_values_and_nothing_else() {
    let text = "policies:\n  a: { limit: \"${RATE}\", burst: \"${BURST}\", lease: \"${SHADOW}\" }\n  b: ${NONE:-1/s}\n  c: 1/s $$";
    check(
        text,
        &[
            "f:4:6: policies.c: unknown option `$`: expected burst, capacity, buckets, max-wait, lease, at or rolling",
        ],
    );
    check("policies: { \"${RATE}\": 1/s }", &[]); // a key is no value
    check(
        "policies:\n  a: { limit: \"${INJECTED}\" }",
        &[
            "f:2:15: policies.a.limit: `…`: expected a rate like 100/min; other options have keys of their own",
        ],
    );
    check(
        "policies: { a: '${NOPE}' }\nmode: ${ALSO_NOPE}",
        &[
            "f:1:16: the environment variable NOPE is not set: set it, or write `${NOPE:-default}`",
            "f:2:7: the environment variable ALSO_NOPE is not set: set it, or write `${ALSO_NOPE:-default}`",
        ],
    );
}

#[test]
fn secrets_are_neither_shown_nor_repeated() {
    let given = Config::parse(
        "store: redis://app:${PASSWORD}@h:6379\nadmin: { token: hunter2hunter2hunter2 }",
        &lookup,
        STORES,
    );
    let shown = format!("{given:?}");
    assert!(given.is_ok() && !shown.contains("hunter2"), "{shown}");
    for text in [
        "store: http://app:hunter2@h",
        "store: redis://app:hunter2@h:port",
        "store: { url: 'redis://:${PASSWORD}@h:1/x/y', deadline: 5 }",
        "store: ${PASSWORD}",
        "policies: { a: { limit: '${PIN}' } }",
        "policies: { a: '${PIN}' }",
        "store: ${PASSWORD}://h",
        "store: ${PASSWORD}:x",
        "policies: { a: '${PASSWORD}' }",
        "policies: { a: '${PASSWORD} 5/h' }",
        "policies: { a: '5/${PASSWORD}' }",
        "policies: { a: '5/h max-wait ${PASSWORD}' }",
        "policies: { a: '${TICKED}' }",
        "policies: { a: { limit: '${TICKED}' } }",
        "policies: { a: '${LONG}' }",
        "policies: { a: '5/h burst ${PASSWORD}' }",
        "policies: { a: '5/h ${PASSWORD} 7' }",
        "policies: { a: { limit: '5/${PASSWORD}' } }",
        "policies: { a: { limit: 5/s, burst: '${PASSWORD}' } }",
        "policies: { a: { limit: 5/s, deadline: '${PASSWORD}' } }",
        "policies: { a: { limit: 5/s, algorithm: '${PASSWORD}' } }",
        "policies: { a: 5/s }\noverrides: [{ policy: '${PASSWORD}', key: x, block: true }]",
        "policies: { a: 5/s }\nroutes: [{ policy: '${PASSWORD}' }]",
        "policies: { a: 5/s }\nroutes: [{ policy: a, key: ['${PASSWORD}'] }]",
        "policies: { a: 5/s }\nroutes: [{ policy: a, match: { path: '${PASSWORD}', method: '${PASSWORD} x' } }]",
        "client_ip: { trusted_proxies: ['${PASSWORD}'] }",
        "listen: { http: '${PASSWORD}' }",
        "mode: ${PASSWORD}",
        "admin: { token: hunter2, token_file: x }",
        "admin: { token: [hunter2] }",
        "admin: hunter2",
        "listen: { resp: { address: x, password: hunter2 } }",
    ] {
        let reported = problems(text).join("\n");
        assert!(
            !reported.is_empty() && !reported.contains("hunter2") && !reported.contains("30417"),
            "{text}: {reported}"
        );
    }
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    let nested = |open: &str| open.repeat(100_000);
    let laugh = |n: u32| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","));
    let laughs = (1..20).map(laugh).collect::<Vec<_>>().concat();
    let stairs = (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect::<Vec<_>>().concat();
    #[expect(clippy::disallowed_methods, reason = "how long it really takes is the claim")]
    let started = Instant::now();
    for text in [
        nested("["),
        nested("{a: "),
        stairs,
        format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{laughs}"),
        "a: ".to_owned() + &"x".repeat(yaml::BYTES_MAX),
        "- x\n".repeat(yaml::BYTES_MAX / 5),
    ] {
        let reported = problems(&text);
        assert!(!reported.is_empty() && reported.len() < 3, "{text:.80}: {reported:?}");
    }
    let took = started.elapsed();
    assert!(took.as_secs() < 60, "{took:?}");
}

#[test]
fn the_example_is_right_and_names_every_key() {
    assert_eq!(problems(EXAMPLE), [] as [&str; 0]);
    let keys: Vec<_> = reference()
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.split('`').next().map(str::to_owned))
        .collect();
    let names = keys.iter().map(|key| key.rsplit('.').next().unwrap_or(key));
    let missing = names.filter(|name| *name != "…" && !EXAMPLE.contains(&format!("{name}:")));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_schema_speaks_of_no_null_and_knows_its_definitions() {
    let text = SCHEMA.to_string();
    assert!(!text.contains("null"), "{text}");
    assert_eq!(SCHEMA["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(SCHEMA.pointer(name).is_some(), "{name}");
    }
}
