//! A protected service: the readings of its health, and the requests to it that are measured.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{
    AdaptiveError, Cap, CapSample, InFlight, InFlightGuard, Observed, Output, Priority, Reading,
    TickSummary, UrlRequest, UrlSummary, Urls,
};

use crate::clock::Clock;
use crate::sync::lock;

/// How long a pushed value counts: a source that pushes once a second may be a little late.
const PUSHED_FOR_US: u64 = 1_500_000;

/// The weight of a value that an operator has fixed: it outweighs the readings of all other nodes.
const FIXED_WEIGHT: u64 = 1 << 40;

/// A database, service or pool that limits protect. Clones share everything.
///
/// ```
/// use std::time::Duration;
/// use tidegate::adaptive::{Adaptive, Priority, Reading};
///
/// let database = Adaptive::default().target("db");
/// // Measured elsewhere:
/// database.observe(Duration::from_millis(12), true);
/// database.observe_wait(Duration::from_millis(3)); // as the database reports it
/// database.push(Reading::Value(0.4)); // a pressure, from a probe
/// // Or it is measured here, however the request ends:
/// let request = database.begin();
/// assert_eq!(database.in_flight(), 1);
/// request.done(true);
/// assert_eq!(database.in_flight(), 0);
/// ```
#[derive(Clone)]
pub struct Target {
    state: Arc<TargetState>,
}

struct TargetState {
    name: String,
    clock: Arc<dyn Clock>,
    observed: Mutex<Observed>,
    urls: Mutex<Urls>,
    in_flight: InFlight,
    cap: Mutex<Option<Cap>>,
    /// How many requests may be in flight; `u64::MAX` without a cap.
    slots: AtomicU64,
    reported: Mutex<Reported>,
}

/// What sources and operators reported, and the results of the last tick.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    pushed: Option<(Reading, u64)>,
    fixed: Option<f64>,
    seen: TickSummary,
    pressure: f64,
}

impl Target {
    pub(super) fn new(name: &str, clock: Arc<dyn Clock>) -> Self {
        let state = TargetState {
            name: name.to_owned(),
            clock,
            observed: Mutex::default(),
            urls: Mutex::default(),
            in_flight: InFlight::default(),
            cap: Mutex::default(),
            slots: AtomicU64::new(u64::MAX),
            reported: Mutex::default(),
        };
        Self { state: Arc::new(state) }
    }

    /// Whether this is not the only handle.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.state) > 1
    }

    /// Its name.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// assert_eq!(Adaptive::default().target("db").name(), "db");
    /// ```
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// A request is sent to the target. Call it for admitted requests only: a refused one does not wait.
    pub fn begin(&self) -> Observation {
        // Without a bound there is always a slot.
        Observation::new(self.clone(), self.state.in_flight.enter(u64::MAX))
    }

    /// The same, if there is a free slot: `None` if as many requests are in flight as the [cap](Target::set_cap) allows.
    /// Call it before anything is charged. For requests with a priority, a fifth of the slots is reserved for critical
    /// ones; those without may take all.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Cap, Priority};
    /// let database = Adaptive::default().target("db");
    /// database.set_cap(Some(Cap::fixed(5)?)); // ten slots: five busy, five waiting
    /// let held: Vec<_> = (0..10).filter_map(|_| database.enter(Priority::Default)).collect();
    /// assert_eq!(held.len(), 8);
    /// let more: Vec<_> = (0..10).filter_map(|_| database.enter(None)).collect();
    /// assert_eq!(more.len(), 2);
    /// assert!(database.enter(Priority::Critical).is_none());
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn enter(&self, priority: impl Into<Option<Priority>>) -> Option<Observation> {
        let slot = self.state.in_flight.enter(self.slots_for(priority.into()))?;
        Some(Observation::new(self.clone(), Some(slot)))
    }

    /// Whether there is a free slot now, without taking it: so that no request is charged in vain.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let database = Adaptive::default().target("db");
    /// database.set_pool(1)?;
    /// let held = [database.enter(None), database.enter(None)];
    /// assert!(!database.has_room(None));
    /// drop(held);
    /// assert!(database.has_room(None));
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn has_room(&self, priority: impl Into<Option<Priority>>) -> bool {
        self.in_flight() < self.slots_for(priority.into())
    }

    fn slots_for(&self, priority: Option<Priority>) -> u64 {
        let slots = self.state.slots.load(Relaxed);
        priority.filter(|_| slots != u64::MAX).map_or(slots, |priority| priority.slots(slots))
    }

    /// The number of requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.state.in_flight.count()
    }

    /// How many requests may be in flight; `None` without a cap.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Cap};
    /// let database = Adaptive::default().target("db");
    /// assert_eq!(database.slots(), None);
    /// database.set_pool(16)?;
    /// assert_eq!(database.slots(), Some(32));
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn slots(&self) -> Option<u64> {
        let slots = self.state.slots.load(Relaxed);
        (slots != u64::MAX).then_some(slots)
    }

    /// Caps the requests in flight, or removes the cap. A cap that is [like](Cap::is_like) the one before keeps its number
    /// of slots.
    pub fn set_cap(&self, cap: Option<Cap>) {
        let mut current = lock(&self.state.cap);
        let resumed = |next: &Cap| current.filter(|current| current.is_like(next));
        let cap = cap.map(|cap| resumed(&cap).unwrap_or(cap));
        *current = cap;
        self.state.slots.store(cap.map_or(u64::MAX, |cap| cap.slots()), Relaxed);
    }

    /// Sets the number of slots in its pool, if all requests to it are measured here. Caps the requests in flight at
    /// twice as many, and tells a long queue from a slow target.
    pub fn set_pool(&self, slots: u64) -> Result<(), AdaptiveError> {
        self.set_cap(Some(Cap::fixed(slots)?));
        self.set_pool_size(Some(slots));
        Ok(())
    }

    /// The same without the cap; `None` if the size is unknown.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let database = Adaptive::default().target("db");
    /// database.set_pool_size(Some(16)); // nothing is refused, as in shadow mode
    /// assert_eq!(database.slots(), None);
    /// ```
    pub fn set_pool_size(&self, slots: Option<u64>) {
        self.observed().set_pool(slots);
    }

    /// A request that was measured elsewhere: how long it took, and whether it succeeded. A timeout or a 5xx is a failure.
    pub fn observe(&self, latency: Duration, ok: bool) {
        self.observed().note(latency, ok);
    }

    /// How long a request to a URL took, measured elsewhere. The URL is a normalised path, without its query.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::Adaptive;
    /// let site = Adaptive::default().target("site");
    /// site.observe_url("/report", Duration::from_millis(9150));
    /// assert_eq!(site.busiest_urls(1)[0].1.mean_ms, 9150.0);
    /// ```
    pub fn observe_url(&self, url: &str, latency: Duration) {
        let now = self.now();
        self.urls().note(url, latency, now);
    }

    /// How long a request waited in the target's queue, as the target reports it.
    pub fn observe_wait(&self, wait: Duration) {
        self.observed().note_wait(wait);
    }

    /// Reports a reading: the pressure that a probe got, how full a pool is, the answer to a query, or that the target did
    /// not answer. For rules with [`Source::Pushed`](super::Source::Pushed), about once a second; an older reading counts
    /// as missing.
    pub fn push(&self, reading: Reading) {
        lock(&self.state.reported).pushed = Some((reading, self.state.clock.steady_us()));
    }

    /// Fixes the reading, whatever [`Target::push`] reports, until it is cleared with `None`. Among nodes that share their
    /// readings, it counts for all while this node runs.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Chain, Reading, Rule, Source};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::adaptive::AdaptiveError> {
    /// let adaptive = Adaptive::default();
    /// let database = adaptive.target("db");
    /// let rule = Rule::from_chains([(Chain::pressure("db"), Source::Pushed(database.clone()))])?;
    /// let effective = adaptive.govern("search", 100, rule)?;
    /// database.push(Reading::Value(0.1));
    /// database.fix(Some(0.3)); // set by an operator
    /// adaptive.tick().await;
    /// assert_eq!((effective.units(), database.fixed()), (Some(70), Some(0.3)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fix(&self, value: Option<f64>) {
        lock(&self.state.reported).fixed = value;
    }

    /// The fixed reading.
    pub fn fixed(&self) -> Option<f64> {
        lock(&self.state.reported).fixed
    }

    /// What was observed in the last tick.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::Adaptive;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let adaptive = Adaptive::default();
    /// adaptive.target("db").observe(Duration::from_millis(12), true);
    /// adaptive.tick().await;
    /// assert_eq!(adaptive.target("db").seen().count, 1);
    /// assert_eq!(adaptive.target("db").pressure(), 0.0);
    /// # }
    /// ```
    pub fn seen(&self) -> TickSummary {
        lock(&self.state.reported).seen
    }

    /// The highest pressure that a rule computed for it in the last tick: 0 healthy, 1 overloaded.
    pub fn pressure(&self) -> f64 {
        lock(&self.state.reported).pressure
    }

    /// Its busiest URLs in the last minute; `None` stands for those beyond ten thousand.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let site = Adaptive::default().target("site");
    /// site.begin().of_url("/report").done(true);
    /// let busiest = site.busiest_urls(100);
    /// assert_eq!(busiest[0].0.as_deref(), Some("/report"));
    /// assert_eq!(busiest[0].1.count, 1);
    /// ```
    pub fn busiest_urls(&self, most: usize) -> Vec<(Option<String>, UrlSummary)> {
        let (urls, now) = (self.urls(), self.now());
        let owned = |(url, summary): (Option<&str>, _)| (url.map(str::to_owned), summary);
        urls.busiest(most, now).into_iter().map(owned).collect()
    }

    /// The time that observations are measured by.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.state.clock.steady_us())
    }

    fn observed(&self) -> MutexGuard<'_, Observed> {
        lock(&self.state.observed)
    }

    pub(super) fn urls(&self) -> MutexGuard<'_, Urls> {
        lock(&self.state.urls)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Summarises the requests since the last tick. `outputs` are those of the rules that follow this target.
    pub(super) fn tick(&self, outputs: impl Iterator<Item = Output>) {
        let (pressure, is_stale) =
            outputs.fold((0.0_f64, false), |(pressure, is_stale), output| {
                (pressure.max(output.pressure), is_stale || output.is_stale)
            });
        let seen = self.observed().tick(self.now(), pressure);
        let reported = &mut *lock(&self.state.reported);
        (reported.seen, reported.pressure) = (seen, pressure);
        let mut cap = lock(&self.state.cap);
        if let Some(cap) = &mut *cap
            && let (Some(latency_ms), Some(baseline_ms)) = (seen.latency_ms, seen.baseline_ms)
        {
            let in_flight = self.in_flight();
            cap.step(CapSample { latency_ms, baseline_ms, in_flight, is_stale });
            self.state.slots.store(cap.slots(), Relaxed);
        }
    }

    /// The pushed reading and its weight. A failure is returned once, because failures are counted.
    pub(super) fn pushed(&self) -> (Reading, u64) {
        let now_us = self.state.clock.steady_us();
        let mut reported = lock(&self.state.reported);
        if let Some(fixed) = reported.fixed {
            return (Reading::Value(fixed), FIXED_WEIGHT);
        }
        match reported.pushed {
            Some((Reading::Failed, _)) => {
                reported.pushed = None;
                (Reading::Failed, 1)
            }
            Some((reading, at_us)) if now_us.saturating_sub(at_us) <= PUSHED_FOR_US => (reading, 1),
            _ => (Reading::Missing, 1),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, in_flight) = (self.name(), self.in_flight());
        let target = &mut f.debug_struct("Target");
        target.field("name", &name).field("in_flight", &in_flight).finish_non_exhaustive()
    }
}

/// A request in flight to a [`Target`], until this is dropped, also by a cancel or a panic; after a panic it counts as
/// failed. A cancelled request counts with the time it took so far: callers that give up are often the only sign of an
/// overload. It does not count as failed, so a caller with a timeout calls `done(false)`.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Observation};
///
/// let database = Adaptive::default().target("db");
/// let request: Observation = database.begin().of_url("/report");
/// request.done(false); // it answered 503
/// drop(database.begin()); // the caller gave up
/// assert_eq!(database.in_flight(), 0);
/// ```
#[derive(Debug)]
#[must_use = "a request that is not held has ended"]
pub struct Observation {
    target: Target,
    begun: Timestamp,
    url: Option<UrlRequest>,
    /// Freed when this is dropped.
    _slot: Option<InFlightGuard>,
    end: End,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The caller did not report an end.
    Dropped,
    Done {
        ok: bool,
    },
    /// It was never sent.
    Refused,
}

impl Observation {
    fn new(target: Target, slot: Option<InFlightGuard>) -> Self {
        let begun = target.now();
        target.observed().begin(begun);
        Self { target, begun, url: None, _slot: slot, end: End::Dropped }
    }

    /// Measures the request for this URL, too: a normalised path, without its query.
    pub fn of_url(mut self, url: &str) -> Self {
        if self.url.is_none() {
            self.url = Some(self.target.urls().begin(url, self.begun));
        }
        self
    }

    /// The request is sent only now: what it has waited for until here is not the target's time.
    #[cfg(feature = "tower")]
    pub(crate) fn restart(&mut self) {
        let now = self.target.now();
        let mut observed = self.target.observed();
        observed.take_back(self.begun, now);
        observed.begin(now);
        drop(observed);
        self.begun = now;
    }

    /// The request has ended. `ok` is false for a timeout or a 5xx.
    pub fn done(mut self, ok: bool) {
        self.end = End::Done { ok };
    }

    /// The request was refused after all, by a limit that was checked afterwards: it does not count.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// # use tidegate::Limiter;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (adaptive, limiter) = (Adaptive::default(), Limiter::new("1/h")?);
    /// let database = adaptive.target("db");
    /// for _ in 0..3 {
    ///     let Some(request) = database.enter(None) else { continue };
    ///     if limiter.check("user-42").allowed() { request.done(true) } else { request.refused() }
    /// }
    /// adaptive.tick().await;
    /// assert_eq!(database.seen().count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn refused(mut self) {
        self.end = End::Refused;
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let (begun, now) = (self.begun, self.target.now());
        let mut observed = self.target.observed();
        match self.end {
            End::Refused => observed.take_back(begun, now),
            End::Done { ok } => observed.end(begun, now, ok),
            End::Dropped => observed.end(begun, now, !std::thread::panicking()),
        }
        drop(observed);
        let Some(url) = self.url else { return };
        match self.end {
            End::Refused => self.target.urls().take_back(url),
            End::Done { .. } | End::Dropped => self.target.urls().end(url, now),
        }
    }
}
