//! The places of one node: each lease is used by one request at a time, and comes back once.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::adaptive::{Entry, Place, Places};

use crate::support::config;

/// Longer than any place is spare.
const A_WHILE_US: u64 = 2_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whereabouts {
    InUse,
    Spare { since_us: u64 },
    Released,
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_lease_is_in_use_spare_or_released(
        share in 1..6_u64,
        steps in vec((0..6_u8, 0..2_000_000_u64, any::<u8>(), 0..8_u64), 1..60),
    ) {
        let mut places = Places::default();
        let mut used: Vec<Place<u64>> = vec![];
        let mut leases: BTreeMap<u64, Whereabouts> = BTreeMap::new();
        let (mut now_us, mut next, mut ended_before) = (0, 0, 0);
        for (action, gap, pick, short) in steps {
            now_us += if short == 0 { gap } else { short * 700 };
            match action {
                0 | 1 => match places.enter(now_us, |lease| *lease >= ended_before) {
                    Entry::Place(place) => {
                        let lease = *place.lease();
                        prop_assert!(lease >= ended_before, "its lease has ended");
                        let is_spare = matches!(leases[&lease], Whereabouts::Spare { .. });
                        prop_assert!(is_spare, "it was spare");
                        leases.insert(lease, Whereabouts::InUse);
                        used.push(place);
                    }
                    Entry::Ask => {
                        prop_assert_eq!(places.spare(), 0);
                        for at in leases.values_mut().filter(|it| **it != Whereabouts::InUse) {
                            *at = Whereabouts::Released;
                        }
                        used.push(places.granted(next, now_us));
                        leases.insert(next, Whereabouts::InUse);
                        next += 1;
                    }
                    Entry::Full => {
                        prop_assert!(!places.has_room(now_us));
                        for at in leases.values_mut().filter(|it| **it != Whereabouts::InUse) {
                            *at = Whereabouts::Released;
                        }
                    }
                },
                2 if !used.is_empty() => {
                    let place = used.swap_remove(usize::from(pick) % used.len());
                    let lease = *place.lease();
                    let back = places.leave(place, now_us);
                    prop_assert!(back.is_none_or(|back| back == lease));
                    let at = Whereabouts::Spare { since_us: now_us };
                    leases.insert(lease, if back.is_some() { Whereabouts::Released } else { at });
                }
                3 => {
                    for lease in places.take_unneeded(now_us) {
                        let before = leases.insert(lease, Whereabouts::Released);
                        let is_old = |since_us: u64| now_us - since_us >= A_WHILE_US;
                        let is_spare = |at| matches!(at, Whereabouts::Spare { since_us } if is_old(since_us));
                        prop_assert!(before.is_some_and(is_spare), "{:?}", before);
                    }
                    prop_assert_eq!(places.take_unneeded(now_us), [0; 0]);
                }
                4 => {
                    let before = places.in_use();
                    let place = places.granted_by_share(next, now_us, share);
                    prop_assert_eq!(place.is_some(), before < share);
                    leases.extend(place.is_some().then_some((next, Whereabouts::InUse)));
                    used.extend(place);
                    next += 1;
                }
                5 if pick < 20 => ended_before = next,
                _ => places.refused(now_us),
            }
            let count = |wanted: fn(&Whereabouts) -> bool| leases.values().filter(|it| wanted(it)).count();
            prop_assert_eq!(places.in_use(), used.len() as u64);
            prop_assert_eq!(used.len(), count(|it| *it == Whereabouts::InUse));
            let spare = count(|it| matches!(it, Whereabouts::Spare { .. }));
            prop_assert!(places.spare() <= spare, "{} of {}", places.spare(), spare);
        }
    }
}

#[test]
fn a_refusal_holds_for_a_moment_and_never_hides_a_spare_place() {
    let mut places = Places::default();
    let place = places.granted((), 0);
    places.refused(100);
    assert!(!places.has_room(5_099) && places.has_room(5_100));
    assert!(matches!(places.enter(200, |()| true), Entry::Full));
    assert_eq!(places.leave(place, 300), None);
    assert!(places.has_room(400));
    assert!(matches!(places.enter(400, |()| true), Entry::Place(_)));
}

#[test]
fn a_place_by_share_is_not_kept_for_a_next_request() {
    let mut places = Places::default();
    let place = places.granted_by_share((), 0, 5).unwrap();
    assert_eq!(places.leave(place, 1), Some(()));
    assert_eq!((places.in_use(), places.spare()), (0, 0));
}

#[test]
fn leases_beyond_the_share_count_while_the_counter_cannot_be_asked() {
    let mut places = Places::default();
    let held: Vec<_> = (0..4).map(|_| places.granted((), 0)).collect();
    assert!(places.granted_by_share((), 0, 4).is_none());
    for place in held {
        let _ = places.leave(place, 1);
    }
    assert_eq!(places.take_spare().len(), 4);
    assert!(places.granted_by_share((), 2, 4).is_some());
}

#[test]
fn a_node_goes_by_its_share_only_while_no_answer_comes() {
    let answers: [fn(&mut Places<()>, u64); 3] = [
        |places, now_us| drop(places.granted((), now_us)),
        |places, now_us| places.refused(now_us),
        |places, _| places.answered(),
    ];
    for answer in answers {
        let mut places = Places::default();
        assert!(!places.unanswered(0) && places.is_unanswered());
        assert!(!places.has_room(4_999) && places.has_room(5_000));
        assert!(!places.is_by_share(499_999) && places.is_by_share(500_000));
        // Slow answers now and then are no outage.
        answer(&mut places, 400_000);
        assert!(!places.is_unanswered() && !places.is_by_share(10_000_000));
        assert!(!places.unanswered(10_000_000) && !places.unanswered(10_499_999));
        assert!(places.unanswered(10_500_000));
        answer(&mut places, 10_600_000);
        assert!(!places.is_by_share(u64::MAX));
    }
}
