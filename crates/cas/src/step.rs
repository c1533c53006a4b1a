//! A step: what is done with some items, once or until nothing came between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::store_kit::written_life_max;
use tidegate::{Ran, Reply, StoreError, StoreErrorKind, StoreResult, Timestamp};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::backend::ItemKey;
use crate::item::Item;
use crate::records::foreign;

/// How long a record counts as known to a server that has lost it.
const RECORD_LIFE_MAX: Duration = Duration::from_mins(10);

/// A copy of an item while steps are decided on it.
#[derive(Debug, Default)]
pub(crate) struct Working {
    /// As it was read, or as the last step left it.
    pub(crate) content: Content,
    /// When it was changed last, if it was.
    pub(crate) changed: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    States(Item),
    /// Bytes of a record, with the life that was set.
    Record(Vec<u8>, Duration),
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Working {
    /// The item as states: the bytes are read once.
    pub(crate) fn states(&mut self) -> Result<&mut Item, StoreError> {
        if let Content::Bytes(bytes) = &self.content {
            self.content = Content::States(Item::from_bytes(bytes).ok_or_else(foreign)?);
        }
        match &mut self.content {
            Content::States(item) => Ok(item),
            _ => Err(foreign()),
        }
    }

    /// The item as the bytes of a record.
    pub(crate) fn record(&self) -> &[u8] {
        match &self.content {
            Content::Bytes(bytes) | Content::Record(bytes, _) => bytes,
            Content::States(_) => &[],
        }
    }

    pub(crate) fn set_record(&mut self, bytes: Vec<u8>, life: Duration, now: Timestamp) {
        self.content = Content::Record(bytes, life);
        self.changed = Some(now);
    }

    /// Its bytes after a change, and for how long they matter.
    pub(crate) fn into_bytes(self, changed: Timestamp) -> (Vec<u8>, Duration) {
        match self.content {
            Content::States(item) => item.to_bytes(changed),
            Content::Record(bytes, life) => (bytes, life),
            Content::Bytes(bytes) => (bytes, Duration::ZERO),
        }
    }
}

/// Decides on items. May run several times, each time on what was read anew; the last run counts.
pub(crate) trait Decide: Send {
    fn decide(&mut self, items: &mut [Working], now: Timestamp);
    /// Answers the caller: with the last decision, or with what went wrong.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// A step that waits, or is under way.
pub(crate) struct Step {
    /// The items it is about, no key twice.
    pub(crate) keys: Vec<ItemKey>,
    pub(crate) decide: Box<dyn Decide>,
    /// How long what is written to its items can matter at most.
    pub(crate) life_max: Duration,
    /// The caller's time.
    pub(crate) now: Timestamp,
    pub(crate) due: Instant,
    pub(crate) attempts: u32,
    /// Whether its items are records of the store's own, which hold no time of a last decision.
    pub(crate) is_on_records: bool,
    /// Whether it was taken into a batch: from then on, time that passes is the backend's.
    pub(crate) is_under_way: Arc<AtomicBool>,
}

impl Step {
    /// A step, and the reply that its caller waits for, no longer than until it is due.
    pub(crate) fn new<T: Send + 'static>(
        keys: Vec<ItemKey>,
        decide: impl FnMut(&mut [Working], Timestamp) -> Result<T, StoreError> + Send + 'static,
        now: Timestamp,
        due: Instant,
    ) -> (Self, StoreResult<T>) {
        Self::with_unclaimed(keys, decide, now, due, None)
    }

    /// The same; `unclaimed` gets what was decided, and may have been written, if the caller does not get it.
    pub(crate) fn with_unclaimed<T: Send + 'static>(
        keys: Vec<ItemKey>,
        decide: impl FnMut(&mut [Working], Timestamp) -> Result<T, StoreError> + Send + 'static,
        now: Timestamp,
        due: Instant,
        unclaimed: Option<Unclaimed<T>>,
    ) -> (Self, StoreResult<T>) {
        let (done, answer) = oneshot::channel();
        let decide = Box::new(Decided { decide, answer: None, done, unclaimed });
        let is_under_way = Arc::new(AtomicBool::new(false));
        let taken = is_under_way.clone();
        let reply = Reply::later(async move {
            match timeout_at(due, answer).await {
                Err(_) if !taken.load(Ordering::Relaxed) => Err(no_turn()),
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => {
                    Err(StoreError::new(StoreErrorKind::Disconnected, "the store was dropped"))
                }
                Err(_) => {
                    Err(StoreError::new(StoreErrorKind::Timeout, "no answer within the deadline"))
                }
            }
        });
        let (attempts, is_on_records, life_max) = (0, false, Duration::MAX);
        (Self { keys, decide, life_max, now, due, attempts, is_on_records, is_under_way }, reply)
    }

    /// The same step on states that matter for no longer than this.
    pub(crate) fn mattering_for(self, longest: Duration) -> Self {
        Self { life_max: written_life_max(longest), ..self }
    }

    /// The same step, on records instead of states. No limit depends on a record: if a server has lost it, others need
    /// not keep to themselves for long.
    pub(crate) fn on_records(self) -> Self {
        Self { is_on_records: true, life_max: RECORD_LIFE_MAX, ..self }
    }

    pub(crate) fn fail(self, error: StoreError) {
        self.decide.answer(Err(error));
    }
}

/// There was more to do than time for it: no failure of the backend, which a breaker would count.
pub(crate) fn no_turn() -> StoreError {
    StoreError::new(
        StoreErrorKind::Overloaded,
        "too many checks wait: it got no turn within the deadline",
    )
}

/// What to do with an answer that its caller does not get.
pub(crate) type Unclaimed<T> = Box<dyn FnOnce(T) + Send>;

struct Decided<F, T> {
    decide: F,
    answer: Option<Result<T, StoreError>>,
    done: oneshot::Sender<Result<T, StoreError>>,
    unclaimed: Option<Unclaimed<T>>,
}

impl<F, T> Decide for Decided<F, T>
where
    F: FnMut(&mut [Working], Timestamp) -> Result<T, StoreError> + Send,
    T: Send,
{
    fn decide(&mut self, items: &mut [Working], now: Timestamp) {
        self.answer = Some((self.decide)(items, now));
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { answer, done, unclaimed, .. } = *self;
        let decided = answer.unwrap_or_else(|| {
            Err(StoreError::new(StoreErrorKind::NotSent, "the step was not decided"))
        });
        let lost = match outcome {
            // Nobody has to be waiting any more.
            Ok(()) => done.send(decided).err(),
            Err(error) => {
                let may_have_run = error.ran() == Ran::Unknown;
                let _ = done.send(Err(error));
                may_have_run.then_some(decided)
            }
        };
        if let (Some(Ok(lost)), Some(unclaimed)) = (lost, unclaimed) {
            unclaimed(lost);
        }
    }
}
