//! Latency, slow commands, and the clocks.

use tidegate::driver::millis;

use super::{Check, Facts, Finding};

/// What a decision may take by default.
const DEADLINE_US: u64 = tidegate::deadline::DEFAULT.subsec_micros() as u64;
/// Clocks that are kept in time differ by less.
const SKEW_US: u64 = 1_000_000;

pub(super) const CHECKS: &[Check] = &[round_trip, slow, events, clock];

fn round_trip(facts: &Facts) -> Option<Finding> {
    Finding::times("round-trip", "PING", &facts.pings_us)
}

fn slow(facts: &Facts) -> Option<Finding> {
    let slow = facts.slow?;
    if slow.entries == 0 {
        return Some(Finding::ok("slowlog", "empty"));
    }
    let (entries, slowest) = (slow.entries, millis(slow.slowest_us));
    let seen = format!("{entries} in it; the slowest of the last ones took {slowest}");
    Some(if slow.slowest_us >= DEADLINE_US {
        Finding::note("slowlog", seen)
            .risk("checks that came meanwhile missed their deadline of 20 ms")
            .remedy(facts.cli("SLOWLOG GET 16"))
    } else {
        Finding::ok("slowlog", seen)
    })
}

fn events(facts: &Facts) -> Option<Finding> {
    let worst = facts.events.iter().max_by_key(|(_, ms)| *ms)?;
    let names: Vec<_> = facts.events.iter().map(|(name, ms)| format!("{name} {ms} ms")).collect();
    let seen = format!("longest so far: {}", names.join(", "));
    Some(if worst.1 >= DEADLINE_US / 1_000 {
        Finding::note("latency-events", seen)
            .risk("checks that came meanwhile missed their deadline of 20 ms")
            .remedy(facts.cli("LATENCY DOCTOR"))
    } else {
        Finding::ok("latency-events", seen)
    })
}

fn clock(facts: &Facts) -> Option<Finding> {
    let skew = facts.skew?;
    let (us, within) = (skew.ahead_us.unsigned_abs(), millis(skew.within_us));
    let way = if skew.ahead_us < 0 { "behind" } else { "ahead of" };
    let seen = format!("Redis is {} {way} this machine, give or take {within}", millis(us));
    Some(if us > SKEW_US.saturating_add(skew.within_us) {
        Finding::note("clock", seen)
            .risk(
                "none for limits, which go by Redis' clock alone; but logs of both do not line up",
            )
            .remedy("timedatectl status    # on both machines: is the clock synchronised?")
    } else {
        Finding::ok("clock", seen)
    })
}
