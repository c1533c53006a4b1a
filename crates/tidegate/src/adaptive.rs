//! Limits that follow the health of what they protect.
//!
//! A [`Target`] is a protected service: requests to it and other readings of its health are reported there. A [`Rule`]
//! defines which signals of which targets move a limit, and how. [`Adaptive`] applies the rules once a second, and sets
//! the [`Effective`] of each limit; checks only read that.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::adaptive::{Adaptive, Rule};
//! use tidegate::{Engine, ManualClock, Policy};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::default();
//! let adaptive = Adaptive::with_clock(clock.clone());
//! let database = adaptive.target("db");
//! let effective = adaptive.govern("search", 1000, Rule::observing(&database))?;
//! let search = Policy::all().limit("", "1000/s").adaptive("", &effective);
//! let engine = Engine::builder().clock(clock.clone()).policy("search", search).build()?;
//!
//! // While it answers in 10 ms, nothing is taken away.
//! for _ in 0..50 {
//!     database.observe(Duration::from_millis(10), true);
//! }
//! adaptive.tick().await; // by itself once a second, after adaptive.start()
//! assert_eq!(engine.check("search", "user-42").now()?.decision.limit(), 1000);
//!
//! // Half a second in its queue, for five seconds, is too much.
//! for _ in 0..5 {
//!     clock.advance(Duration::from_secs(1));
//!     for _ in 0..50 {
//!         database.observe(Duration::from_millis(510), true);
//!     }
//!     adaptive.tick().await;
//! }
//! assert!(engine.check("search", "user-42").now()?.decision.limit() < 100);
//! # Ok(())
//! # }
//! ```
//!
//! [`tidegate_core::adaptive`] describes what a step makes of a signal; its settings are found here too.

mod cpu;
mod draft;
mod governor;
mod rule;
mod sharing;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub use self::draft::Draft;
pub use self::governor::Status;
pub use self::rule::{Rule, Source};
pub use self::target::{Observation, Target};
pub use tidegate_core::adaptive::{
    Absence, AdaptiveError, Cap, Chain, Ends, Hysteresis, Mode, Output, Priority, Ramp, Reading,
    Settings, Signal, Smoothing, TickSummary, UrlSummary, WarmUp,
};

use self::cpu::Cpu;
use self::governor::{Governor, UrlGovernor, UrlLimit};
use self::sharing::Sharing;
use crate::clock::{Clock, SystemClock};
use crate::effective::Effective;
use crate::store::Store;
use crate::sync::lock;

/// How often limits are set.
const TICK: Duration = Duration::from_secs(1);

/// Targets beyond this number share one.
const TARGETS_MAX: usize = 4000;

/// Sets limits by the health of what they protect, once a second. Clones share everything.
///
/// Create it once and keep it through reloads: [`Adaptive::govern`] with a known name returns the same [`Effective`] for
/// the next policy, and continues from the state before.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Rule};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::adaptive::AdaptiveError> {
/// let adaptive = Adaptive::default();
/// let effective = adaptive.govern("search", 1000, Rule::observing(&adaptive.target("db")))?;
/// assert!(adaptive.start()); // from now on it ticks by itself
/// assert_eq!(effective.units(), None); // all is in force
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Adaptive {
    state: Arc<AdaptiveState>,
}

struct AdaptiveState {
    clock: Arc<dyn Clock>,
    sharing: Option<Sharing>,
    targets: Mutex<BTreeMap<String, Target>>,
    governors: Mutex<BTreeMap<String, Arc<Governor>>>,
    urls: Mutex<BTreeMap<String, UrlGovernor>>,
    cpu: Mutex<Cpu>,
    ticking: AtomicBool,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::with_clock(SystemClock)
    }
}

impl Adaptive {
    /// With another clock.
    ///
    /// ```
    /// use tidegate::{ManualClock, adaptive::Adaptive};
    ///
    /// let adaptive = Adaptive::with_clock(ManualClock::default()); // a test need not wait
    /// assert!(adaptive.status().is_empty());
    /// ```
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        Self::new(Arc::new(clock), None)
    }

    /// With a clock, and together with other nodes: all that share the store, and have the same rule under the same name,
    /// agree on what is in force. Each node reports its readings once a second, one of them makes a step from all
    /// readings, and the others adopt it. While the store fails, each node uses its own readings.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tidegate::adaptive::{Adaptive, Chain, Reading, Rule, Source};
    /// use tidegate::{ManualClock, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // Over Redis each of them is a process of its own.
    /// let (store, clock) = (Arc::new(MemoryStore::default()), ManualClock::default());
    /// let nodes = [0; 3].map(|_| Adaptive::shared_over(store.clone(), clock.clone()));
    /// for node in &nodes {
    ///     let rule = Rule::from_chains([(Chain::pressure("db"), Source::Pushed(node.target("db")))])?;
    ///     node.govern("search", 1000, rule)?;
    /// }
    /// for second in 0..9 {
    ///     for (node, pressure) in nodes.iter().zip([0.2, 0.4, 0.9]) {
    ///         node.target("db").push(Reading::Value(pressure));
    ///         node.tick().await;
    ///     }
    ///     clock.advance(Duration::from_secs(1));
    /// }
    /// // What most of them see counts.
    /// let limits = nodes.each_ref().map(|node| node.status()[0].output.limit);
    /// assert_eq!(limits, [600, 600, 600]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared_over(store: impl Store + 'static, clock: impl Clock + 'static) -> Self {
        Self::new(Arc::new(clock), Some(Sharing::over(Arc::new(store))))
    }

    fn new(clock: Arc<dyn Clock>, sharing: Option<Sharing>) -> Self {
        let state = AdaptiveState {
            clock,
            sharing,
            targets: Mutex::default(),
            governors: Mutex::default(),
            urls: Mutex::default(),
            cpu: Mutex::new(Cpu::of_this_machine()),
            ticking: AtomicBool::new(false),
        };
        Self { state: Arc::new(state) }
    }

    /// The target with this name; created on first use. Names beyond four thousand share one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::Adaptive;
    /// let adaptive = Adaptive::default();
    /// adaptive.target("db").observe(Duration::from_millis(12), true);
    /// assert_eq!(adaptive.targets().len(), 1);
    /// assert_eq!(adaptive.targets()[0].name(), "db");
    /// ```
    pub fn target(&self, name: &str) -> Target {
        let mut targets = lock(&self.state.targets);
        if let Some(target) = targets.get(name) {
            return target.clone();
        }
        let name = if targets.len() < TARGETS_MAX { name } else { "other" };
        let new = || Target::new(name, self.state.clock.clone());
        targets.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// All targets, by name.
    pub fn targets(&self) -> Vec<Target> {
        lock(&self.state.targets).values().cloned().collect()
    }

    /// Lets a limit of `units` follow a rule, under a name. Pass the result to
    /// [`Policy::adaptive`](crate::Policy::adaptive). A known name returns the same one as before, and continues from its
    /// state.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Chain, Rule, Source};
    /// let adaptive = Adaptive::default();
    /// let cpu = || Rule::from_chains([(Chain::cpu(), Source::Cpu)]);
    /// let before = adaptive.govern("export", 100, cpu()?)?;
    /// before.set(70);
    /// let after_reload = adaptive.govern("export", 200, cpu()?)?;
    /// assert_eq!(after_reload.units(), Some(70)); // until the next tick
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn govern(&self, name: &str, units: u64, rule: Rule) -> Result<Effective, AdaptiveError> {
        let mut governors = lock(&self.state.governors);
        let before = governors.get(name).map(|it| &**it);
        let governor = Governor::new(name, units, rule, before)?;
        governor.take_over(before);
        let effective = governor.effective.clone();
        governors.insert(name.to_owned(), Arc::new(governor));
        Ok(effective)
    }

    /// The same for each URL of a site: a limit of `units` a minute for every URL follows how long that URL took on
    /// average in the last minute. Only this node's requests count.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::{Adaptive, Mode, Priority, Ramp};
    /// # use tidegate::{Engine, ManualClock, Policy};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::default();
    /// let adaptive = Adaptive::with_clock(clock.clone());
    /// let site = adaptive.target("site");
    /// let effective = adaptive.govern_urls("pages", 240, Ramp::latency_per_url(), &site, Mode::Enforce);
    /// let pages = Policy::all().limit("", "sliding-window 240/min").adaptive("", &effective);
    /// let engine = Engine::builder().clock(clock.clone()).policy("pages", pages).build()?;
    ///
    /// let request = site.begin().of_url("/report");
    /// clock.advance(Duration::from_millis(9150));
    /// request.done(true);
    /// adaptive.tick().await;
    /// assert_eq!(engine.check("pages", "/report").now()?.decision.limit(), 122);
    /// assert_eq!(engine.check("pages", "/").now()?.decision.limit(), 240);
    /// # Ok(())
    /// # }
    /// ```
    pub fn govern_urls(
        &self,
        name: &str,
        units: u64,
        ramp: Ramp,
        target: &Target,
        mode: Mode,
    ) -> Effective {
        let mut urls = lock(&self.state.urls);
        let before = urls.get(name);
        let effective = before.map_or_else(Effective::default, |it| it.effective.clone());
        let next = UrlGovernor::new(effective.clone(), UrlLimit::Units(units, ramp), target, mode);
        next.take_over(before);
        urls.insert(name.to_owned(), next);
        effective
    }

    /// Drops the limits whose names are not kept, on a reload: their declared limit is in force again. Targets without a
    /// handle are dropped, too.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Rule};
    /// let adaptive = Adaptive::default();
    /// let search = adaptive.govern("search", 100, Rule::observing(&adaptive.target("db")))?;
    /// search.set(7);
    /// adaptive.retain(|name| name == "export");
    /// assert_eq!((search.units(), adaptive.status().len()), (None, 0));
    /// assert!(adaptive.targets().is_empty());
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        lock(&self.state.governors).retain(|name, it| keep(name) || clear_effective(&it.effective));
        lock(&self.state.urls).retain(|name, it| keep(name) || clear_effective(&it.effective));
        lock(&self.state.targets).retain(|_, target| target.is_held());
    }

    /// Fixes a limit at a share of itself, or lets it follow its signals again. `false` if no limit has this name. Applies
    /// to this node only: [`Target::fix`] is for all nodes. For limits by URL, every URL gets this share.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Rule};
    /// let adaptive = Adaptive::default();
    /// let search = adaptive.govern("search", 100, Rule::observing(&adaptive.target("db")))?;
    /// assert!(adaptive.fix("search", Some(0.3)));
    /// assert_eq!(search.units(), Some(30));
    /// assert!(adaptive.fix("search", None));
    /// assert_eq!(search.units(), None);
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn fix(&self, name: &str, share: Option<f64>) -> bool {
        let governor = lock(&self.state.governors).get(name).cloned();
        match governor {
            Some(governor) => governor.fix(share),
            None => lock(&self.state.urls).get(name).is_some_and(|urls| urls.fix(share)),
        }
    }

    /// The state of each limit that follows a rule, by name.
    pub fn status(&self) -> Vec<Status> {
        lock(&self.state.governors).values().map(|governor| governor.status()).collect()
    }

    /// One tick: reads every signal and sets every limit. Returns how long to wait for the next.
    pub async fn tick(&self) -> Duration {
        self.state.tick().await
    }

    /// Starts a task that ticks once a second. It ends with the last handle, or with its runtime: then it can be started
    /// again. Needs a tokio runtime; `false` if there is none, or if it is running already.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let adaptive = Adaptive::default();
    /// assert!(!adaptive.start()); // there is no runtime here
    /// ```
    pub fn start(&self) -> bool {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return false };
        if self.state.ticking.swap(true, Relaxed) {
            return false;
        }
        runtime.spawn(Ticker(Arc::downgrade(&self.state)).run());
        true
    }
}

/// The task that ticks. When it ends with its runtime, another one may be started.
struct Ticker(Weak<AdaptiveState>);

impl Ticker {
    async fn run(self) {
        while let Some(state) = self.0.upgrade() {
            let wait = state.tick().await;
            drop(state);
            tokio::time::sleep(wait).await;
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some(state) = self.0.upgrade() {
            state.ticking.store(false, Relaxed);
        }
    }
}

impl AdaptiveState {
    async fn tick(&self) -> Duration {
        let governors: Vec<_> = lock(&self.governors).values().cloned().collect();
        let targets: Vec<_> = lock(&self.targets).values().cloned().collect();
        for target in &targets {
            target.tick(governors.iter().filter_map(|governor| governor.output_on(target)));
        }
        let cpu = lock(&self.cpu).read(self.clock.steady_us());
        let now = self.clock.now();
        for urls in lock(&self.urls).values() {
            urls.publish();
        }
        if let Some(sharing) = &self.sharing {
            return sharing.step(&governors, cpu, now).await;
        }
        for governor in governors {
            governor.step(&governor.readings(cpu), now);
        }
        TICK
    }
}

impl fmt::Debug for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adaptive").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// For `retain`: puts the declared limit back in force. Always `false`.
fn clear_effective(effective: &Effective) -> bool {
    effective.clear();
    false
}
