//! The byte form: what is written is read back, and what a file or a peer made up is harmless.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Limit, State};

use crate::properties_edges::edgy;
use crate::support::{Scene, any_limit, at, config, jumpy_scene, scene, start_us};

fn bytes_of(state: &State) -> Vec<u8> {
    let mut bytes = vec![];
    state.write_bytes(&mut bytes);
    bytes
}

fn end_state(scene: &Scene) -> State {
    let mut state = State::Empty;
    for &(now_us, cost) in &scene.asks {
        let _ = scene.limit.take(&mut state, at(now_us), cost);
    }
    state
}

/// A tag and words, as a state would have them.
fn made_up() -> impl Strategy<Value = Vec<u8>> {
    // Every third word near the instants that are asked for.
    let word = (edgy(), start_us(), 0..3_u8).prop_map(|(edge, start, kind)| match kind {
        0 => start,
        _ => edge,
    });
    (0..7_u8, vec(word, 0..10)).prop_map(|(tag, words)| {
        let words = words.into_iter().flat_map(u64::to_le_bytes);
        std::iter::once(tag).chain(words).collect()
    })
}

/// Everything that a store does with a state it has read.
fn use_it(limit: &Limit, mut state: State, asks: &[(u64, u64)]) -> Result<(), TestCaseError> {
    let (_, _) = (state.idle_from(), state.heap_bytes());
    for &(now_us, cost) in asks {
        let decision = limit.take(&mut state, at(now_us), cost);
        prop_assert!(decision.remaining() <= limit.ceiling());
        prop_assert!(cost <= limit.ceiling() || !decision.allowed());
        let id = limit.decide(&state, at(now_us), 1).1.permit().map_or(0, |permit| permit.id);
        let _ = state.release(id);
        let _ = limit.refund(&mut state, at(now_us), cost % 5);
        let (_, _) = (state.idle_from(), state.heap_bytes());
        prop_assert_eq!(State::from_bytes(&bytes_of(&state)), Some(state.clone()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// A store that has lost a state may forget that it has, once this time is over.
    #[test]
    fn no_state_matters_for_longer_than_its_limit_says(scene in scene()) {
        let mut state = State::Empty;
        let longest = scene.limit.state_life_max() + std::time::Duration::from_millis(1);
        for &(now_us, cost) in &scene.asks {
            let _ = scene.limit.take(&mut state, at(now_us), cost);
            prop_assert!(state.idle_from() <= at(now_us) + longest, "{:?}", scene.limit);
        }
    }

    #[test]
    fn every_state_round_trips(scene in jumpy_scene()) {
        let state = end_state(&scene);
        prop_assert_eq!(State::from_bytes(&bytes_of(&state)), Some(state));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..80)) {
        if let Some(state) = State::from_bytes(&bytes) {
            prop_assert_eq!(bytes_of(&state), bytes);
        }
    }

    #[test]
    fn accepted_bytes_say_exactly_what_they_say(bytes in made_up()) {
        if let Some(state) = State::from_bytes(&bytes) {
            prop_assert_eq!(bytes_of(&state), bytes);
        }
    }

    // A state of any kind under a limit of any kind: a changed configuration reads what is there.
    #[test]
    fn a_made_up_state_never_panics(
        limit in any_limit(), bytes in made_up(), asks in vec((edgy(), edgy()), 1..4),
        near in vec((start_us(), 0..10_u64), 1..4)
    ) {
        if let Some(state) = State::from_bytes(&bytes) {
            use_it(&limit, state.clone(), &asks)?;
            use_it(&limit, state, &near)?;
        }
    }

    // The shape is right and a word is not: a flipped disk block, or a peer with a bug.
    #[test]
    fn a_damaged_state_never_panics(
        scene in scene(), damage in vec((any::<prop::sample::Index>(), edgy()), 1..4)
    ) {
        let mut bytes = bytes_of(&end_state(&scene));
        let words = bytes.len() / 8;
        for (index, word) in damage.iter().filter(|_| words > 0) {
            let from = 1 + 8 * index.index(words);
            bytes[from..from + 8].copy_from_slice(&word.to_le_bytes());
        }
        if let Some(state) = State::from_bytes(&bytes) {
            use_it(&scene.limit, state, &scene.asks)?;
        }
    }
}

#[test]
fn bytes_that_are_no_state_are_rejected() {
    let with = |tag: u8, words: &[u64]| {
        let mut bytes = vec![tag];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        State::from_bytes(&bytes)
    };
    assert_eq!(State::from_bytes(&[]), None, "no tag");
    assert_eq!(State::from_bytes(&[2, 0, 0]), None, "half a word");
    assert_eq!(with(6, &[]), None, "unknown tag");
    assert_eq!(with(0, &[1]), None, "an empty state that says something");
    assert_eq!(with(1, &[5, 3, 3, 1]), None, "a fraction of a whole tick");
    assert_eq!(with(1, &[5, 0, 1, 10]), None, "a tick that is neither 1 µs nor 1 ms");
    assert_eq!(with(2, &[5]), None, "a window without a count");
    assert_eq!(with(3, &[0, 5, 1, 1]), None, "slots without a width");
    assert_eq!(with(3, &[10, u64::MAX, 1, 1]), None, "a slot beyond all time");
    assert_eq!(with(3, &[10, 5, u64::MAX, 1]), None, "slots whose sum overflows");
    assert_eq!(with(3, &[10, 5, 1]), None, "a single slot");
    assert_eq!(with(4, &[10, 5, 1, 5, 1]), None, "stamps out of order");
    assert_eq!(with(4, &[10, u64::MAX, 1]), None, "a stamp beyond all time");
    assert_eq!(with(4, &[10, 5, u64::MAX, 6, 1]), None, "stamps whose sum overflows");
    assert_eq!(with(4, &[10, 5, 600_000, 6, 400_001]), None, "more units than any log admits");
    assert_eq!(with(4, &[10, 5, 0]), None, "a stamp of nothing");
    assert_eq!(with(5, &[]), None, "permits without the next id");
    assert_eq!(with(5, &[9, 1, 1]), None, "half a permit");
    assert_eq!(with(5, &[9, 9, 1, 20, 10]), None, "an id that is not given yet");
    assert_eq!(with(5, &[u64::MAX, 9, 1, 20, 10]), None, "an id beyond all time");
    assert_eq!(with(5, &[9, 1, 1, 20, 10, 2, 1, 19, 10]), None, "leases out of order");
    assert_eq!(with(5, &[9, 1, u64::MAX, 20, 10, 2, 1, 20, 10]), None, "an overflowing sum");
}
