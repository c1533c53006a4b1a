//! A breaker: a store that fails or is slow is left alone, and whoever asks is told so at once.

mod health;
mod machine;
mod options;
mod prober;
mod recent;
#[cfg(test)]
mod tests;
mod watched;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};
use tokio::time::Instant;

pub use self::options::{BreakerOptions, BreakerState};

use self::machine::{Machine, micros};
use self::watched::Watched;
use super::{Ask, Place, Replicas, Settled, Store, StoreError, Takes, Trouble, Turn};
use crate::reply::Reply;

/// How much longer than it was told to a store may wait for replicas: Redis looks ten times a second.
const WAIT_LATE: Duration = Duration::from_millis(100);

/// A store that stops asking the store in it when that fails or is slow, and starts again when it has recovered.
///
/// - It opens at 5 failures in a row, or when the 99th percentile of a second with at least 50 calls passes 10 ms.
///   Open, it answers every ask with [`Trouble::BreakerOpen`], without waiting.
/// - A failure is an answer that never came, or one that says that the store cannot serve. What is wrong with the ask
///   or with its key ([`Trouble::BadAsk`], [`Trouble::Apart`], [`Trouble::WrongType`], [`Trouble::Moving`]) says nothing about the store.
/// - A reply that is dropped after those 10 ms counts as a failure, one that is dropped sooner as nothing.
/// - Probes run beside the requests, one at a time: after 10 ms, then each up to twice as long after the last one, at
///   most 50 ms. It closes at 3 good ones in a row. Who opens again within 10 s waits twice as long for each.
///
/// Clones share everything. It needs a runtime of tokio to probe; where there is none it lets everything through.
///
/// ```
/// use tidegate::{Breaker, BreakerOptions, BreakerState, Engine, MemoryStore};
///
/// let store = Breaker::around(MemoryStore::default(), BreakerOptions::default());
/// let engine = Engine::builder().store(store.clone()).policy("api", "100/min").build()?;
/// assert!(engine.check("api", "user-42").now()?.decision.allowed());
/// assert_eq!((store.state(), store.opened_total()), (BreakerState::Closed, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Breaker<S> {
    shared: Arc<Shared<S>>,
}

type Probe<S> = Box<dyn Fn(&S) -> Reply<'static, Settled, StoreError> + Send + Sync>;

struct Shared<S> {
    store: S,
    options: BreakerOptions,
    probe: Probe<S>,
    origin: Instant,
    machine: Mutex<Machine>,
    /// How often it has opened, twice, and one more while it is open: what every ask has to know.
    openings: AtomicU64,
    has_prober: AtomicBool,
}

impl<S> Clone for Breaker<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store + 'static> Breaker<S> {
    /// A breaker around a store. It probes with a check on a key of its own.
    pub fn around(store: S, options: BreakerOptions) -> Self {
        Self::probing(store, options, prober::take_one)
    }

    /// A breaker that probes in another way: by a call that works if the others would.
    ///
    /// ```
    /// use tidegate::{Ask, Breaker, BreakerOptions, KeyedLimit, Limit, MemoryStore, Mode, Op, Scope, Store, Timestamp};
    ///
    /// let limit: Limit = "1000/s".parse()?;
    /// let look = move |store: &MemoryStore| {
    ///     let scope = Scope::named("probe", "");
    ///     let limits = [KeyedLimit { scope: &scope, key: b"probe", limit: &limit }];
    ///     let ask = Ask { mode: Mode::All, limits: &limits, cost: 1, op: Op::Peek }; // writes nothing
    ///     store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000))
    /// };
    /// let store = Breaker::probing(MemoryStore::default(), BreakerOptions::default(), look);
    /// assert_eq!(store.opened_total(), 0);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn probing(
        store: S,
        options: BreakerOptions,
        probe: impl Fn(&S) -> Reply<'static, Settled, StoreError> + Send + Sync + 'static,
    ) -> Self {
        let machine = Mutex::new(Machine::new(options.clone()));
        let (probe, origin) = (Box::new(probe), Instant::now());
        let (openings, has_prober) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Shared { store, options, probe, origin, machine, openings, has_prober };
        Self { shared: Arc::new(shared) }
    }

    /// What the breaker does now.
    pub fn state(&self) -> BreakerState {
        self.shared.machine().state()
    }

    /// How often it has opened.
    pub fn opened_total(&self) -> u64 {
        self.shared.machine().opened()
    }

    /// Asks the store, unless the breaker is open, and watches what becomes of it.
    fn watch<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&S) -> Reply<'static, T, StoreError>,
    ) -> Reply<'static, T, StoreError> {
        let shared = &self.shared;
        let openings = shared.openings.load(Ordering::Acquire);
        if !openings.is_multiple_of(2) && prober::is_at_work(shared) {
            let left_alone = "the store failed or was slow, and is left alone for now";
            return Reply::ready(Err(StoreError::new(Trouble::BreakerOpen, left_alone)));
        }
        let mut watched = Watched::begin(shared, openings / 2);
        match ask(&shared.store).split() {
            Ok(answer) => {
                watched.answered(answer.as_ref().err());
                Reply::ready(answer)
            }
            Err(later) => Reply::later(async move {
                let answer = later.await;
                watched.answered(answer.as_ref().err());
                answer
            }),
        }
    }
}

impl<S: Store + 'static> Store for Breaker<S> {
    fn answer(&self, ask: &Ask<'_>, now: Timestamp) -> Reply<'static, Settled, StoreError> {
        self.watch(|store| store.answer(ask, now))
    }

    fn take_each(
        &self,
        takes: &Takes<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        self.watch(|store| store.take_each(takes, now))
    }

    fn shape(&self, turn: &Turn<'_>, now: Timestamp) -> Reply<'static, Place, StoreError> {
        self.watch(|store| store.shape(turn, now))
    }

    fn is_local(&self) -> bool {
        self.shared.store.is_local()
    }

    /// With a breaker of its own: to wait for replicas takes longer, and is no fault of the store.
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let store = self.shared.store.replicated(replicas)?;
        let mut options = self.shared.options.clone();
        options.slow = options.slow.saturating_add(replicas.patience()).saturating_add(WAIT_LATE);
        Some(Arc::new(Breaker::around(store, options)))
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.shared.store.nodes()
    }
}

impl<S> Shared<S> {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        micros(self.origin.elapsed())
    }

    /// Tells every ask what the machine, which is locked, has come to.
    fn show(&self, machine: &Machine) {
        let open = u64::from(machine.state() != BreakerState::Closed);
        self.openings.store(machine.opened() * 2 + open, Ordering::Release);
    }

    fn next_probe(&self, random: u64) -> Option<Duration> {
        self.machine().wait_us(random).map(Duration::from_micros)
    }

    fn probed(&self, good: bool) -> bool {
        let mut machine = self.machine();
        let closes = machine.probed(self.now_us(), good);
        if closes {
            // Before the next opening can look for a prober: this one is about to end.
            self.has_prober.store(false, Ordering::Release);
            self.show(&machine);
        }
        closes
    }
}

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.machine().state();
        let mut debug = f.debug_struct("Breaker");
        debug.field("state", &state).field("store", &self.shared.store).finish_non_exhaustive()
    }
}
