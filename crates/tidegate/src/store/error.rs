//! What goes wrong with a store, split by what matters for a retry: did it run?

use std::borrow::Cow;
use std::fmt;

use crate::reply::UnderWay;

/// A request that has no answer. A refusal is none of these.
///
/// ```
/// use tidegate::{Ran, StoreError, StoreErrorKind};
///
/// let error = StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms");
/// assert_eq!(error.ran(), Ran::Unknown); // asking again could charge twice
/// assert_eq!(error.to_string(), "timeout: no answer within 20ms");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    detail: Cow<'static, str>,
}

/// Whether a request that failed was carried out.
///
/// ```
/// use tidegate::{Ran, StoreErrorKind};
///
/// assert_eq!(StoreErrorKind::Unreachable.ran(), Ran::No); // asked again, it is asked once
/// assert_eq!(StoreErrorKind::Disconnected.ran(), Ran::Unknown);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ran {
    /// Certainly not: nothing was read or written.
    No,
    /// Perhaps: it was sent, and nothing is known of it. Never asked again by itself.
    Unknown,
}

macro_rules! store_error_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, ran: $ran:ident, counts: $counts:literal;)*) => {
        /// What kind of failure it was; few and fixed, so that they can be counted by name.
        ///
        /// ```
        /// use tidegate::{Ran, StoreErrorKind};
        ///
        /// assert_eq!(StoreErrorKind::OutOfMemory.as_str(), "oom");
        /// assert_eq!(StoreErrorKind::OutOfMemory.ran(), Ran::No);
        /// assert_eq!(StoreErrorKind::ALL[StoreErrorKind::Timeout as usize], StoreErrorKind::Timeout);
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u64)]
        #[non_exhaustive]
        pub enum StoreErrorKind { $($(#[$doc])* $name,)* }

        impl StoreErrorKind {
            /// All there are: for those who count them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name it is counted under.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the request was carried out.
            pub const fn ran(self) -> Ran {
                match self { $(Self::$name => Ran::$ran,)* }
            }

            /// Whether it is a failure of the store: a breaker counts it.
            ///
            /// ```
            /// # use tidegate::StoreErrorKind;
            /// assert!(StoreErrorKind::Timeout.is_store_failure());
            /// assert!(!StoreErrorKind::WrongType.is_store_failure()); // one key's, not the store's
            /// ```
            pub const fn is_store_failure(self) -> bool {
                match self { $(Self::$name => $counts,)* }
            }
        }
    };
}

// A breaker does not count what was caused by the request, one key or replicas, or where the store was not asked or not
// awaited. `Overloaded` comes from our own queue; if the store is the cause, the requests in the queue time out, which
// counts.
store_error_kinds! {
    /// No connection, and none could be made.
    Unreachable = "unreachable", ran: No, counts: true;
    /// Too many requests wait already.
    Overloaded = "overloaded", ran: No, counts: false;
    /// The breaker is open: the store was not asked.
    BreakerOpen = "breaker-open", ran: No, counts: false;
    /// The request was not sent: the deadline passed before, or another one had just failed.
    NotSent = "not-sent", ran: No, counts: true;
    /// The deadline passed without an answer.
    Timeout = "timeout", ran: Unknown, counts: true;
    /// The connection ended before the answer came.
    Disconnected = "disconnected", ran: Unknown, counts: true;
    /// The answer made no sense.
    Protocol = "protocol", ran: Unknown, counts: true;
    /// It was charged, and too few replicas have confirmed it in time.
    Unreplicated = "unreplicated", ran: Unknown, counts: false;
    /// The user or password was not accepted, or lacks a permission.
    Denied = "denied", ran: No, counts: true;
    /// The scripts were flushed again and again.
    NoScript = "noscript", ran: No, counts: true;
    /// A replica was asked to write.
    ReadOnly = "readonly", ran: No, counts: true;
    /// The store is still loading its data.
    Loading = "loading", ran: No, counts: true;
    /// A script of another program runs for too long.
    Busy = "busy", ran: No, counts: true;
    /// The store has no memory left, and may not evict.
    OutOfMemory = "oom", ran: No, counts: true;
    /// The store cannot write to its disk, and so refuses writes.
    Misconfigured = "misconf", ran: No, counts: true;
    /// Too many of its servers have lost what they knew: they may not count until what they knew no longer matters. No
    /// breaker counts it, since it is so for one policy and not for another.
    Recovering = "recovering", ran: No, counts: false;
    /// The replica has lost its primary.
    MasterDown = "masterdown", ran: No, counts: true;
    /// The cluster has no node for the key.
    ClusterDown = "clusterdown", ran: No, counts: true;
    /// The key is being moved to another node.
    Moving = "moving", ran: No, counts: false;
    /// The store accepts no more clients.
    MaxClients = "maxclients", ran: No, counts: true;
    /// The key holds something that tidegate did not write.
    WrongType = "wrongtype", ran: No, counts: false;
    /// The request itself makes no sense to this store.
    BadRequest = "bad-ask", ran: No, counts: false;
    /// What was asked for in one step is kept on several nodes. See [`Policy::tagged`](crate::Policy::tagged).
    Apart = "apart", ran: No, counts: false;
    /// The store cannot do this at all.
    Unsupported = "unsupported", ran: No, counts: false;
    /// Another error of the store.
    Other = "other", ran: No, counts: true;
    /// The answer comes over a network, and was not awaited.
    UnderWay = "under-way", ran: Unknown, counts: false;
}

impl StoreErrorKind {
    /// Whether the caller asked for what this store cannot do: no failure of the store, and no fallback would help.
    pub(crate) const fn is_bad_request(self) -> bool {
        matches!(self, Self::BadRequest | Self::Apart | Self::Unsupported)
    }
}

impl StoreError {
    /// An error with what is known about it.
    ///
    /// ```
    /// # use tidegate::{StoreError, StoreErrorKind};
    /// let error = StoreError::new(StoreErrorKind::Loading, "Redis is loading the dataset in memory");
    /// assert_eq!(error.to_string(), "loading: Redis is loading the dataset in memory");
    /// ```
    pub fn new(kind: StoreErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, detail: detail.into() }
    }

    /// A request that makes no sense, whatever the state of the store.
    pub(crate) fn bad_request(why: &'static str) -> Self {
        Self::new(StoreErrorKind::BadRequest, why)
    }

    /// The failure of a request, for a caller that did not send its own because of it.
    pub(crate) fn for_unsent(self) -> Self {
        match self.ran() {
            Ran::No => self,
            // The policy refuses for as long as replicas confirm nothing, so the caller has to see this kind.
            Ran::Unknown if self.kind == StoreErrorKind::Unreplicated => self,
            Ran::Unknown => {
                Self::new(StoreErrorKind::NotSent, format!("another request failed: {self}"))
            }
        }
    }

    /// What kind of failure it was.
    ///
    /// ```
    /// # use tidegate::{StoreError, StoreErrorKind};
    /// let error = StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms");
    /// assert_eq!(error.kind(), StoreErrorKind::Timeout);
    /// ```
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What is known about it.
    ///
    /// ```
    /// # use tidegate::{StoreError, StoreErrorKind};
    /// let error = StoreError::new(StoreErrorKind::Timeout, "no answer within 20ms");
    /// assert_eq!(error.detail(), "no answer within 20ms");
    /// ```
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Whether the request was carried out.
    pub const fn ran(&self) -> Ran {
        self.kind.ran()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            // The detail says what is wrong with what was asked, and the kind nothing more.
            StoreErrorKind::BadRequest => f.write_str(&self.detail),
            kind => write!(f, "{}: {}", kind.as_str(), self.detail),
        }
    }
}

impl From<UnderWay> for StoreError {
    fn from(_: UnderWay) -> Self {
        Self::new(StoreErrorKind::UnderWay, "the answer comes over a network: await it")
    }
}

impl std::error::Error for StoreError {}
