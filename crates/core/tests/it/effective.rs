//! Limits that move with the load: never more than the largest in force, whichever way they have moved.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Gcra, Limit, State, Terms};

use crate::support::{
    Grant, START_US, any_limit, at, config, cost_for, forward, grants, micros, rate, scene_of,
};

/// One ask while so many units are in force.
#[derive(Clone, Copy, Debug)]
struct Asked {
    units: u64,
    now_us: u64,
    cost: u64,
}

/// A limit, and what is asked while it moves.
#[derive(Clone, Debug)]
struct Moving {
    whole: Limit,
    asks: Vec<Asked>,
}

impl Moving {
    /// What is granted where `in_force` says which limit some units are.
    fn grants(&self, in_force: impl Fn(u64) -> Limit) -> Vec<(Asked, bool)> {
        let mut state = State::Empty;
        let ask = |asked: &Asked| {
            let limit = in_force(asked.units);
            (*asked, limit.take(&mut state, at(asked.now_us), asked.cost).allowed())
        };
        self.asks.iter().map(ask).collect()
    }

    fn effective_grants(&self) -> Vec<(Asked, bool)> {
        self.grants(|units| self.whole.effective(units))
    }
}

fn moving(limits: impl Strategy<Value = Limit>) -> impl Strategy<Value = Moving> {
    (limits, vec(any::<(u16, u16, u16)>(), 1..24)).prop_map(|(whole, raw)| {
        let mut now_us = START_US;
        let ask = |(units, gap, cost): (u16, u16, u16)| {
            // Half of the time whole, so that it is left and come back to.
            let part = whole.units() * u64::from(units / 2) / u64::from(u16::MAX / 2);
            let units = if units % 2 == 0 { whole.units() } else { part };
            now_us = now_us.saturating_add_signed(forward(&whole, gap));
            let cost = cost_for(whole.effective(units).ceiling(), cost);
            Asked { units, now_us, cost }
        };
        let asks = raw.into_iter().map(ask).collect();
        Moving { whole, asks }
    })
}

fn paced() -> impl Strategy<Value = Limit> {
    (rate(), 1..=40_u64).prop_map(|((limit, period_us), burst)| {
        Gcra::new(limit, micros(period_us), burst).unwrap().into()
    })
}

/// Whether every run of asks was granted at most `max(1, burst · m / limit) + m / period · Δ`, where `m` is the most that
/// was in force in it.
fn keeps_the_largest(whole: &Limit, spent: &[(Asked, bool)]) -> bool {
    let [limit, burst] = [whole.units(), whole.ceiling()].map(u128::from);
    let period = whole.period().as_micros();
    (0..spent.len()).all(|first| {
        let (mut sum, mut most) = (0, 1);
        spent[first..].iter().all(|(asked, admitted)| {
            sum += if *admitted { u128::from(asked.cost) } else { 0 };
            most = most.max(u128::from(asked.units).min(limit));
            let passed = u128::from(asked.now_us - spent[first].0.now_us);
            sum * limit * period <= limit.max(burst * most) * period + limit * most * passed
        })
    })
}

/// Whether a limit that does not move would have admitted the same.
fn would_admit(limit: &Limit, spent: &[(Asked, bool)]) -> bool {
    let admitted = spent.iter().filter(|(_, admitted)| *admitted);
    let asks: Vec<Grant> = admitted.map(|(asked, _)| (asked.now_us, asked.cost)).collect();
    grants(limit, &asks) == asks
}

/// The rate alone, as if it had been declared: what must not be done.
fn forgetful(whole: &Limit, units: u64) -> Limit {
    let units = units.clamp(1, whole.units());
    let burst = (whole.ceiling() * units / whole.units()).max(1);
    Gcra::new(units, whole.period(), burst).unwrap().into()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_rate_that_moves_admits_no_more_than_the_largest_in_force(moving in moving(paced())) {
        prop_assert!(keeps_the_largest(&moving.whole, &moving.effective_grants()));
    }

    #[test]
    fn whatever_moves_admits_no_more_than_the_whole_limit(moving in moving(any_limit())) {
        prop_assert!(would_admit(&moving.whole, &moving.effective_grants()));
    }

    // Counts are compared with what is in force, so that the largest of it is a limit like any other.
    #[test]
    fn counters_admit_no_more_than_the_largest_in_force(moving in moving(any_limit())) {
        if matches!(moving.whole, Limit::Gcra(_) | Limit::TokenBucket(_)) {
            return Ok(());
        }
        let largest = moving.asks.iter().map(|asked| asked.units).max().unwrap_or(1);
        prop_assert!(would_admit(&moving.whole.effective(largest), &moving.effective_grants()));
    }

    // What the store keeps for leases moves with it: paid for in advance is paid for, too.
    #[test]
    fn what_is_leased_while_it_moves_is_no_more_than_of_the_whole(moving in moving(any_limit())) {
        let leased = |limit: &Limit| {
            let terms = Terms::from_limits([limit]).ok()?;
            limit.leased(terms.ttl()).ok()
        };
        let Some(whole) = leased(&moving.whole) else { return Ok(()) };
        let in_force = |units| {
            let limit = moving.whole.effective(units);
            leased(&limit).unwrap_or(limit)
        };
        prop_assert!(would_admit(&whole, &moving.grants(in_force)));
    }

    // As long as it stays where it is, it is the limit that it says it is, to the microsecond.
    #[test]
    fn a_rate_in_force_decides_like_a_declared_one(
        scene in scene_of(paced(), forward), units in any::<u16>()
    ) {
        let units = 1 + scene.limit.units() * u64::from(units) / (1 << 16);
        let (mut state, mut declared_state) = (State::Empty, State::Empty);
        let (limit, declared) = (scene.limit.effective(units), forgetful(&scene.limit, units));
        for &(now_us, cost) in &scene.asks {
            let decision = limit.take(&mut state, at(now_us), cost);
            prop_assert_eq!(decision, declared.take(&mut declared_state, at(now_us), cost));
        }
    }

    #[test]
    fn waits_are_honest_and_minimal_while_it_moves(moving in moving(any_limit())) {
        let mut state = State::Empty;
        for Asked { units, now_us, cost } in moving.asks {
            let limit = moving.whole.effective(units);
            let decision = limit.take(&mut state, at(now_us), cost);
            let admitted_in = |us| limit.peek(&state, at(now_us + us), cost).allowed();
            match decision.retry_after_us() {
                Some(0) => prop_assert!(decision.allowed()),
                Some(us) => {
                    prop_assert!(!decision.allowed());
                    prop_assert!(admitted_in(us) && (us == 1 || !admitted_in(us - 1)));
                }
                None => prop_assert!(cost > limit.ceiling()),
            }
        }
    }

    #[test]
    fn there_is_a_limit_for_any_number_of_units(limit in any_limit(), units in any::<u64>()) {
        let effective = limit.effective(units);
        prop_assert!((1..=limit.units()).contains(&effective.units()));
        prop_assert!((1..=limit.ceiling()).contains(&effective.ceiling()));
        prop_assert_eq!(effective.period(), limit.period());
        prop_assert_eq!(effective.state_letter(), limit.state_letter());
        prop_assert_eq!(limit.effective(limit.units()), limit.clone());
        let scaled = !matches!(limit, Limit::Quota(_) | Limit::Concurrency(_));
        if scaled && units < 10_000 {
            prop_assert_eq!(effective.units(), units.clamp(1, limit.units()));
        }
    }
}

/// The control of all bounds above: a rate that forgets what is beyond its own burst gives it out again with each rise.
#[test]
fn a_rate_that_forgets_debt_is_noticed() {
    let whole: Limit = "100/min burst 20".parse().unwrap();
    let ask = |n: u64| Asked {
        units: if n.is_multiple_of(2) { 100 } else { 99 },
        now_us: START_US + n * 150_000,
        cost: 1,
    };
    let moving = Moving { whole: whole.clone(), asks: (0..400).map(ask).collect() };
    let spent = moving.effective_grants();
    assert!(keeps_the_largest(&whole, &spent) && would_admit(&whole, &spent));
    let spent = moving.grants(|units| forgetful(&whole, units));
    assert!(!keeps_the_largest(&whole, &spent) && !would_admit(&whole, &spent));
}

#[test]
fn counts_that_start_afresh_with_each_change_are_noticed() {
    let whole: Limit = "sliding-log 5/h".parse().unwrap();
    let now_us = START_US;
    let fresh: Vec<_> = [5, 4, 5].map(|units| (Asked { units, now_us, cost: 1 }, true)).into();
    assert!(would_admit(&whole, &fresh));
    let fresh = [fresh.clone(), fresh].concat();
    assert!(!would_admit(&whole, &fresh));
}

#[test]
fn the_burst_is_rounded_down_and_never_to_nothing() {
    let whole: Limit = "100/min burst 20".parse().unwrap();
    for (units, burst) in [(100, 20), (99, 19), (54, 10), (50, 10), (9, 1), (5, 1), (4, 1), (1, 1)]
    {
        let limit = whole.effective(units);
        assert_eq!((limit.units(), limit.ceiling()), (units, burst));
    }
}

/// Whoever has spent a unit of one per minute need not wait for the rest of the minute when the whole is back.
#[test]
fn a_rise_lets_no_one_wait_for_longer_than_the_whole_burst() {
    let whole: Limit = "100/min burst 20".parse().unwrap();
    let (mut state, now) = (State::Empty, at(START_US));
    assert!(whole.effective(1).take(&mut state, now, 1).allowed());
    let refused = whole.effective(1).peek(&state, now, 1);
    assert_eq!(refused.retry_after_us(), Some(60_000_000));
    assert_eq!(whole.peek(&state, now, 1).retry_after_us(), Some(600_000));
}

/// Also after a clock that stepped back: one whole burst's time, as if nothing had been reduced.
#[test]
fn a_step_back_locks_nobody_out_for_longer_than_the_whole_burst() {
    let whole: Limit = "100/min burst 20".parse().unwrap();
    for units in [99, 54, 10] {
        let (mut state, limit) = (State::Empty, whole.effective(units));
        assert!(limit.take(&mut state, at(2 * START_US), 1).allowed());
        let wait_us = limit.take(&mut state, at(START_US), 1).retry_after_us().unwrap();
        assert!(wait_us <= 12_000_000 + 60_000_000 / units, "{units}: {wait_us}");
        assert!(limit.take(&mut state, at(START_US + wait_us), 1).allowed());
    }
}

/// Where a number of units has no exact form, one below it has.
#[test]
fn what_cannot_be_exact_is_rounded_down() {
    let day = std::time::Duration::from_hours(24);
    let whole: Limit = Gcra::new(10_000_000_000, day, 10_000_000_000).unwrap().into();
    for units in [9_999_999_999, 1_234_567_891, 7_000_000_001, 3, 1] {
        let in_force = whole.effective(units).units();
        assert!(in_force <= units && in_force * 11 > units * 10, "{units} became {in_force}");
    }
}
