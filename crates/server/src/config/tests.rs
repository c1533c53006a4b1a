mod nonsense;
mod overrides;

use std::time::Instant;

use super::*;

fn lookup(name: &str) -> Option<String> {
    match name {
        "BURST" => Some("7".to_owned()),
        "SHADOW" => Some("true".to_owned()),
        "RATE" => Some("5/h".to_owned()),
        "INJECTED" => Some("5/h, burst: 1 }\n  more: { limit: 1/s".to_owned()),
        "PASSWORD" => Some("hunter2".to_owned()),
        "TICKED" => Some("`a`hunter2`b".to_owned()),
        "LONG" => Some(format!("{} hunter2 {}", "5/h burst 3 ".repeat(40), "x".repeat(400))),
        _ => None,
    }
}

/// The problems of a file, as they are told.
fn problems(text: &str) -> Vec<String> {
    let found = Config::parse(text, &lookup).err().unwrap_or_default();
    Problems::new("f".as_ref(), found).lines()
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
            "f:1:14: client_ip: unknown key `zebra`: expected one of forwarded, ipv6_prefix, trusted_proxies",
        ],
    );
}

#[test]
fn values_of_another_kind_are_told_with_what_was_expected() {
    check("policies: [a]", &["f:1:11: policies: expected a map, got a list"]);
    check("- a", &["f:1:1: expected a map, got a list"]);
    check(
        "policies: { a: }",
        &["f:1:14: policies.a: expected text like 100/min burst 20 or a map, got nothing"],
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
        let told = problems(&format!("policies: {{ \"{name}\": 5/h }}"));
        let expected = "expected a name of 1 to 128 bytes without control characters";
        assert!(matches!(&told[..], [only] if only.ends_with(expected)), "{told:?}");
    }
    for name in ["(unknown)", "(request)"] {
        check(
            &format!("policies: {{ {name}: 5/h }}"),
            &[&format!(
                "f:1:{}: policies.{name}: is what metrics call checks of no policy: choose another name",
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
            "{ limit: 100/m }",
            "20: policies.p.limit: unit `m` is unknown: min for minutes, ms for milliseconds",
        ),
        (
            "{ limit: 100 }",
            "20: policies.p.limit: `100` does not say in what time: expected a rate like 100/min",
        ),
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
            "64: policies.p.time_zone: goes with `every: day`, `week` or `month` that is not rolling",
        ),
        (
            "{ algorithm: quota, limit: 5, every: day, utc_offset: 2 }",
            "65: policies.p.utc_offset: expected text like +02:00, got a number (put it in quotes)",
        ),
        (
            "{ algorithm: quota, limit: 5, every: day, utc_offset: '+2' }",
            "65: policies.p.utc_offset: `+2` is no offset: expected one like \"+02:00\"",
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
        ("5/s burst", "11: policies.p: `burst` does not belong here or lacks its value"),
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
            "20: policies.p.limit: stands beside `all`: give it to one of the limits in there",
        ),
        (
            "{ all: [{ name: a, algorithm: leaky-bucket, limit: 1/s, max_wait: 1s }] }",
            "41: policies.p.all[0].algorithm: a leaky bucket delays where other limits refuse: give it a policy of its own",
        ),
        (
            "{ limit: 1/s, replicas: { timeout: 2h } }",
            "46: policies.p.replicas.timeout: expected 1ms to 60s",
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
fn what_no_limit_can_follow_is_told_where_it_stands() {
    for (adaptive, expected) in [
        ("{}", "adaptive: expected one of `source` and `chains`"),
        ("{ source: latncy }", "adaptive.source: unknown `latncy`, did you mean `latency`?"),
        (
            "{ source: {} }",
            "adaptive.source: expected one of `probe`, `latency`, `pool`, `prometheus` and `fixed`",
        ),
        (
            "{ source: { probe: 'db:9000' } }",
            "adaptive.source.probe: `db:9000` is no URL like http://db-health:9000/pressure",
        ),
        (
            "{ source: { probe: 'https://db/' } }",
            "adaptive.source.probe: expected http://: over TLS nobody can be asked yet",
        ),
        (
            "{ source: { probe: 'http://db/', every: 10ms } }",
            "adaptive.source.every: expected 1s to 300s",
        ),
        (
            "{ source: { fixed: 0.2, query: x } }",
            "adaptive.source.query: goes with `prometheus`, and not with `fixed`",
        ),
        ("{ source: { fixed: 2 } }", "adaptive.source.fixed: expected a number from 0 to 1"),
        (
            "{ source: { prometheus: 'http://p', query: up } }",
            "adaptive: `ramp` is missing: what the answers to the query mean",
        ),
        (
            "{ source: cpu, ramp: latency }",
            "adaptive.ramp: reads times, and this source says a part from 0 to 1",
        ),
        (
            "{ source: latency, ramp: { min_value: 2s, max_value: 1s, min_rate: 0 } }",
            "adaptive.ramp.max_value: has to be above `min_value`",
        ),
        (
            "{ source: latency, ramp: { min_value: 1s, max_value: 2s, max_rate: 6001/min, min_rate: 1/s } }",
            "adaptive.ramp.max_rate: is above the limit of 100 in 1s: lower it, or raise the limit",
        ),
        (
            "{ source: latency, smoothing: { close: 9s, open: 1s } }",
            "adaptive.smoothing: opening within 1s is faster than closing within 9s: open at most as fast as you close",
        ),
        (
            "{ source: cpu, in_flight: 16 }",
            "adaptive.in_flight: goes with `source: latency` and `ramp: default`, whose target it is the pool of",
        ),
        (
            "{ source: latency, in_flight: { gradient: 0 } }",
            "adaptive.in_flight: pool of 0: expected 1 to 1000000 places",
        ),
        ("{ source: cpu, shed_status: 500 }", "adaptive.shed_status: expected 429 or 503"),
        ("{ chains: [{ source: cpu }, { source: cpu }] }", "adaptive: two chains are called `cpu`"),
    ] {
        let text = format!("policies:\n  p: {{ limit: 100/s, adaptive: {adaptive} }}");
        let told = problems(&text);
        assert!(
            told.len() == 1 && told[0].ends_with(&format!(": policies.p.{expected}")),
            "{adaptive}: {told:?}"
        );
    }
    for (policy, expected) in [
        (
            "{ algorithm: quota, limit: 9, every: day, adaptive: { source: cpu } }",
            "adaptive: quota does not follow the load: leave it out",
        ),
        (
            "{ limit: 1/s, priority: batch }",
            "priority: goes with `adaptive`, or with an `in_flight` of another policy: without them nothing gives way",
        ),
        (
            "{ adaptive: { source: cpu }, all: [{ name: a, limit: 1/s }] }",
            "adaptive: stands beside `all`: give it to one of the limits in there",
        ),
        (
            "{ limit: 1/s, key: url, adaptive: { source: latency, floor: 3 } }",
            "adaptive.floor: does not belong to URLs, whose limits are what the mean of a minute says",
        ),
    ] {
        let told = problems(&format!("policies:\n  p: {policy}"));
        assert!(
            told.len() == 1 && told[0].ends_with(&format!(": policies.p.{expected}")),
            "{policy}: {told:?}"
        );
    }
}

#[test]
fn what_limits_follow_is_read_as_it_is_written() {
    use crate::adaptive::{By, Source};
    let text = "\
policies:
  pages: { key: url, algorithm: sliding-window, limit: 240/min, adaptive: { source: latency, ramp: { min_value: 300ms, max_value: 18s, max_rate: 4/s, min_rate: 4/min } } }
  plan:
    priority: batch
    all:
      - { name: second, limit: 10/s, adaptive: { chains: [{ source: cpu }, { source: { latency: db } }], in_flight: 16 } }
      - { name: day, limit: 100/day }
  off: { limit: 10/s, adaptive: { mode: off, source: { probe: 'http://[::1]/x', pointer: /a/b, target: db } } }
";
    let config = Config::parse(text, &lookup).unwrap();
    let [off, pages, second] = &config.plans[..] else { panic!("{:?}", config.plans) };
    assert_eq!(off.targets().collect::<Vec<_>>(), ["db"]);
    let By::Urls { ramp, target } = &pages.by else { panic!("{pages:?}") };
    assert_eq!((*ramp, target.as_str()), (tidegate::adaptive::Ramp::latency_per_url(), "all"));
    assert_eq!((second.shown().as_str(), second.units), ("plan/second", 10));
    let By::Signals(signals) = &second.by else { panic!("{second:?}") };
    let sources: Vec<_> = signals.each.iter().map(|signal| &signal.source).collect();
    assert_eq!(sources, [&Source::Cpu, &Source::QueueWait, &Source::Errors]);
    assert_eq!(signals.priority, Some(tidegate::adaptive::Priority::Batch));
    assert_eq!(config.warnings, []);
}

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
        let told = Config::parse(&text, &lookup).err().unwrap_or_default();
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
fn a_limit_that_would_swing_is_warned_of() {
    let swings = |more: &str| {
        let policy = "limit: 10/s, adaptive: { source: { probe: 'http://db/', every: 5s }";
        let text = format!("policies:\n  p: {{ {policy}{more} }} }}");
        let warnings = Config::parse(&text, &lookup).unwrap().warnings;
        warnings.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    assert_eq!(swings(""), [""; 0]);
    let told = swings(", smoothing: { alpha: 0.5 }");
    assert!(
        told.len() == 1 && told[0].starts_with("policies.p.adaptive: will oscillate: "),
        "{told:?}"
    );
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
headers: { dialect: off }
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
            "f:5:14: policies.b.all[0]: `name` is missing: answers and counters tell limits apart by it",
            "f:5:30: policies.b.all[1]: `name` is missing: answers and counters tell limits apart by it",
            "f:9:15: overrides[0].policy: no policy is called `c`, did you mean `a`?",
            "f:10:23: overrides[1].key: network `10.0.0.0/33`: the prefix is not a number from 0 to 32",
            "f:11:5: overrides[2]: expected one of `limit`, `allow: true` and `block: true`",
            "f:12:5: overrides[3]: a key's own limit needs a policy with exactly one limit: use allow or block",
            "f:14:15: routes[0].policy: no policy is called `aa`, did you mean `a`?",
            "f:14:24: routes[0].key: unknown key part `clientip`, did you mean `client_ip`?",
            "f:14:49: routes[0].match.path: `api` is no path: expected one like /api/login or /api/*",
            "f:14:62: routes[0].match.method: `post` is no method: expected one like POST",
            "f:14:74: routes[0].match.host: `a:80` is no host: expected one like api.example.com, without a port",
            "f:15:44: client_ip.trusted_proxies[1]: network `example.org`: expected an address and a prefix, like 10.0.0.0/8 or fd00::/8",
            "f:16:13: key_prefix: expected 1 to 64 letters, digits, `-`, `_`, `.` or `:`",
            "f:17:17: admin.token: is shorter than 16 bytes: it can be guessed",
            "f:18:21: headers.dialect: switches all headers off: say `legacy: off` as well",
        ],
    );
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
fn no_two_limits_that_move_are_called_the_same() {
    let policies = |other: &str| {
        let adaptive = "limit: 5/s, adaptive: { source: cpu }";
        format!(
            "policies:\n  plan: {{ all: [{{ name: second, {adaptive} }}] }}\n  '{other}': {{ {adaptive} }}\n"
        )
    };
    check(
        &policies("plan/second"),
        &["f:3:18: policies.plan/second: metrics would call two limits `plan/second`: rename one"],
    );
    check(&policies("plan/minute"), &[]);
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
fn yaml_that_cannot_be_read_is_told_with_its_place() {
    check("a: [1, 2\nb: 3", &["f:2:2: illegal placement of ':' indicator"]);
    check(
        "store: memory:",
        &[
            "f:1:14: mapping values are not allowed in this context (a value with a colon at its end or before a space needs quotes)",
        ],
    );
    let another = ["f:2:1: a second document begins here, and a file is one: take the `---` out"];
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
    check(text, &["f:4:6: policies.c: `$` does not belong here or lacks its value"]);
    check("policies: { \"${RATE}\": 1/s }", &[]); // a key is no value
    check(
        "policies:\n  a: { limit: \"${INJECTED}\" }",
        &[
            "f:2:15: policies.a.limit: `…` is no rate: expected one like 100/min; what else there is has its own key",
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

#[test]
fn secrets_are_neither_shown_nor_repeated() {
    let given = Config::parse(
        "store: redis://app:${PASSWORD}@h:6379\nadmin: { token: hunter2hunter2hunter2 }",
        &lookup,
    );
    let shown = format!("{given:?}");
    assert!(given.is_ok() && !shown.contains("hunter2"), "{shown}");
    for text in [
        "store: http://app:hunter2@h",
        "store: redis://app:hunter2@h:port",
        "store: { url: 'redis://:${PASSWORD}@h:1/x/y', deadline: 5 }",
        "store: ${PASSWORD}",
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
        let told = problems(text).join("\n");
        assert!(!told.is_empty() && !told.contains("hunter2"), "{text}: {told}");
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
        let told = problems(&text);
        assert!(!told.is_empty() && told.len() < 3, "{text:.80}: {told:?}");
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
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !key.contains(['…']))
        .filter(|key| {
            !["adaptive", "priority", "tls", "proxy_protocol"].iter().any(|it| key.contains(it))
        })
        .map(|key| key.rsplit('.').next().unwrap_or(key))
        .filter(|name| !EXAMPLE.contains(&format!("{name}:")))
        .collect();
    let not_shown = ["any", "buckets", "password"];
    assert!(missing.iter().all(|name| not_shown.contains(name)), "{missing:?}");
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
