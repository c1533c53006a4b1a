//! The system's two clocks from the processor's counter, where the kernel trusts that counter too.
//!
//! An anchor (a counter value, the system's time then, and the length of a count) is renewed every tenth of a
//! second, which bounds the error to about a microsecond and follows every adjustment of the system's clock.
//! Readers check the anchor's version around their loads; a reader that finds the anchor old renews it, and one
//! that finds it being renewed asks the system instead. No reader waits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds per count, as a fixed-point fraction of 2^40: exact to a hundredth of a µs over an anchor's life.
const RATE_BITS: u32 = 40;
/// An anchor serves this long.
const ANCHOR_LIFE_US: u64 = 100_000;
/// A first rate is taken over this long; the system's clock is asked until then.
const CALIBRATION_US: u64 = 20_000;
/// And over no longer than this.
const MAX_CALIBRATION_US: u64 = 1_000_000;
/// A rate that differs by more than a thousandth from the last one means that a clock was stepped.
const MAX_RATE_CHANGE: u64 = 1000;

/// On a cache line of its own: whatever the linker puts beside it may be written all the time.
#[repr(align(64))]
struct Anchor {
    /// Odd while the anchor is being renewed.
    version: AtomicU64,
    counter: AtomicU64,
    time_us: AtomicU64,
    /// 0 until it is known.
    rate: AtomicU64,
    /// How many counts the anchor serves.
    life: AtomicU64,
}

static TIME: Anchor = Anchor::new();
static STEADY: Anchor = Anchor::new();

/// Microseconds since the Unix epoch.
#[inline]
pub(super) fn now_us() -> u64 {
    TIME.time_at(counter).unwrap_or_else(|| slow_us(&TIME, system_us))
}

/// Microseconds since the first call. It goes on whatever is done to the system's clock, and may step back by as much as
/// an anchor is wrong.
#[inline]
pub(super) fn steady_us() -> u64 {
    STEADY.time_at(counter).unwrap_or_else(|| slow_us(&STEADY, system_steady_us))
}

#[cold]
#[inline(never)]
fn slow_us(anchor: &Anchor, system_us: fn() -> u64) -> u64 {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    let is_trusted = *TRUSTED.get_or_init(kernel_trusts_the_counter);
    if is_trusted { anchor.renew(|| with_counter(system_us)) } else { system_us() }
}

impl Anchor {
    const fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            counter: AtomicU64::new(0),
            time_us: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            life: AtomicU64::new(0),
        }
    }

    /// The time now, if the anchor serves.
    #[inline]
    fn time_at(&self, counter: impl FnOnce() -> u64) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        let anchor = self.counter.load(Ordering::Relaxed);
        let time_us = self.time_us.load(Ordering::Relaxed);
        let rate = self.rate.load(Ordering::Relaxed);
        let life = self.life.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let counts = counter().wrapping_sub(anchor);
        let whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        // A new anchor has a life of 0, and a counter that ran backwards looks like a very long time.
        (whole && counts < life).then(|| time_us + ((counts * rate) >> RATE_BITS))
    }

    /// The system's time, as `read` with the counter, and an anchor there if this one is old.
    fn renew(&self, read: impl Fn() -> (u64, u64)) -> u64 {
        let (_, now_us) = read();
        let version = self.version.load(Ordering::Acquire);
        let (from_us, from) =
            (self.time_us.load(Ordering::Relaxed), self.counter.load(Ordering::Relaxed));
        let calibrating = self.life.load(Ordering::Relaxed) == 0;
        // Threads find an anchor old together. The second one must not measure a rate since the first, whose time
        // may even be a little later.
        let young_us = if calibrating { CALIBRATION_US } else { ANCHOR_LIFE_US / 2 };
        if from_us != 0 && now_us.abs_diff(from_us) < young_us {
            return now_us;
        }
        let acquired = version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !acquired {
            return now_us;
        }
        fence(Ordering::Release);
        let (count, now_us) = read();
        let rate = measure(count.wrapping_sub(from), now_us.saturating_sub(from_us));
        let last = self.rate.load(Ordering::Relaxed);
        let steady = rate > 0 && (last == 0 || rate.abs_diff(last) <= last / MAX_RATE_CHANGE);
        // A first rate is not taken over a long time, in which a clock may have been set or the machine asleep.
        let in_time = !calibrating || now_us.saturating_sub(from_us) < MAX_CALIBRATION_US;
        let known = from_us != 0 && steady && in_time;
        self.counter.store(count, Ordering::Relaxed);
        self.time_us.store(now_us, Ordering::Relaxed);
        self.rate.store(if known { rate } else { 0 }, Ordering::Relaxed);
        let life = if known { (ANCHOR_LIFE_US << RATE_BITS) / rate } else { 0 };
        self.life.store(life, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
        now_us
    }
}

/// How often a time of the system is read in search of one that nothing interrupted.
const READS: usize = 4;

/// The counter, and a time of the system. Of a few, the pair that was read fastest: a thread that was stopped between the
/// two would have a pair that does not belong together.
fn with_counter(system_us: fn() -> u64) -> (u64, u64) {
    let read = || {
        let before = counter();
        let now_us = system_us();
        let after = counter();
        (after.wrapping_sub(before), before.midpoint(after), now_us)
    };
    let fastest = (1..READS)
        .map(|_| read())
        .fold(read(), |best, next| if next.0 < best.0 { next } else { best });
    (fastest.1, fastest.2)
}

/// Microseconds per count, or 0 if the figures make no sense.
fn measure(counts: u64, us: u64) -> u64 {
    let rate = (u128::from(us) << RATE_BITS).checked_div(u128::from(counts)).unwrap_or(0);
    // Between 1 MHz and 100 GHz.
    u64::try_from(rate).ok().filter(|rate| (1 << 23..=1 << RATE_BITS).contains(rate)).unwrap_or(0)
}

#[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn system_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    super::micros(since)
}

#[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
fn system_steady_us() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    super::micros(now.saturating_duration_since(*ORIGIN.get_or_init(|| now)))
}

/// The kernel watches the counter and stops using it as soon as it is not steady and the same on all cores.
fn kernel_trusts_the_counter() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64") && std::fs::read(source).is_ok_and(|name| name == b"tsc\n")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has this instruction; it reads a register and touches no memory.
    #[expect(
        unsafe_code,
        reason = "the one instruction the standard library only offers as unsafe"
    )]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_clocks_follow_the_system_s() {
        let clocks: [[fn() -> u64; 2]; 2] = [[system_us, now_us], [system_steady_us, steady_us]];
        for [system_us, fast_us] in clocks {
            let until_us = system_us() + 300_000;
            let mut reads = 0_u64;
            while system_us() < until_us {
                let before = system_us();
                let fast = fast_us();
                let after = system_us();
                // A preempted thread widens the bracket, not the error.
                assert!(
                    fast + 1000 >= before && fast <= after + 1000,
                    "{before} ≤ {fast} ≤ {after}"
                );
                reads += 1;
            }
            assert!(reads > 100);
        }
    }

    /// A counter of 2.6 GHz and a system's time, both to be set.
    struct Source {
        anchor: Anchor,
        started_us: std::cell::Cell<u64>,
    }

    impl Source {
        const START_US: u64 = 1_700_000_000_000_000;

        /// One whose rate is known.
        fn calibrated() -> Self {
            let source = Self { anchor: Anchor::new(), started_us: Self::START_US.into() };
            source.renew_at(0);
            source.renew_at(CALIBRATION_US);
            assert!(source.serves(CALIBRATION_US + 1));
            source
        }

        fn count(us: u64) -> u64 {
            us * 2600
        }

        /// As a thread does that read its time at `us`.
        fn renew_at(&self, us: u64) -> u64 {
            self.anchor.renew(|| (Self::count(us), self.started_us.get() + us))
        }

        /// Whether the anchor gives the time at `us`; then it is right.
        fn serves(&self, us: u64) -> bool {
            let time = self.anchor.time_at(|| Self::count(us));
            assert!(
                time.is_none_or(|time| time.abs_diff(self.started_us.get() + us) <= 1),
                "{time:?}"
            );
            time.is_some()
        }
    }

    #[test]
    fn threads_that_find_an_anchor_old_together_do_not_lose_it() {
        let source = Source::calibrated();
        let mut old = CALIBRATION_US;
        for _ in 0..50 {
            old += ANCHOR_LIFE_US + 1;
            assert!(!source.serves(old));
            // The second came later, the third read its time first and was put off.
            for us in [old, old + 1, old - 1] {
                assert_eq!(source.renew_at(us), Source::START_US + us);
                assert!(source.serves(old + 2));
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_the_next_anchor() {
        for set_us in [Source::START_US - 3_600_000_000, Source::START_US + 3_600_000_000] {
            let source = Source::calibrated();
            source.started_us.set(set_us);
            let old = CALIBRATION_US + ANCHOR_LIFE_US + 1;
            assert_eq!(source.renew_at(old), set_us + old);
            // The rate measured across the step is discarded, and measured again.
            assert!(!source.serves(old + 1));
            source.renew_at(old + CALIBRATION_US);
            assert!(source.serves(old + CALIBRATION_US + 1));
        }
    }

    #[test]
    fn a_senseless_rate_is_not_used() {
        assert_eq!(measure(0, 1_000), 0);
        assert_eq!(measure(u64::MAX, 1), 0);
        assert_eq!(measure(1, u64::MAX), 0);
        assert_eq!(measure(2_600_000, 1_000), (1_000_u64 << RATE_BITS) / 2_600_000);
    }
}
