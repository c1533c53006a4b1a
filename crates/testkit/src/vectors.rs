//! The golden vectors through a store: every step of every case, at the time that the case names.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Decision, Every, FixedWindow, Gcra, KeyedLimit, LeakyBucket, Limit, ManualClock, Mode, Op,
    Quota, ReserveRequest, Scope, SlidingLog, SlidingWindow, Source, Store, StoreRequest,
    Timestamp, Zone,
};

/// Replays every case of the golden vectors, all at once, each over the store that `open` gives it. The store has to
/// decide by the time of each request; the clock shows that time too.
pub async fn every_vector_matches(open: impl Fn(ManualClock) -> Arc<dyn Store>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let Value::Array(read) = serde_json::from_slice(&text).unwrap() else { panic!("no list") };
        for case in read {
            let clock = ManualClock::default();
            cases.push(tokio::spawn(check(open(clock.clone()), clock, case)));
        }
    }
    let mut steps = 0;
    for case in cases {
        steps += case.await.unwrap();
    }
    assert!(steps >= 9_000, "only {steps} steps replayed: vectors are missing");
}

async fn check(store: Arc<dyn Store>, clock: ManualClock, case: Value) -> usize {
    let expected = case["expect"].as_array().unwrap();
    let limits = Limits::read(&case);
    let name = case["name"].as_str().unwrap();
    let mut before = Timestamp::MAX;
    for (number, (step, expect)) in
        case["steps"].as_array().unwrap().iter().zip(expected).enumerate()
    {
        let now = Timestamp::from_micros(step["now_us"].as_u64().unwrap());
        // A steady clock goes on where the time of a case steps back. The store has to see such a step, so what a cache
        // remembers has run out by then.
        let passed = if now < before { Duration::from_hours(1) } else { now.since(before) };
        clock.advance(passed);
        before = now;
        let cost = step["cost"].as_u64().unwrap();
        let (source, answer) = limits.step(&*store, name, now, cost).await;
        if source == Source::DenyCache {
            // It knows that the store would refuse, but not what would be left.
            assert_eq!(answer["allowed"], expect["allowed"], "case {name} step {number}");
        } else {
            assert_eq!(&answer, expect, "case {name} step {number}");
        }
    }
    expected.len()
}

enum Limits {
    Shaper(LeakyBucket),
    One(Limit),
    Many(Mode, Vec<Limit>),
}

impl Limits {
    fn read(case: &Value) -> Self {
        for (field, mode) in [("all", Mode::All), ("any", Mode::Any)] {
            if let Some(limits) = case[field].as_array() {
                return Self::Many(mode, limits.iter().map(limit).collect());
            }
        }
        let spec = &case["limit"];
        if spec["algorithm"] == "leaky-bucket" {
            let max_wait = Duration::from_micros(number(spec, "max_wait_us"));
            let shaper = LeakyBucket::new(number(spec, "limit"), period(spec), max_wait);
            return Self::Shaper(shaper.unwrap());
        }
        Self::One(limit(spec))
    }

    async fn step(
        &self,
        store: &dyn Store,
        name: &str,
        now: Timestamp,
        cost: u64,
    ) -> (Source, Value) {
        let (mode, limits) = match self {
            Self::Shaper(shaper) => {
                let scope = Scope::named("vectors", "");
                let key = name.as_bytes();
                let request = ReserveRequest { scope: &scope, key, shaper, cost, cancel: None };
                let answer = store.reserve(&request, now).await.unwrap().reservation;
                let answer = json!({
                    "accepted": answer.accepted(),
                    "delay_us": answer.delay_us(),
                    "retry_after_us": answer.retry_after_us(),
                });
                return (Source::Store, answer);
            }
            Self::One(limit) => (Mode::All, std::slice::from_ref(limit)),
            Self::Many(mode, limits) => (*mode, limits.as_slice()),
        };
        let scopes: Vec<_> =
            (0..limits.len()).map(|n| Scope::named("vectors", &n.to_string())).collect();
        let keyed = |(scope, limit)| KeyedLimit { scope, key: name.as_bytes(), limit };
        let limits: Vec<_> = scopes.iter().zip(limits).map(keyed).collect();
        let request = StoreRequest { mode, limits: &limits, cost, op: Op::Take };
        let reply = store.decide(&request, now).await.unwrap();
        let verdict = reply.verdict;
        let answer = match self {
            Self::Many(..) => json!({
                "allowed": verdict.decision.allowed(),
                "binding": verdict.binding,
                "decision": decision(&verdict.decision),
            }),
            _ => decision(&verdict.decision),
        };
        (reply.source, answer)
    }
}

fn limit(spec: &Value) -> Limit {
    let limit = number(spec, "limit");
    match spec["algorithm"].as_str().unwrap() {
        "gcra" => Gcra::new(limit, period(spec), number(spec, "burst")).unwrap().into(),
        "token-bucket" => Limit::TokenBucket(
            Gcra::token_bucket(number(spec, "burst"), limit, period(spec)).unwrap(),
        ),
        "fixed-window" => FixedWindow::new(limit, period(spec)).unwrap().into(),
        "sliding-window" => {
            SlidingWindow::new(limit, period(spec), number(spec, "buckets")).unwrap().into()
        }
        "sliding-log" => SlidingLog::new(limit, period(spec)).unwrap().into(),
        "quota" => {
            let every = match spec["cadence"].as_str().unwrap() {
                "calendar-day" => Every::Day,
                "calendar-week" => Every::Week,
                "calendar-month" => Every::Month,
                other => panic!("cadence {other}"),
            };
            let zone = Zone::fixed(spec["utc_offset_minutes"].as_i64().unwrap()).unwrap();
            Quota::calendar(limit, every, zone).unwrap().into()
        }
        other => panic!("algorithm {other}"),
    }
}

fn number(spec: &Value, field: &str) -> u64 {
    spec[field].as_u64().unwrap_or_else(|| panic!("{field} in {spec}"))
}

fn period(spec: &Value) -> Duration {
    Duration::from_micros(number(spec, "period_us"))
}

fn decision(decision: &Decision) -> Value {
    json!({
        "allowed": decision.allowed(),
        "limit": decision.limit(),
        "remaining": decision.remaining(),
        "retry_after_us": decision.retry_after_us(),
        "reset_after_us": decision.reset_after_us(),
    })
}
