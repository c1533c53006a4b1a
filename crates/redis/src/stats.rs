//! What the client has done so far, counted for metrics.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often things have happened since the store was made.
        ///
        /// ```no_run
        /// # use tidegate_redis::{RedisOptions, RedisStats, RedisStore};
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), tidegate::StoreError> {
        /// let store = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?;
        /// let RedisStats { timeouts, not_sent, .. } = store.stats();
        /// println!("{} requests were not answered in time", timeouts + not_sent);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// ```
        /// use tidegate_redis::RedisStats;
        ///
        /// let per_call = |stats: RedisStats| stats.requests / stats.calls.max(1);
        /// assert_eq!(per_call(RedisStats::default()), 0);
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct RedisStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* pub(crate) times: Times }

        impl Counters {
            pub(crate) fn read(&self) -> RedisStats {
                RedisStats { $($name: self.$name.0.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Requests that were written, again ones included.
    requests,
    /// Script calls that they left in.
    calls,
    /// Calls that found the script gone, and went again with its source.
    noscript,
    /// Requests that went again because they had certainly not run.
    retries,
    /// Requests whose deadline passed after they were written.
    timeouts,
    /// Requests whose deadline passed before.
    not_sent,
    /// Requests that were rejected because too many waited.
    overloaded,
    /// Charges that too few replicas had confirmed in time.
    unreplicated,
    /// Connections that were made.
    connects,
    /// Attempts to connect that failed.
    connect_failures,
    /// Connections that were lost or given up.
    disconnects,
    /// Refreshes of the topology, from a cluster or a sentinel.
    refreshes,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
}

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
pub(crate) struct Times {
    counts: [AtomicU64; BUCKETS],
    total_us: AtomicU64,
}

impl Times {
    pub(crate) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = CallTimes::BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.total_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn read(&self) -> CallTimes {
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
