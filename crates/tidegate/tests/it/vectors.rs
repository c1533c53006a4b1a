//! The memory store against the pure functions.

use proptest::prelude::*;
use tidegate::{KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, StoreRequest, Timestamp};
use tidegate_core::{Change, State, decide_many};

/// Limits whose states fit a word, and limits whose states do not.
const LIMITS: [&str; 15] = [
    "10/s",
    "3/s burst 2",
    "60/s burst 3",
    "997/s burst 4",
    "1000000000/s burst 9",
    "100/min burst 20",
    "7919/s burst 5",
    "1/day burst 5",
    "token-bucket 7/min capacity 3",
    "fixed-window 5/s",
    "fixed-window 3/250ms",
    "sliding-window 6/s buckets 5",
    "sliding-log 4/s",
    "quota 5/day at +05:30",
    "quota 7/10s rolling",
];

#[derive(Clone, Debug)]
struct Step {
    advance_us: i64,
    key: u8,
    cost: u64,
    op: Op,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        4 => Just(0),
        4 => 0..300_000_i64,
        1 => 0..100_000_000_i64,
        1 => -3_000_000..0_i64,
        1 => -200_000_000_000..0_i64,
    ];
    let cost = prop_oneof![6 => Just(1), 2 => 0..8_u64, 1 => Just(u64::MAX)];
    let op = prop_oneof![
        8 => Just(Op::Take), 1 => Just(Op::Peek), 1 => Just(Op::Refund), 1 => Just(Op::Reset),
    ];
    let step = (advance, 0..3_u8, cost, op);
    let step = step.prop_map(|(advance_us, key, cost, op)| Step { advance_us, key, cost, op });
    prop::collection::vec(step, 1..30)
}

/// The store's twin: a plain map from key and limit to state, and the pure functions.
struct Model {
    limits: Vec<Limit>,
    mode: Mode,
    states: Vec<Vec<State>>,
}

impl Model {
    fn answer(&mut self, step: &Step, now: Timestamp) -> tidegate::Verdict {
        let states = &mut self.states[usize::from(step.key)];
        let mut changes = vec![Change::KEEP; self.limits.len()];
        for (limit, state) in self.limits.iter().zip(&mut *states) {
            match step.op {
                Op::Refund => drop(limit.refund(state, now, step.cost)),
                Op::Reset => *state = State::Empty,
                _ => {}
            }
        }
        let cost = if matches!(step.op, Op::Take | Op::Peek) { step.cost } else { 0 };
        let pairs = self.limits.iter().zip(states.iter());
        let verdict = decide_many(self.mode, pairs, &mut changes, now, cost).unwrap();
        if step.op == Op::Take {
            states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
        }
        verdict
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_store_answers_as_the_pure_functions_do(
        limits in prop::collection::vec(prop::sample::select(&LIMITS[..]), 1..4),
        any in any::<bool>(),
        steps in steps(),
    ) {
        let limits: Vec<Limit> = limits.iter().map(|text| text.parse().unwrap()).collect();
        let mode = if any { Mode::Any } else { Mode::All };
        let states = vec![vec![State::Empty; limits.len()]; 3];
        let mut model = Model { limits: limits.clone(), mode, states };
        let scopes: Vec<_> = (0..limits.len()).map(|n| Scope::named("p", &n.to_string())).collect();
        let store = MemoryStore::with_max_bytes(1 << 20);
        let mut now_us = 1_700_000_000_000_000_i64;
        for step in &steps {
            now_us += step.advance_us;
            let now = Timestamp::from_micros(now_us.cast_unsigned());
            let key = [step.key];
            let keyed: Vec<KeyedLimit> = limits.iter().zip(&scopes).map(|(limit, scope)| {
                KeyedLimit { scope, key: &key, limit }
            }).collect();
            let ask = StoreRequest { mode, limits: &keyed, cost: step.cost, op: step.op };
            let verdict = store.decide(&ask, now).now().unwrap().verdict;
            prop_assert_eq!(verdict, model.answer(step, now), "{:?}", step);
        }
    }

    // Each of these counts in another part of a microsecond, and the last two in milliseconds and beyond any word.
    #[test]
    fn a_state_is_read_under_another_limit_as_the_pure_functions_read_it(
        steps in prop::collection::vec((0..8_usize, 0..400_000_u64, 0..4_u64), 1..30),
    ) {
        let limits: [Limit; 8] = [
            "1000/min burst 20", "3/s burst 2", "60/s burst 5", "997/s burst 4", "7919/s burst 5",
            "1000000000/s burst 9", "1/h burst 1000000000", "104729/s burst 3",
        ].map(|text| text.parse().unwrap());
        let (scope, store) = (Scope::named("p", ""), MemoryStore::with_max_bytes(1 << 20));
        let (mut state, mut now_us) = (State::Empty, 1_700_000_000_000_000);
        for (limit, advance_us, cost) in steps {
            now_us += advance_us;
            let (limit, now) = (&limits[limit], Timestamp::from_micros(now_us));
            let keyed = [KeyedLimit { scope: &scope, key: b"k", limit }];
            let ask = StoreRequest { mode: Mode::All, limits: &keyed, cost, op: Op::Take };
            let decision = store.decide(&ask, now).now().unwrap().verdict.decision;
            prop_assert_eq!(decision, limit.take(&mut state, now, cost), "{:?}", limit);
        }
    }
}
