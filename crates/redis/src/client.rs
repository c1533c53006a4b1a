//! The way to Redis: a question is handed to the node that keeps its keys, and answered within one deadline.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::Instant;

use super::guard::NodeBreaker;
use super::lane::Lane;
use super::question::Question;
use super::stats::{Counters, RedisStats};
use super::ticket::{Answer, gone, told};
use super::times::CallTimes;
use super::url::{Servers, Target};
use tidegate::BreakerOptions;
use tidegate::{Replicas, StoreError, StoreErrorKind};

/// Ways to Redis for questions that replicas have to confirm: while one is held up by a `WAIT`, another is free. A
/// `WAIT` of 50 ms may take 150, and those who ask one after another give up each after 70.
const CONFIRMED_LANES: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Client {
    inner: Arc<Inner>,
    deadline: Duration,
}

/// A client that may be gone.
pub(super) struct WeakClient {
    inner: Weak<Inner>,
    deadline: Duration,
}

impl WeakClient {
    pub(super) fn upgrade(&self) -> Option<Client> {
        self.inner.upgrade().map(|inner| Client { inner, deadline: self.deadline })
    }
}

#[derive(Debug)]
struct Inner {
    first: Lane,
    others: Vec<Lane>,
    options: Options,
    /// How long replicas have to confirm, on top of the deadline.
    extra: Duration,
    counters: Arc<Counters>,
    runtime: Handle,
}

/// What a client is told when it is started.
#[derive(Clone, Debug)]
struct Options {
    target: Target,
    breaker: Option<BreakerOptions>,
}

impl Client {
    /// Connects in the background, now and whenever it has to. Needs a running tokio runtime.
    pub(super) fn start(
        url: &str,
        deadline: Duration,
        breaker: Option<BreakerOptions>,
    ) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::new(
                StoreErrorKind::BadRequest,
                "a store in Redis needs a tokio runtime",
            ));
        };
        Ok(Self::with(Options { target, breaker }, deadline, Arc::default(), runtime, None))
    }

    /// The same over connections of its own, where what is charged has to be confirmed by replicas.
    pub(super) fn replicated(&self, replicas: Replicas) -> Self {
        let Inner { options, counters, runtime, .. } = &*self.inner;
        let (options, counters, runtime) = (options.clone(), counters.clone(), runtime.clone());
        Self::with(options, self.deadline, counters, runtime, Some(replicas))
    }

    /// The same, over the same connections, with another deadline.
    pub(super) fn within(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.clone(), deadline: bounded(deadline) }
    }

    /// The same with a deadline that is at least so long.
    pub(super) fn patient(&self, least: Duration) -> Self {
        self.within(self.deadline.max(least))
    }

    fn with(
        options: Options,
        deadline: Duration,
        counters: Arc<Counters>,
        runtime: Handle,
        replicas: Option<Replicas>,
    ) -> Self {
        let entered = runtime.enter();
        let breaker = || {
            let breaker = options.breaker.clone();
            breaker.map(|it| if let Some(more) = replicas { it.with_replicas(more) } else { it })
        };
        let lane = |_| Lane::start(options.target.clone(), counters.clone(), replicas, breaker());
        let first = lane(0);
        let others = (1..replicas.map_or(1, |_| CONFIRMED_LANES)).map(lane).collect();
        drop(entered);
        let extra = replicas.as_ref().map_or(Duration::ZERO, Replicas::bounded_timeout);
        let inner = Inner { first, others, options, extra, counters, runtime };
        Self { inner: Arc::new(inner), deadline: bounded(deadline) }
    }

    /// Whether keys are spread over several nodes.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.inner.options.target.servers, Servers::Cluster(_))
    }

    /// When a decision that begins now has to be made.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.deadline + self.inner.extra
    }

    /// Under way with the call; the future only waits. What fails at once does so without one.
    pub(super) fn submit(
        &self,
        question: Question,
        due: Instant,
    ) -> Result<impl Future<Output = Answer> + Send + 'static, StoreError> {
        let Inner { first, others, .. } = &*self.inner;
        let less = |a, b: _| if Lane::load(b) < Lane::load(a) { b } else { a };
        let mut answer = others.iter().fold(first, less).push(question, due);
        let early = match answer.try_recv() {
            Ok(early) => Some(early?),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => return Err(gone()),
        };
        Ok(async {
            match early {
                Some(outcome) => Ok(outcome),
                None => told(answer).await,
            }
        })
    }

    /// For those who must not keep it alive.
    pub(super) fn downgrade(&self) -> WeakClient {
        WeakClient { inner: Arc::downgrade(&self.inner), deadline: self.deadline }
    }

    /// What the breaker of each node does.
    pub(super) fn breakers(&self) -> Vec<NodeBreaker> {
        self.inner.first.breakers()
    }

    pub(super) fn stats(&self) -> RedisStats {
        self.inner.counters.read()
    }

    pub(super) fn call_times(&self) -> CallTimes {
        self.inner.counters.times.read()
    }
}

/// A deadline within its bounds: an instant further away than a clock can tell could not be waited for.
fn bounded(deadline: Duration) -> Duration {
    deadline.clamp(Duration::from_millis(1), Duration::from_mins(1))
}
