//! What goes wrong with a store, split by the one thing that matters to whoever asks again: did it run?

use std::borrow::Cow;
use std::fmt;

use crate::reply::UnderWay;

/// An ask that has no answer. A refusal is none of these.
///
/// ```
/// use tidegate::{Ran, StoreError, Trouble};
///
/// let error = StoreError::new(Trouble::Timeout, "no answer within 20ms");
/// assert_eq!(error.ran(), Ran::Unknown); // asking again could charge twice
/// assert_eq!(error.to_string(), "timeout: no answer within 20ms");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreError {
    trouble: Trouble,
    detail: Cow<'static, str>,
}

/// Whether an ask that failed was carried out.
///
/// ```
/// use tidegate::{Ran, Trouble};
///
/// assert_eq!(Trouble::Unreachable.ran(), Ran::No); // asked again, it is asked once
/// assert_eq!(Trouble::Disconnected.ran(), Ran::Unknown);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ran {
    /// Certainly not: nothing was read or written.
    No,
    /// Perhaps: it was sent, and nothing is known of it. Never asked again by itself.
    Unknown,
}

macro_rules! troubles {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $ran:ident;)*) => {
        /// What kind of failure it was; few and fixed, so that they can be counted by name.
        ///
        /// ```
        /// use tidegate::{Ran, Trouble};
        ///
        /// assert_eq!(Trouble::OutOfMemory.as_str(), "oom");
        /// assert_eq!(Trouble::OutOfMemory.ran(), Ran::No);
        /// assert_eq!(Trouble::ALL[Trouble::Timeout as usize], Trouble::Timeout);
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum Trouble { $($(#[$doc])* $name,)* }

        impl Trouble {
            /// All there are: for those who count them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name it is counted under.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether the ask was carried out.
            pub const fn ran(self) -> Ran {
                match self { $(Self::$name => Ran::$ran,)* }
            }
        }
    };
}

troubles! {
    /// No connection, and none could be made.
    Unreachable = "unreachable", No;
    /// Too many asks wait already.
    Overloaded = "overloaded", No;
    /// The breaker is open: the store was not asked.
    BreakerOpen = "breaker-open", No;
    /// The deadline passed before the ask could be sent.
    NotSent = "not-sent", No;
    /// The deadline passed without an answer.
    Timeout = "timeout", Unknown;
    /// The connection ended before the answer came.
    Disconnected = "disconnected", Unknown;
    /// The answer made no sense.
    Protocol = "protocol", Unknown;
    /// It was charged, and too few replicas have confirmed it in time.
    Unreplicated = "unreplicated", Unknown;
    /// The user or password was not accepted, or lacks a permission.
    Denied = "denied", No;
    /// The scripts were flushed again and again.
    NoScript = "noscript", No;
    /// A replica was asked to write.
    ReadOnly = "readonly", No;
    /// The store is still loading its data.
    Loading = "loading", No;
    /// A script of somebody else runs for too long.
    Busy = "busy", No;
    /// The store has no memory left, and may not evict.
    OutOfMemory = "oom", No;
    /// The store cannot write to its disk, and so refuses writes.
    Misconfigured = "misconf", No;
    /// The replica has lost its primary.
    MasterDown = "masterdown", No;
    /// The cluster has no node for the key.
    ClusterDown = "clusterdown", No;
    /// The key is being moved to another node.
    Moving = "moving", No;
    /// The store accepts no more clients.
    MaxClients = "maxclients", No;
    /// The key holds something that tidegate did not write.
    WrongType = "wrongtype", No;
    /// The ask itself makes no sense to this store.
    BadAsk = "bad-ask", No;
    /// What was asked for in one step is kept on several nodes. See [`Policy::tagged`](crate::Policy::tagged).
    Apart = "apart", No;
    /// The store cannot do this at all.
    Unsupported = "unsupported", No;
    /// The store said something else.
    Other = "other", No;
    /// The answer comes over a network, and was not awaited.
    UnderWay = "under-way", Unknown;
}

impl Trouble {
    /// Whether it is the asker's own: no failure of the store, and nothing that another could stand in for.
    pub(crate) const fn is_of_the_ask(self) -> bool {
        matches!(self, Self::BadAsk | Self::Apart)
    }
}

impl StoreError {
    /// An error with what is known about it.
    ///
    /// ```
    /// # use tidegate::{StoreError, Trouble};
    /// let error = StoreError::new(Trouble::Loading, "Redis is loading the dataset in memory");
    /// assert_eq!(error.to_string(), "loading: Redis is loading the dataset in memory");
    /// ```
    pub fn new(trouble: Trouble, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { trouble, detail: detail.into() }
    }

    /// What Redis said, which begins with a word for its kind.
    #[cfg(feature = "redis")]
    pub(crate) fn from_redis(text: &str) -> Self {
        let code = text.split([' ', ':']).next().unwrap_or_default();
        let trouble = match code {
            "NOSCRIPT" => Trouble::NoScript,
            "READONLY" => Trouble::ReadOnly,
            "LOADING" => Trouble::Loading,
            "BUSY" => Trouble::Busy,
            "OOM" => Trouble::OutOfMemory,
            "MISCONF" | "NOREPLICAS" => Trouble::Misconfigured,
            "MASTERDOWN" => Trouble::MasterDown,
            "CLUSTERDOWN" | "CROSSSLOT" => Trouble::ClusterDown,
            "MOVED" | "ASK" | "TRYAGAIN" => Trouble::Moving,
            "NOAUTH" | "NOPERM" | "WRONGPASS" => Trouble::Denied,
            "WRONGTYPE" => Trouble::WrongType,
            _ if text.contains("max number of clients") => Trouble::MaxClients,
            _ => Trouble::Other,
        };
        Self::new(trouble, text.to_owned())
    }

    /// What kind of failure it was.
    ///
    /// ```
    /// # use tidegate::{StoreError, Trouble};
    /// let error = StoreError::new(Trouble::Timeout, "no answer within 20ms");
    /// assert_eq!(error.trouble(), Trouble::Timeout);
    /// ```
    pub const fn trouble(&self) -> Trouble {
        self.trouble
    }

    /// Whether the ask was carried out.
    pub const fn ran(&self) -> Ran {
        self.trouble.ran()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.trouble.as_str(), self.detail)
    }
}

impl From<UnderWay> for StoreError {
    fn from(_: UnderWay) -> Self {
        Self::new(Trouble::UnderWay, "the answer comes over a network: await it")
    }
}

impl std::error::Error for StoreError {}
