//! What a store reports of itself, as plain data for metrics.

use std::time::Duration;

use super::SnapshotStats;
use crate::store::StoreError;
use crate::store::breaker::BreakerState;
use crate::store::memory::MemoryStats;

/// One of several servers that decide together, as it was last seen.
///
/// ```
/// use tidegate::driver::{StoreServer, StoreServerState};
///
/// let state = StoreServerState::Serving;
/// let server = StoreServer { address: "10.0.0.5:6379".to_owned(), state };
/// assert_eq!(server.state, StoreServerState::Serving);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreServer {
    /// Its address.
    pub address: String,
    /// How it is.
    pub state: StoreServerState,
}

/// How a [`StoreServer`] is.
///
/// ```
/// use std::time::Duration;
/// use tidegate::driver::StoreServerState::{self, Away, Forgot, Serving};
/// use tidegate::{StoreError, StoreErrorKind};
///
/// let counts = |state: &StoreServerState, life: Duration| match state {
///     Serving => true,
///     Forgot { ago } => *ago >= life,
///     Away(_) => false,
/// };
/// let empty = Forgot { ago: Duration::from_secs(70) };
/// assert!(counts(&empty, Duration::from_secs(60)) && !counts(&empty, Duration::from_secs(71)));
/// assert!(!counts(&Away(StoreError::new(StoreErrorKind::Timeout, "")), Duration::ZERO));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreServerState {
    /// It answers, and counts.
    Serving,
    /// It answers, and has lost what it knew. It does not count until that no longer matters.
    Forgot {
        /// How long ago that was noticed, by its own clock.
        ago: Duration,
    },
    /// It does not answer.
    Away(StoreError),
}

/// What is known of a store without asking it. A part is `None` where the store has no such thing.
///
/// ```
/// use tidegate::driver::StoreReport;
///
/// let StoreReport { memory, snapshots, network, call_times, breaker } = StoreReport::default();
/// assert!(memory.is_none() && snapshots.is_none());
/// assert!(network.is_none() && call_times.is_none() && breaker.is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreReport {
    /// What a store in memory holds.
    pub memory: Option<MemoryStats>,
    /// How often it was saved.
    pub snapshots: Option<SnapshotStats>,
    /// What the client of a store over a network has done.
    pub network: Option<NetworkStats>,
    /// How long its calls took.
    pub call_times: Option<CallTimes>,
    /// The worst state of its breakers, and how often they have opened.
    pub breaker: Option<(BreakerState, u64)>,
}

impl StoreReport {
    /// Two stores, or two servers of one, together; of their breakers the worst.
    ///
    /// ```
    /// # use tidegate::driver::{NetworkStats, StoreReport};
    /// let one = StoreReport { network: Some(NetworkStats::default()), ..StoreReport::default() };
    /// assert_eq!(one.plus(&StoreReport::default()), one);
    /// ```
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        fn both<T: Copy>(one: Option<T>, other: Option<T>, sum: impl Fn(T, T) -> T) -> Option<T> {
            one.zip(other).map(|(one, other)| sum(one, other)).or(one).or(other)
        }
        Self {
            memory: self.memory.or(other.memory),
            snapshots: self.snapshots.or(other.snapshots),
            network: both(self.network, other.network, |one, other| one.plus(&other)),
            call_times: both(self.call_times, other.call_times, |one, other| one.plus(&other)),
            breaker: both(self.breaker, other.breaker, |one, other| {
                (one.0.or_worse(other.0), one.1 + other.1)
            }),
        }
    }
}

/// How often things have happened in the client of a store over a network, since the store was opened.
///
/// ```
/// use tidegate::driver::NetworkStats;
///
/// let per_call = |stats: NetworkStats| stats.requests / stats.calls.max(1);
/// assert_eq!(per_call(NetworkStats::default()), 0);
///
/// let NetworkStats { noscript, retries, conflicts, refreshes, .. } = NetworkStats::default(); // repaired
/// assert_eq!(noscript + retries + conflicts + refreshes, 0);
/// let NetworkStats { timeouts, not_sent, overloaded, unreplicated, .. } = NetworkStats::default(); // failed
/// assert_eq!(timeouts + not_sent + overloaded + unreplicated, 0);
/// let open = |stats: NetworkStats| stats.connects - stats.disconnects;
/// let stats = NetworkStats::default();
/// assert_eq!((open(stats), stats.connect_failures), (0, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct NetworkStats {
    /// Requests that were written, again ones included.
    pub requests: u64,
    /// Script calls that they left in.
    pub calls: u64,
    /// Calls that found the script gone, and went again with its source.
    pub noscript: u64,
    /// Requests that went again because they had certainly not run.
    pub retries: u64,
    /// Decisions that were made again because another node had changed the key meanwhile.
    pub conflicts: u64,
    /// Requests whose deadline passed after they were written.
    pub timeouts: u64,
    /// Requests whose deadline passed before.
    pub not_sent: u64,
    /// Requests that were rejected because too many waited.
    pub overloaded: u64,
    /// Charges that too few replicas had confirmed in time.
    pub unreplicated: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connect_failures: u64,
    /// Connections that were lost or given up.
    pub disconnects: u64,
    /// Refreshes of the topology, from a cluster or a sentinel.
    pub refreshes: u64,
}

impl NetworkStats {
    /// The counts of two clients together.
    ///
    /// ```
    /// # use tidegate::driver::NetworkStats;
    /// let none = NetworkStats::default();
    /// assert_eq!(none.plus(&none), none);
    /// ```
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            calls: self.calls + other.calls,
            noscript: self.noscript + other.noscript,
            retries: self.retries + other.retries,
            conflicts: self.conflicts + other.conflicts,
            timeouts: self.timeouts + other.timeouts,
            not_sent: self.not_sent + other.not_sent,
            overloaded: self.overloaded + other.overloaded,
            unreplicated: self.unreplicated + other.unreplicated,
            connects: self.connects + other.connects,
            connect_failures: self.connect_failures + other.connect_failures,
            disconnects: self.disconnects + other.disconnects,
            refreshes: self.refreshes + other.refreshes,
        }
    }
}

/// How long calls took, from when they left this process until their reply was read: what the store, the network and
/// a busy runtime take together. Several checks may share a call.
///
/// ```
/// use tidegate::driver::CallTimes;
///
/// let times = CallTimes::default();
/// assert_eq!(times.counts.len(), CallTimes::BOUNDS_US.len() + 1); // the last one counts what took longer
/// assert_eq!((times.counts.iter().sum::<u64>(), times.total_us), (0, 0)); // no calls yet
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CallTimes {
    /// Calls by duration: each is in the first bucket whose bound it does not pass.
    pub counts: [u64; Self::BOUNDS_US.len() + 1],
    /// The sum of all durations, in microseconds.
    pub total_us: u64,
}

impl CallTimes {
    /// The upper bounds of all buckets but the last, in microseconds: close around the 50 to 500 µs of a healthy Redis,
    /// and up to the second after which a connection is given up.
    pub const BOUNDS_US: [u64; 15] = [
        25, 50, 100, 200, 300, 500, 750, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 200_000,
        1_000_000,
    ];

    /// The times of two clients together.
    ///
    /// ```
    /// # use tidegate::driver::CallTimes;
    /// let none = CallTimes::default();
    /// assert_eq!(none.plus(&none), none);
    /// ```
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let counts = std::array::from_fn(|bucket| self.counts[bucket] + other.counts[bucket]);
        Self { counts, total_us: self.total_us + other.total_us }
    }
}
