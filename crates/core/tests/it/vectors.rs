//! The golden vectors: every step of every case, through the pure functions.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{
    Change, Decision, Every, FixedWindow, Gcra, LeakyBucket, Limit, Mode, Quota, SlidingLog,
    SlidingWindow, State, Timestamp, Zone, decide_many,
};

#[test]
fn every_golden_vector_matches() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors");
    let mut steps = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let cases: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for case in cases.as_array().unwrap() {
            steps += check(case);
        }
    }
    assert!(steps >= 9_000, "only {steps} steps replayed: vectors are missing");
}

fn check(case: &Value) -> usize {
    let expected = case["expect"].as_array().unwrap();
    let mut replay = Replay::new(case);
    for (number, (step, expect)) in
        case["steps"].as_array().unwrap().iter().zip(expected).enumerate()
    {
        let now = Timestamp::from_micros(step["now_us"].as_u64().unwrap());
        let answer = replay.step(now, step["cost"].as_u64().unwrap());
        assert_eq!(&answer, expect, "case {} step {number}", case["name"]);
    }
    expected.len()
}

enum Replay {
    Shaper(LeakyBucket, State),
    One(Limit, State),
    Many(Mode, Vec<Limit>, Vec<State>),
}

impl Replay {
    fn new(case: &Value) -> Self {
        for (field, mode) in [("all", Mode::All), ("any", Mode::Any)] {
            if let Some(limits) = case[field].as_array() {
                let limits: Vec<Limit> = limits.iter().map(limit).collect();
                let states = vec![State::Empty; limits.len()];
                return Self::Many(mode, limits, states);
            }
        }
        let spec = &case["limit"];
        if spec["algorithm"] == "leaky-bucket" {
            let max_wait = Duration::from_micros(number(spec, "max_wait_us"));
            let shaper = LeakyBucket::new(number(spec, "limit"), period(spec), max_wait).unwrap();
            return Self::Shaper(shaper, State::Empty);
        }
        Self::One(limit(spec), State::Empty)
    }

    fn step(&mut self, now: Timestamp, cost: u64) -> Value {
        match self {
            Self::Shaper(shaper, state) => {
                let answer = shaper.reserve(state, now, cost);
                json!({
                    "accepted": answer.accepted(),
                    "delay_us": answer.delay_us(),
                    "retry_after_us": answer.retry_after_us(),
                })
            }
            Self::One(limit, state) => decision(&limit.take(state, now, cost)),
            Self::Many(mode, limits, states) => {
                let mut changes = vec![Change::KEEP; limits.len()];
                let pairs = limits.iter().zip(states.iter());
                let verdict = decide_many(*mode, pairs, &mut changes, now, cost).unwrap();
                for (state, change) in states.iter_mut().zip(changes) {
                    state.apply(change);
                }
                json!({
                    "allowed": verdict.decision.allowed(),
                    "binding": verdict.binding,
                    "decision": decision(&verdict.decision),
                })
            }
        }
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
