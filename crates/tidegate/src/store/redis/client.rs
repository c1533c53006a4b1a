//! The way to Redis: a question is handed to the node that keeps its keys, and answered within one deadline.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::lane::Lane;
use super::question::Question;
use super::stats::{Counters, RedisStats};
use super::ticket::Answer;
use super::times::CallTimes;
use super::url::Target;
use crate::store::{Replicas, StoreError, Trouble};

/// Ways to Redis for questions that replicas have to confirm: while one is held up by a `WAIT`, another is free. A
/// `WAIT` of 50 ms may take 150, and those who ask one after another give up each after 70.
const CONFIRMED_LANES: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Client {
    inner: Arc<Inner>,
}

/// A client that may be gone.
pub(super) struct WeakClient {
    inner: Weak<Inner>,
}

impl WeakClient {
    pub(super) fn upgrade(&self) -> Option<Client> {
        self.inner.upgrade().map(|inner| Client { inner })
    }
}

#[derive(Debug)]
struct Inner {
    first: Lane,
    others: Vec<Lane>,
    deadline: Duration,
    /// How long replicas have to confirm, on top of the deadline.
    extra: Duration,
    counters: Arc<Counters>,
    target: Target,
    runtime: Handle,
}

impl Client {
    /// Connects in the background, now and whenever it has to. Needs a running tokio runtime.
    pub(super) fn start(url: &str, deadline: Duration) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::new(Trouble::BadAsk, "a store in Redis needs a tokio runtime"));
        };
        Ok(Self::with(target, deadline, Arc::default(), runtime, None))
    }

    /// The same over connections of its own, where what is charged has to be confirmed by replicas.
    pub(super) fn replicated(&self, replicas: Replicas) -> Self {
        let Inner { target, deadline, counters, runtime, .. } = &*self.inner;
        Self::with(target.clone(), *deadline, counters.clone(), runtime.clone(), Some(replicas))
    }

    fn with(
        target: Target,
        deadline: Duration,
        counters: Arc<Counters>,
        runtime: Handle,
        replicas: Option<Replicas>,
    ) -> Self {
        let entered = runtime.enter();
        let lane = |_| Lane::start(target.clone(), counters.clone(), replicas);
        let first = lane(0);
        let others = (1..replicas.map_or(1, |_| CONFIRMED_LANES)).map(lane).collect();
        drop(entered);
        let extra = replicas.as_ref().map_or(Duration::ZERO, Replicas::patience);
        let inner = Inner { first, others, deadline, extra, counters, target, runtime };
        Self { inner: Arc::new(inner) }
    }

    /// When a decision that begins now has to be made.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.inner.deadline + self.inner.extra
    }

    /// Under way with the call; the future only waits.
    pub(super) fn submit(
        &self,
        question: Question,
        due: Instant,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let Inner { first, others, .. } = &*self.inner;
        let less = |a, b: _| if Lane::load(b) < Lane::load(a) { b } else { a };
        let answer = others.iter().fold(first, less).push(question, due);
        async {
            answer.await.unwrap_or_else(|_| {
                Err(StoreError::new(Trouble::Disconnected, "the client has ended"))
            })
        }
    }

    /// For those who must not keep it alive.
    pub(super) fn downgrade(&self) -> WeakClient {
        WeakClient { inner: Arc::downgrade(&self.inner) }
    }

    pub(super) fn stats(&self) -> RedisStats {
        self.inner.counters.read()
    }

    pub(super) fn call_times(&self) -> CallTimes {
        self.inner.counters.times.read()
    }
}
