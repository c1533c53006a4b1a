//! What the client of a store over a network has done so far, counted for metrics.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::AtomicBuckets;

use super::{CallTimes, NetworkStats};

macro_rules! counters {
    ($($name:ident,)*) => {
        /// Counts what [`NetworkStats`] and [`CallTimes`] report.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tidegate::store_kit::{Counter, NetworkCounters, Times};
        ///
        /// let counters = NetworkCounters::default();
        /// let (requests, times): (&Counter, &Times) = (&counters.requests, &counters.times);
        /// requests.add(2);
        /// times.add(Duration::from_micros(60));
        /// assert_eq!((counters.read().requests, counters.times.read().total_us), (2, 60));
        /// ```
        #[derive(Debug, Default)]
        #[expect(missing_docs, reason = "the fields are those of NetworkStats and CallTimes")]
        pub struct NetworkCounters { $(pub $name: Counter,)* pub times: Times }

        impl NetworkCounters {
            /// What was counted so far.
            pub fn read(&self) -> NetworkStats {
                let mut stats = NetworkStats::default();
                $(stats.$name = self.$name.0.load(Relaxed);)*
                stats
            }
        }
    };
}

counters! {
    requests,
    calls,
    noscript,
    retries,
    conflicts,
    timeouts,
    not_sent,
    overloaded,
    unreplicated,
    connects,
    connect_failures,
    disconnects,
    refreshes,
}

/// One count.
///
/// ```
/// use tidegate::store_kit::{Counter, NetworkCounters};
///
/// let counters = NetworkCounters::default();
/// let requests: &Counter = &counters.requests;
/// requests.add(2);
/// assert_eq!(counters.read().requests, 2);
/// ```
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// It happened so many times.
    pub fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
}

/// How long calls took.
///
/// ```
/// use std::time::Duration;
/// use tidegate::store_kit::Times;
///
/// let times = Times::default();
/// times.add(Duration::from_micros(60));
/// assert_eq!(times.read().total_us, 60);
/// ```
#[derive(Debug)]
pub struct Times(AtomicBuckets<BUCKETS>);

const BUCKETS: usize = CallTimes::BOUNDS_US.len() + 1;

impl Default for Times {
    fn default() -> Self {
        Self(AtomicBuckets::new(&CallTimes::BOUNDS_US))
    }
}

impl Times {
    /// A call took this long.
    pub fn add(&self, took: Duration) {
        self.0.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), 1);
    }

    /// What was counted so far.
    pub fn read(&self) -> CallTimes {
        let (read, mut times) = (self.0.read(), CallTimes::default());
        (times.counts, times.total_us) = (*read.counts(), read.sum());
        times
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
        let CallTimes { counts, total_us, .. } = times.read();
        assert_eq!((counts[0], counts[1], counts[14], counts[15]), (2, 1, 1, 1));
        assert_eq!(total_us, 2_000_052);
    }
}
