//! How long to measure: `QUICK=1` only shows that everything works.

use std::time::Duration;

pub(crate) struct Effort {
    pub(crate) is_quick: bool,
    pub(crate) brief: Duration,
    pub(crate) short: Duration,
    pub(crate) long: Duration,
}

impl Effort {
    /// The brief, short and long times in milliseconds, and those with `QUICK`.
    pub(crate) fn from_env(full_ms: [u64; 3], quick_ms: [u64; 3]) -> Self {
        let is_quick = std::env::var_os("QUICK").is_some();
        let spans = if is_quick { quick_ms } else { full_ms };
        let [brief, short, long] = spans.map(Duration::from_millis);
        Self { is_quick, brief, short, long }
    }
}
