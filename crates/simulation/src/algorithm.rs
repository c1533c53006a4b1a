//! The algorithms that experiments compare, all with the same limit and window, and otherwise with their defaults.

use std::time::Duration;

use tidegate_core::{
    FixedWindow, Gcra, LeakyBucket, Limit, LimitError, SlidingLog, SlidingWindow, State, Timestamp,
};

/// Concurrency limits are left out because they have no rate, and quotas because they are windows with other edges.
pub(crate) enum Algorithm {
    Limit(Limit),
    /// Delays requests, by at most one window.
    Shaper(LeakyBucket),
}

impl Algorithm {
    pub(crate) fn all(limit: u64, window_ms: u64) -> Result<Vec<Self>, LimitError> {
        let window = Duration::from_millis(window_ms);
        let sliding = SlidingWindow::new(limit, window, SlidingWindow::DEFAULT_BUCKETS)?;
        let bucket = Gcra::token_bucket(limit, limit, window)?;
        Ok(vec![
            Self::Limit(FixedWindow::new(limit, window)?.into()),
            Self::Limit(sliding.into()),
            Self::Limit(SlidingLog::new(limit, window)?.into()),
            Self::Limit(Gcra::new(limit, window, limit)?.into()),
            Self::Limit(Limit::TokenBucket(bucket)),
            Self::Shaper(LeakyBucket::new(limit, window, window)?),
        ])
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Limit(limit) => limit.algorithm(),
            Self::Shaper(_) => "leaky-bucket",
        }
    }

    /// Whether an idle key has a whole limit in advance, beside what its rate admits: a full bucket, or an empty queue.
    pub(crate) const fn starts_full(&self) -> bool {
        matches!(self, Self::Limit(Limit::Gcra(_) | Limit::TokenBucket(_)) | Self::Shaper(_))
    }

    /// When a request that arrives now goes ahead; `None` if it is refused.
    pub(crate) fn admit(&self, state: &mut State, now_us: u64) -> Option<u64> {
        let now = Timestamp::from_micros(now_us);
        match self {
            Self::Limit(limit) => limit.take(state, now, 1).allowed().then_some(now_us),
            Self::Shaper(shaper) => {
                let reservation = shaper.reserve(state, now, 1);
                reservation.accepted().then(|| now_us + reservation.delay_us())
            }
        }
    }
}

/// The largest number of instants within any half-open `span_us`. The instants are sorted.
pub(crate) fn most_within(span_us: u64, instants: &[u64]) -> u64 {
    let (mut first, mut most) = (0, 0);
    for (index, &at_us) in instants.iter().enumerate() {
        while instants[first] + span_us <= at_us {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    most as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_does_not_include_its_end() {
        assert_eq!(most_within(10, &[]), 0);
        assert_eq!(most_within(10, &[0, 10, 20]), 1);
        assert_eq!(most_within(11, &[0, 10, 20]), 2);
        assert_eq!(most_within(10, &[0, 5, 5, 9, 30, 31]), 4);
    }
}
