//! Lanes: checks of one item wait in one lane, and a lane has one batch under way.
//!
//! So checks of one node never compete with each other for an item, and while a batch is under way the next one gathers.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::backend::Backend;
use crate::flight::{Landed, fly};
use crate::step::{Step, no_turn};

/// The most steps of one batch.
const BATCH_MAX: usize = 128;

/// The most steps that wait in a lane.
const WAITING_MAX: usize = 10_000;

/// The longest pause after a batch that met other nodes' changes, doubled with each attempt up to [`PAUSE_DOUBLINGS`].
const PAUSE_UNIT: Duration = Duration::from_micros(200);
const PAUSE_DOUBLINGS: u32 = 5;

/// The pause of a lane whose backend asked for fewer requests: doubled each time up to [`OVERLOAD_DOUBLINGS`], so at most
/// 320 ms; shorter by up to a half, at random.
const OVERLOAD_UNIT: Duration = Duration::from_millis(5);
const OVERLOAD_DOUBLINGS: u32 = 6;

pub(crate) struct Lanes<B> {
    pub(crate) backend: Arc<B>,
    pub(crate) counters: Arc<NetworkCounters>,
    each: Box<[Mutex<Lane>]>,
    hasher: RandomState,
    runtime: Handle,
    replays: bool,
}

/// Which lane a step waits in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneNumber(usize);

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Step>,
    is_running: bool,
    /// How often the backend was overloaded of late: one less after each batch that it was not.
    overloads: u32,
}

impl<B: Backend> Lanes<B> {
    /// Needs a running tokio runtime.
    pub(crate) fn new(
        backend: Arc<B>,
        counters: Arc<NetworkCounters>,
        count: usize,
        replays: bool,
    ) -> Self {
        let each = (0..count.max(1)).map(|_| Mutex::default()).collect();
        let (hasher, runtime) = (RandomState::new(), Handle::current());
        Self { backend, counters, each, hasher, runtime, replays }
    }

    /// The lane of what has this name.
    pub(crate) fn lane_of(&self, name: &str) -> LaneNumber {
        LaneNumber(usize::try_from(self.hasher.hash_one(name)).unwrap_or(0) % self.each.len())
    }

    /// Puts a step into a lane. It runs even if nobody waits for its answer.
    pub(crate) fn submit(self: &Arc<Self>, LaneNumber(number): LaneNumber, step: Step) {
        self.counters.requests.add(1);
        let mut lane = self.lane(number);
        if lane.waiting.len() >= WAITING_MAX {
            drop(lane);
            self.counters.overloaded.add(1);
            step.fail(StoreError::new(StoreErrorKind::Overloaded, "too many checks wait"));
            return;
        }
        lane.waiting.push_back(step);
        if !std::mem::replace(&mut lane.is_running, true) {
            drop(lane);
            let lanes = self.clone();
            self.runtime.spawn(async move { lanes.run(number).await });
        }
    }

    /// Runs batches until nothing waits.
    async fn run(&self, number: usize) {
        while let Some(batch) = self.next_batch(number) {
            let Landed { again, overloaded } =
                fly(&*self.backend, &self.counters, batch, self.replays).await;
            // One that had no room meets nobody: it waits for nothing.
            let attempts = again.iter().map(|step| step.attempts).max().unwrap_or(0);
            self.push_back_first(number, again);
            let mut pause = self.relief(number, overloaded);
            if attempts > 0 {
                pause = pause.max(self.pause(attempts));
            }
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    /// How long the backend is left alone after it was overloaded. Checks gather meanwhile, up to their deadlines.
    fn relief(&self, number: usize, overloaded: bool) -> Duration {
        let mut lane = self.lane(number);
        if !overloaded {
            lane.overloads = lane.overloads.saturating_sub(1);
            return Duration::ZERO;
        }
        let longest = OVERLOAD_UNIT * (1 << lane.overloads.min(OVERLOAD_DOUBLINGS));
        lane.overloads = (lane.overloads + 1).min(OVERLOAD_DOUBLINGS);
        drop(lane);
        longest * (100 + random_percent(&self.hasher, Instant::now())) / 200
    }

    /// Puts steps where they came from, before those that came later.
    fn push_back_first(&self, number: usize, steps: Vec<Step>) {
        let mut lane = self.lane(number);
        for step in steps.into_iter().rev() {
            lane.waiting.push_front(step);
        }
    }

    /// What waits, or `None` if nothing does: then the lane rests until the next step comes.
    fn next_batch(&self, number: usize) -> Option<Vec<Step>> {
        let mut lane = self.lane(number);
        let now = Instant::now();
        let mut batch = Vec::with_capacity(lane.waiting.len().min(BATCH_MAX));
        let mut late = Vec::new();
        while batch.len() < BATCH_MAX
            && let Some(step) = lane.waiting.pop_front()
        {
            if step.due <= now {
                late.push(step);
            } else {
                step.is_under_way.store(true, Ordering::Relaxed);
                batch.push(step);
            }
        }
        lane.is_running = !batch.is_empty();
        drop(lane);
        for step in late {
            self.counters.not_sent.add(1);
            let contended = "other nodes changed the key at every attempt";
            let error = match step.attempts {
                0 => no_turn(),
                _ => StoreError::new(StoreErrorKind::NotSent, contended),
            };
            step.fail(error);
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// A random part of a time that grows with the attempts, so that nodes do not meet again.
    fn pause(&self, attempts: u32) -> Duration {
        let longest = PAUSE_UNIT * (1 << attempts.min(PAUSE_DOUBLINGS));
        longest * random_percent(&self.hasher, Instant::now()) / 100
    }

    fn lane(&self, number: usize) -> MutexGuard<'_, Lane> {
        self.each[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number from 0 to 99 that nobody can foretell.
pub(crate) fn random_percent(hasher: &RandomState, seed: impl std::hash::Hash) -> u32 {
    u32::try_from(hasher.hash_one(seed) % 100).unwrap_or(0)
}
