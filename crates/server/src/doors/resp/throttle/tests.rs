//! The golden cases of GCRA, as redis-cell replies.

use serde::Deserialize;
use tidegate::Timestamp;
use tidegate_core::State;

use super::*;
use crate::doors::resp::frame::{self, ArgumentSpans};

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

/// The limit of a command with these arguments.
fn find(limits: &mut LimitCache, numbers: [i64; 3]) -> Result<Limit, String> {
    find_text(limits, &numbers.map(|number| number.to_string()))
}

fn find_text(limits: &mut LimitCache, numbers: &[String; 3]) -> Result<Limit, String> {
    let arguments = ["CL.THROTTLE", "key"].into_iter().chain(numbers.iter().map(String::as_str));
    let bulk = |argument: &str| format!("${}\r\n{argument}\r\n", argument.len());
    let frame = format!("*5\r\n{}", arguments.map(bulk).collect::<String>());
    let mut spans = ArgumentSpans::new();
    assert_eq!(frame::next(frame.as_bytes(), &mut spans), Ok(Some(frame.len())));
    let range = spans.finish_command();
    limits.find(Command::new(frame.as_bytes(), &spans, range)).cloned()
}

#[test]
fn other_arguments_are_another_limit() {
    let mut limits = LimitCache::default();
    let long = "0".repeat(TEXT_BYTES_MAX);
    for (numbers, units, ceiling) in [
        (["1", "23", "60"], 23, 2),
        (["12", "3", "60"], 3, 13),
        (["01", "23", "60"], 23, 2),
        ([&*format!("{long}4"), "5", "60"], 5, 5),
        ([&*format!("{long}6"), "7", "60"], 7, 7),
        (["1", "23", "60"], 23, 2),
    ] {
        let limit = find_text(&mut limits, &numbers.map(str::to_owned)).unwrap();
        assert_eq!((limit.units(), limit.ceiling()), (units, ceiling), "{numbers:?}");
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
        let limit = find(&mut limits, [max_burst, count, period_s]).unwrap();
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
    for count in [1, 2, 3, 4, 1, 5, 2, 1] {
        let limit = find(&mut limits, [1, count, 60]).unwrap();
        assert_eq!((limit.units(), limit.ceiling()), (count.unsigned_abs(), 2));
    }
    assert!(find(&mut limits, [1 << 50, 1, 1 << 20]).is_err());
    assert_eq!(find(&mut limits, [1, 1, 60]).unwrap().units(), 1);
}
