//! The bound on requests at the upstreams: `proxy.in_flight`, of this node or of the whole fleet.
//!
//! With `scope: fleet` a place is a permit of a concurrency limit in the store, which the library renews while it is held.
//! A busy node passes it from one request to the next ([`Places`]); a request is only forwarded while the permit is
//! certainly held, since a process that was stopped may have lost it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::logs::line_limiter;
use crate::metrics::InFlightFigures;
use tidegate::{Acquired, Clock, Engine, Key, Limiter, Op, Permit, Policy, Source, SystemClock};
use tidegate_core::adaptive::{Entry, InFlight, InFlightGuard, Place, Places};
use tidegate_core::{Concurrency, Limit};
use tokio::sync::Notify;

use tidegate_config::proxy::{InFlightMax, InFlightScope, Settings};

/// The names under which the store counts places. A policy of a file counts under another limit's name, or by other keys.
const COUNTER: &str = "proxy.in_flight";
const LIMIT: &str = "places";

/// How often spare places are looked at, while there are some.
const SWEEP: Duration = Duration::from_millis(2);

/// How often a store that did not answer is asked again, also while no request needs a place.
const WATCH: Duration = Duration::from_millis(100);

/// How often the log says that the store fails: it may do so for a second, every few seconds, for hours.
const OUTAGE_RATE: &str = "1/min burst 3";

/// The bound, with the requests of all configurations.
#[derive(Debug)]
pub(crate) struct InFlightBound {
    max: InFlightMax,
    counter: Counter,
}

#[derive(Debug)]
enum Counter {
    Node(InFlight),
    Fleet(Arc<FleetPlaces>),
}

/// The places of this node.
#[derive(Debug)]
struct FleetPlaces {
    max: u64,
    /// Has one policy: the counter.
    engine: Engine,
    /// What all nodes with the same upstreams count together.
    key: String,
    places: Arc<Mutex<Places<Permit>>>,
    /// Wakes the sweep.
    has_spare: Arc<Notify>,
    /// Wakes the watch.
    is_unanswered: Arc<Notify>,
    log: Arc<OutageLog>,
}

/// What the log says of failures of the store.
#[derive(Debug)]
struct OutageLog {
    outages: Option<Limiter<SystemClock>>,
    /// Whether the outage that is under way is in the log.
    is_told: AtomicBool,
}

/// A request's place, until it is dropped.
#[derive(Debug)]
pub(crate) enum Passage {
    Node { _guard: InFlightGuard },
    Fleet(FleetPlace),
}

#[derive(Debug)]
pub(crate) struct FleetPlace {
    /// `None` once it was given back.
    place: Option<Place<Permit>>,
    places: Arc<Mutex<Places<Permit>>>,
    has_spare: Arc<Notify>,
}

impl InFlightBound {
    /// Requests of the configuration before keep their places, and count, unless the scope or the upstreams are others.
    pub(crate) fn build(
        settings: &Settings,
        engine: &Engine,
        before: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>, String> {
        let Some(max) = settings.in_flight else { return Ok(None) };
        let counter = match max.scope {
            InFlightScope::Node => Counter::Node(match before.map(|before| &before.counter) {
                Some(Counter::Node(count)) => count.clone(),
                _ => InFlight::default(),
            }),
            InFlightScope::Fleet => {
                let known = before.and_then(|before| before.fleet());
                Counter::Fleet(FleetPlaces::build(max.max, settings, engine, known)?)
            }
        };
        Ok(Some(Arc::new(Self { max, counter })))
    }

    fn fleet(&self) -> Option<&Arc<FleetPlaces>> {
        match &self.counter {
            Counter::Node(_) => None,
            Counter::Fleet(fleet) => Some(fleet),
        }
    }

    /// Whether a request may find a place. Takes none, and asks nobody.
    pub(crate) fn has_room(&self) -> bool {
        match &self.counter {
            Counter::Node(count) => count.count() < self.max.max,
            Counter::Fleet(fleet) => lock(&fleet.places).has_room(SystemClock.steady_us()),
        }
    }

    /// A place for a request; `None` if all are taken.
    pub(crate) async fn enter(&self) -> Option<Passage> {
        match &self.counter {
            Counter::Node(count) => Some(Passage::Node { _guard: count.enter(self.max.max)? }),
            Counter::Fleet(fleet) => fleet.enter().await.map(Passage::Fleet),
        }
    }

    /// Gives all places back that no request uses, before the process ends. How many they are.
    pub(crate) fn release_spare(&self) -> usize {
        let Some(fleet) = self.fleet() else { return 0 };
        let spare = lock(&fleet.places).take_spare();
        spare.len()
    }

    pub(crate) fn figures(&self) -> InFlightFigures {
        let (scope, in_use, spare, is_local) = match &self.counter {
            Counter::Node(count) => ("node", count.count(), 0, false),
            Counter::Fleet(fleet) => {
                let places = lock(&fleet.places);
                let is_local = places.is_by_share(SystemClock.steady_us());
                ("fleet", places.in_use(), places.spare() as u64, is_local)
            }
        };
        InFlightFigures { max: self.max.max, scope, in_use, spare, is_local }
    }
}

impl FleetPlaces {
    fn build(
        max: u64,
        settings: &Settings,
        engine: &Engine,
        before: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, String> {
        let mut names: Vec<_> = settings.upstreams.iter().map(ToString::to_string).collect();
        names.sort_unstable();
        let limit =
            Concurrency::new(max, Places::<()>::LEASE).map_err(|error| error.to_string())?;
        let key = names.join(" ");
        // Places at other upstreams are of another counter.
        let before = before.filter(|before| before.key == key);
        let counter = Policy::all().limit(LIMIT, Limit::from(limit));
        let engine = engine.successor().policy(COUNTER, counter).build();
        let fleet = Self {
            max,
            engine: engine.map_err(|error| error.to_string())?,
            key,
            places: before.map(|before| before.places.clone()).unwrap_or_default(),
            has_spare: before.map(|before| before.has_spare.clone()).unwrap_or_default(),
            is_unanswered: Arc::default(),
            log: before.map(|before| before.log.clone()).unwrap_or_default(),
        };
        if before.is_none() {
            let (places, has_spare) = (Arc::downgrade(&fleet.places), fleet.has_spare.clone());
            tokio::spawn(sweep(places, has_spare));
        }
        let (is_unanswered, fleet) = (fleet.is_unanswered.clone(), Arc::new(fleet));
        // The store may have failed under the configuration before.
        is_unanswered.notify_one();
        tokio::spawn(watch(Arc::downgrade(&fleet), is_unanswered));
        Ok(fleet)
    }

    async fn enter(&self) -> Option<FleetPlace> {
        let entry = lock(&self.places).enter(SystemClock.steady_us(), Permit::is_held);
        let place = match entry {
            Entry::Place(place) => place,
            Entry::Full => return None,
            Entry::Ask => self.ask().await?,
        };
        let (places, has_spare) = (self.places.clone(), self.has_spare.clone());
        Some(FleetPlace { place: Some(place), places, has_spare })
    }

    /// Asks the store for a place. While it fails, this node has its share.
    async fn ask(&self) -> Option<Place<Permit>> {
        let policy = self.engine.policy_ref(COUNTER).ok()?;
        let acquired = policy.acquire(Key::One(self.key.as_bytes()), 1).await.ok()?;
        let Acquired { answer, permit } = acquired;
        let is_answered = answer.source == Source::Store;
        let (mut places, now_us) = (lock(&self.places), SystemClock.steady_us());
        let place = if is_answered {
            // The store knows nothing of those that came in by the share, or before it lost its data.
            let granted = permit.filter(|_| places.in_use() < self.max);
            let place = granted.map(|permit| places.granted(permit, now_us));
            if place.is_none() {
                places.refused(now_us);
            }
            place
        } else if places.unanswered(now_us) {
            permit.and_then(|permit| places.granted_by_share(permit, now_us, self.share()))
        } else {
            None
        };
        self.after_answer(&places, now_us);
        place
    }

    /// Asks the store whether it answers, and takes nothing. Whether it does.
    async fn is_answered(&self) -> bool {
        if !lock(&self.places).is_unanswered() {
            return true;
        }
        let Ok(policy) = self.engine.policy_ref(COUNTER) else { return true };
        let answer = policy.ask(Key::One(self.key.as_bytes()), 1, Op::Peek).await;
        let is_answered = answer.is_ok_and(|answer| answer.source == Source::Store);
        let (mut places, now_us) = (lock(&self.places), SystemClock.steady_us());
        if is_answered {
            places.answered();
        } else {
            places.unanswered(now_us);
        }
        self.after_answer(&places, now_us);
        is_answered
    }

    fn after_answer(&self, places: &Places<Permit>, now_us: u64) {
        if places.is_unanswered() {
            self.is_unanswered.notify_one();
        }
        self.log.update(places, now_us, self.share());
    }

    /// What this node may have while the store fails.
    fn share(&self) -> u64 {
        (self.max / u64::from(self.engine.nodes().get())).max(1)
    }
}

impl Default for OutageLog {
    fn default() -> Self {
        Self { outages: line_limiter(OUTAGE_RATE), is_told: AtomicBool::default() }
    }
}

impl OutageLog {
    fn update(&self, places: &Places<Permit>, now_us: u64, share: u64) {
        if places.is_by_share(now_us) {
            let may_tell = || self.outages.as_ref().is_none_or(|it| it.check("").allowed());
            if !self.is_told.load(Relaxed) && may_tell() {
                self.is_told.store(true, Relaxed);
                let why = "the store fails: this node's share of proxy.in_flight is in force";
                tracing::warn!(share, "{why}");
            }
        } else if !places.is_unanswered() && self.is_told.swap(false, Relaxed) {
            tracing::info!("proxy.in_flight is counted over the whole fleet");
        }
    }
}

/// While the store does not answer, asks it until it does. Ends with the places.
async fn watch(fleet: Weak<FleetPlaces>, is_unanswered: Arc<Notify>) {
    loop {
        is_unanswered.notified().await;
        loop {
            let Some(fleet) = fleet.upgrade() else { return };
            if fleet.is_answered().await {
                break;
            }
            drop(fleet);
            tokio::time::sleep(WATCH).await;
        }
    }
}

/// Gives places back that no request has needed for a while. Ends with the places.
async fn sweep(places: Weak<Mutex<Places<Permit>>>, has_spare: Arc<Notify>) {
    loop {
        has_spare.notified().await;
        loop {
            tokio::time::sleep(SWEEP).await;
            let Some(places) = places.upgrade() else { return };
            let (unneeded, is_empty) = {
                let mut places = lock(&places);
                (places.take_unneeded(SystemClock.steady_us()), places.spare() == 0)
            };
            // Outside the lock: each is sent to the store.
            drop(unneeded);
            if is_empty {
                break;
            }
        }
    }
}

impl Passage {
    /// Whether the request may be sent now: its place is certainly held. A process that was stopped for longer than the
    /// lease has lost it. Once it was sent it counts until it has ended, also if the store loses its place.
    pub(crate) fn may_send(&self) -> bool {
        match self {
            Self::Node { .. } => true,
            Self::Fleet(place) => place.place.as_ref().is_some_and(|place| {
                let is_held = place.lease().is_held();
                place.lease().retake_if_lost(is_held);
                is_held
            }),
        }
    }
}

impl Drop for FleetPlace {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else { return };
        // A place that serves a next request is taken anew from when that one is sent.
        place.lease().retake_if_lost(false);
        let (back, has_spare) = {
            let mut places = lock(&self.places);
            (places.leave(place, SystemClock.steady_us()), places.spare() > 0)
        };
        drop(back);
        if has_spare {
            self.has_spare.notify_one();
        }
    }
}

impl Drop for FleetPlaces {
    fn drop(&mut self) {
        // So that the sweep and the watch notice that the places are gone.
        self.has_spare.notify_one();
        self.is_unanswered.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
