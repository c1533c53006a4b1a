//! The client: a request goes to the node that keeps its keys, and is answered within one deadline.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::driver::{CallTimes, NetworkStats};
use tidegate::store_kit::NetworkCounters;
use tidegate::{BreakerOptions, Replicas, StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::cluster::Cluster;
use crate::cluster::Redirects;
use crate::endpoint::Topology;
use crate::error;
use crate::node::{Node, NodeContext, NodeHandle};
use crate::node_breaker::NodeBreakerStatus;
use crate::queue::{Pending, ReplyReceiver, ScriptResult, UnusedGrant, received};
use crate::script_request::ScriptRequest;
use crate::sentinel::{self, Sentinels};
use crate::url::RedisUrl;

/// Connection pools for requests that replicas have to confirm: while one is blocked by a `WAIT`, another is free. A
/// `WAIT` of 50 ms may take 150 ms, while each caller times out after 70.
const CONFIRMED_POOLS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct Client {
    inner: Arc<Inner>,
    deadline: Duration,
}

/// A client that may have been dropped.
pub(crate) struct WeakClient {
    inner: Weak<Inner>,
    deadline: Duration,
}

impl WeakClient {
    pub(crate) fn upgrade(&self) -> Option<Client> {
        self.inner.upgrade().map(|inner| Client { inner, deadline: self.deadline })
    }
}

#[derive(Debug)]
struct Inner {
    first: Pool,
    others: Vec<Pool>,
    options: Options,
    /// How long replicas have to confirm, on top of the deadline.
    extra: Duration,
    counters: Arc<NetworkCounters>,
    runtime: Handle,
}

/// How a client was started.
#[derive(Clone, Debug)]
struct Options {
    url: RedisUrl,
    access: Access,
    breaker: Option<BreakerOptions>,
}

impl Client {
    /// Connects in the background, now and whenever it has to. Needs a running tokio runtime.
    pub(crate) fn start(
        url: &str,
        deadline: Duration,
        breaker: Option<BreakerOptions>,
    ) -> Result<Self, StoreError> {
        let url = RedisUrl::parse(url)?;
        let access = Access::new(url.login.clone(), url.db, url.tls.as_ref())?;
        let Ok(runtime) = Handle::try_current() else {
            return Err(StoreError::new(
                StoreErrorKind::BadRequest,
                "a store in Redis needs a tokio runtime",
            ));
        };
        Ok(Self::with(Options { url, access, breaker }, deadline, Arc::default(), runtime, None))
    }

    /// The same over connections of its own, where what is charged has to be confirmed by replicas.
    pub(crate) fn replicated(&self, replicas: Replicas) -> Self {
        let Inner { options, counters, runtime, .. } = &*self.inner;
        let (options, counters, runtime) = (options.clone(), counters.clone(), runtime.clone());
        Self::with(options, self.deadline, counters, runtime, Some(replicas))
    }

    /// The same, over the same connections, with another deadline.
    pub(crate) fn within(&self, deadline: Duration) -> Self {
        Self { inner: self.inner.clone(), deadline: bounded(deadline) }
    }

    /// The same with at least this deadline.
    pub(crate) fn within_at_least(&self, least: Duration) -> Self {
        self.within(self.deadline.max(least))
    }

    fn with(
        options: Options,
        deadline: Duration,
        counters: Arc<NetworkCounters>,
        runtime: Handle,
        replicas: Option<Replicas>,
    ) -> Self {
        let entered = runtime.enter();
        let breaker = || {
            let breaker = options.breaker.clone();
            breaker.map(|it| if let Some(more) = replicas { it.with_replicas(more) } else { it })
        };
        let pool = |_| {
            let topology = options.url.topology.clone();
            Pool::start(topology, &options.access, counters.clone(), replicas, breaker())
        };
        let first = pool(0);
        let others = (1..replicas.map_or(1, |_| CONFIRMED_POOLS)).map(pool).collect();
        drop(entered);
        let extra = replicas.as_ref().map_or(Duration::ZERO, Replicas::bounded_timeout);
        let inner = Inner { first, others, options, extra, counters, runtime };
        Self { inner: Arc::new(inner), deadline: bounded(deadline) }
    }

    /// Whether keys are spread over several nodes.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.inner.options.url.topology, Topology::Cluster(_))
    }

    /// When a decision that begins now has to be made.
    pub(crate) fn due(&self) -> Instant {
        Instant::now() + self.deadline()
    }

    /// How long a decision may take, with what replicas have for it.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline + self.inner.extra
    }

    /// Sends the request before it returns; the future only waits for the reply. An early failure is returned at once.
    pub(crate) fn submit(
        &self,
        request: ScriptRequest,
        due: Instant,
        unused: Option<UnusedGrant>,
    ) -> Result<impl Future<Output = ScriptResult> + Send + 'static, StoreError> {
        let Inner { first, others, .. } = &*self.inner;
        let less = |a, b: _| if Pool::load(b) < Pool::load(a) { b } else { a };
        let mut answer = others.iter().fold(first, less).push(request, due, unused);
        let early = match answer.try_recv() {
            Ok(early) => Some(early?),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => return Err(error::client_ended()),
        };
        Ok(async {
            match early {
                Some(outcome) => Ok(outcome),
                None => received(answer).await,
            }
        })
    }

    /// A reference that does not keep the client alive.
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient { inner: Arc::downgrade(&self.inner), deadline: self.deadline }
    }

    /// What the breaker of each node does.
    pub(crate) fn breakers(&self) -> Vec<NodeBreakerStatus> {
        self.inner.first.breakers()
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        self.inner.counters.read()
    }

    pub(crate) fn call_times(&self) -> CallTimes {
        self.inner.counters.times.read()
    }
}

/// A deadline within its bounds: a clock cannot represent an instant that is much further away.
fn bounded(deadline: Duration) -> Duration {
    deadline.clamp(tidegate::deadline::MIN, tidegate::deadline::MAX)
}

#[derive(Debug)]
pub(crate) struct Pool {
    route: Route,
    shared: Arc<NodeContext>,
    /// Every request in flight holds a clone, where there are several pools to choose from.
    busy: Option<Arc<()>>,
}

/// Where requests go.
#[derive(Debug)]
enum Route {
    Node(NodeHandle),
    Cluster(Cluster),
}

impl Pool {
    pub(crate) fn start(
        topology: Topology,
        access: &Access,
        counters: Arc<NetworkCounters>,
        replicas: Option<Replicas>,
        breaker: Option<BreakerOptions>,
    ) -> Self {
        let shared_with = |redirects| {
            Arc::new(NodeContext::new(access.clone(), redirects, counters, replicas, breaker))
        };
        let (route, shared) = match topology {
            Topology::Single(endpoint) => {
                let shared = shared_with(None);
                let (_, endpoint) = watch::channel(Ok(Some(endpoint)));
                (Route::Node(Node::start(endpoint, false, shared.clone())), shared)
            }
            Topology::Cluster(seeds) => {
                let (redirects, redirected) = Redirects::new();
                let shared = shared_with(Some(redirects));
                (Route::Cluster(Cluster::start(seeds, redirected, shared.clone())), shared)
            }
            Topology::Sentinel { sentinels, primary, login } => {
                let access = Access { login, db: 0, tls: access.tls.clone() };
                let sentinels = Sentinels { endpoints: sentinels, primary, access };
                let shared = shared_with(None);
                let endpoint = sentinel::watch(sentinels, &shared);
                (Route::Node(Node::start(endpoint, true, shared.clone())), shared)
            }
        };
        Self { route, shared, busy: replicas.map(|_| Arc::default()) }
    }

    /// The number of requests in flight; not counted where there is only one pool.
    pub(crate) fn load(&self) -> usize {
        self.busy.as_ref().map_or(0, Arc::strong_count)
    }

    /// What the breaker of each node does.
    pub(crate) fn breakers(&self) -> Vec<NodeBreakerStatus> {
        match &self.route {
            Route::Node(node) => node.breaker().into_iter().collect(),
            Route::Cluster(cluster) => cluster.breakers(),
        }
    }

    pub(crate) fn push(
        &self,
        request: ScriptRequest,
        due: Instant,
        unused: Option<UnusedGrant>,
    ) -> ReplyReceiver {
        let slot = match &self.route {
            Route::Node(_) => 0,
            Route::Cluster(_) => request.slot(),
        };
        let (pending, answer) = Pending::new(request, slot, due, self.busy.clone());
        let pending = pending.with_unused(unused);
        match &self.route {
            Route::Node(node) => {
                // While there is a client, only the end of its runtime closes its queue.
                let refused = node.push(pending, &self.shared.counters);
                Pending::fail_all(refused, &error::runtime_ended());
            }
            Route::Cluster(cluster) => cluster.push(pending),
        }
        answer
    }
}
