//! The golden vectors: every step of every case, through the pure functions.

#[path = "../../../testkit/src/vectors/case.rs"]
mod case;

use serde_json::Value;
use tidegate_core::{Change, State, Timestamp, decide_many};

use self::case::Limits;

#[test]
fn every_golden_vector_matches() {
    let steps: usize = case::all().iter().map(check).sum();
    assert!(steps >= 9_000, "only {steps} steps replayed: vectors are missing");
}

fn check(case: &Value) -> usize {
    let limits = Limits::read(case);
    let mut states = match &limits {
        Limits::Many(_, limits) => vec![State::Empty; limits.len()],
        Limits::Shaper(_) | Limits::One(_) => vec![State::Empty],
    };
    for (number, (now, cost, expect)) in case::steps(case).enumerate() {
        let answer = step(&limits, &mut states, now, cost);
        assert_eq!(&answer, expect, "case {} step {number}", case["name"]);
    }
    case::steps(case).len()
}

fn step(limits: &Limits, states: &mut [State], now: Timestamp, cost: u64) -> Value {
    match limits {
        Limits::Shaper(shaper) => case::reservation(&shaper.reserve(&mut states[0], now, cost)),
        Limits::One(limit) => case::decision(&limit.take(&mut states[0], now, cost)),
        Limits::Many(mode, limits) => {
            let mut changes = vec![Change::KEEP; limits.len()];
            let pairs = limits.iter().zip(states.iter());
            let verdict = decide_many(*mode, pairs, &mut changes, now, cost).unwrap();
            for (state, change) in states.iter_mut().zip(changes) {
                state.apply(change);
            }
            case::verdict(&verdict)
        }
    }
}
