//! Fair shares: what the level promises, for any demands; and that the checker notices who divides unfairly.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::Timestamp;
use tidegate_core::share::{Demand, Level, Tenants};

const fn demand(units: u64, weight: u32) -> Demand {
    Demand { units, weight }
}

/// What each tenant gets, in parts of a unit so small that all of them are whole: the level's fraction stays exact.
fn allocation(level: Option<Level>, demands: &[Demand], capacity: u64) -> (Vec<u128>, u128) {
    let (units, weights) = level.map_or((0, 1), |level| level.fraction());
    let gets = |it: &Demand| {
        let asked = u128::from(it.units.min(capacity)) * u128::from(weights);
        match level {
            Some(_) => asked.min(u128::from(units) * u128::from(it.weight)),
            None => asked,
        }
    };
    (demands.iter().map(gets).collect(), weights.into())
}

/// Why an allocation, in parts of which `parts` are a unit, is not the weighted max–min fair one.
fn unfairness(gets: &[u128], demands: &[Demand], capacity: u64, parts: u128) -> Option<String> {
    let asked = |it: &Demand| u128::from(it.units.min(capacity)) * parts;
    let (sum, whole) = (gets.iter().sum::<u128>(), u128::from(capacity) * parts);
    let wanted = demands.iter().map(asked).sum::<u128>().min(whole);
    if sum != wanted {
        return Some(format!("{sum} of {wanted} are given"));
    }
    for (got, it) in gets.iter().zip(demands) {
        if *got > asked(it) {
            return Some(format!("{it:?} got {got}, more than it asked for"));
        }
        // Nobody who wants more has less for its weight than another has.
        let gets_more = |(other, that): &(&u128, &Demand)| {
            **other * u128::from(it.weight) > got * u128::from(that.weight)
        };
        if *got < asked(it) && gets.iter().zip(demands).any(|pair| gets_more(&pair)) {
            return Some(format!(
                "{it:?} got {got}, and another got more for its weight: {gets:?}"
            ));
        }
    }
    None
}

fn any_demands() -> impl Strategy<Value = Vec<Demand>> {
    let units = prop_oneof![0..20_u64, 0..2_000_u64, 0..(1_u64 << 53)];
    let one = (units, 1..1_000_u32).prop_map(|(units, weight)| demand(units, weight));
    prop::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn every_division_is_max_min_fair(demands in any_demands(), capacity in 1..5_000_u64) {
        let level = Level::find(demands.iter().copied(), capacity);
        let (gets, parts) = allocation(level, &demands, capacity);
        prop_assert_eq!(unfairness(&gets, &demands, capacity, parts), None);
    }

    #[test]
    fn the_order_of_demands_does_not_matter(demands in any_demands(), capacity in 1..5_000_u64) {
        let backwards = Level::find(demands.iter().rev().copied(), capacity);
        prop_assert_eq!(Level::find(demands, capacity), backwards);
    }

    #[test]
    fn more_capacity_never_lowers_a_share(demands in any_demands(), capacity in 1..5_000_u64) {
        let share = |capacity| {
            Level::find(demands.iter().copied(), capacity).map_or(u64::MAX, |level| level.share(7))
        };
        prop_assert!(share(capacity) <= share(capacity + 1));
    }

    #[test]
    fn more_demand_of_others_never_raises_a_share(
        demands in any_demands(),
        more in 0..1_000_u64,
        capacity in 1..5_000_u64,
    ) {
        let mut higher = demands.clone();
        if let Some(first) = higher.first_mut() {
            first.units += more;
        }
        let share = |demands: &[Demand]| {
            Level::find(demands.iter().copied(), capacity).map_or(u64::MAX, |level| level.share(7))
        };
        prop_assert!(share(&higher) <= share(&demands));
    }
}

/// First come first served, and equal parts whatever is asked for: both are noticed.
#[test]
fn unfair_divisions_are_noticed() {
    let demands = [demand(10, 1), demand(900, 4), demand(900, 1)];
    let check = |gets: [u128; 3]| unfairness(&gets, &demands, 100, 1);
    assert_eq!(check([10, 72, 18]), None);
    for unfair in [[1, 50, 49], [10, 45, 45], [33, 33, 33], [10, 71, 18], [10, 60, 15], [0, 80, 20]]
    {
        assert!(check(unfair).is_some(), "{unfair:?}");
    }
}

#[test]
fn levels_are_what_a_person_would_compute() {
    let check = |demands: &[Demand], capacity, weight, expected: Option<u64>| {
        let level = Level::find(demands.iter().copied(), capacity);
        assert_eq!(level.map(|level| level.share(weight)), expected, "{demands:?} {capacity}");
    };
    let hog = demand(100_000, 1);
    check(&[], 100, 1, None);
    check(&[hog], 100, 1, None); // alone
    check(&[hog, demand(0, 1)], 100, 1, None);
    check(&[hog, demand(1, 1)], 100, 1, Some(99));
    check(&[hog, hog], 100, 1, Some(50));
    check(&[hog, demand(100_000, 4)], 100, 4, Some(80));
    check(&[hog, demand(30, 4)], 100, 1, Some(70)); // what the heavier one leaves
    check(&[demand(50, 1), demand(50, 1)], 100, 1, None); // exactly fits
    check(&[hog; 300], 100, 1, Some(1)); // a third of a unit, and at least one
    check(
        &[demand(u64::MAX, u32::MAX); 3],
        u64::MAX,
        1,
        Some(u64::MAX / 3 / u64::from(u32::MAX) + 1),
    );
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000) + Duration::from_millis(ms)
}

fn demands(tenants: &Tenants) -> BTreeMap<u64, u64> {
    tenants.demands(1_000).map(|(tenant, demand)| (tenant, demand.units)).collect()
}

#[test]
fn demands_are_those_of_the_last_second() {
    let mut tenants = Tenants::default();
    tenants.end_tick(at(0));
    for ms in (0..2_000).step_by(50) {
        tenants.end_tick(at(ms));
        assert!(tenants.note(1, 1, 3, at(ms)));
        if ms < 500 {
            assert!(tenants.note(2, 1, 1, at(ms)));
        }
    }
    assert!(tenants.end_tick(at(2_000)));
    assert_eq!(demands(&tenants), BTreeMap::from([(1, 60)])); // 20 times 3; the other one has left
    assert!(tenants.end_tick(at(2_500)));
    assert_eq!(demands(&tenants), BTreeMap::from([(1, 30)]));
    assert!(tenants.end_tick(at(1_000)), "the clock has stepped back");
    assert_eq!((tenants.active(), demands(&tenants)), (0, BTreeMap::new()));
}

#[test]
fn who_asks_for_the_whole_limit_is_seen_at_once() {
    let mut tenants = Tenants::default();
    tenants.end_tick(at(0));
    tenants.note(1, 1, 250, at(1));
    tenants.note(2, 1, 249, at(1));
    tenants.end_tick(at(250));
    assert_eq!(demands(&tenants), BTreeMap::from([(1, 1_000), (2, 249)]));
    tenants.end_tick(at(500));
    assert_eq!(demands(&tenants), BTreeMap::from([(1, 250), (2, 249)]), "it was only a burst");
}

#[test]
fn a_thousand_have_an_entry_and_the_rest_share_one() {
    let mut tenants = Tenants::default();
    tenants.end_tick(at(0));
    for _ in 0..5 {
        for tenant in 1..=2_000 {
            tenants.note(tenant, 1, 1, at(1));
        }
    }
    assert_eq!(tenants.active(), 1_000);
    tenants.end_tick(at(250));
    let demands = demands(&tenants);
    assert_eq!(demands.len(), 1_001);
    let rest = demands[&Tenants::REST];
    assert!(rest >= 5_000 && demands.values().sum::<u64>() - rest <= 5_000, "nothing is lost");
}

/// A hundred thousand made-up names a second, each seen once. Tenants that ask all the time stay, and one that is new
/// gets in.
#[test]
fn made_up_names_push_nobody_out() {
    let mut tenants = Tenants::default();
    let (mut name, mut has_entry) = (1_000_u64, false);
    for ms in 0..5_000 {
        tenants.end_tick(at(ms));
        for _ in 0..100 {
            name += 1;
            tenants.note(name, 1, 1, at(ms));
        }
        if ms % 100 == 0 {
            for steady in 1..=300 {
                let known = tenants.note(steady, 1, 1, at(ms));
                assert!(known || ms < 1_000, "{steady} at {ms}");
            }
        }
        if ms >= 2_000 && ms % 50 == 0 {
            has_entry = tenants.note(999, 1, 1, at(ms));
        }
    }
    assert!(has_entry && tenants.active() <= 1_000);
}

/// 2,500 new names a second, each seen once, and one tenant that asks five times a second: the demands are
/// its own and that of all others together, however often entries come free.
#[test]
fn names_seen_once_are_one_tenant_once_entries_are_scarce() {
    let mut tenants = Tenants::default();
    let mut name = 1_000_u64;
    for ms in 0..8_000 {
        if tenants.end_tick(at(ms)) && ms >= 2_000 {
            let demands = demands(&tenants);
            assert_eq!(demands.len(), 2, "at {ms}: {} tenants", demands.len());
            assert!(demands[&1] >= 4 && demands[&Tenants::REST] == 2_500, "at {ms}: {demands:?}");
        }
        for _ in 0..2 + ms % 2 {
            name += 1;
            tenants.note(name, 1, 1, at(ms));
        }
        if ms % 200 == 0 {
            tenants.note(1, 1, 1, at(ms));
        }
    }
    for ms in (8_000..10_000).step_by(100) {
        tenants.end_tick(at(ms));
    }
    assert!(tenants.note(2, 1, 1, at(10_000)), "the flood is over: the first request is enough");
}
