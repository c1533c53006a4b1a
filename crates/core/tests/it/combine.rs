//! Several limits at once: nothing is half committed, and the answer is the binding limit's.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Change, Decision, Limit, Mode, State, Verdict, Weighted, decide_many};

use crate::support::{any_limit, at, config, forward, jumpy, start_us};

/// A few limits on one key, each with what a unit of the cost takes of it, and with its state.
#[derive(Clone, Debug)]
struct Several {
    limits: Vec<Limit>,
    factors: Vec<u64>,
    states: Vec<State>,
}

impl Several {
    fn new(limits: Vec<(Limit, u64)>) -> Self {
        let states = vec![State::Empty; limits.len()];
        let (limits, factors) = limits.into_iter().unzip();
        Self { limits, factors, states }
    }

    fn ask(&mut self, mode: Mode, now_us: u64, cost: u64) -> Verdict {
        let mut changes = vec![Change::KEEP; self.limits.len()];
        let parts = self.limits.iter().zip(&self.states).zip(&self.factors);
        let parts =
            parts.map(|((limit, state), factor)| Weighted { limit, state, factor: *factor });
        let verdict = decide_many(mode, parts, &mut changes, at(now_us), cost).unwrap();
        for (state, change) in self.states.iter_mut().zip(changes) {
            state.apply(change);
        }
        verdict
    }

    fn each(&self, now_us: u64, cost: u64) -> Vec<Decision> {
        let peek = |((limit, state), factor): ((&Limit, &State), &u64)| {
            limit.peek(state, at(now_us), cost * factor)
        };
        self.limits.iter().zip(&self.states).zip(&self.factors).map(peek).collect()
    }

    /// Charges each limit by itself. Answers which admit.
    fn take_each(&self, states: &mut [State], now_us: u64, cost: u64) -> Vec<bool> {
        let parts = self.limits.iter().zip(states).zip(&self.factors);
        let take = |((limit, state), factor): ((&Limit, &mut State), &u64)| {
            limit.take(state, at(now_us), cost * factor).allowed()
        };
        parts.map(take).collect()
    }

    fn reversed(&self) -> Self {
        let mut other = self.clone();
        other.limits.reverse();
        other.factors.reverse();
        other.states.reverse();
        other
    }
}

fn asks(limits: &[Limit], start: u64, raw: &[(u16, u64)], jumps: bool) -> Vec<(u64, u64)> {
    let gap = if jumps { jumpy } else { forward };
    let mut now = start;
    let mut step = |(time, cost): (u16, u64)| {
        let limit = &limits[usize::from(time) % limits.len()];
        now = now.saturating_add_signed(gap(limit, time));
        (now, cost)
    };
    raw.iter().map(|&raw| step(raw)).collect()
}

/// The rule in the words of the specification: by key, ties to the first.
fn binding(mode: Mode, answers: &[Decision], factors: &[u64]) -> usize {
    let left = |(index, answer): &(usize, &Decision)| answer.remaining() / factors[*index];
    let wait = |answer: &Decision| answer.retry_after_us().unwrap_or(u64::MAX);
    let indexed = || answers.iter().enumerate();
    let admits = || indexed().filter(|(_, answer)| answer.allowed());
    let refuses = || indexed().filter(|(_, answer)| !answer.allowed());
    // `min_by_key` keeps the first of equals; `max_by_key` the last, so it goes in reverse.
    let found = match mode {
        Mode::All if refuses().next().is_some() => refuses().rev().max_by_key(|(_, a)| wait(a)),
        Mode::All => admits().min_by_key(left),
        Mode::Any if admits().next().is_some() => admits().rev().max_by_key(left),
        Mode::Any => refuses().min_by_key(|(_, answer)| wait(answer)),
    };
    found.unwrap().0
}

fn several() -> impl Strategy<Value = Vec<(Limit, u64)>> {
    vec((any_limit(), prop_oneof![3 => Just(1), 2 => 2..9_u64]), 1..5)
}

fn raw() -> impl Strategy<Value = Vec<(u16, u64)>> {
    vec((any::<u16>(), 0..5_u64), 1..10)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn all_charges_every_limit_or_none(limits in several(), start in start_us(), raw in raw()) {
        let mut several = Several::new(limits);
        for (now_us, cost) in asks(&several.limits.clone(), start, &raw, false) {
            let before = several.states.clone();
            let verdict = several.ask(Mode::All, now_us, cost);
            let mut expected = before.clone();
            if verdict.decision.allowed() {
                let admitted = several.take_each(&mut expected, now_us, cost);
                prop_assert!(admitted.into_iter().all(|admits| admits));
            }
            prop_assert_eq!(&several.states, &expected);
        }
    }

    // On a clock that steps back the one write is the repair, and it spends nothing.
    #[test]
    fn a_refused_all_spends_nothing_on_any_clock(
        limits in several(), start in start_us(), raw in raw()
    ) {
        let mut several = Several::new(limits);
        for (now_us, cost) in asks(&several.limits.clone(), start, &raw, true) {
            let before = several.each(now_us, 0);
            let verdict = several.ask(Mode::All, now_us, cost);
            if !verdict.decision.allowed() {
                prop_assert_eq!(before, several.each(now_us, 0));
            }
        }
    }

    #[test]
    fn any_charges_only_those_that_admit(limits in several(), start in start_us(), raw in raw()) {
        let mut several = Several::new(limits);
        for (now_us, cost) in asks(&several.limits.clone(), start, &raw, true) {
            let mut expected = several.states.clone();
            let admitted = several.take_each(&mut expected, now_us, cost);
            let verdict = several.ask(Mode::Any, now_us, cost);
            prop_assert_eq!(verdict.decision.allowed(), admitted.contains(&true));
            prop_assert_eq!(&several.states, &expected);
        }
    }

    #[test]
    fn the_answer_is_the_binding_limits(
        limits in several(), start in start_us(), raw in raw(), all in any::<bool>()
    ) {
        let mode = if all { Mode::All } else { Mode::Any };
        let mut several = Several::new(limits);
        for (now_us, cost) in asks(&several.limits.clone(), start, &raw, true) {
            let answers = several.each(now_us, cost);
            let verdict = several.ask(mode, now_us, cost);
            let mut allowed = answers.iter().map(Decision::allowed);
            let whole = if all { allowed.all(|is| is) } else { allowed.any(|is| is) };
            prop_assert_eq!(verdict.decision.allowed(), whole);
            prop_assert_eq!(verdict.binding, binding(mode, &answers, &several.factors));
            prop_assert_eq!(verdict.decision, answers[verdict.binding]);
        }
    }

    #[test]
    fn the_order_of_all_does_not_matter_for_admission(
        limits in several(), start in start_us(), raw in raw()
    ) {
        let mut there = Several::new(limits);
        let mut back = there.reversed();
        for (now_us, cost) in asks(&there.limits.clone(), start, &raw, true) {
            let verdict = there.ask(Mode::All, now_us, cost);
            let other = back.ask(Mode::All, now_us, cost);
            prop_assert_eq!(verdict.decision.allowed(), other.decision.allowed());
            prop_assert_eq!(&there.states, &back.reversed().states);
        }
    }
}

#[test]
fn no_limits_have_no_answer() {
    let none = decide_many(Mode::All, std::iter::empty::<Weighted<'_>>(), &mut [], at(0), 1);
    assert_eq!(none, None);
}

#[test]
fn ties_go_to_the_first_declared() {
    let limit: Limit = "5/s".parse().unwrap();
    for mode in [Mode::All, Mode::Any] {
        let mut several = Several::new(vec![(limit.clone(), 1); 3]);
        assert_eq!(several.ask(mode, 0, 5).binding, 0, "admitted");
        assert_eq!(several.ask(mode, 0, 5).binding, 0, "refused");
    }
}
