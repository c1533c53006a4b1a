//! A store that behaves as it is told, over one in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Changed, Clock, Coordination, Decision, MemoryStore, MultiCharge, OverrideChange,
    OverrideStore, OverrideTable, ReadingReport, RemoteStore, Reply, ReserveReply, ReserveRequest,
    StateUpdate, Store, StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest,
    StoreResult, TickReadings, Timestamp,
};

/// How a store answers.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Decides and answers at once.
    AtOnce,
    /// Decided at once, and told so much later.
    After(Duration),
    /// Decided at once, and told when others have had their turn.
    Yields,
    /// Fails at once.
    Fails(StoreErrorKind),
    /// Fails after so long.
    FailsAfter(Duration, StoreErrorKind),
    /// Never answers.
    Hangs,
    /// As if nothing had ever been told to it.
    Forgets,
}

/// Clones share everything.
#[derive(Clone, Debug)]
pub struct Scripted(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: MemoryStore,
    way: Mutex<Way>,
    calls: AtomicU64,
}

impl Scripted {
    /// A store that behaves so.
    pub fn new(way: Way) -> Self {
        let (memory, calls) = (MemoryStore::with_max_bytes(1 << 20), AtomicU64::new(0));
        Self(Arc::new(Inner { memory, way: Mutex::new(way), calls }))
    }

    /// From now on it behaves so.
    pub fn behave(&self, way: Way) {
        *self.0.way.lock().unwrap() = way;
    }

    /// How often it was asked.
    pub fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    fn reply<T: Send + Unpin + 'static>(
        &self,
        answer: impl FnOnce(&MemoryStore) -> Result<T, StoreError>,
    ) -> StoreResult<T> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        let error = |trouble| Err(StoreError::new(trouble, "as told"));
        let later = |answer, after| {
            let sleep = tokio::time::sleep(after);
            Reply::later(async move {
                sleep.await;
                answer
            })
        };
        let way = *self.0.way.lock().unwrap();
        match way {
            Way::AtOnce => Reply::ready(answer(&self.0.memory)),
            Way::After(after) => later(answer(&self.0.memory), after),
            Way::Yields => {
                let answer = answer(&self.0.memory);
                Reply::later(async {
                    tokio::task::yield_now().await;
                    answer
                })
            }
            Way::Fails(trouble) => Reply::ready(error(trouble)),
            Way::FailsAfter(after, trouble) => later(error(trouble), after),
            Way::Hangs => Reply::later(std::future::pending()),
            Way::Forgets => Reply::ready(answer(&MemoryStore::with_max_bytes(1 << 20))),
        }
    }
}

impl Store for Scripted {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.reply(|memory| memory.decide(request, now).now())
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        self.reply(|memory| memory.decide_each(charges, now).now())
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.reply(|memory| memory.reserve(request, now).now())
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions {
            overrides: Some(self),
            coordination: Some(self),
            remote: Some(self),
            key_hasher: None,
        }
    }
}

impl RemoteStore for Scripted {}

impl Coordination for Scripted {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        self.reply(|memory| memory.report_reading(report, now).now())
    }

    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool> {
        self.reply(|memory| memory.keep_state(update, now).now())
    }
}

impl OverrideStore for Scripted {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        self.reply(|memory| memory.overrides(known, now).now())
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        self.reply(|memory| memory.change_override(change, now).now())
    }
}

/// The runtime's own time, which a test can pause.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock(tokio::time::Instant);

impl RuntimeClock {
    /// Starts at a fixed timestamp.
    pub fn start() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let passed_us = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_700_000_000_000_000 + passed_us)
    }
}
