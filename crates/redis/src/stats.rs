//! What the client has done so far, counted for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::times::Times;

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
        /// println!("{} questions were not answered in time", timeouts + not_sent);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// ```
        /// use tidegate_redis::RedisStats;
        ///
        /// let per_call = |stats: RedisStats| stats.questions / stats.calls.max(1);
        /// assert_eq!(per_call(RedisStats::default()), 0);
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct RedisStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $name: Counter,)* pub(super) times: Times }

        impl Counters {
            pub(super) fn read(&self) -> RedisStats {
                RedisStats { $($name: self.$name.0.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Questions that were written, again ones included.
    questions,
    /// Script calls that they left in.
    calls,
    /// Calls that found the script gone, and went again with its source.
    noscript,
    /// Questions that went again because they had certainly not run.
    retries,
    /// Questions whose deadline passed after they were written.
    timeouts,
    /// Questions whose deadline passed before.
    not_sent,
    /// Questions that were turned away because too many waited.
    overloaded,
    /// Charges that too few replicas had confirmed in time.
    unreplicated,
    /// Connections that were made.
    connects,
    /// Attempts to connect that failed.
    connect_failures,
    /// Connections that were lost or given up.
    disconnects,
    /// Times that a cluster or a sentinel was asked who serves.
    refreshes,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Relaxed);
    }
}
