//! Several limits, each with a cost of its own: one step, all charged or none, and an answer for every one.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Change, Decision, Limit, Mode, State, Verdict, decide_each, decide_many};

use crate::support::{any_limit, at, config, cost_for, forward, jumpy, start_us};

/// How a step is decided: by what is tested, or by one that is wrong on purpose.
type Rule = fn(&[Limit], &[State], &[u64], u64) -> (Vec<Decision>, Vec<Change>);

fn rule(
    limits: &[Limit],
    states: &[State],
    costs: &[u64],
    now_us: u64,
) -> (Vec<Decision>, Vec<Change>) {
    decided(limits, states, costs, now_us, false)
}

fn decided(
    limits: &[Limit],
    states: &[State],
    costs: &[u64],
    now_us: u64,
    refused: bool,
) -> (Vec<Decision>, Vec<Change>) {
    let mut decisions = vec![Decision::unlimited(); limits.len()];
    let mut changes = vec![Change::KEEP; limits.len()];
    let parts =
        limits.iter().zip(states).zip(costs).map(|((limit, state), cost)| (limit, state, *cost));
    let admitted = decide_each(parts, refused, &mut decisions, &mut changes, at(now_us));
    let all = decisions.iter().all(Decision::allowed);
    assert_eq!(admitted, all && !refused, "admitted as a whole means that every limit admits");
    (decisions, changes)
}

/// Charges what admits by itself, as asking one limit after another would.
fn one_by_one(
    limits: &[Limit],
    states: &[State],
    costs: &[u64],
    now_us: u64,
) -> (Vec<Decision>, Vec<Change>) {
    let each = limits.iter().zip(states).zip(costs);
    each.map(|((limit, state), cost)| limit.decide(state, at(now_us), *cost)).unzip()
}

#[derive(Clone, Debug)]
struct Scene {
    limits: Vec<Limit>,
    steps: Vec<(u64, Vec<u64>)>,
}

fn scene() -> impl Strategy<Value = Scene> {
    let step = (any::<u16>(), vec(any::<u16>(), 5));
    let raw = (vec(any_limit(), 1..6), start_us(), vec(step, 1..12), any::<bool>());
    raw.prop_map(|(limits, mut now_us, steps, jumps)| {
        let gap = if jumps { jumpy } else { forward };
        let step = |(time, costs): (u16, Vec<u16>)| {
            now_us =
                now_us.saturating_add_signed(gap(&limits[usize::from(time) % limits.len()], time));
            let cost = |(limit, raw): (&Limit, u16)| cost_for(limit.ceiling(), raw);
            (now_us, limits.iter().zip(costs).map(cost).collect())
        };
        let steps = steps.into_iter().map(step).collect();
        Scene { limits, steps }
    })
}

/// Whether each step charges all of its limits or none, and answers for every limit what that limit says by itself.
fn keeps_its_word(scene: &Scene, rule: Rule) -> bool {
    let limits = &scene.limits;
    let mut states = vec![State::Empty; limits.len()];
    scene.steps.iter().all(|(now_us, costs)| {
        let now = at(*now_us);
        let (decisions, changes) = rule(limits, &states, costs, *now_us);
        let alone = |cost_of: &dyn Fn(usize) -> u64| -> Vec<(Decision, State)> {
            let decide = |(index, (limit, state)): (usize, (&Limit, &State))| {
                let mut state = state.clone();
                (limit.take(&mut state, now, cost_of(index)), state)
            };
            limits.iter().zip(&states).enumerate().map(decide).collect()
        };
        let (charged, left) = (alone(&|index| costs[index]), alone(&|_| 0));
        let admitted = charged.iter().all(|(decision, _)| decision.allowed());
        for (state, change) in states.iter_mut().zip(changes) {
            state.apply(change);
        }
        let expected = charged.iter().zip(&left).map(|(charged, left)| {
            let (charged_decision, charged_state) = charged;
            let (left_decision, left_state) = left;
            match (admitted, charged_decision.allowed()) {
                (true, _) => (charged_decision, charged_state),
                (false, true) => (left_decision, left_state),
                (false, false) => (charged_decision, left_state),
            }
        });
        expected.eq(decisions.iter().zip(&states))
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_limit_is_charged_or_none_and_each_answers_for_itself(scene in scene()) {
        prop_assert!(keeps_its_word(&scene, rule));
    }

    #[test]
    fn one_cost_for_all_is_decided_as_many_limits_are(scene in scene()) {
        let limits = &scene.limits;
        let mut states = vec![State::Empty; limits.len()];
        for (now_us, costs) in scene.steps {
            let mut changes = vec![Change::KEEP; limits.len()];
            let pairs = limits.iter().zip(&states);
            let verdict = decide_many(Mode::All, pairs, &mut changes, at(now_us), costs[0]);
            let (decisions, each) = rule(limits, &states, &vec![costs[0]; limits.len()], now_us);
            prop_assert_eq!(Verdict::of_all(decisions.into_iter().map(|it| (it, 1))), verdict);
            prop_assert_eq!(&each, &changes);
            states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
        }
    }

    #[test]
    fn a_step_that_is_refused_from_the_start_spends_nothing(scene in scene()) {
        let limits = &scene.limits;
        let mut states = vec![State::Empty; limits.len()];
        for (number, (now_us, costs)) in scene.steps.iter().enumerate() {
            if number % 2 == 0 {
                let (_, changes) = rule(limits, &states, costs, *now_us);
                states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
                continue;
            }
            let none = vec![0; limits.len()];
            let (left, repairs) = rule(limits, &states, &none, *now_us);
            let (decisions, changes) = decided(limits, &states, costs, *now_us, true);
            prop_assert_eq!(changes, repairs);
            for (index, decision) in decisions.iter().enumerate() {
                let alone = limits[index].peek(&states[index], at(*now_us), costs[index]);
                prop_assert_eq!(*decision, if alone.allowed() { left[index] } else { alone });
            }
        }
    }
}

#[test]
fn limits_asked_one_by_one_are_noticed() {
    let limits = ["5/s", "1/s"].map(|text| text.parse::<Limit>().unwrap()).to_vec();
    let steps = vec![(0, vec![1, 1]), (0, vec![1, 1])];
    let scene = Scene { limits, steps };
    assert!(keeps_its_word(&scene, rule));
    assert!(!keeps_its_word(&scene, one_by_one));
}

#[test]
fn no_limits_are_admitted_unless_refused_from_the_start() {
    for refused in [false, true] {
        let none = std::iter::empty();
        assert_eq!(decide_each(none, refused, &mut [], &mut [], at(0)), !refused);
    }
    assert_eq!(Verdict::of_all([]), None);
}
