//! What limits can follow.

use super::STORES;
use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_no_limit_can_follow_is_told_where_it_stands() {
    for (adaptive, expected) in [
        ("{}", "adaptive: expected one of `source` and `chains`"),
        ("{ source: latncy }", "adaptive.source: unknown `latncy`, did you mean `latency`?"),
        (
            "{ source: {} }",
            "adaptive.source: expected one of `probe`, `latency`, `observe`, `pool`, `prometheus` and `fixed`",
        ),
        (
            "{ source: { observe: db, latency: db } }",
            "adaptive.source: expected one of `probe`, `latency`, `observe`, `pool`, `prometheus` and `fixed`",
        ),
        (
            "{ source: observe }",
            "adaptive.source: `observe` needs a value: write `source: { observe: db }`",
        ),
        (
            "{ source: prometheus }",
            "adaptive.source: `prometheus` needs a value: write `source: { prometheus: http://prometheus:9090, query: up }`",
        ),
        (
            "{ source: memory }",
            "adaptive.source: unknown `memory`: expected one of latency, cpu, manual, or a map like one of \
             { probe: http://db-health:9000/pressure }, { observe: db }, { pool: db }, \
             { prometheus: http://prometheus:9090, query: up }, { fixed: 0.3 }",
        ),
        (
            "{ source: { manual: 0.3 } }",
            "adaptive.source: `manual` is a word without a value: write `source: manual`",
        ),
        (
            "{ source: { cpu: true } }",
            "adaptive.source: `cpu` is a word without a value: write `source: cpu`",
        ),
        (
            "{ source: { probe: 'db:9000' } }",
            "adaptive.source.probe: expected a URL like http://db-health:9000/pressure",
        ),
        (
            "{ source: { probe: 'htps://db/' } }",
            "adaptive.source.probe: expected a URL like http://db-health:9000/pressure",
        ),
        (
            "{ source: { probe: 'http://db/', ca_file: /ca.pem } }",
            "adaptive.source.ca_file: belongs to URLs with https://",
        ),
        (
            "{ source: { probe: 'http://db/', token_file: /token } }",
            "adaptive.source.token_file: would be sent in clear text to another machine: use https://",
        ),
        (
            "{ source: { prometheus: 'http://127.0.0.1.example/', query: up, token_file: /token }, ramp: pressure }",
            "adaptive.source.token_file: would be sent in clear text to another machine: use https://",
        ),
        (
            "{ source: { probe: 'https://db/', token: secret } }",
            "adaptive.source: unknown key `token`, did you mean `token_file`?",
        ),
        (
            "{ source: { pool: db, token_file: /token } }",
            "adaptive.source.token_file: belongs to `probe` or `prometheus`, not to `pool`",
        ),
        (
            "{ source: { probe: 'http://db/', every: 10ms } }",
            "adaptive.source.every: expected 1s to 5min",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latncy, healthy: 50ms, overloaded: 500ms } }",
            "adaptive.source.measure: unknown `latncy`, did you mean `latency`?",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 50ms } }",
            "adaptive.source: `overloaded` is missing: a time like 500ms, for `measure: latency`",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 500ms, overloaded: 50ms } }",
            "adaptive.source.overloaded: must be above `healthy`",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 50, overloaded: 500ms } }",
            "adaptive.source.healthy: `50` has no unit: write `healthy: 50ms` or `healthy: 50s`",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 50ms, overloaded: 1min } }",
            "adaptive.source.overloaded: expected 1ms to 30s",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 50ms, overloaded: 500ms, timeout: 500ms } }",
            "adaptive.source.timeout: must be above `overloaded`: a probe that reaches its timeout is a failure",
        ),
        (
            "{ source: { probe: 'http://db/', measure: latency, healthy: 50ms, overloaded: 500ms, pointer: /a } }",
            "adaptive.source.pointer: does not belong to `measure: latency`, which reads no number",
        ),
        (
            "{ source: { probe: 'http://db/', overloaded: 500ms } }",
            "adaptive.source.overloaded: needs `measure: latency` beside it",
        ),
        (
            "{ source: { latency: db, healthy: 50ms } }",
            "adaptive.source.healthy: belongs to `probe`, not to `latency`",
        ),
        (
            "{ source: { observe: db, healthy: 50ms } }",
            "adaptive.source.healthy: belongs to `probe`, not to `observe`",
        ),
        (
            "{ source: { pool: db, overloaded: 500ms } }",
            "adaptive.source.overloaded: belongs to `probe`, not to `pool`",
        ),
        (
            "{ source: { fixed: 0.3, overloaded: 500ms } }",
            "adaptive.source.overloaded: belongs to `probe`, not to `fixed`",
        ),
        (
            "{ source: { prometheus: 'http://p', query: up, healthy: 50ms }, ramp: pressure }",
            "adaptive.source.healthy: belongs to `probe`, not to `prometheus`",
        ),
        (
            "{ source: { fixed: 0.2, measure: latency } }",
            "adaptive.source.measure: belongs to `probe`, not to `fixed`",
        ),
        (
            "{ source: { fixed: 0.2, query: x } }",
            "adaptive.source.query: belongs to `prometheus`, not to `fixed`",
        ),
        ("{ source: { fixed: 2 } }", "adaptive.source.fixed: expected a number from 0 to 1"),
        (
            "{ source: { prometheus: 'http://p', query: up } }",
            "adaptive: `ramp` is missing: a query has no default",
        ),
        (
            "{ source: cpu, ramp: latency }",
            "adaptive.ramp: reads times, but this source gives a share from 0 to 1",
        ),
        (
            "{ source: latency, ramp: { min_value: 2s, max_value: 1s, min_rate: 0 } }",
            "adaptive.ramp.max_value: must be above `min_value`",
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
            "adaptive.in_flight: needs `source: latency` and `ramp: default`: it is the pool of their target",
        ),
        (
            "{ source: latency, in_flight: { gradient: 0 } }",
            "adaptive.in_flight: pool of 0: expected 1 to 1000000 places",
        ),
        ("{ source: cpu, shed_status: 500 }", "adaptive.shed_status: expected 429 or 503"),
        ("{ chains: [{ source: cpu }, { source: cpu }] }", "adaptive: two chains are called `cpu`"),
    ] {
        let text = format!("policies:\n  p: {{ limit: 100/s, adaptive: {adaptive} }}");
        let reported = problems(&text);
        assert!(
            reported.len() == 1 && reported[0].ends_with(&format!(": policies.p.{expected}")),
            "{adaptive}: {reported:?}"
        );
    }
    for (policy, expected) in [
        (
            "{ algorithm: quota, limit: 9, every: day, adaptive: { source: cpu } }",
            "adaptive: quota cannot be adaptive: remove the key",
        ),
        (
            "{ limit: 1/s, priority: batch }",
            "priority: needs `adaptive`, or an `in_flight` of another policy: otherwise nothing is shed",
        ),
        (
            "{ adaptive: { source: cpu }, all: [{ name: a, limit: 1/s }] }",
            "adaptive: is given beside `all`: move it into one of its limits",
        ),
        (
            "{ limit: 1/s, key: url, adaptive: { source: latency, floor: 3 } }",
            "adaptive.floor: does not belong to limits per URL, which follow the mean of a minute",
        ),
    ] {
        let reported = problems(&format!("policies:\n  p: {policy}"));
        assert!(
            reported.len() == 1 && reported[0].ends_with(&format!(": policies.p.{expected}")),
            "{policy}: {reported:?}"
        );
    }
}

#[test]
fn what_limits_follow_is_read_as_it_is_written() {
    use crate::plan::{AnswerKind, Follows, LatencyScale, Source};
    let text = "\
policies:
  pages: { key: url, algorithm: sliding-window, limit: 240/min, adaptive: { source: latency, ramp: { min_value: 300ms, max_value: 18s, max_rate: 4/s, min_rate: 4/min } } }
  plan:
    priority: batch
    all:
      - { name: second, limit: 10/s, adaptive: { chains: [{ source: cpu }, { source: { latency: db } }], in_flight: 16 } }
      - { name: day, limit: 100/day }
  off: { limit: 10/s, adaptive: { mode: off, source: { probe: 'http://[::1]/x', pointer: /a/b, target: db } } }
  timed: { limit: 10/s, adaptive: { source: { probe: 'http://db/healthz', measure: latency, healthy: 50ms, overloaded: 500ms } } }
";
    let config = Config::parse(text, &lookup, STORES).unwrap();
    let [off, pages, second, timed] = &config.plans[..] else { panic!("{:?}", config.plans) };
    assert_eq!(off.targets().collect::<Vec<_>>(), ["db"]);
    let Follows::Urls { ramp, target, .. } = &pages.follows else { panic!("{pages:?}") };
    assert_eq!((*ramp, target.as_str()), (tidegate::adaptive::Ramp::latency_per_url(), "all"));
    assert_eq!((second.display_name().as_str(), second.units), ("plan/second", 10));
    let Follows::Signals(signals) = &second.follows else { panic!("{second:?}") };
    let sources: Vec<_> = signals.each.iter().map(|signal| &signal.source).collect();
    assert_eq!(sources, [&Source::Cpu, &Source::QueueWait, &Source::Errors]);
    assert_eq!(signals.priority, Some(tidegate::adaptive::Priority::Batch));
    let Follows::Signals(signals) = &timed.follows else { panic!("{timed:?}") };
    let ms = std::time::Duration::from_millis;
    let Source::Asked(ask) = &signals.each[0].source else { panic!("{signals:?}") };
    let scale = LatencyScale { healthy: ms(50), overloaded: ms(500) };
    assert_eq!((&ask.answer, ask.timeout), (&AnswerKind::Timed(scale), ms(1000)));
    assert_eq!(signals.each[0].ramp, tidegate::adaptive::Ramp::pressure());
    assert_eq!(config.warnings, []);
}

#[test]
fn a_source_is_the_same_by_each_of_its_names() {
    let plans = |source: &str| {
        let text = format!("policies:\n  p: {{ limit: 5/s, adaptive: {{ source: {source} }} }}\n");
        Config::parse(&text, &lookup, STORES).unwrap().plans
    };
    for (one, other) in [("{ observe: db }", "{ latency: db }"), ("manual", "{ fixed: 0 }")] {
        assert_eq!(plans(one), plans(other), "{one}");
    }
}

#[test]
fn a_token_is_sent_over_tls_or_to_this_machine() {
    for url in ["https://db/", "http://localhost:9/", "http://127.1.2.3/", "http://[::1]:9/"] {
        let source = format!("probe: '{url}', token_file: /token");
        check(
            &format!("policies:\n  p: {{ limit: 5/s, adaptive: {{ source: {{ {source} }} }} }}\n"),
            &[],
        );
    }
}

#[test]
fn a_limit_that_would_swing_is_warned_of() {
    let swings = |more: &str| {
        let policy = "limit: 10/s, adaptive: { source: { probe: 'http://db/', every: 5s }";
        let text = format!("policies:\n  p: {{ {policy}{more} }} }}");
        let warnings = Config::parse(&text, &lookup, STORES).unwrap().warnings;
        warnings.into_iter().map(|warning| warning.message).collect::<Vec<_>>()
    };
    assert_eq!(swings(""), [""; 0]);
    let reported = swings(", smoothing: { alpha: 0.5 }");
    assert!(
        reported.len() == 1 && reported[0].starts_with("policies.p.adaptive: will oscillate: "),
        "{reported:?}"
    );
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
        &[
            "f:3:18: policies.plan/second: two limits are called `plan/second` in metrics: rename one",
        ],
    );
    check(&policies("plan/minute"), &[]);
}
