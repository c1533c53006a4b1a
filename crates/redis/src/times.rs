//! How long calls take, in fixed buckets: to count one costs two additions, whatever the rate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long script calls took, from when they left this process until their reply was read: what Redis, the network
/// and a busy runtime take together. Several checks may share a call.
///
/// ```
/// use tidegate_redis::CallTimes;
///
/// let times = CallTimes::default();
/// assert_eq!(times.counts.len(), CallTimes::BOUNDS_US.len() + 1); // the last one counts what took longer
/// assert_eq!((times.counts.iter().sum::<u64>(), times.total_us), (0, 0)); // no calls yet
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CallTimes {
    /// Calls by duration: each is in the first bucket whose bound it does not pass.
    pub counts: [u64; BUCKETS],
    /// The sum of all durations, in microseconds.
    pub total_us: u64,
}

const BUCKETS: usize = CallTimes::BOUNDS_US.len() + 1;

impl CallTimes {
    /// The upper bounds of all buckets but the last, in microseconds: close around the 50 to 500 µs of a healthy Redis,
    /// and up to the second after which a connection is given up.
    pub const BOUNDS_US: [u64; 15] = [
        25, 50, 100, 200, 300, 500, 750, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 200_000,
        1_000_000,
    ];
}

#[derive(Debug, Default)]
pub(super) struct Times {
    counts: [AtomicU64; BUCKETS],
    total_us: AtomicU64,
}

impl Times {
    pub(super) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = CallTimes::BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.total_us.fetch_add(us, Relaxed);
    }

    pub(super) fn read(&self) -> CallTimes {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed));
        CallTimes { counts, total_us: self.total_us.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_in_the_first_bucket_that_holds_it() {
        let times = Times::default();
        for us in [0, 25, 26, 1_000_000, 1_000_001] {
            times.add(Duration::from_micros(us));
        }
        let CallTimes { counts, total_us } = times.read();
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 1));
        assert_eq!(total_us, 2_000_052);
    }
}
