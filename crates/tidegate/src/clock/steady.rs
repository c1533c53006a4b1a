//! Time that passes in this process, whatever is done to the system's clock.

use std::sync::OnceLock;
use std::time::Instant;

/// Microseconds since it was first asked.
#[expect(clippy::disallowed_methods, reason = "this is where the clock is read")]
pub(super) fn now_us() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    let passed = now.saturating_duration_since(*ORIGIN.get_or_init(|| now));
    u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
}
