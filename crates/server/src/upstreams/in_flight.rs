//! The bound on requests at the upstreams: `proxy.in_flight`, of this node or of the whole fleet.
//!
//! With `scope: fleet` a place is a permit of a concurrency limit in the store, which the library renews while it is held.
//! A busy node passes it from one request to the next ([`Places`]); a request is only forwarded while the permit is
//! certainly held, since a process that was stopped may have lost it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::metrics::InFlightFigures;
use tidegate::{Acquired, Clock, Engine, Key, Permit, Policy, Source, SystemClock};
use tidegate_core::adaptive::{Entry, InFlight, InFlightGuard, Place, Places};
use tidegate_core::{Concurrency, Limit};
use tokio::sync::Notify;

use tidegate_config::proxy::{InFlightMax, InFlightScope, Settings};

/// The names under which the store counts places. A policy of a file counts under another limit's name, or by other keys.
const COUNTER: &str = "proxy.in_flight";
const LIMIT: &str = "places";

/// How often spare places are looked at, while there are some.
const SWEEP: Duration = Duration::from_millis(2);

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
    is_local: AtomicBool,
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
                let is_local = fleet.is_local.load(Relaxed);
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
            is_local: AtomicBool::new(before.is_some_and(|it| it.is_local.load(Relaxed))),
        };
        if before.is_none() {
            let (places, has_spare) = (Arc::downgrade(&fleet.places), fleet.has_spare.clone());
            tokio::spawn(sweep(places, has_spare));
        }
        Ok(Arc::new(fleet))
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
        let is_local = answer.source != Source::Store;
        if self.is_local.swap(is_local, Relaxed) != is_local {
            report(is_local, self.share());
        }
        let (mut places, now_us) = (lock(&self.places), SystemClock.steady_us());
        let place = match permit {
            Some(permit) if is_local => places.granted_by_share(permit, now_us, self.share()),
            Some(permit) if places.in_use() < self.max => Some(places.granted(permit, now_us)),
            // The store knows nothing of those that came in by the share, or before it lost its data.
            Some(_) | None => None,
        };
        if place.is_none() && !is_local {
            places.refused(now_us);
        }
        place
    }

    /// What this node may have while the store fails.
    fn share(&self) -> u64 {
        (self.max / u64::from(self.engine.nodes().get())).max(1)
    }
}

fn report(is_local: bool, share: u64) {
    if is_local {
        tracing::warn!(share, "the store fails: this node's share of proxy.in_flight is in force");
    } else {
        tracing::info!("proxy.in_flight is counted over the whole fleet");
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
        // So that the sweep notices that the places are gone.
        self.has_spare.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
