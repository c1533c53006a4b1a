//! What a breaker goes by.

use std::time::Duration;

use crate::store::Replicas;

/// How much longer than it was told to a store may wait for replicas: Redis looks ten times a second.
const WAIT_LATE: Duration = Duration::from_millis(100);

/// When a breaker opens and closes.
///
/// ```
/// use std::time::Duration;
/// use tidegate::BreakerOptions;
///
/// let patient = BreakerOptions { slow: Duration::from_millis(50), ..BreakerOptions::default() };
/// assert_eq!((patient.failures, patient.good_probes), (5, 3));
/// assert_eq!((patient.window, patient.min_calls), (Duration::from_secs(1), 50));
/// assert!(patient.probe_min < patient.probe_max && patient.reopen_max < patient.steady);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakerOptions {
    /// Opens at so many failures in a row; 5. Taken as 1 at least.
    pub failures: u32,
    /// Opens when the 99th percentile passes this, and no slower probe is a good one; 10 ms.
    pub slow: Duration,
    /// What the percentile is taken over; 1 s. Taken as an hour at most.
    pub window: Duration,
    /// How many calls a window needs for its percentile to count; 50.
    pub min_calls: u64,
    /// Closes at so many good probes in a row; 3.
    pub good_probes: u32,
    /// The wait for the first probe, and between good ones; doubled by each bad one. 10 ms.
    pub probe_min: Duration,
    /// The longest wait between bad probes; 50 ms, so that a store that is back is used within 100 ms.
    pub probe_max: Duration,
    /// Who opens again within this time of closing waits twice as long for each probe; 10 s.
    pub steady: Duration,
    /// … but no longer than this; 2 s.
    pub reopen_max: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            slow: Duration::from_millis(10),
            window: Duration::from_secs(1),
            min_calls: 50,
            good_probes: 3,
            probe_min: Duration::from_millis(10),
            probe_max: Duration::from_millis(50),
            steady: Duration::from_secs(10),
            reopen_max: Duration::from_secs(2),
        }
    }
}

impl BreakerOptions {
    /// What they are taken as.
    pub(super) fn bounded(self) -> Self {
        let (failures, window) = (self.failures.max(1), self.window.min(Duration::from_hours(1)));
        Self { failures, window, ..self }
    }

    /// For calls that wait for replicas too: that takes longer, and is no fault of the store.
    ///
    /// ```
    /// # use tidegate::{BreakerOptions, Replicas};
    /// let options = BreakerOptions::default();
    /// assert!(options.clone().with_replicas(Replicas::default()).slow > options.slow);
    /// ```
    #[must_use]
    pub fn with_replicas(self, replicas: Replicas) -> Self {
        let slow = self.slow.saturating_add(replicas.bounded_timeout()).saturating_add(WAIT_LATE);
        Self { slow, ..self }
    }
}

/// What a breaker does.
///
/// ```
/// use tidegate::BreakerState;
///
/// let states = [BreakerState::Closed, BreakerState::Open, BreakerState::Probing];
/// assert_eq!(states.map(BreakerState::as_str), ["closed", "open", "probing"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum BreakerState {
    /// Lets everything through.
    Closed,
    /// Lets nothing through, and probes from time to time.
    Open,
    /// Lets nothing through yet; the last probe was good.
    Probing,
}

impl BreakerState {
    /// The state's name, as metrics report it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}
