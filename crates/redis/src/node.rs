//! One node of Redis: a task that keeps a connection to it, and sends waiting requests.

mod in_flight;
mod replies;
mod session;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate::store_kit::{BreakerTarget, NetworkCounters};
use tidegate::{BreakerOptions, Replicas, StoreError, StoreErrorKind};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

use crate::access::Access;
use crate::cluster::{Reason, Redirects};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error;
use crate::node_breaker::{NodeBreaker, NodeBreakerStatus};
use crate::queue::Pending;
use crate::queue::{Queue, WakeWhen};
use crate::timing::{Backoff, Timer};

/// A connection that lasted this long resets the backoff. As long as the longest backoff: a server that accepts and
/// closes is not called more often than one that does not answer.
const STABLE_AFTER: Duration = Duration::from_secs(1);

/// What all nodes of a client have in common.
#[derive(Debug)]
pub(crate) struct NodeContext {
    pub(crate) access: Access,
    pub(crate) counters: Arc<NetworkCounters>,
    /// For requests that belong to another node; only in a cluster.
    pub(crate) redirects: Option<Redirects>,
    /// The replicas that have to confirm a charge.
    pub(crate) replicas: Option<Replicas>,
    /// The options of each node's breaker, if they have one.
    breaker: Option<BreakerOptions>,
    /// Notified when a node fails: the topology may have changed.
    pub(crate) failures: watch::Sender<()>,
    /// Permission to keep a silent connection for late replies.
    pub(crate) abandoned: Arc<Semaphore>,
}

/// The most silent connections that are kept for late replies: one per outage, and outages follow each other slowly.
const ABANDONED_MAX: usize = 4;

/// Where a node is, if that is known yet; or why it cannot be found.
pub(crate) type KnownEndpoint = Result<Option<Endpoint>, StoreError>;

impl NodeContext {
    pub(crate) fn new(
        access: Access,
        redirects: Option<Redirects>,
        counters: Arc<NetworkCounters>,
        replicas: Option<Replicas>,
        breaker: Option<BreakerOptions>,
    ) -> Self {
        let failures = watch::Sender::default();
        let abandoned = Arc::new(Semaphore::new(ABANDONED_MAX));
        Self { access, counters, redirects, replicas, breaker, failures, abandoned }
    }

    pub(crate) fn report_failure(&self) {
        self.failures.send_replace(());
    }
}

/// The handle of a node. When it is dropped, the node sends the waiting requests and ends.
#[derive(Debug)]
pub(crate) struct NodeHandle {
    queue: Arc<Queue>,
    breaker: Option<Arc<NodeBreaker>>,
    endpoint: watch::Receiver<KnownEndpoint>,
}

impl NodeHandle {
    /// Puts a request into the node's queue, unless its breaker is open. Returned if the node has left.
    #[must_use = "a returned request has to go to another node"]
    pub(crate) fn push(&self, mut pending: Pending, counters: &NetworkCounters) -> Option<Pending> {
        if let Some(breaker) = &self.breaker {
            match breaker.pass() {
                Ok(passed) => pending.observer = Some((breaker.clone(), passed)),
                Err(open) => {
                    pending.answer(Err(open));
                    return None;
                }
            }
        }
        self.queue.push(pending, counters)
    }

    /// Whether there is no connection, and no attempt to connect.
    pub(crate) fn is_refusing(&self) -> bool {
        self.queue.is_refusing()
    }

    pub(crate) fn breaker(&self) -> Option<NodeBreakerStatus> {
        let endpoint = self.endpoint.borrow().clone().ok().flatten();
        let endpoint = endpoint.map(|endpoint| endpoint.to_string()).unwrap_or_default();
        self.breaker.as_ref().map(|breaker| breaker.describe(endpoint))
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        self.queue.close();
    }
}

pub(crate) struct Node {
    pub(crate) queue: Arc<Queue>,
    pub(crate) shared: Arc<NodeContext>,
    /// Where the node is; that may change.
    pub(crate) endpoint: watch::Receiver<KnownEndpoint>,
    /// Whether the server is asked if it is a primary before it is used.
    as_primary: bool,
    backoff: Backoff,
    pub(crate) timer: Timer,
}

impl Drop for Node {
    /// However its task ends: if its runtime ends, waiting requests would never be answered.
    fn drop(&mut self) {
        self.queue.close();
        Pending::fail_all(self.queue.take(usize::MAX, u64::MAX), &error::runtime_ended());
    }
}

impl Node {
    /// Starts the task that serves a node.
    pub(crate) fn start(
        endpoint: watch::Receiver<KnownEndpoint>,
        as_primary: bool,
        shared: Arc<NodeContext>,
    ) -> NodeHandle {
        let queue = Arc::<Queue>::default();
        let breaker = shared.breaker.clone().map(|options| {
            Arc::new(NodeBreaker::new(options, queue.clone(), shared.counters.clone()))
        });
        let handle = NodeHandle { queue: queue.clone(), breaker, endpoint: endpoint.clone() };
        let (backoff, timer) = (Backoff::default(), Timer::default());
        tokio::spawn(Self { queue, shared, endpoint, as_primary, backoff, timer }.run());
        handle
    }

    async fn run(mut self) {
        while let Some(connection) = self.connect().await {
            let since = Instant::now();
            let worked = self.serve(connection).await;
            self.shared.counters.disconnects.add(1);
            self.shared.report_failure();
            // The end of a connection that was stable says nothing about the next.
            if worked || since.elapsed() >= STABLE_AFTER {
                self.backoff.reset();
            } else if !self.is_over() {
                self.pause().await;
            }
        }
    }

    /// Whether the node is not needed any more. Waiting requests are redirected in a cluster, and otherwise sent first.
    pub(crate) fn is_over(&self) -> bool {
        if !self.queue.is_closed() {
            return false;
        }
        if let Some(redirects) =
            self.shared.redirects.as_ref().filter(|redirects| !redirects.is_closed())
        {
            let requests = self.queue.take(usize::MAX, u64::MAX);
            if !requests.is_empty() {
                redirects.send(requests, Reason::NoNode);
            }
        }
        self.queue.len() == 0
    }

    /// Tries until there is a connection; `None` once the node is not needed.
    async fn connect(&mut self) -> Option<Connection> {
        while !self.is_over() {
            self.queue.open();
            let attempt = self.attempt().await;
            match attempt {
                Some(Ok(connection)) => {
                    self.shared.counters.connects.add(1);
                    return Some(connection);
                }
                Some(Err(error)) => {
                    self.shared.counters.connect_failures.add(1);
                    self.shared.report_failure();
                    self.queue.refuse(&error);
                    self.pause().await;
                }
                None => {}
            }
        }
        None
    }

    /// One attempt; nothing if the node has moved meanwhile.
    async fn attempt(&mut self) -> Option<Result<Connection, StoreError>> {
        let (shared, as_primary) = (self.shared.clone(), self.as_primary);
        let endpoint = self.endpoint.borrow_and_update().clone();
        self.meanwhile(async move {
            match endpoint? {
                Some(endpoint) => Connection::open(&endpoint, &shared.access, as_primary).await,
                None => std::future::pending().await,
            }
        })
        .await
    }

    /// Waits for `done`, and fails requests past their deadline meanwhile; `None` if the node has moved.
    async fn meanwhile<T>(&mut self, done: impl Future<Output = T>) -> Option<T> {
        let mut done = pin!(done);
        loop {
            self.timer.arm(|| self.queue.next_due());
            // Woken only for a deadline before the timer's.
            let wake_when = WakeWhen { enough: usize::MAX, alarm: self.timer.alarm };
            tokio::select! {
                biased;
                result = &mut done => return Some(result),
                () = self.queue.ready(wake_when) => self.timer.arm_by(self.queue.next_due()),
                () = self.timer.fires() => self.fail_overdue(Instant::now()),
                () = moved(&mut self.endpoint) => return None,
            }
        }
    }

    /// Waits before the next attempt, unless the node has moved.
    async fn pause(&mut self) {
        let pause = sleep(self.backoff.next());
        self.meanwhile(pause).await;
    }

    /// Fails requests that were not sent before their deadline.
    pub(crate) fn fail_overdue(&mut self, now: Instant) {
        for mut pending in self.queue.take_overdue(now) {
            self.shared.report_failure();
            self.shared.counters.not_sent.add(1);
            pending.fail(StoreErrorKind::NotSent, "no turn before the deadline");
        }
    }
}

/// Until the node is somewhere else.
pub(crate) async fn moved(endpoint: &mut watch::Receiver<KnownEndpoint>) {
    if endpoint.changed().await.is_err() {
        // The sender is gone: it will not move any more.
        std::future::pending::<()>().await;
    }
}
