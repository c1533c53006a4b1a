//! Stores over a network: replicas that confirm a charge, and deadlines.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::Store;
use crate::deadline;

/// A store that is reached over a network. The default methods have no other way to ask it.
///
/// A deny cache or leases in front of it save round trips: an [engine](crate::Engine) only uses them for such a store.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::{MemoryStore, RemoteStore, ReserveReply, ReserveRequest, Store, StoreResult};
/// use tidegate::{StoreExtensions, StoreReply, StoreRequest, Timestamp};
///
/// #[derive(Debug, Default)]
/// struct Far(Arc<MemoryStore>);
///
/// impl Store for Far {
///     fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
///         self.0.decide(request, now)
///     }
///
///     fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
///         self.0.reserve(request, now)
///     }
///
///     fn extensions(&self) -> StoreExtensions<'_> {
///         StoreExtensions { remote: Some(self), ..self.0.extensions() }
///     }
/// }
///
/// impl RemoteStore for Far {
///     fn within(&self, _: Duration) -> Option<Arc<dyn Store>> {
///         Some(self.0.clone())
///     }
/// }
///
/// assert!(!Far::default().extensions().is_local());
/// assert!(MemoryStore::default().extensions().is_local());
/// ```
pub trait RemoteStore: Send + Sync + fmt::Debug {
    /// The same state, asked in such a way that replicas have to confirm each charge; `None` where there are no
    /// replicas. An unconfirmed charge stays charged, and may be an error: see [`Unconfirmed`].
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let _ = replicas;
        None
    }

    /// The same state, asked with another deadline; `None` where there is none to keep.
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let _ = deadline;
        None
    }

    /// Within how long every request is answered, or fails; `None` where that is not known. Whoever waits for more than
    /// one request, as for a lease, then stops waiting; that needs a tokio runtime, and one of the features `adaptive`,
    /// `breaker` and `leases`, which bring tokio's.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

/// Copies that a charge needs before it is answered: for limits that a failover must not forget.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Policy, Replicas, Unconfirmed};
///
/// let replicas = Replicas {
///     wait: "2".parse()?,
///     timeout: Duration::from_millis(100),
///     unconfirmed: Unconfirmed::Deny,
/// };
/// let payout = Policy::all().limit("day", "quota 10/day").replicas(replicas);
/// assert_eq!(Replicas::default().wait.get(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Replicas {
    /// How many replicas have to confirm; 1.
    pub wait: NonZeroU32,
    /// How long they have for it, on top of the store's deadline; 50 ms. Taken as 1 ms at least and a minute at most.
    pub timeout: Duration,
    /// What becomes of an answer that they do not confirm in time.
    pub unconfirmed: Unconfirmed,
}

/// What becomes of a charge that too few replicas have confirmed. It stays charged either way.
///
/// ```
/// use tidegate::{Replicas, Unconfirmed};
///
/// assert_eq!(Replicas::default().unconfirmed, Unconfirmed::Allow);
/// let strict = Replicas { unconfirmed: Unconfirmed::Deny, ..Replicas::default() };
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Unconfirmed {
    /// The answer stands, and is counted.
    #[default]
    Allow,
    /// The caller is turned away as if the store had failed and the policy denied then.
    Deny,
}

impl Default for Replicas {
    fn default() -> Self {
        let timeout = Duration::from_millis(50);
        Self { wait: NonZeroU32::MIN, timeout, unconfirmed: Unconfirmed::Allow }
    }
}

impl Replicas {
    /// The timeout, within its bounds: one of 0 would wait for ever.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::Replicas;
    /// let replicas = Replicas { timeout: Duration::ZERO, ..Replicas::default() };
    /// assert_eq!(replicas.bounded_timeout(), Duration::from_millis(1));
    /// ```
    pub fn bounded_timeout(&self) -> Duration {
        self.timeout.clamp(deadline::MIN, deadline::MAX)
    }
}
