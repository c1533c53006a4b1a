//! The golden cases of GCRA, as redis-cell replies.

use serde::Deserialize;
use tidegate::Timestamp;
use tidegate_core::State;

use super::*;

const GOLDEN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors/gcra.json"));

#[derive(Deserialize)]
struct Case {
    name: String,
    limit: Given,
    steps: Vec<Step>,
    expect: Vec<Expected>,
}

#[derive(Deserialize)]
struct Given {
    limit: i64,
    period_us: i64,
    burst: Option<i64>,
}

#[derive(Deserialize)]
struct Step {
    now_us: u64,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Deserialize)]
struct Expected {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

fn one() -> u64 {
    1
}

impl Expected {
    /// The five integers as RESP text.
    fn cell_reply(&self) -> String {
        let up = |us: u64| us.div_ceil(1_000_000).to_string();
        let retry = match self.retry_after_us {
            Some(us) if !self.allowed => up(us),
            _ => "-1".to_owned(),
        };
        let (limited, reset) = (u8::from(!self.allowed), up(self.reset_after_us));
        format!(
            "*5\r\n:{limited}\r\n:{}\r\n:{}\r\n:{retry}\r\n:{reset}\r\n",
            self.limit, self.remaining
        )
    }
}

#[test]
fn golden_cases_in_whole_seconds_match_redis_cell() {
    let cases: Vec<Case> = serde_json::from_str(GOLDEN).unwrap();
    let mut limits = LimitCache::default();
    let (mut replayed, mut steps) = (0, 0);
    for case in cases.iter().filter(|case| case.limit.period_us % 1_000_000 == 0) {
        let max_burst = case.limit.burst.unwrap_or(case.limit.limit) - 1;
        let (count, period_s) = (case.limit.limit, case.limit.period_us / 1_000_000);
        let limit = limits.find(Rate { max_burst, count, period_s }).unwrap();
        let mut state = State::Empty;
        for (step, expected) in case.steps.iter().zip(&case.expect) {
            let decision = limit.take(&mut state, Timestamp::from_micros(step.now_us), step.cost);
            let mut out = crate::doors::resp::reply::ReplyBuffer::default();
            out.cell_reply(&decision);
            assert_eq!(String::from_utf8(out.0).unwrap(), expected.cell_reply(), "{}", case.name);
            steps += 1;
        }
        replayed += 1;
    }
    assert!(replayed > 5 && steps > 100, "{replayed} cases of {}, {steps} steps", cases.len());
}

#[test]
fn a_limit_is_built_once_and_the_oldest_is_evicted() {
    let mut limits = LimitCache::default();
    let rate = |count| Rate { max_burst: 1, count, period_s: 60 };
    for count in [1, 2, 3, 4, 1, 5, 2, 1] {
        let limit = limits.find(rate(count)).unwrap();
        assert_eq!((limit.units(), limit.ceiling()), (count.unsigned_abs(), 2));
    }
    assert!(limits.find(Rate { max_burst: 1 << 50, count: 1, period_s: 1 << 20 }).is_err());
    assert_eq!(limits.find(rate(1)).unwrap().units(), 1);
}
