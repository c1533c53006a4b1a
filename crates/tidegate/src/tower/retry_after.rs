//! The seconds of `Retry-After`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// 2^64 divided by the golden ratio: multiples of it, taken modulo 2^64, are spread evenly however many there are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads better than independent random numbers: of any 14 refusals with a wait of a second, one gets two.
static POSITION: AtomicU64 = AtomicU64::new(0);

/// A wait in whole seconds, rounded up, at least one, plus up to a fifth, so that those who were refused together do
/// not come back together: a tenth more on average. A fifth of less than five seconds is less than one, so there one
/// second more is given to some: to one in ten of those who wait for one second. Never less than the wait.
///
/// ```
/// use std::time::Duration;
/// use tidegate::tower::retry_after_s;
///
/// assert!((1..=2).contains(&retry_after_s(Duration::from_millis(300))));
/// assert!((60..=72).contains(&retry_after_s(Duration::from_secs(60))));
/// ```
pub fn retry_after_s(wait: Duration) -> u64 {
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
    let position = POSITION.fetch_add(GOLDEN, Relaxed);
    let more = match seconds {
        ..5 => u64::from(part(10, position) < seconds),
        _ => part(seconds / 5 + 1, position),
    };
    seconds.saturating_add(more)
}

/// A whole number below `of`: as far into it as the position is into 2^64.
fn part(of: u64, position: u64) -> u64 {
    u64::try_from((u128::from(of) * u128::from(position)) >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_at_most_and_a_tenth_on_average_and_never_too_early() {
        for seconds in (1..=30).chain([100, 3600, 86_400 * 365]) {
            let drawn: Vec<_> =
                (0..2000).map(|_| retry_after_s(Duration::from_secs(seconds))).collect();
            let (least, most) = (*drawn.iter().min().unwrap(), *drawn.iter().max().unwrap());
            assert!(least >= seconds && most <= seconds + (seconds / 5).max(1), "{seconds}");
            // Whole seconds: a fifth of 9 is 1, so that up to a tenth is lost to rounding.
            let more: u64 = drawn.iter().map(|it| it - seconds).sum();
            let (from, to) = (2000 * seconds / 20, 2000 * seconds * 11 / 100 + 20);
            assert!((from..=to).contains(&more), "{more} s more for {seconds} s");
        }
    }

    #[test]
    fn not_all_who_are_refused_for_a_second_come_back_together() {
        for millis in [0, 1, 300, 1000] {
            let drawn: Vec<_> =
                (0..200).map(|_| retry_after_s(Duration::from_millis(millis))).collect();
            // Other tests draw in between.
            for run in drawn.chunks(50) {
                assert!(run.contains(&1) && run.contains(&2), "{run:?}");
            }
        }
    }

    #[test]
    fn a_wait_is_rounded_up() {
        for _ in 0..100 {
            assert!(retry_after_s(Duration::from_millis(4001)) >= 5);
            assert_eq!(retry_after_s(Duration::MAX), u64::MAX);
        }
    }
}
