//! What is protected, what is known of its health, and the requests to it that are measured.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{
    AdaptiveError, Cap, CapSample, InFlight, InFlightGuard, Observed, Output, Priority, Reading,
    TickSummary, UrlRequest, UrlSummary, Urls,
};

use super::{lock, steady};
use crate::clock::Clock;

/// For so long a value that was pushed is believed: a source that pushes once a second may be a little late.
const PUSHED_FOR_US: u64 = 1_500_000;

/// What an operator has fixed outweighs whatever other nodes read.
const FIXED_WEIGHT: u64 = 1 << 40;

/// Something that limits protect: a database, a service, a pool. Clones share everything.
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
    /// How many may be under way; all there are without a cap.
    places: AtomicU64,
    said: Mutex<Said>,
}

/// What was said of it, and what the last tick made of all that was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
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
            places: AtomicU64::new(u64::MAX),
            said: Mutex::default(),
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

    /// A request is on its way to it. Only those that were admitted: who is refused does not wait.
    pub fn begin(&self) -> Observation {
        // There are never more places than this.
        Observation::new(self.clone(), self.state.in_flight.enter(u64::MAX))
    }

    /// The same, if there is a place for it: `None` where as many are under way as its [cap](Target::set_cap) allows. To be
    /// asked before anything is charged. Where requests have priorities, a fifth of the places is kept
    /// for what is critical; without one, all may be taken.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Cap, Priority};
    /// let database = Adaptive::default().target("db");
    /// database.set_cap(Some(Cap::fixed(5)?)); // ten places: five that work, and five that wait
    /// let held: Vec<_> = (0..10).filter_map(|_| database.enter(Priority::Default)).collect();
    /// assert_eq!(held.len(), 8);
    /// let more: Vec<_> = (0..10).filter_map(|_| database.enter(None)).collect();
    /// assert_eq!(more.len(), 2);
    /// assert!(database.enter(Priority::Critical).is_none());
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn enter(&self, priority: impl Into<Option<Priority>>) -> Option<Observation> {
        let place = self.state.in_flight.enter(self.places_for(priority.into()))?;
        Some(Observation::new(self.clone(), Some(place)))
    }

    /// Whether there is a place now, without taking it: so that no request is charged in vain.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let database = Adaptive::default().target("db");
    /// database.set_pool(1)?;
    /// let held = [database.enter(None), database.enter(None)];
    /// assert!(!database.has_place(None));
    /// drop(held);
    /// assert!(database.has_place(None));
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn has_place(&self, priority: impl Into<Option<Priority>>) -> bool {
        self.in_flight() < self.places_for(priority.into())
    }

    fn places_for(&self, priority: Option<Priority>) -> u64 {
        let places = self.state.places.load(Relaxed);
        priority.filter(|_| places != u64::MAX).map_or(places, |priority| priority.places(places))
    }

    /// How many are under way.
    pub fn in_flight(&self) -> u64 {
        self.state.in_flight.count()
    }

    /// How many may be under way; `None` without a cap.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Cap};
    /// let database = Adaptive::default().target("db");
    /// assert_eq!(database.places(), None);
    /// database.set_pool(16)?;
    /// assert_eq!(database.places(), Some(32));
    /// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
    /// ```
    pub fn places(&self) -> Option<u64> {
        let places = self.state.places.load(Relaxed);
        (places != u64::MAX).then_some(places)
    }

    /// Caps how many may be under way, or stops doing so. A cap that is [like](Cap::is_like) the one before goes on from
    /// where that was.
    pub fn set_cap(&self, cap: Option<Cap>) {
        let mut current = lock(&self.state.cap);
        let goes_on = |next: &Cap| current.filter(|current| current.is_like(next));
        let cap = cap.map(|cap| goes_on(&cap).unwrap_or(cap));
        *current = cap;
        self.state.places.store(cap.map_or(u64::MAX, |cap| cap.places()), Relaxed);
    }

    /// The number of places in its pool, if all requests to it pass by here. Caps what is under way at twice as many, and
    /// distinguishes a long queue from a slow target.
    pub fn set_pool(&self, places: u64) -> Result<(), AdaptiveError> {
        self.set_cap(Some(Cap::fixed(places)?));
        self.know_pool(Some(places));
        Ok(())
    }

    /// The same without the cap, or that the size of its pool is not known any more.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// let database = Adaptive::default().target("db");
    /// database.know_pool(Some(16)); // only to look at, as in a shadow mode
    /// assert_eq!(database.places(), None);
    /// ```
    pub fn know_pool(&self, places: Option<u64>) {
        self.with_observed(|observed| observed.set_pool(places));
    }

    /// A request that was measured elsewhere: how long it took, and whether it was well. A timeout or a 5xx is not.
    pub fn observe(&self, latency: Duration, ok: bool) {
        lock(&self.state.observed).note(latency, ok);
    }

    /// How long a URL of it took, measured elsewhere: a normalised path, without its query.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::Adaptive;
    /// let site = Adaptive::default().target("site");
    /// site.observe_url("/report", Duration::from_millis(9150));
    /// assert_eq!(site.busiest_urls(1)[0].1.mean_ms, 9150.0);
    /// ```
    pub fn observe_url(&self, url: &str, latency: Duration) {
        let now = steady(&*self.state.clock);
        lock(&self.state.urls).note(url, latency, now);
    }

    /// How long a request waited in its queue, as the target reports it.
    pub fn observe_wait(&self, wait: Duration) {
        lock(&self.state.observed).note_wait(wait);
    }

    /// What a source says of it: the pressure that a probe got, how full a pool is, the answer to a query; or that it
    /// was too sick to answer. For rules with [`Source::Pushed`](super::Source::Pushed), about once a second; what is
    /// older than that is missing.
    pub fn push(&self, reading: Reading) {
        lock(&self.state.said).pushed = Some((reading, self.state.clock.steady_us()));
    }

    /// Fixes what [`Target::push`] says, for as long as it is not taken back with `None`. Among nodes that share their
    /// readings, it counts for all while this one is there.
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
    /// database.fix(Some(0.3)); // an operator knows better
    /// adaptive.tick().await;
    /// assert_eq!((effective.units(), database.fixed()), (Some(70), Some(0.3)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fix(&self, value: Option<f64>) {
        lock(&self.state.said).fixed = value;
    }

    /// What was fixed.
    pub fn fixed(&self) -> Option<f64> {
        lock(&self.state.said).fixed
    }

    /// What was seen of it in the last tick.
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
        lock(&self.state.said).seen
    }

    /// The worst pressure that a rule saw on it in the last tick, from 0, well, to 1.
    pub fn pressure(&self) -> f64 {
        lock(&self.state.said).pressure
    }

    /// What is known of its busiest URLs in the last minute; `None` stands for those beyond ten thousand.
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
        let (urls, now) = (lock(&self.state.urls), steady(&*self.state.clock));
        let owned = |(url, summary): (Option<&str>, _)| (url.map(str::to_owned), summary);
        urls.busiest(most, now).into_iter().map(owned).collect()
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.state.clock
    }

    pub(super) fn with_observed<R>(&self, then: impl FnOnce(&mut Observed) -> R) -> R {
        then(&mut lock(&self.state.observed))
    }

    pub(super) fn with_urls<R>(&self, then: impl FnOnce(&mut Urls) -> R) -> R {
        then(&mut lock(&self.state.urls))
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Looks at what was seen since the last tick. The outputs are those that rules made of it then.
    pub(super) fn tick(&self, outputs: impl Iterator<Item = Output>) {
        let (pressure, is_stale) =
            outputs.fold((0.0_f64, false), |(pressure, is_stale), output| {
                (pressure.max(output.pressure), is_stale || output.is_stale)
            });
        let now = steady(&*self.state.clock);
        let seen = self.with_observed(|observed| observed.tick(now, pressure));
        let said = &mut *lock(&self.state.said);
        (said.seen, said.pressure) = (seen, pressure);
        let mut cap = lock(&self.state.cap);
        if let Some(cap) = &mut *cap
            && let (Some(latency_ms), Some(baseline_ms)) = (seen.latency_ms, seen.baseline_ms)
        {
            let in_flight = self.in_flight();
            cap.step(CapSample { latency_ms, baseline_ms, in_flight, is_stale });
            self.state.places.store(cap.places(), Relaxed);
        }
    }

    /// What was pushed, and how much that weighs. A failure is reported once: it is counted.
    pub(super) fn pushed(&self) -> (Reading, u64) {
        let now_us = self.state.clock.steady_us();
        let mut said = lock(&self.state.said);
        if let Some(fixed) = said.fixed {
            return (Reading::Value(fixed), FIXED_WEIGHT);
        }
        match said.pushed {
            Some((Reading::Failed, _)) => {
                said.pushed = None;
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

/// A request under way to a [`Target`]. It counts as long as this lives: one that is dropped, by a cancel or a panic, has
/// ended too, and after a panic it was not well. One that was given up is noted with the time it had: callers that leave
/// because it takes too long are often the only sign of an overload. Whether it would have gone well is not known, so a
/// caller with a timeout says `done(false)`.
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
    /// Free again when this is dropped.
    _place: Option<InFlightGuard>,
    end: End,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The caller did not say.
    Dropped,
    Done {
        ok: bool,
    },
    /// It never left.
    Refused,
}

impl Observation {
    fn new(target: Target, place: Option<InFlightGuard>) -> Self {
        let begun = steady(target.clock());
        target.with_observed(|observed| observed.begin(begun));
        Self { target, begun, url: None, _place: place, end: End::Dropped }
    }

    /// It is for this URL, which is measured by itself, too: a normalised path, without its query.
    pub fn of_url(mut self, url: &str) -> Self {
        if self.url.is_none() {
            let begun = self.begun;
            self.url = Some(self.target.with_urls(|urls| urls.begin(url, begun)));
        }
        self
    }

    /// It has ended. A timeout or a 5xx was not well.
    pub fn done(mut self, ok: bool) {
        self.end = End::Done { ok };
    }

    /// It was refused after all, by a limit that was asked afterwards: nothing is noted of it.
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
        let (begun, now) = (self.begun, steady(self.target.clock()));
        self.target.with_observed(|observed| match self.end {
            End::Refused => observed.take_back(begun, now),
            End::Done { ok } => observed.end(begun, now, ok),
            End::Dropped => observed.end(begun, now, !std::thread::panicking()),
        });
        let Some(url) = self.url else { return };
        self.target.with_urls(|urls| match self.end {
            End::Refused => urls.take_back(url),
            End::Done { .. } | End::Dropped => urls.end(url, now),
        });
    }
}
