//! Refunds give back what was spent, and nothing that was not.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Limit, State};

use crate::support::{
    DAY_US, START_US, any_limit, at, config, cost_for, forward, jumpy, micros, scene,
};

proptest! {
    #![proptest_config(config())]

    // Exactly the amount, up to the ceiling. Only a sliding window may give less: the units of its
    // leaving slot count for a part.
    #[test]
    fn a_refund_gives_back_the_amount_and_never_above_the_ceiling(
        scene in scene(), amount in 0..30_u64
    ) {
        let limit = &scene.limit;
        let mut state = State::Empty;
        for &(now_us, cost) in &scene.asks {
            let _ = limit.take(&mut state, at(now_us), cost);
            let mut refunded = state.clone();
            let before = limit.peek(&state, at(now_us), 0).remaining();
            let decision = limit.refund(&mut refunded, at(now_us), amount);
            let full = (before + amount).min(limit.ceiling());
            match state {
                State::Permits(_) => prop_assert_eq!(decision.remaining(), before),
                State::Slots(_) => prop_assert!((before..=full).contains(&decision.remaining())),
                _ => prop_assert_eq!(decision.remaining(), full),
            }
            prop_assert!(decision.allowed());
            prop_assert_eq!(decision, limit.peek(&refunded, at(now_us), 0));
        }
    }

    // Net of what was given back, no more passes than without refunds: per instant, per window.
    #[test]
    fn refunds_never_let_more_through_than_the_ceiling_at_one_instant(
        limit in any_limit(), raw in vec((any::<u16>(), any::<bool>()), 1..20)
    ) {
        let (mut state, mut net, mut given) = (State::Empty, 0_u64, 0);
        for (raw, refund) in raw {
            let cost = cost_for(limit.ceiling(), raw);
            if refund {
                let before = limit.peek(&state, at(START_US), 0).remaining();
                let after = limit.refund(&mut state, at(START_US), cost).remaining();
                given = after - before;
                net -= given;
            } else if limit.take(&mut state, at(START_US), cost).allowed() {
                net += cost;
            }
            prop_assert!(net <= limit.ceiling(), "{net} in use, {given} given back");
            prop_assert_eq!(limit.peek(&state, at(START_US), 0).remaining(), limit.ceiling() - net);
        }
    }

    #[test]
    fn a_refund_after_expiry_is_harmless(scene in scene(), amount in 1..=u64::MAX) {
        let limit = &scene.limit;
        let mut state = State::Empty;
        for &(now_us, cost) in &scene.asks {
            let _ = limit.take(&mut state, at(now_us), cost);
        }
        let later = at(scene.asks.last().unwrap().0).max(state.idle_from()) + micros(DAY_US);
        let decision = limit.refund(&mut state, later, amount);
        prop_assert_eq!(decision.remaining(), limit.ceiling());
        prop_assert!(limit.take(&mut state, later, limit.ceiling()).allowed());
        prop_assert!(!limit.take(&mut state, later, 1).allowed());
    }

    // Whatever the clock does: a refund raises what remains by its amount at most.
    #[test]
    fn a_refund_on_a_clock_that_steps_back_gives_at_most_the_amount(
        limit in any_limit(), raw in vec(any::<(u16, u16, u8)>(), 1..16)
    ) {
        let (mut state, mut now) = (State::Empty, START_US);
        for (gap, cost, amount) in raw {
            let gap = if amount % 2 == 0 { jumpy(&limit, gap) } else { forward(&limit, gap) };
            now = now.saturating_add_signed(gap);
            let _ = limit.take(&mut state, at(now), cost_for(limit.ceiling(), cost));
            let before = limit.peek(&state, at(now), 0).remaining();
            let after = limit.refund(&mut state, at(now), u64::from(amount % 16)).remaining();
            prop_assert!(before <= after && after <= before + u64::from(amount % 16));
        }
    }
}

#[test]
fn a_refund_of_nothing_spent_writes_nothing() {
    for text in
        ["10/s", "fixed-window 10/s", "sliding-window 10/s", "sliding-log 10/s", "quota 1/day"]
    {
        let limit: Limit = text.parse().unwrap();
        let mut state = State::Empty;
        let decision = limit.refund(&mut state, at(START_US), 5);
        assert_eq!((decision.remaining(), state), (limit.ceiling(), State::Empty), "{text}");
    }
}

/// The newest unit comes back, so the oldest still expires first.
#[test]
fn a_sliding_log_gives_back_the_newest_unit() {
    let limit: Limit = "sliding-log 2/s".parse().unwrap();
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(START_US), 1).allowed());
    assert!(limit.take(&mut state, at(START_US + 400_000), 1).allowed());
    let decision = limit.refund(&mut state, at(START_US + 500_000), 1);
    assert_eq!((decision.remaining(), decision.reset_after_us()), (1, 500_000));
}

/// Likewise in slots: after the refund only the older slot is left to wait for.
#[test]
fn a_sliding_window_gives_back_the_newest_unit() {
    let limit: Limit = "sliding-window 4/s buckets 2".parse().unwrap();
    let slot_us = START_US - START_US % 500_000;
    let mut state = State::Empty;
    assert!(limit.take(&mut state, at(slot_us), 1).allowed());
    assert!(limit.take(&mut state, at(slot_us + 500_000), 1).allowed());
    let decision = limit.refund(&mut state, at(slot_us + 500_000), 1);
    assert_eq!((decision.remaining(), decision.reset_after_us()), (3, 1_000_000));
}
