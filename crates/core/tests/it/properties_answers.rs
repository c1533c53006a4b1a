//! What an answer says is true, for every algorithm: the waits, what remains, and that a refusal and a
//! question cost nothing.

use proptest::prelude::*;
use tidegate_core::{State, Timestamp};

use crate::support::{Scene, at, config, jumpy_scene, micros, scene};

/// Calls `check` with every ask, and the state before and after it.
fn each_step(
    scene: &Scene,
    mut check: impl FnMut(Timestamp, u64, &State, &State) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut state = State::Empty;
    for &(now_us, cost) in &scene.asks {
        let before = state.clone();
        let _ = scene.limit.take(&mut state, at(now_us), cost);
        check(at(now_us), cost, &before, &state)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn retry_after_is_honest_and_minimal(scene in jumpy_scene()) {
        each_step(&scene, |now, cost, before, after| {
            let decision = scene.limit.peek(before, now, cost);
            let admitted_in = |us| scene.limit.peek(after, now + micros(us), cost).allowed();
            match decision.retry_after_us() {
                Some(0) => prop_assert!(decision.allowed(), "a refusal that says now"),
                Some(us) => {
                    prop_assert!(!decision.allowed(), "an admission that says later");
                    prop_assert!(admitted_in(us), "not honest: still refused after {us}");
                    prop_assert!(us == 1 || !admitted_in(us - 1), "not minimal: {us}");
                    prop_assert!(us == 1 || !admitted_in(us / 2), "not minimal: {us}");
                }
                None => prop_assert!(cost > scene.limit.ceiling(), "never, but {cost} fits"),
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_cost_above_the_ceiling_is_never_admitted(scene in jumpy_scene(), more in 1..=u64::MAX) {
        each_step(&scene, |now, _, _, after| {
            let cost = scene.limit.ceiling().saturating_add(more);
            let decision = scene.limit.peek(after, now, cost);
            prop_assert_eq!((decision.allowed(), decision.retry_after_us()), (false, None));
            Ok(())
        })?;
    }

    #[test]
    fn reset_after_is_honest_and_minimal(scene in jumpy_scene()) {
        let ceiling = scene.limit.ceiling();
        each_step(&scene, |now, cost, before, after| {
            let decision = scene.limit.peek(before, now, cost);
            let us = decision.reset_after_us();
            let whole_in = |us| scene.limit.peek(after, now + micros(us), ceiling).allowed();
            prop_assert!(whole_in(us), "{ceiling} is not admitted after {us}");
            // A window says when it ends even if nothing was spent in it.
            if decision.remaining() < ceiling {
                prop_assert!(us > 0 && !whole_in(us - 1), "full before {us}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn remaining_is_exact(scene in jumpy_scene()) {
        each_step(&scene, |now, cost, before, after| {
            let left = scene.limit.peek(before, now, cost).remaining();
            prop_assert!(left <= scene.limit.ceiling());
            prop_assert!(scene.limit.peek(after, now, left).allowed());
            prop_assert!(!scene.limit.peek(after, now, left + 1).allowed());
            prop_assert_eq!(scene.limit.peek(after, now, 0).remaining(), left);
            Ok(())
        })?;
    }

    #[test]
    fn a_refusal_consumes_nothing(scene in scene()) {
        each_step(&scene, |now, cost, before, after| {
            if !scene.limit.peek(before, now, cost).allowed() {
                prop_assert_eq!(before, after);
            }
            Ok(())
        })?;
    }

    // On a clock that steps back a refusal may write one thing, the repair; once.
    #[test]
    fn a_repair_is_written_once(scene in jumpy_scene()) {
        each_step(&scene, |now, cost, before, after| {
            let (decision, _) = scene.limit.decide(before, now, cost);
            if !decision.allowed() || cost == 0 {
                let (again, change) = scene.limit.decide(after, now, cost);
                prop_assert!(!change.writes(), "{change:?}");
                prop_assert_eq!(decision, again);
            }
            Ok(())
        })?;
    }

    #[test]
    fn cost_zero_is_admitted_and_writes_nothing(scene in scene()) {
        each_step(&scene, |now, _, _, after| {
            let (decision, change) = scene.limit.decide(after, now, 0);
            prop_assert!(decision.allowed());
            prop_assert_eq!(decision.retry_after_us(), Some(0));
            prop_assert!(!change.writes());
            Ok(())
        })?;
    }

    #[test]
    fn peek_answers_what_take_answers(scene in jumpy_scene()) {
        each_step(&scene, |now, cost, before, after| {
            let mut state = before.clone();
            let peeked = scene.limit.peek(&state, now, cost);
            prop_assert_eq!(&state, before);
            prop_assert_eq!(peeked, scene.limit.take(&mut state, now, cost));
            prop_assert_eq!(&state, after);
            prop_assert_eq!(peeked.limit(), scene.limit.ceiling());
            Ok(())
        })?;
    }

    // From then on the state may be dropped: nobody can tell the difference.
    #[test]
    fn an_idle_state_says_no_more_than_an_empty_one(scene in scene(), later in 0..1000_u64) {
        each_step(&scene, |now, cost, _, after| {
            let idle = after.idle_from().max(now) + micros(later);
            let decided = scene.limit.peek(after, idle, cost);
            prop_assert_eq!(decided, scene.limit.peek(&State::Empty, idle, cost));
            Ok(())
        })?;
    }
}
