//! The algorithms that are compared: each with the same limit and window, and whatever else as it is by default.

use std::time::Duration;

use tidegate_core::{
    FixedWindow, Gcra, LeakyBucket, Limit, LimitError, SlidingLog, SlidingWindow, State, Timestamp,
};

/// An algorithm under test. Requests in flight are no rate, and a quota is a window with other edges: both are left out.
pub(super) enum Subject {
    Refuses(Limit),
    /// Lets nobody wait longer than a window.
    Delays(LeakyBucket),
}

impl Subject {
    pub(super) fn all(limit: u64, window_ms: u64) -> Result<Vec<Self>, LimitError> {
        let window = Duration::from_millis(window_ms);
        let sliding = SlidingWindow::new(limit, window, SlidingWindow::DEFAULT_BUCKETS)?;
        let bucket = Gcra::token_bucket(limit, limit, window)?;
        Ok(vec![
            Self::Refuses(FixedWindow::new(limit, window)?.into()),
            Self::Refuses(sliding.into()),
            Self::Refuses(SlidingLog::new(limit, window)?.into()),
            Self::Refuses(Gcra::new(limit, window, limit)?.into()),
            Self::Refuses(Limit::TokenBucket(bucket)),
            Self::Delays(LeakyBucket::new(limit, window, window)?),
        ])
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Refuses(limit) => limit.algorithm(),
            Self::Delays(_) => "leaky-bucket",
        }
    }

    /// When a request that comes now goes ahead; `None` if it is refused.
    pub(super) fn ask(&self, state: &mut State, now_us: u64) -> Option<u64> {
        let now = Timestamp::from_micros(now_us);
        match self {
            Self::Refuses(limit) => limit.take(state, now, 1).allowed().then_some(now_us),
            Self::Delays(shaper) => {
                let place = shaper.reserve(state, now, 1);
                place.accepted().then(|| now_us + place.delay_us())
            }
        }
    }
}
