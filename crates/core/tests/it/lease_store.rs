//! The store's side of leases: what it keeps, what it grants, and what may come back.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{
    Change, Concurrency, Grant, GrantRequest, LeaseError, Limit, Return, State, Terms, Timestamp,
    Weighted, grant,
};

use crate::support::{
    START_US, any_limit, at, config, cost_for, forward, jumpy, micros, milli_tick,
};

/// Grants and writes, as a store does.
fn take_lease(
    limits: &[Limit],
    states: &mut [State],
    now: Timestamp,
    wanted: GrantRequest,
) -> Grant {
    let mut changes = vec![Change::KEEP; limits.len()];
    let granted = grant(limits.iter().zip(&*states), &mut changes, now, wanted).unwrap();
    states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
    granted
}

fn leasable() -> impl Strategy<Value = Limit> {
    any_limit().prop_filter("concurrency cannot be leased", |limit| limit.lease_ttl().is_ok())
}

/// What others do meanwhile: time passes, and they spend.
type Others = Vec<(u16, u16)>;

/// Two histories of one key: with a lease of which units come back, and as if these had never been granted.
struct Histories<'a> {
    limit: &'a Limit,
    now_us: u64,
    leased: State,
    without: State,
}

impl Histories<'_> {
    /// Others spend what the first history admits. Says whether the second admits it too.
    fn others_fit(&mut self, others: Others) -> bool {
        others.into_iter().all(|(gap, cost)| {
            self.now_us = self.now_us.saturating_add_signed(forward(self.limit, gap));
            let (now, cost) = (at(self.now_us), cost_for(self.limit.ceiling(), cost));
            let admitted = self.limit.take(&mut self.leased, now, cost).allowed();
            !admitted || self.limit.take(&mut self.without, now, cost).allowed()
        })
    }
}

/// Whether whatever is admitted beside a lease, and after `back` of its units have come back, would also have
/// been admitted had these units never been granted.
fn never_gains(
    limit: &Limit,
    (before, between, after): (Others, Others, Others),
    (most, back): (u64, u64),
    give_back: impl Fn(&mut State, Timestamp, Return),
) -> bool {
    let (leased, without) = (State::Empty, State::Empty);
    let mut both = Histories { limit, now_us: START_US, leased, without };
    assert!(both.others_fit(before));
    let granted_at = at(both.now_us);
    let (limits, states) = (std::slice::from_ref(limit), std::slice::from_mut(&mut both.leased));
    let units = take_lease(limits, states, granted_at, GrantRequest { least: 1, most }).units;
    let back = back.min(units);
    assert!(units == back || limit.take(&mut both.without, granted_at, units - back).allowed());
    let fits = both.others_fit(between);
    let now = at(both.now_us);
    let age = now.since(granted_at);
    give_back(&mut both.leased, now, Return { units: back, granted_at, age });
    // At once, everything that is left; then whatever comes.
    let left = limit.peek(&both.leased, now, 0).remaining();
    let all_of_it = limit.peek(&both.without, now, left).allowed();
    fits && all_of_it && both.others_fit(after)
}

fn others() -> impl Strategy<Value = (Others, Others, Others)> {
    let some = || vec(any::<(u16, u16)>(), 0..6);
    (some(), some(), some())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_comes_back_leaves_no_more_than_if_it_had_never_been_granted(
        limit in leasable(), others in others(), most in 1..=12_u64, back in 1..=12_u64
    ) {
        let give_back = |state: &mut State, now, back| { let _ = limit.give_back(state, now, back); };
        prop_assert!(never_gains(&limit, others, (most, back), give_back));
    }

    // Where nothing has passed, all of it comes back.
    #[test]
    fn what_comes_back_at_once_comes_back_whole(
        limit in leasable(), most in 1..=12_u64, start in START_US..START_US + 5_000_000
    ) {
        let mut state = State::Empty;
        let wanted = GrantRequest { least: 1, most };
        let granted = take_lease(std::slice::from_ref(&limit), std::slice::from_mut(&mut state), at(start), wanted);
        let back = Return { units: granted.units, granted_at: at(start), age: micros(0) };
        prop_assert_eq!(limit.give_back(&mut state, at(start), back).remaining(), limit.ceiling());
    }

    // Whatever the clock does and whatever is sent: never above the ceiling, never more than was sent.
    #[test]
    fn a_return_gives_at_most_its_units(
        limit in any_limit(), raw in vec(any::<(u16, u16, u8)>(), 1..16), age in 0..2_000_000_u64
    ) {
        let (mut state, mut now) = (State::Empty, START_US);
        for (gap, cost, units) in raw {
            let granted_at = at(now);
            now = now.saturating_add_signed(jumpy(&limit, gap));
            let _ = limit.take(&mut state, at(now), cost_for(limit.ceiling(), cost));
            let before = limit.peek(&state, at(now), 0).remaining();
            let back = Return { units: u64::from(units), granted_at, age: micros(age) };
            let after = limit.give_back(&mut state, at(now), back).remaining();
            prop_assert!(before <= after && after <= (before + u64::from(units)).min(limit.ceiling()));
        }
    }

    // A grant is a check of what is there: all limits are charged the same, or none is.
    #[test]
    fn a_grant_is_what_the_smallest_limit_has_left(
        limits in vec(leasable(), 1..4), raw in vec(any::<(u16, u16, u16)>(), 1..8)
    ) {
        let (mut states, mut now) = (vec![State::Empty; limits.len()], START_US);
        for (gap, least, most) in raw {
            now = now.saturating_add_signed(forward(&limits[0], gap));
            let ceiling = limits.iter().map(Limit::ceiling).min().unwrap();
            let wanted = GrantRequest { least: cost_for(ceiling, least), most: cost_for(ceiling, most) };
            let left = |states: &[State]| {
                let each = limits.iter().zip(states);
                each.map(|(limit, state)| limit.peek(state, at(now), 0).remaining()).collect::<Vec<_>>()
            };
            let before = left(&states);
            let least_left = *before.iter().min().unwrap();
            let granted = take_lease(&limits, &mut states, at(now), wanted);
            let least = wanted.least.max(1);
            let expected = if least_left < least { 0 } else { least_left.min(wanted.most.max(least)) };
            prop_assert_eq!(granted.units, expected);
            prop_assert_eq!(granted.verdict.decision.allowed(), expected > 0);
            prop_assert_eq!(granted.verdict.decision.retry_after_us() == Some(0), expected > 0);
            let after: Vec<u64> = before.iter().map(|left| left - expected).collect();
            prop_assert_eq!(left(&states), after);
        }
    }
}

/// The control: credited in full, a unit that time has already refilled can be spent again.
#[test]
fn a_plain_refund_instead_of_a_return_is_noticed() {
    let limit: Limit = "10/s burst 10".parse().unwrap();
    let raw = |gap: u16, cost: u16| (gap * 4 + 3, cost);
    // A second later everything is refilled, and somebody spends the ceiling; then ten come back.
    let others = (vec![], vec![raw(8192, 1)], vec![]);
    let check = |give_back: &dyn Fn(&mut State, Timestamp, Return)| {
        never_gains(&limit, others.clone(), (10, 10), give_back)
    };
    assert!(check(&|state, now, back| {
        limit.give_back(state, now, back);
    }));
    assert!(!check(&|state, now, back| {
        limit.refund(state, now, back.units);
    }));
}

#[test]
fn what_cannot_be_leased_says_why() {
    let text = |text: &str| text.parse::<Limit>().unwrap();
    for (limit, error) in [
        (Concurrency::new(5, micros(1_000)).unwrap().into(), LeaseError::Concurrency),
        (text("10/s burst 1"), LeaseError::BurstTooSmall { burst: 1 }),
        (text("token-bucket 10/s capacity 1"), LeaseError::BurstTooSmall { burst: 1 }),
        (text("fixed-window 10/19us"), LeaseError::TooShort),
        (text("sliding-log 10/49us"), LeaseError::TooShort),
        (text("sliding-log 10/9007199254740992us"), LeaseError::TooLong),
        (text("1000000/s burst 3"), LeaseError::TooShort),
    ] {
        assert_eq!(Terms::from_limits([&limit]), Err(error), "{limit:?}");
        assert!(error.to_string().len() > 20);
    }
    assert_eq!(Terms::from_limits([]), Err(LeaseError::NoLimit));
}

/// The ceiling of the reduced limit is exact: a cost of it is admitted, one more never.
#[test]
fn the_reduced_burst_keeps_its_fraction() {
    for (limit, ceiling) in [
        ("10/s burst 2".parse::<Limit>().unwrap(), 1), // 150 of 200 ms
        ("3/s burst 5".parse().unwrap(), 3),           // 1.25 of 1.67 s
        ("1000/s burst 1000".parse().unwrap(), 750),
        ("10/min burst 100".parse().unwrap(), 99), // a second at most
        (milli_tick(1, 1), 999_988),               // a second of about 86 ms each, in whole ms
    ] {
        let kept = limit.leased(limit.lease_ttl().unwrap()).unwrap();
        assert_eq!(kept.ceiling(), ceiling, "{limit:?}");
        let mut state = State::Empty;
        assert_eq!(kept.peek(&state, at(START_US), ceiling + 1).retry_after_us(), None);
        assert_eq!(kept.take(&mut state, at(START_US), ceiling).remaining(), 0);
        // What is left of the tolerance is kept: the next unit comes earlier than its whole interval.
        let wait_us = kept.peek(&state, at(START_US), 1).retry_after_us().unwrap();
        assert!(kept.take(&mut state, at(START_US + wait_us), 1).allowed(), "{limit:?}");
    }
}

/// A lease ends with the window, the slot or the calendar day that pays for it, and not before.
#[test]
fn a_lease_ends_with_its_window() {
    let day_us = 86_400_000_000;
    for (text, length_us) in [
        ("fixed-window 5/min", Some(60_000_000)),
        ("quota 5/90s", Some(90_000_000)),
        ("quota 5/day", Some(day_us)),
        ("sliding-window 5/min", Some(6_000_000)),
        ("quota 5/h rolling buckets 60", Some(60_000_000)),
        ("sliding-log 5/h", None),
        ("5/h", None),
    ] {
        let limits = [text.parse::<Limit>().unwrap()];
        let wanted = GrantRequest { least: 1, most: 2 };
        let granted = take_lease(&limits, &mut [State::Empty], at(START_US), wanted);
        let left_us = length_us.map_or(u64::MAX, |length: u64| length - START_US % length);
        assert_eq!((granted.units, granted.ends_after_us), (2, left_us), "{text}");
    }
    // Of several, the first to end.
    let limits =
        ["5/s", "fixed-window 5/h", "fixed-window 5/min"].map(|text| text.parse().unwrap());
    let wanted = GrantRequest { least: 1, most: 2 };
    let granted = take_lease(&limits, &mut [const { State::Empty }; 3], at(START_US), wanted);
    assert_eq!(granted.ends_after_us, 60_000_000 - START_US % 60_000_000);
}

/// Charged to another instant than now, units could only come back out of somebody else's.
#[test]
fn what_was_granted_after_a_step_back_does_not_come_back() {
    for (text, back_us, returnable) in [
        ("sliding-log 5/h", 1, false),
        ("fixed-window 5/s", 1_000_000, false),
        ("sliding-window 5/s", 100_000, false),
        ("sliding-window 5/s", 0, true),
        ("5/s", 1_000_000, true),
    ] {
        let limits = [text.parse::<Limit>().unwrap()];
        let mut states = [State::Empty];
        assert!(limits[0].take(&mut states[0], at(START_US), 1).allowed());
        let now = at(START_US - back_us);
        let granted = take_lease(&limits, &mut states, now, GrantRequest { least: 1, most: 2 });
        assert_eq!(granted.granted_at, returnable.then_some(now), "{text}");
    }
}

proptest! {
    #![proptest_config(config())]

    /// A lease of limits that take several units each is as large as the tightest of them allows, charges each its
    /// multiple, and says when the next is there.
    #[test]
    fn a_lease_charges_each_limit_its_multiple(
        limits in vec((leasable(), 1..6_u64), 1..4), start in 0..1_000_000_u64,
        steps in vec((any::<u16>(), 1..4_u64, 0..40_u64), 1..8)
    ) {
        let mut states = vec![State::Empty; limits.len()];
        let mut now_us = START_US + start;
        for (gap, least, more) in steps {
            now_us = now_us.saturating_add_signed(forward(&limits[0].0, gap));
            let (now, most) = (at(now_us), least + more);
            let left = limits.iter().zip(&states);
            let left = left.map(|((limit, factor), state)| limit.peek(state, now, 0).remaining() / factor);
            let left = left.min().unwrap();
            let mut changes = vec![Change::KEEP; limits.len()];
            let parts = limits.iter().zip(&states);
            let parts = parts.map(|((limit, factor), state)| Weighted { limit, state, factor: *factor });
            let granted = grant(parts, &mut changes, now, GrantRequest { least, most }).unwrap();
            prop_assert_eq!(granted.units, if left < least { 0 } else { left.min(most) });
            let before = states.clone();
            states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
            for (((limit, factor), state), before) in limits.iter().zip(&states).zip(&before) {
                let spent = |state| limit.peek(state, now, 0).remaining();
                prop_assert_eq!(spent(before) - spent(state), granted.units * factor);
            }
            if granted.more_after_us < 1 << 50 {
                let then = at(now_us + granted.more_after_us);
                let admits = |((limit, factor), state): (&(Limit, u64), &State)| {
                    limit.peek(state, then, least * factor).allowed()
                };
                prop_assert!(limits.iter().zip(&states).all(admits));
            }
        }
    }
}
