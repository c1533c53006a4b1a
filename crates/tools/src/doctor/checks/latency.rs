//! Latency, slow commands, and the clocks.

use super::{Check, Facts, Finding, millis};

/// What a decision may take by default.
const DEADLINE_US: u64 = tidegate::deadline::DEFAULT.subsec_micros() as u64;
/// The breaker opens above this p99 by default.
const BREAKER_US: u64 = 10_000;
/// More than a network within one place needs.
const NEAR_US: u64 = 2_000;
/// Clocks that are kept in time differ by less.
const SKEW_US: u64 = 1_000_000;

pub(super) const CHECKS: &[Check] = &[round_trip, slow, events, clock];

fn round_trip(facts: &Facts) -> Option<Finding> {
    times("round-trip", "PING", &facts.pings_us)
}

/// What the script itself takes, all in. The times are sorted.
pub(in super::super) fn script_times(times_us: &[u64]) -> Option<Finding> {
    times("script-time", "a check", times_us)
}

fn times(check: &'static str, what: &str, sorted_us: &[u64]) -> Option<Finding> {
    let (median, p99) = (percentile(sorted_us, 50)?, percentile(sorted_us, 99)?);
    let count = sorted_us.len();
    let seen = format!("{what} takes {}, p99 {} ({count} of them)", millis(median), millis(p99));
    let closer = "run tidegate nearer to Redis, or give the policies a longer deadline";
    Some(if median >= DEADLINE_US {
        Finding::fault(check, seen)
            .risk("most decisions miss the deadline of 20 ms, and on_store_error decides")
            .remedy(closer)
    } else if p99 >= BREAKER_US {
        Finding::warning(check, seen)
            .risk("with a p99 above 10 ms the breaker opens, and on_store_error decides")
            .remedy(closer)
    } else if median >= NEAR_US {
        Finding::note(check, seen)
            .risk("every decision that needs Redis waits that long; leases save most of them")
            .remedy("run tidegate nearer to Redis, or set lease: true where a policy may")
    } else {
        Finding::ok(check, seen)
    })
}

/// The nearest rank.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
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
