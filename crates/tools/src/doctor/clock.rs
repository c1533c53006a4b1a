//! The clocks of this machine.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "what is measured are real round trips")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// This machine's wall clock, in µs since 1970.
#[allow(clippy::disallowed_methods, reason = "it is compared with Redis' clock, not used")]
pub(super) fn unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
