//! Civil edges: they partition time, over centuries, at every offset and over every kind of change.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Every, Limit, LimitError, Quota, State, Transition, Zone};

use crate::support::{at, config};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3600 * SECOND_US;
const DAY_US: i64 = 24 * HOUR_US;
/// 1700-01-01 and 2255-01-01: five and a half centuries, four of their leap rules.
const FROM_US: i64 = -98_615 * DAY_US;
const TO_US: i64 = 104_094 * DAY_US;

const EVERY: [Every; 3] = [Every::Day, Every::Week, Every::Month];

/// 2024-03-31 01:00 UTC, 2024-10-27 01:00 UTC, and the same of 2025.
const BERLIN: [(i64, i32); 4] =
    [(1_711_846_800, 7200), (1_729_990_800, 3600), (1_743_296_400, 7200), (1_761_440_400, 3600)];

fn zone(first_seconds: i32, transitions: &[(i64, i32)]) -> Zone {
    let transition = |&(at_seconds, offset_seconds): &(i64, i32)| Transition {
        at_us: at_seconds * SECOND_US,
        offset_seconds,
    };
    let transitions: Vec<_> = transitions.iter().map(transition).collect();
    Zone::changing(first_seconds, &transitions).unwrap()
}

/// Edges before and after an instant, and their neighbours, name one and the same partition.
fn partitions(every: Every, zone: &Zone, at_us: i64) -> Result<(), TestCaseError> {
    let (before, after) = (every.edge_before(zone, at_us), every.edge_after(zone, at_us));
    prop_assert!(before <= at_us && at_us < after, "{before} {at_us} {after}");
    prop_assert_eq!(every.edge_before(zone, after), after);
    prop_assert_eq!(every.edge_before(zone, before), before);
    prop_assert_eq!(every.edge_after(zone, before), after);
    prop_assert_eq!(every.edge_after(zone, before - 1), before);
    prop_assert_eq!(every.edge_before(zone, after - 1), before);
    Ok(())
}

/// Any zone at all: offsets of almost a day either way, changing after minutes or after months.
fn hostile_zone() -> impl Strategy<Value = Zone> {
    let gap_seconds = prop_oneof![1..7200_i64, 1..200_000_i64, 1..6_000_000_i64];
    let change = (gap_seconds, -86_399..=86_399_i32);
    (-86_399..=86_399_i32, vec(change, 0..8)).prop_map(|(first, changes)| {
        let mut at_seconds = 1_700_000_000;
        let step = |(gap, offset)| {
            at_seconds += gap;
            (at_seconds, offset)
        };
        zone(first, &changes.into_iter().map(step).collect::<Vec<_>>())
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn edges_partition_five_centuries(at_us in FROM_US..TO_US, offset in -840..=840_i64) {
        for every in EVERY {
            partitions(every, &Zone::fixed(offset).unwrap(), at_us)?;
        }
    }

    // An offset moves the edges and changes nothing else.
    #[test]
    fn an_offset_shifts_the_edges(at_us in FROM_US..TO_US, offset in -840..=840_i64) {
        let shift_us = offset * 60 * SECOND_US;
        let zone = Zone::fixed(offset).unwrap();
        for every in EVERY {
            let utc = every.edge_before(&Zone::UTC, at_us + shift_us);
            prop_assert_eq!(every.edge_before(&zone, at_us), utc - shift_us);
        }
    }

    #[test]
    fn edges_partition_time_in_any_zone(
        zone in hostile_zone(), after_us in -10 * DAY_US..90 * DAY_US
    ) {
        for every in EVERY {
            partitions(every, &zone, 1_700_000_000 * SECOND_US + after_us)?;
        }
    }
}

#[test]
fn every_month_of_five_centuries_has_its_length() {
    let mut edge_us = FROM_US;
    for year in 1700..2255_i64 {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let february = if leap { 29 } else { 28 };
        for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            assert_eq!(Every::Month.edge_before(&Zone::UTC, edge_us), edge_us, "in {year}");
            let next_us = Every::Month.edge_after(&Zone::UTC, edge_us);
            assert_eq!((next_us - edge_us) / DAY_US, days, "in {year}");
            edge_us = next_us;
        }
    }
    assert_eq!(edge_us, TO_US);
}

#[test]
fn weeks_begin_on_monday_at_every_offset() {
    let monday_us = 4 * DAY_US; // 1970-01-05
    for offset in -840..=840 {
        let zone = Zone::fixed(offset).unwrap();
        let edge_us = Every::Week.edge_after(&zone, DAY_US);
        assert_eq!(edge_us, monday_us - offset * 60 * SECOND_US);
        assert_eq!(Every::Week.edge_after(&zone, edge_us) - edge_us, 7 * DAY_US);
    }
    for offset in [-841, 841, i64::MIN, i64::MAX] {
        assert_eq!(Zone::fixed(offset), Err(LimitError::OffsetOutOfRange(offset)));
    }
}

#[test]
fn days_in_berlin_have_their_23_and_25_hours() {
    let berlin = zone(3600, &BERLIN);
    let mut edge_us = Every::Day.edge_before(&berlin, 1_704_067_200 * SECOND_US);
    assert_eq!(edge_us, 1_704_063_600 * SECOND_US, "2024 begins at 23:00 UTC");
    let mut odd = vec![];
    for day in 1..=731 {
        let next_us = Every::Day.edge_after(&berlin, edge_us);
        assert_eq!(Every::Day.edge_before(&berlin, next_us - 1), edge_us);
        if next_us - edge_us != DAY_US {
            odd.push((day, (next_us - edge_us) / HOUR_US));
        }
        edge_us = next_us;
    }
    // The last Sundays of March and October, as days since 2023-12-31.
    assert_eq!(odd, [(91, 23), (301, 25), (366 + 89, 23), (366 + 299, 25)]);
    let october_us = Every::Month.edge_before(&berlin, 1_729_990_800 * SECOND_US);
    let length_us = Every::Month.edge_after(&berlin, october_us) - october_us;
    assert_eq!(length_us, 31 * DAY_US + HOUR_US);
}

/// Clocks that go forward over midnight: the day begins at the change. Back over it: at the first of
/// the two midnights, and the hour that comes again belongs to the day begun.
#[test]
fn a_change_at_midnight_makes_one_edge() {
    let midnight = 1_700_006_400; // 2023-11-15 00:00 UTC
    for (name, change, offset, edge) in [
        ("gap from midnight", midnight, 3600, midnight),
        ("gap over midnight", midnight - 1800, 3600, midnight - 1800),
        ("fold back to 23:00", midnight, -3600, midnight + 3600),
        ("fold from 00:30 to 23:30", midnight + 1800, -3600, midnight),
        ("fold from 01:00 to midnight", midnight + 3600, -3600, midnight),
        ("a whole day skipped", midnight, 86_399, midnight),
    ] {
        let zone = zone(0, &[(change, offset)]);
        let start_us = (midnight - 43_200) * SECOND_US;
        let edge_us = edge * SECOND_US;
        assert_eq!(Every::Day.edge_after(&zone, start_us), edge_us, "{name}");
        let next_us = Every::Day.edge_after(&zone, edge_us);
        for at_us in (edge_us..next_us).step_by(1_800 * 1_000_000) {
            assert_eq!(Every::Day.edge_before(&zone, at_us), edge_us, "{name}");
            assert_eq!(Every::Day.edge_after(&zone, at_us), next_us, "{name}");
        }
    }
}

/// From one day's 01:00 back to 01:00 two days before: three days begin only once each.
#[test]
fn a_fold_of_two_days_does_not_begin_a_day_again() {
    let midnight = 1_700_006_400;
    let zone = zone(86_399, &[(midnight, -86_399)]);
    for hours in -72..=96 {
        partitions(Every::Day, &zone, midnight * SECOND_US + hours * HOUR_US).unwrap();
    }
}

#[test]
fn zones_out_of_order_or_beyond_a_day_are_rejected() {
    let change = |at_us, offset_seconds| Transition { at_us, offset_seconds };
    for (first, transitions) in [
        (86_400, vec![]),
        (i32::MIN, vec![]),
        (0, vec![change(0, -86_400)]),
        (0, vec![change(5, 0), change(5, 3600)]),
        (0, vec![change(5, 0), change(4, 3600)]),
    ] {
        assert_eq!(Zone::changing(first, &transitions), Err(LimitError::ZoneInvalid));
    }
}

/// The budget of the day the clocks go back lasts 25 hours.
#[test]
fn a_daily_quota_in_berlin_lasts_the_long_day() {
    let quota: Limit = Quota::calendar(5, Every::Day, zone(3600, &BERLIN)).unwrap().into();
    let midnight_us = (1_729_990_800 - 3 * 3600) * 1_000_000_u64;
    let mut state = State::Empty;
    assert!(quota.take(&mut state, at(midnight_us), 5).allowed());
    let refused = quota.take(&mut state, at(midnight_us), 1);
    assert_eq!(refused.retry_after_us(), Some(25 * HOUR_US.cast_unsigned()));
}
