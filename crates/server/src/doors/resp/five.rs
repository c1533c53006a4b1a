//! The five integers of redis-cell, for every decision.

use tidegate::{Decision, EXACT_MAX};

use super::out::Out;

/// Limited, limit, remaining, retry after, reset after; the last two in seconds rounded up, so that who waits that
/// long has waited long enough. To retry is −1 where there is nothing to wait for: allowed, or never.
#[inline]
pub(super) fn write(out: &mut Out, decision: &Decision) {
    let retry = match decision.retry_after_us() {
        Some(us) if !decision.allowed() => seconds_up(us),
        _ => -1,
    };
    out.integers([
        i64::from(!decision.allowed()),
        count(decision.limit()),
        count(decision.remaining()),
        retry,
        seconds_up(decision.reset_after_us()),
    ]);
}

/// A key without a limit has as much as the other doors say.
fn count(units: u64) -> i64 {
    i64::try_from(units.min(EXACT_MAX)).unwrap_or(i64::MAX)
}

fn seconds_up(us: u64) -> i64 {
    i64::try_from(us.div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
