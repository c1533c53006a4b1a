//! What the client has done so far, counted for metrics.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate::driver::{CallTimes, NetworkStats};

macro_rules! counters {
    ($($name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: Counter,)* pub(crate) times: Times }

        impl Counters {
            pub(crate) fn read(&self) -> NetworkStats {
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
    timeouts,
    not_sent,
    overloaded,
    unreplicated,
    connects,
    connect_failures,
    disconnects,
    refreshes,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
}

const BUCKETS: usize = CallTimes::BOUNDS_US.len() + 1;

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
        let mut times = CallTimes::default();
        times.counts = counts;
        times.total_us = self.total_us.load(Relaxed);
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
