//! A store that behaves as it is told, over one in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Changed, Clock, Decision, MemoryStore, MultiCharge, OverrideChange, OverrideTable,
    ReadingReport, Reply, ReserveReply, ReserveRequest, StateUpdate, Store, StoreError,
    StoreErrorKind, StoreReply, StoreRequest, TickReadings, Timestamp,
};

/// How a store answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    AtOnce,
    /// Decided at once, and told so much later.
    After(Duration),
    /// Decided at once, and told when others have had their turn.
    Yields,
    Fails(StoreErrorKind),
    FailsAfter(Duration, StoreErrorKind),
    Hangs,
    /// As if nothing had ever been told to it.
    Forgets,
}

/// Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Scripted(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: MemoryStore,
    way: Mutex<Way>,
    calls: AtomicU64,
}

impl Scripted {
    pub(crate) fn new(way: Way) -> Self {
        let (memory, calls) = (MemoryStore::with_max_bytes(1 << 20), AtomicU64::new(0));
        Self(Arc::new(Inner { memory, way: Mutex::new(way), calls }))
    }

    pub(crate) fn behave(&self, way: Way) {
        *self.0.way.lock().unwrap() = way;
    }

    /// How often it was asked.
    pub(crate) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Relaxed)
    }

    fn reply<T: Send + Unpin + 'static>(
        &self,
        answer: impl FnOnce(&MemoryStore) -> Result<T, StoreError>,
    ) -> Reply<'static, T, StoreError> {
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
    fn answer(
        &self,
        ask: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        self.reply(|memory| memory.answer(ask, now).now())
    }

    fn take_each(
        &self,
        takes: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        self.reply(|memory| memory.take_each(takes, now).now())
    }

    fn shape(
        &self,
        turn: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        self.reply(|memory| memory.shape(turn, now).now())
    }

    fn tell_readings(
        &self,
        telling: &ReadingReport<'_>,
        now: Timestamp,
    ) -> Reply<'static, TickReadings, StoreError> {
        self.reply(|memory| memory.tell_readings(telling, now).now())
    }

    fn keep_state(
        &self,
        keeping: &StateUpdate<'_>,
        now: Timestamp,
    ) -> Reply<'static, bool, StoreError> {
        self.reply(|memory| memory.keep_state(keeping, now).now())
    }

    fn overrides(
        &self,
        known: u64,
        now: Timestamp,
    ) -> Reply<'static, Option<OverrideTable>, StoreError> {
        self.reply(|memory| memory.overrides(known, now).now())
    }

    fn change_override(
        &self,
        change: &OverrideChange<'_>,
        now: Timestamp,
    ) -> Reply<'static, Changed, StoreError> {
        self.reply(|memory| memory.change_override(change, now).now())
    }
}

/// The runtime's own time, which a test can pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuntimeClock(tokio::time::Instant);

impl RuntimeClock {
    pub(crate) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let passed_us = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_700_000_000_000_000 + passed_us)
    }
}
