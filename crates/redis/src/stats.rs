//! What the client has done so far, counted for metrics.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate::driver::{CallTimes, NetworkStats};
use tidegate_core::AtomicBuckets;

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

#[derive(Debug)]
pub(crate) struct Times(AtomicBuckets<BUCKETS>);

const BUCKETS: usize = CallTimes::BOUNDS_US.len() + 1;

impl Default for Times {
    fn default() -> Self {
        Self(AtomicBuckets::new(&CallTimes::BOUNDS_US))
    }
}

impl Times {
    pub(crate) fn add(&self, took: Duration) {
        self.0.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), 1);
    }

    pub(crate) fn read(&self) -> CallTimes {
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
