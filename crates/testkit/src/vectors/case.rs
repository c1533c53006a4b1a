//! A golden case: its limits, its steps, and answers as it writes them. The tests of `core` include this file, so that
//! all who replay the vectors read them alike.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::{
    Decision, Every, FixedWindow, Gcra, LeakyBucket, Limit, Mode, Quota, Reservation, SlidingLog,
    SlidingWindow, Timestamp, Verdict, Zone,
};

/// Every case there is.
pub(crate) fn all() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/vectors");
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let Value::Array(read) = serde_json::from_slice(&text).unwrap() else { panic!("no list") };
        cases.extend(read);
    }
    cases
}

/// When a step is, what it costs, and what is expected of it.
pub(crate) fn steps(case: &Value) -> impl ExactSizeIterator<Item = (Timestamp, u64, &Value)> {
    let (steps, expected) = (case["steps"].as_array().unwrap(), case["expect"].as_array().unwrap());
    assert_eq!(steps.len(), expected.len(), "{}", case["name"]);
    steps.iter().zip(expected).map(|(step, expect)| {
        (Timestamp::from_micros(number(step, "now_us")), number(step, "cost"), expect)
    })
}

/// What a case limits by.
pub(crate) enum Limits {
    Shaper(LeakyBucket),
    One(Limit),
    Many(Mode, Vec<Limit>),
}

impl Limits {
    pub(crate) fn read(case: &Value) -> Self {
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

pub(crate) fn reservation(answer: &Reservation) -> Value {
    json!({
        "accepted": answer.accepted(),
        "delay_us": answer.delay_us(),
        "retry_after_us": answer.retry_after_us(),
    })
}

/// The answer of several limits.
pub(crate) fn verdict(verdict: &Verdict) -> Value {
    json!({
        "allowed": verdict.decision.allowed(),
        "binding": verdict.binding,
        "decision": decision(&verdict.decision),
    })
}

pub(crate) fn decision(decision: &Decision) -> Value {
    json!({
        "allowed": decision.allowed(),
        "limit": decision.limit(),
        "remaining": decision.remaining(),
        "retry_after_us": decision.retry_after_us(),
        "reset_after_us": decision.reset_after_us(),
    })
}
