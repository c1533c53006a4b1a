//! Concurrency: never more in flight than the limit, and every place comes back.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Concurrency, Limit, Permit, State};

use crate::support::{SECOND_US, START_US, at, config, jumpy, micros, period_us};

/// A permit, as its holder sees it: until released, or until the time of a lease has passed.
struct Held {
    permit: Permit,
    since: u64,
}

fn limits() -> impl Strategy<Value = Limit> {
    (1..=12_u64, period_us())
        .prop_map(|(limit, lease)| Concurrency::new(limit, micros(lease)).unwrap().into())
}

fn acquire(limit: &Limit, state: &mut State, now_us: u64, cost: u64) -> Option<Permit> {
    let (decision, change) = limit.decide(state, at(now_us), cost);
    state.apply(change);
    change.permit().filter(|_| decision.allowed())
}

proptest! {
    #![proptest_config(config())]

    // Whatever the clock does. The holders count by themselves: those that have neither released nor
    // seen a lease of time go by.
    #[test]
    fn never_more_in_flight_than_the_limit(
        limit in limits(), raw in vec((any::<u16>(), any::<u8>(), 0..3_u8), 1..24)
    ) {
        let lease_us = u64::try_from(limit.period().as_micros()).unwrap();
        let (mut state, mut now, mut moved) = (State::Empty, START_US, 0_u64);
        let mut held: Vec<Held> = vec![];
        for (gap, pick, action) in raw {
            let gap = jumpy(&limit, gap);
            now = now.saturating_add_signed(gap);
            moved += u64::try_from(gap).unwrap_or(0);
            held.retain(|held| moved - held.since < lease_us);
            if action == 1 && !held.is_empty() {
                let renewed = usize::from(pick) % held.len();
                let before = limit.peek(&state, at(now), 0).remaining();
                let Permit { id, cost, .. } = held[renewed].permit;
                prop_assert!(limit.renew(&mut state, at(now), id, cost), "{id} of {cost}");
                prop_assert!(!limit.renew(&mut state, at(now), id, cost + 1));
                held[renewed].since = moved;
                prop_assert_eq!(limit.peek(&state, at(now), 0).remaining(), before);
            } else if action == 2 && !held.is_empty() {
                let released = held.swap_remove(usize::from(pick) % held.len());
                let before = limit.peek(&state, at(now), 0).remaining();
                prop_assert!(state.release(released.permit.id), "{:?}", released.permit);
                let after = limit.peek(&state, at(now), 0).remaining();
                prop_assert_eq!(after, before + released.permit.cost);
                prop_assert!(!state.release(released.permit.id), "released twice");
            } else {
                let cost = 1 + u64::from(pick) % limit.units();
                if let Some(permit) = acquire(&limit, &mut state, now, cost) {
                    prop_assert_eq!(permit.cost, cost);
                    held.push(Held { permit, since: moved });
                }
            }
            let in_flight: u64 = held.iter().map(|held| held.permit.cost).sum();
            prop_assert!(in_flight <= limit.units(), "{in_flight} in flight");
            prop_assert!(limit.peek(&state, at(now), 0).remaining() <= limit.units() - in_flight);
        }
    }

    // A late release must not free somebody else's place, so an id is never used again, whatever was
    // released in between and wherever the clock stands.
    #[test]
    fn no_permit_id_is_given_twice(
        limit in limits(), raw in vec(any::<(u16, bool)>(), 1..24)
    ) {
        let (mut state, mut now) = (State::Empty, START_US);
        let mut ids = HashSet::new();
        for (gap, release) in raw {
            now = now.saturating_add_signed(jumpy(&limit, gap));
            if let Some(permit) = acquire(&limit, &mut state, now, 1) {
                prop_assert!(ids.insert(permit.id), "id {} given twice", permit.id);
                if release {
                    prop_assert!(state.release(permit.id));
                }
            }
        }
    }

    // A store may drop a state that is idle; the ids go on from the clock.
    #[test]
    fn a_dropped_idle_state_gives_no_id_twice(
        limit in limits(), gaps in vec(0..4_u64, 1..24)
    ) {
        let (mut state, mut now) = (State::Empty, START_US);
        let mut ids = HashSet::new();
        for gap in gaps {
            now += gap / 2;
            if let Some(permit) = acquire(&limit, &mut state, now, 1) {
                prop_assert!(ids.insert(permit.id), "id {} given twice", permit.id);
                prop_assert!(state.release(permit.id));
            }
            if state.idle_from() <= at(now) {
                state = State::Empty;
            }
        }
    }

    // A lowered limit leaves holders in place: the wait lasts until enough of them have ended.
    #[test]
    fn a_lowered_limit_names_the_true_wait(
        gaps in vec(0..200_u64, 1..12), lowered in 1..=6_u64, cost in 1..=6_u64
    ) {
        let wide: Limit = Concurrency::new(12, micros(1000)).unwrap().into();
        let narrow: Limit = Concurrency::new(lowered, micros(1000)).unwrap().into();
        let (mut state, mut now) = (State::Empty, START_US);
        for gap in gaps {
            now += gap;
            let _ = wide.take(&mut state, at(now), 1);
        }
        let decision = narrow.take(&mut state, at(now), cost);
        if let Some(us) = decision.retry_after_us().filter(|us| *us > 0) {
            prop_assert!(narrow.peek(&state, at(now + us), cost).allowed(), "not honest: {us}");
            prop_assert!(!narrow.peek(&state, at(now + us - 1), cost).allowed(), "not minimal");
        }
    }
}

#[test]
fn a_renewed_lease_starts_anew() {
    let limit: Limit = Concurrency::new(1, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    let permit = acquire(&limit, &mut state, START_US, 1).unwrap();
    let last = START_US + SECOND_US - 1;
    assert!(limit.renew(&mut state, at(last), permit.id, 1));
    assert!(acquire(&limit, &mut state, last + SECOND_US - 1, 1).is_none());
    assert!(!limit.renew(&mut state, at(last + SECOND_US), permit.id, 1), "it has ended");
    let next = acquire(&limit, &mut state, last + SECOND_US, 1).unwrap();
    assert!(!limit.renew(&mut state, at(last + SECOND_US), permit.id, 1));
    assert!(limit.renew(&mut state, at(last + SECOND_US), next.id, 1));
    let rate: Limit = "5/s".parse().unwrap();
    assert!(!rate.renew(&mut state, at(last + SECOND_US), next.id, 1), "it has no permits");
}

/// Renewed or not, what is held is written in the order in which it ends: bytes are only read back so.
#[test]
fn renewed_permits_stay_in_order() {
    let limit: Limit = Concurrency::new(3, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    let held: Vec<_> =
        (0..3).map(|n| acquire(&limit, &mut state, START_US + n, 1).unwrap()).collect();
    for (after, renewed) in [(10, 1), (20, 0), (15, 2), (5, 1)] {
        assert!(limit.renew(&mut state, at(START_US + after), held[renewed].id, 1));
        let mut bytes = Vec::new();
        state.write_bytes(&mut bytes);
        assert_eq!(State::from_bytes(&bytes), Some(state.clone()));
    }
}

#[test]
fn an_ended_lease_frees_its_place_at_the_very_instant() {
    let limit: Limit = Concurrency::new(1, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    let permit = acquire(&limit, &mut state, START_US, 1).unwrap();
    assert_eq!(permit.expires_us, START_US + SECOND_US);
    assert!(acquire(&limit, &mut state, START_US + SECOND_US - 1, 1).is_none());
    let next = acquire(&limit, &mut state, START_US + SECOND_US, 1).unwrap();
    assert_ne!(permit.id, next.id);
    assert!(!state.release(permit.id), "the dead holder comes back");
    assert!(acquire(&limit, &mut state, START_US + SECOND_US, 1).is_none());
}

/// Acquired, released and acquired again within one microsecond.
#[test]
fn a_late_release_frees_nobody_elses_place() {
    let limit: Limit = Concurrency::new(1, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    let first = acquire(&limit, &mut state, START_US, 1).unwrap();
    assert!(state.release(first.id));
    let second = acquire(&limit, &mut state, START_US, 1).unwrap();
    assert!(!state.release(first.id));
    assert!(state.release(second.id));
}

#[test]
fn a_refusal_grants_no_permit() {
    let limit: Limit = Concurrency::new(1, micros(SECOND_US)).unwrap().into();
    let mut state = State::Empty;
    assert!(acquire(&limit, &mut state, START_US + 9 * SECOND_US, 1).is_some());
    // The clock steps back: refused and repaired in one.
    let (decision, change) = limit.decide(&state, at(START_US), 1);
    assert!(!decision.allowed() && change.writes());
    assert_eq!(change.permit(), None);
}
