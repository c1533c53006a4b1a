//! Stores by their URL: each store brings a driver, and a program has one table of them.
//!
//! ```
//! use tidegate::driver::{MemoryDriver, StoreDrivers, StoreOptions};
//!
//! const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver]); // and one line for each other store
//! let opened = STORES.open("memory:", &StoreOptions::default())?;
//! assert_eq!((opened.kind, opened.condition()), ("memory", "ok"));
//! # Ok::<(), String>(())
//! ```

pub(crate) mod counters;
mod finding;
mod report;
mod snapshots;
mod timing;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::text::printable;
use tidegate_core::{FixedWindow, Limit, Mode, Timestamp};

pub use self::finding::{Finding, Severity};
pub use self::report::{CallTimes, NetworkStats, StoreReport, StoreServer, StoreServerState};
pub use self::snapshots::{SnapshotStats, Snapshots};
pub use self::timing::{Laps, millis};
use crate::clock::{Clock, SystemClock};
use crate::reply::Reply;
use crate::store::breaker::{Breaker, BreakerOptions, BreakerState};
use crate::store::memory::{DEFAULT_MAX_BYTES, MemoryStore};
use crate::store::{
    KeyHasher, KeyedLimit, Op, RoutedStore, Scope, Store, StoreError, StoreErrorKind, StoreRequest,
};
use crate::store_kit::HASH_KEY;

/// Opens one kind of store.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDriver, StoreOptions};
///
/// assert_eq!(MemoryDriver.schemes(), ["memory:"]);
/// assert!(MemoryDriver.is_local() && MemoryDriver.check("memory:").is_ok());
/// assert!(!MemoryDriver.spreads_keys("memory:")); // as a cluster does
/// assert!(MemoryDriver.open("memory:", &StoreOptions::default()).is_ok());
/// ```
pub trait StoreDriver: Send + Sync + fmt::Debug {
    /// How its URLs begin, like `redis://`; without `//`, it is the whole URL.
    fn schemes(&self) -> &'static [&'static str];

    /// Whether the state is in this process alone: then there is no deadline, breaker or fleet.
    fn is_local(&self) -> bool {
        false
    }

    /// Whether the store behind a URL spreads keys over several nodes, so that those of one step need a common tag.
    fn spreads_keys(&self, _url: &str) -> bool {
        false
    }

    /// Checks a URL, without connecting. An error must not repeat the URL, which may hold a password.
    fn check(&self, url: &str) -> Result<(), StoreError>;

    /// Opens the store. It connects when it is first asked. May need a running tokio runtime.
    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError>;

    /// Whether all limits of a check have to be on one identifier: then a policy with limits on several is a mistake.
    fn counts_one_identifier_per_step(&self) -> bool {
        false
    }

    /// Makes what the store needs before it can be used, if it is not there yet: `tidegate doctor --create`. By default
    /// nothing is needed.
    ///
    /// ```
    /// # use tidegate::driver::{MemoryDriver, StoreDriver};
    /// let findings = MemoryDriver.create("memory:").now()?;
    /// assert_eq!(findings[0].seen, "nothing is needed: this store makes what it needs by itself");
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn create(&self, url: &str) -> Reply<'static, Vec<Finding>, StoreError> {
        let _ = url;
        let seen = "nothing is needed: this store makes what it needs by itself";
        Reply::ready(Ok(vec![Finding::ok("create", seen)]))
    }

    /// Whether a store of this kind keeps what it has confirmed when one of its servers forgets: the kind that
    /// `store.quorum` names.
    fn is_quorum(&self) -> bool {
        false
    }

    /// What to do about a failure of this kind, in the words of this kind of store; `None` where the error says it all.
    ///
    /// ```
    /// # use tidegate::StoreErrorKind;
    /// # use tidegate::driver::{MemoryDriver, StoreDriver};
    /// assert_eq!(MemoryDriver.remedy(StoreErrorKind::Denied), None);
    /// ```
    fn remedy(&self, kind: StoreErrorKind) -> Option<&'static str> {
        let _ = kind;
        None
    }

    /// Connects, and looks for what is wrong for this many processes that will use it: `tidegate doctor`. The default
    /// finds nothing. The caller then runs every algorithm once, unless there are findings and none of them is ok.
    fn examine(
        &self,
        url: &str,
        options: &StoreOptions,
        nodes: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        let _ = (url, options, nodes);
        Reply::ready(Ok(Vec::new()))
    }
}

/// How a store is opened. The default is for answering requests.
///
/// ```
/// use tidegate::driver::StoreOptions;
///
/// let StoreOptions { key_prefix, hasher, deadline, replays, breaker, announces, memory } = StoreOptions::default();
/// assert_eq!((key_prefix.as_str(), deadline), ("tg", tidegate::deadline::DEFAULT));
/// assert_eq!(hasher.secret(), tidegate::store_kit::HASH_KEY);
/// assert!(!replays && breaker.is_some() && announces && memory.snapshot.is_none());
/// ```
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What every key begins with.
    pub key_prefix: String,
    /// Hashes identifiers and names that are long or no plain text; the same on every node. By default with a built-in
    /// secret, which everybody knows.
    pub hasher: KeyHasher,
    /// How long a decision may take.
    pub deadline: Duration,
    /// Whether the caller's time replaces the store's own.
    pub replays: bool,
    /// When a failing store is left alone; `None`: never.
    pub breaker: Option<BreakerOptions>,
    /// Whether this process is one of the nodes that share the store: not if it only looks.
    pub announces: bool,
    /// For a store in memory.
    pub memory: MemoryOptions,
}

/// How a store in memory is kept.
///
/// ```
/// use tidegate::driver::{MemoryDriver, MemoryOptions, StoreDriver, StoreOptions};
///
/// assert_eq!(MemoryOptions::MAX_BYTES, 256 << 20);
/// let memory = MemoryOptions { max_bytes: Some(64 << 20), snapshot: None };
/// let opened = MemoryDriver.open("memory:", &StoreOptions { memory, ..StoreOptions::default() })?;
/// assert!(opened.snapshots().is_none());
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryOptions {
    /// The byte cap, if not the default.
    pub max_bytes: Option<usize>,
    /// The file that it is restored from when it is opened, and saved to; see [`OpenStore::snapshots`].
    pub snapshot: Option<PathBuf>,
}

impl MemoryOptions {
    /// The default byte cap: 256 MiB.
    pub const MAX_BYTES: usize = DEFAULT_MAX_BYTES;
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            key_prefix: "tg".to_owned(),
            hasher: KeyHasher::new(HASH_KEY),
            deadline: crate::deadline::DEFAULT,
            replays: false,
            breaker: Some(BreakerOptions::default()),
            announces: true,
            memory: MemoryOptions::default(),
        }
    }
}

/// A store that reports on itself, for metrics.
///
/// ```
/// use tidegate::MemoryStore;
/// use tidegate::driver::StoreMonitor;
///
/// assert_eq!(MemoryStore::default().report().memory.map(|stats| stats.keys), Some(0));
/// ```
pub trait StoreMonitor: Send + Sync + fmt::Debug {
    /// What is known without asking the store.
    fn report(&self) -> StoreReport;

    /// The last real failure while a breaker of the store is open: callers only learn that it is open.
    fn cause(&self) -> Option<StoreError> {
        None
    }

    /// The servers of a quorum, in the order of its URL; none of other stores.
    fn servers(&self) -> Vec<StoreServer> {
        Vec::new()
    }
}

/// A store that was opened.
///
/// ```
/// use tidegate::MemoryStore;
/// use tidegate::driver::OpenStore;
///
/// let opened = OpenStore::new("memory", MemoryStore::default());
/// assert!(opened.store.extensions().is_local() && opened.report().network.is_none());
/// assert_eq!(opened.kind, "memory");
/// ```
#[derive(Clone, Debug)]
pub struct OpenStore {
    /// The store itself.
    pub store: Arc<dyn Store>,
    /// The kind of store, as people call it.
    pub kind: &'static str,
    monitor: Arc<dyn StoreMonitor>,
    /// The two stores of a [routed](Self::routed) one.
    routed: Option<Arc<Both>>,
    snapshots: Option<Arc<Snapshots>>,
}

impl OpenStore {
    /// A store of this kind.
    pub fn new<S: Store + StoreMonitor + 'static>(kind: &'static str, store: S) -> Self {
        let store = Arc::new(store);
        Self { store: store.clone(), kind, monitor: store, routed: None, snapshots: None }
    }

    /// Two stores that were opened, as [one](RoutedStore): the quorum is for the policies that ask for it. Its kind is that
    /// of the main store; what it reports, both have done together.
    ///
    /// ```
    /// # use tidegate::MemoryStore;
    /// # use tidegate::driver::OpenStore;
    /// let open = || OpenStore::new("memory", MemoryStore::default());
    /// let both = OpenStore::routed(open(), open());
    /// assert!(both.quorum().is_some() && open().quorum().is_none());
    /// assert!(both.main().quorum().is_none());
    /// ```
    #[must_use]
    pub fn routed(main: Self, quorum: Self) -> Self {
        let store = Arc::new(RoutedStore::new(main.store.clone(), quorum.store.clone()));
        let (kind, snapshots) = (main.kind, main.snapshots.clone());
        let both = Arc::new(Both { main, quorum });
        Self { store, kind, monitor: both.clone(), routed: Some(both), snapshots }
    }

    /// The main store of a [routed](Self::routed) one; any other store itself.
    pub fn main(&self) -> &Self {
        self.routed.as_deref().map_or(self, |both| &both.main)
    }

    /// The snapshots of a store in memory whose [options](MemoryOptions::snapshot) name a file.
    pub const fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.snapshots.as_ref()
    }

    /// The quorum of a [routed](Self::routed) store.
    pub fn quorum(&self) -> Option<&Self> {
        self.routed.as_deref().map(|both| &both.quorum)
    }

    /// A store of this kind, behind a [`Breaker`] if there is to be one.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{BreakerOptions, BreakerState, MemoryStore};
    /// # use tidegate::driver::OpenStore;
    /// let store = Arc::new(MemoryStore::default());
    /// let opened = OpenStore::with_breaker("memory", store, Some(BreakerOptions::default()));
    /// assert_eq!(opened.report().breaker, Some((BreakerState::Closed, 0)));
    /// ```
    pub fn with_breaker<S: Store + StoreMonitor + Clone + 'static>(
        kind: &'static str,
        store: S,
        breaker: Option<BreakerOptions>,
    ) -> Self {
        let Some(options) = breaker else { return Self::new(kind, store) };
        let breaker = Breaker::around(store.clone(), options);
        let monitor = Arc::new(BehindBreaker { store, breaker: breaker.clone() });
        Self { store: Arc::new(breaker), kind, monitor, routed: None, snapshots: None }
    }

    /// What is known without asking the store.
    pub fn report(&self) -> StoreReport {
        self.monitor.report()
    }

    /// The last real failure while a breaker of the store is open.
    ///
    /// ```
    /// # use tidegate::MemoryStore;
    /// # use tidegate::driver::OpenStore;
    /// assert!(OpenStore::new("memory", MemoryStore::default()).cause().is_none());
    /// ```
    pub fn cause(&self) -> Option<StoreError> {
        self.monitor.cause()
    }

    /// The servers of a quorum, in the order of its URL; none of other stores. Of a [routed](Self::routed) store, those of
    /// both.
    ///
    /// ```
    /// # use tidegate::MemoryStore;
    /// # use tidegate::driver::OpenStore;
    /// assert!(OpenStore::new("memory", MemoryStore::default()).servers().is_empty());
    /// ```
    pub fn servers(&self) -> Vec<StoreServer> {
        self.monitor.servers()
    }

    /// `ok`, `not-connected` or `left-alone`, as far as is known without asking the store. Of a [routed](Self::routed)
    /// store, that of the one which is worse off.
    pub fn condition(&self) -> &'static str {
        if let Some(both) = self.routed.as_deref() {
            let conditions = [both.main.condition(), both.quorum.condition()];
            return conditions.into_iter().find(|it| *it != "ok").unwrap_or("ok");
        }
        let StoreReport { breaker, network, .. } = self.report();
        if breaker.is_some_and(|(state, _)| state != BreakerState::Closed) {
            return "left-alone";
        }
        match network {
            Some(stats) if stats.connects <= stats.disconnects => "not-connected",
            _ => "ok",
        }
    }

    /// Asks once and spends nothing, to learn whether the store answers; a routed one, whether both do.
    ///
    /// ```
    /// # use tidegate::driver::{StoreDrivers, StoreOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), String> {
    /// let opened = StoreDrivers::MEMORY.open("memory:", &StoreOptions::default())?;
    /// assert!(opened.reach().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reach(&self) -> Result<(), StoreError> {
        self.reach_for(Duration::from_secs(1)).await
    }

    /// The same for limits whose states [matter](Limit::state_life_max) for this long: a quorum may serve some and not
    /// others.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::driver::{StoreDrivers, StoreOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), String> {
    /// let opened = StoreDrivers::MEMORY.open("memory:", &StoreOptions::default())?;
    /// assert!(opened.reach_for(Duration::from_hours(24)).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reach_for(&self, state_life: Duration) -> Result<(), StoreError> {
        let limit = FixedWindow::new(1, state_life).map(Limit::from);
        let limit = limit
            .map_err(|error| StoreError::new(StoreErrorKind::BadRequest, error.to_string()))?;
        for store in [Some(self.main()), self.quorum()].into_iter().flatten() {
            let scope = Scope::named("tidegate", "reach");
            let limits = [KeyedLimit { scope: &scope, key: b"reach", limit: &limit }];
            let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 0, op: Op::Peek };
            store.store.decide(&request, Timestamp::EPOCH).await?;
        }
        Ok(())
    }
}

/// Reports on a store and the breaker around it.
#[derive(Debug)]
struct BehindBreaker<S> {
    store: S,
    breaker: Breaker<S>,
}

impl<S: Store + StoreMonitor + 'static> StoreMonitor for BehindBreaker<S> {
    fn report(&self) -> StoreReport {
        let breaker = Some((self.breaker.state(), self.breaker.opened_total()));
        StoreReport { breaker, ..self.store.report() }
    }

    fn cause(&self) -> Option<StoreError> {
        self.breaker.cause()
    }

    fn servers(&self) -> Vec<StoreServer> {
        self.store.servers()
    }
}

/// Two stores, and reports on them together.
#[derive(Debug)]
struct Both {
    main: OpenStore,
    quorum: OpenStore,
}

impl StoreMonitor for Both {
    fn report(&self) -> StoreReport {
        self.main.report().plus(&self.quorum.report())
    }

    fn cause(&self) -> Option<StoreError> {
        self.main.cause().or_else(|| self.quorum.cause())
    }

    fn servers(&self) -> Vec<StoreServer> {
        [self.main.servers(), self.quorum.servers()].concat()
    }
}

impl<S: StoreMonitor + ?Sized> StoreMonitor for Arc<S> {
    fn report(&self) -> StoreReport {
        (**self).report()
    }

    fn cause(&self) -> Option<StoreError> {
        (**self).cause()
    }

    fn servers(&self) -> Vec<StoreServer> {
        (**self).servers()
    }
}

/// All stores that a program knows.
///
/// ```
/// use tidegate::driver::StoreDrivers;
///
/// let stores = StoreDrivers::MEMORY;
/// assert!(stores.check(" memory\n").is_ok() && stores.is_local("memory:"));
/// let error = stores.check("mysql://:secret@h").unwrap_err();
/// assert_eq!(error, "store `mysql:…` is unknown; expected memory:");
/// assert!(stores.find("memory:").is_ok_and(|driver| !driver.counts_one_identifier_per_step()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoreDrivers(pub &'static [&'static dyn StoreDriver]);

impl StoreDrivers {
    /// The store in memory alone.
    pub const MEMORY: Self = Self(&[&MemoryDriver]);

    /// Checks a URL, without connecting.
    pub fn check(&self, url: &str) -> Result<(), String> {
        let url = normalized(url);
        self.find(url)?.check(url).map_err(|error| error.to_string())
    }

    /// Whether the URL names a store in this process.
    pub fn is_local(&self, url: &str) -> bool {
        self.find(normalized(url)).is_ok_and(StoreDriver::is_local)
    }

    /// Whether the URL names a store that [spreads keys](StoreDriver::spreads_keys).
    pub fn spreads_keys(&self, url: &str) -> bool {
        let url = normalized(url);
        self.find(url).is_ok_and(|driver| driver.spreads_keys(url))
    }

    /// Opens the store behind a URL.
    pub fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, String> {
        let url = normalized(url);
        let driver = self.find(url)?;
        driver.open(url, options).map_err(|error| {
            // What can fail in memory is its snapshot, which the error names.
            let is_local = driver.is_local();
            if is_local { error.to_string() } else { format!("store {}: {error}", redacted(url)) }
        })
    }

    /// The driver of a URL.
    pub fn find(&self, url: &str) -> Result<&'static dyn StoreDriver, String> {
        let url = normalized(url);
        let is_of = |scheme: &&str| {
            if scheme.ends_with("//") { url.starts_with(*scheme) } else { url == *scheme }
        };
        let found = self.0.iter().find(|driver| driver.schemes().iter().any(is_of));
        found.copied().ok_or_else(|| {
            let schemes = self.0.iter().flat_map(|driver| driver.schemes());
            let shown =
                |it: &&str| if it.ends_with("//") { format!("{it}…") } else { (*it).into() };
            let known = schemes.map(shown).collect::<Vec<String>>().join(", ");
            format!("store `{}` is unknown; expected {known}", scheme_of(url))
        })
    }
}

/// A URL without the spaces around it; `memory` means `memory:`.
///
/// ```
/// assert_eq!(tidegate::driver::normalized(" memory "), "memory:");
/// ```
pub fn normalized(url: &str) -> &str {
    match url.trim() {
        "memory" => "memory:",
        url => url,
    }
}

/// A URL without what may be secret in it: user, password and parameters.
///
/// ```
/// assert_eq!(tidegate::driver::redacted("redis://app:secret@h:1?db=2"), "redis://h:1");
/// ```
pub fn redacted(url: &str) -> String {
    let url = normalized(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return scheme_of(url);
    };
    let (before, after) = rest.rsplit_once('@').unwrap_or(("", rest));
    // A question mark before the last @ is part of a password, or the @ part of a parameter: show neither.
    let location =
        if before.contains('?') { "…" } else { after.split('?').next().unwrap_or("…") };
    printable(&format!("{scheme}://{location}"))
}

/// What is before the first colon, if a scheme can look so: the rest may hold a password.
fn scheme_of(url: &str) -> String {
    let can_be = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    match url.split_once(':') {
        Some((scheme, _)) if scheme.chars().all(can_be) => format!("{}:…", printable(scheme)),
        _ => "…".to_owned(),
    }
}

/// The store in memory: `memory:`.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDriver, StoreOptions};
///
/// let opened = MemoryDriver.open("memory:", &StoreOptions::default())?;
/// assert_eq!(opened.kind, "memory");
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemoryDriver;

impl StoreDriver for MemoryDriver {
    fn schemes(&self) -> &'static [&'static str] {
        &["memory:"]
    }

    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn open(&self, _: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let (store, snapshots) = snapshots::open_memory(&options.memory, SystemClock.now())?;
        let monitor: Arc<dyn StoreMonitor> = match &snapshots {
            Some(snapshots) => snapshots.clone(),
            None => store.clone(),
        };
        Ok(OpenStore { store, kind: "memory", monitor, routed: None, snapshots })
    }
}

impl StoreMonitor for MemoryStore {
    fn report(&self) -> StoreReport {
        StoreReport { memory: Some(self.stats()), ..StoreReport::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_url_holds_no_secret() {
        for (url, expected) in [
            ("memory:", "memory:…"),
            (" memory ", "memory:…"),
            (" redis://h:1\n", "redis://h:1"),
            ("redis://127.0.0.1:6379/2", "redis://127.0.0.1:6379/2"),
            ("redis://:secret@h:1", "redis://h:1"),
            ("redis://user:secret@h:1", "redis://h:1"),
            ("redis://user:se@cret@h:1", "redis://h:1"),
            ("redis://user:se/cret@h:1", "redis://h:1"),
            ("redis://user:se?cret@h:1", "redis://…"),
            ("redis+unix:///run/r.sock?pass=secret", "redis+unix:///run/r.sock"),
            ("redis+unix:///run/r.sock?pass=se@cret", "redis+unix://…"),
            ("redis+cluster://u:secret@a:1,b:2", "redis+cluster://a:1,b:2"),
            ("user:secret", "user:…"),
            ("secret", "…"),
        ] {
            assert_eq!(redacted(url), expected);
        }
    }

    #[test]
    fn only_known_schemes_are_opened() {
        let (stores, options) = (StoreDrivers::MEMORY, StoreOptions::default());
        for url in ["memory:", "memory", " memory\n"] {
            assert!(stores.open(url, &options).is_ok(), "{url:?}");
        }
        for url in ["", "redis", "memory://", "http://u:secret@h", "redis:u:secret"] {
            let error = stores.open(url, &options).unwrap_err();
            assert!(error.contains("expected memory:") && !error.contains("secret"), "{error}");
        }
    }
}
