//! One node of Redis: a task that keeps a connection to it, and sends what waits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::backoff::Backoff;
use super::desk::{Desk, Why};
use super::guard::{Guard, NodeBreaker};
use super::link::Link;
use super::place::{Access, Place};
use super::queue::{Queue, Wish};
use super::stats::Counters;
use super::ticket::Ticket;
use super::timer::Timer;
use tidegate::BreakerOptions;
use tidegate::store_kit::BreakerTarget;
use tidegate::{Replicas, StoreError, StoreErrorKind};

/// A connection that stood for so long was a good one, whether or not it was used. As long as the longest wait: whoever
/// lets us in and hangs up is not called more often than one who does not answer.
const STOOD: Duration = Duration::from_secs(1);

/// What all nodes of a client have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) access: Access,
    pub(super) counters: Arc<Counters>,
    /// Where to bring what belongs to another node.
    pub(super) desk: Option<Desk>,
    /// Who has to confirm what is charged.
    pub(super) replicas: Option<Replicas>,
    /// What the breaker of each node goes by, if they have one.
    breaker: Option<BreakerOptions>,
    /// Something is wrong with a node: who serves what may have changed.
    pub(super) trouble: watch::Sender<()>,
}

/// Where a node is, as far as is known; or why nobody knows.
pub(super) type Whereabouts = Result<Option<Place>, StoreError>;

impl Shared {
    pub(super) fn new(
        access: Access,
        desk: Option<Desk>,
        counters: Arc<Counters>,
        replicas: Option<Replicas>,
        breaker: Option<BreakerOptions>,
    ) -> Self {
        Self { access, counters, desk, replicas, breaker, trouble: watch::Sender::default() }
    }

    pub(super) fn trouble(&self) {
        self.trouble.send_replace(());
    }
}

/// The way to a node. Dropped, the node sends what waits, and ends.
#[derive(Debug)]
pub(super) struct Handle {
    queue: Arc<Queue>,
    guard: Option<Arc<Guard>>,
    place: watch::Receiver<Whereabouts>,
}

impl Handle {
    /// Puts a question into the node's queue, unless its breaker is open. Given back if the node has left.
    #[must_use = "given back, it has to go elsewhere"]
    pub(super) fn push(&self, mut ticket: Ticket, counters: &Counters) -> Option<Ticket> {
        if let Some(guard) = &self.guard {
            match guard.pass() {
                Ok(passed) => ticket.watch = Some((guard.clone(), passed)),
                Err(open) => {
                    ticket.answer(Err(open));
                    return None;
                }
            }
        }
        self.queue.push(ticket, counters)
    }

    /// Whether there is no connection, and none under way.
    pub(super) fn is_refusing(&self) -> bool {
        self.queue.is_refusing()
    }

    pub(super) fn breaker(&self) -> Option<NodeBreaker> {
        let place = self.place.borrow().clone().ok().flatten();
        let place = place.map(|place| place.to_string()).unwrap_or_default();
        self.guard.as_ref().map(|guard| guard.describe(place))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
    }
}

pub(super) struct Node {
    pub(super) queue: Arc<Queue>,
    pub(super) shared: Arc<Shared>,
    /// Where the node is; that may change.
    pub(super) place: watch::Receiver<Whereabouts>,
    /// Whether the server is asked if it is a primary before it is used.
    as_primary: bool,
    backoff: Backoff,
    pub(super) timer: Timer,
}

impl Drop for Node {
    /// However its task ends: if its runtime does, nobody is left to answer what waits.
    fn drop(&mut self) {
        self.queue.close();
        Ticket::fail_all(self.queue.take(usize::MAX, usize::MAX), &ended());
    }
}

/// Why nobody answers any more.
pub(super) fn ended() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the runtime that kept the connection has ended")
}

impl Node {
    /// Starts the task that serves a node.
    pub(super) fn start(
        place: watch::Receiver<Whereabouts>,
        as_primary: bool,
        shared: Arc<Shared>,
    ) -> Handle {
        let queue = Arc::<Queue>::default();
        let guard = shared
            .breaker
            .clone()
            .map(|options| Arc::new(Guard::new(options, queue.clone(), shared.counters.clone())));
        let handle = Handle { queue: queue.clone(), guard, place: place.clone() };
        let (backoff, timer) = (Backoff::default(), Timer::default());
        tokio::spawn(Self { queue, shared, place, as_primary, backoff, timer }.run());
        handle
    }

    async fn run(mut self) {
        while let Some(mut link) = self.connect().await {
            let since = Instant::now();
            let worked = self.serve(&mut link).await;
            self.shared.counters.disconnects.add(1);
            self.shared.trouble();
            // That an idle connection ended in the end says nothing about the next.
            if worked || since.elapsed() >= STOOD {
                self.backoff.reset();
            } else if !self.is_over() {
                self.pause().await;
            }
        }
    }

    /// Whether nobody needs the node any more. What waits goes elsewhere if there is an elsewhere, and is sent if not.
    pub(super) fn is_over(&self) -> bool {
        if !self.queue.is_closed() {
            return false;
        }
        if let Some(desk) = self.shared.desk.as_ref().filter(|desk| !desk.is_closed()) {
            let tickets = self.queue.take(usize::MAX, usize::MAX);
            if !tickets.is_empty() {
                desk.bring(tickets, Why::NoNode);
            }
        }
        self.queue.len() == 0
    }

    /// Tries until there is a connection. Nothing once nobody needs one.
    async fn connect(&mut self) -> Option<Link> {
        while !self.is_over() {
            self.queue.open();
            let attempt = self.attempt().await;
            match attempt {
                Some(Ok(link)) => {
                    self.shared.counters.connects.add(1);
                    return Some(link);
                }
                Some(Err(error)) => {
                    self.shared.counters.connect_failures.add(1);
                    self.shared.trouble();
                    self.queue.refuse(&error);
                    self.pause().await;
                }
                None => {}
            }
        }
        None
    }

    /// One attempt; nothing if the node has moved meanwhile.
    async fn attempt(&mut self) -> Option<Result<Link, StoreError>> {
        let (shared, as_primary) = (self.shared.clone(), self.as_primary);
        let place = self.place.borrow_and_update().clone();
        self.meanwhile(async move {
            match place? {
                Some(place) => Link::open(&place, &shared.access, as_primary).await,
                None => std::future::pending().await,
            }
        })
        .await
    }

    /// Until something is done, with an eye on the deadlines of those who wait; nothing if the node has moved.
    async fn meanwhile<T>(&mut self, done: impl Future<Output = T>) -> Option<T> {
        let mut done = pin!(done);
        loop {
            self.timer.arm(|| self.queue.next_due());
            // Woken for nothing but a deadline that has to be watched.
            let wish = Wish { enough: usize::MAX, alarm: self.timer.alarm() };
            tokio::select! {
                biased;
                result = &mut done => return Some(result),
                () = self.queue.gathered(wish) => self.timer.arm_by(self.queue.next_due()),
                () = self.timer.rings() => self.tell_overdue(Instant::now()),
                () = moved(&mut self.place) => return None,
            }
        }
    }

    /// Waits before the next attempt, unless the node has moved.
    async fn pause(&mut self) {
        let pause = sleep(self.backoff.next());
        self.meanwhile(pause).await;
    }

    /// Tells those who have waited for too long.
    pub(super) fn tell_overdue(&mut self, now: Instant) {
        for mut ticket in self.queue.take_overdue(now) {
            self.shared.trouble();
            self.shared.counters.not_sent.add(1);
            ticket.fail(StoreErrorKind::NotSent, "no turn before the deadline");
        }
    }
}

/// Until the node is somewhere else.
pub(super) async fn moved(place: &mut watch::Receiver<Whereabouts>) {
    if place.changed().await.is_err() {
        // Nobody is left who could move it.
        std::future::pending::<()>().await;
    }
}
