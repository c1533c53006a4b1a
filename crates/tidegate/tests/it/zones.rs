//! Quotas by IANA time zone: days with a clock change have their 23 and 25 hours.

use std::time::Duration;

use tidegate::{Every, Limiter, ManualClock, Quota, Timestamp, zone};

/// How long the day lasts, from a second after its midnight, as a daily quota of one sees it.
fn day_length(zone_name: &str, midnight_utc_s: u64) -> Duration {
    let quota = Quota::calendar(1, Every::Day, zone(zone_name).unwrap()).unwrap();
    let just_after = Timestamp::from_micros((midnight_utc_s + 1) * 1_000_000);
    let limiter = Limiter::builder(quota).clock(ManualClock::at(just_after)).build().unwrap();
    assert!(limiter.check("k").allowed());
    let refused = limiter.check("k");
    refused.retry_after().unwrap() + Duration::from_secs(1)
}

#[test]
fn days_with_a_clock_change_have_their_own_length() {
    let hours = Duration::from_hours;
    let rows = [
        // 2026: Berlin changes on 29 March and 25 October.
        ("Europe/Berlin", 1_774_652_400, hours(24)), // 28 March 00:00 +01:00
        ("Europe/Berlin", 1_774_738_800, hours(23)), // 29 March 00:00 +01:00
        ("Europe/Berlin", 1_774_821_600, hours(24)), // 30 March 00:00 +02:00
        ("Europe/Berlin", 1_792_879_200, hours(25)), // 25 October 00:00 +02:00
        // New York changes on 8 March and 1 November.
        ("America/New_York", 1_772_946_000, hours(23)), // 8 March 00:00 -05:00
        ("America/New_York", 1_793_505_600, hours(25)), // 1 November 00:00 -04:00
        // No change there.
        ("Asia/Kolkata", 1_774_722_600, hours(24)), // 29 March 00:00 +05:30
        ("UTC", 1_774_742_400, hours(24)),
    ];
    for (name, midnight, expected) in rows {
        assert_eq!(day_length(name, midnight), expected, "{name} {midnight}");
    }
}

#[test]
fn a_day_that_starts_at_one_in_the_morning() {
    // Cuba goes from 00:00 to 01:00 on 8 March 2026: that day starts at 05:00 UTC and has 23 hours.
    assert_eq!(day_length("America/Havana", 1_772_946_000), Duration::from_hours(23));
}

#[test]
fn a_name_that_is_no_zone_is_an_error() {
    let error = zone("Europe/Atlantis").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`Europe/Atlantis` is no time zone: expected a name like Europe/Berlin"
    );
}
