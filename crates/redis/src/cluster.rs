//! A cluster: requests go to the node of their slot. One task keeps the slot map, and re-routes what MOVED, ASK and
//! TRYAGAIN redirect.
//!
//! The redis crate has a cluster client of its own, as fast as this one (docs/benchmarks.md, "Checks through Redis"). It
//! sends a call again after a dropped connection or a timeout, when it may have run: a check would be charged twice. Its
//! one number of retries covers redirects too, so that it cannot be told to follow these alone.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::ServerError;
use tidegate::{StoreError, StoreErrorKind};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until};

use crate::endpoint::Endpoint;
use crate::error;
use crate::node::{NodeContext, NodeHandle};
use crate::node_breaker::NodeBreakerStatus;
use crate::queue::{Pending, WAITING_MAX};
use crate::refresh::{RefreshSchedule, SlotProbe, SlotRanges};
use crate::slot_map::CurrentMap;
use crate::timing::Timer;

/// The handle of a cluster. When it is dropped, its nodes send the waiting requests and end.
#[derive(Debug)]
pub(crate) struct Cluster {
    map: Arc<CurrentMap>,
    shared: Arc<NodeContext>,
}

impl Cluster {
    pub(crate) fn start(
        seeds: Vec<Endpoint>,
        redirected: mpsc::Receiver<Redirected>,
        shared: Arc<NodeContext>,
    ) -> Self {
        let map = Arc::<CurrentMap>::default();
        tokio::spawn(
            SlotMapTask::new(map.clone(), shared.clone()).run(redirected, SlotProbe::new(seeds)),
        );
        Self { map, shared }
    }

    pub(crate) fn push(&self, pending: Pending) {
        let map = self.map.get();
        let node = map.as_ref().and_then(|map| map.node_of(pending.slot));
        let pending = match node {
            Some(node) => node.push(pending, &self.shared.counters),
            None => Some(pending),
        };
        if let (Some(pending), Some(redirects)) = (pending, &self.shared.redirects) {
            redirects.send(vec![pending], Reason::NoNode);
        }
    }

    pub(crate) fn breakers(&self) -> Vec<NodeBreakerStatus> {
        self.map.get().iter().flat_map(|map| map.nodes()).filter_map(NodeHandle::breaker).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(redirects) = &self.shared.redirects {
            redirects.close();
        }
        self.map.close();
    }
}

/// How often the map is asked for when all is well.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// Long enough for a key to be moved, short enough to be asked again in time.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(3);

struct SlotMapTask {
    map: Arc<CurrentMap>,
    shared: Arc<NodeContext>,
    /// Requests that wait for the next map.
    waiting: Vec<Pending>,
    /// Requests that wait for the time of their next attempt.
    later: Vec<(Instant, Pending)>,
    /// Why the last refresh failed.
    last_error: Option<StoreError>,
    timer: Timer,
    schedule: RefreshSchedule,
}

impl SlotMapTask {
    fn new(map: Arc<CurrentMap>, shared: Arc<NodeContext>) -> Self {
        let (timer, schedule) = (Timer::default(), RefreshSchedule::new(REFRESH_EVERY));
        let (waiting, later) = (Vec::new(), Vec::new());
        Self { map, shared, waiting, later, last_error: None, timer, schedule }
    }

    async fn run(mut self, mut redirected: mpsc::Receiver<Redirected>, probe: SlotProbe) {
        let mut failures = self.shared.failures.subscribe();
        // Either idle here, or moved into `probing`.
        let (mut probe, mut probing) = (Some(probe), None);
        while let Some(map) = self.map.get() {
            if let Some(probe) = probe.take_if(|_| Instant::now() >= self.schedule.next) {
                self.shared.counters.refreshes.add(1);
                let known = map.endpoints().cloned().collect();
                probing = Some(Box::pin(probe.probe(self.shared.clone(), known)));
            }
            drop(map);
            self.timer.disarm();
            let due = self.next_due();
            self.timer.arm(|| due);
            let finished = async {
                match &mut probing {
                    Some(probing) => probing.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.map.closed() => return,
                (back, ranges) = finished => {
                    probe = Some(back);
                    probing = None;
                    self.apply(ranges);
                }
                () = sleep_until(self.schedule.next), if probe.is_some() => {}
                Ok(()) = failures.changed() => self.schedule.failure(Instant::now()),
                Some(redirected) = redirected.recv() => {
                    if redirected.why != Reason::TryAgain {
                        self.schedule.failure(Instant::now());
                    }
                    self.reroute(redirected);
                }
                () = self.timer.fires() => self.expire(),
            }
        }
    }

    /// Applies the result of a refresh.
    fn apply(&mut self, ranges: Result<SlotRanges, StoreError>) {
        let current = self.map.get().unwrap_or_default();
        let map = ranges.and_then(|ranges| current.with_ranges(&ranges, &self.shared));
        let has_changed = map.as_ref().is_ok_and(|map| !map.is_same(&current));
        let (is_well, error) = match map {
            Ok(map) => {
                let is_well = !map.has_gaps();
                self.map.set(map);
                (is_well, StoreError::new(StoreErrorKind::ClusterDown, "no node has the slot"))
            }
            Err(error) => (false, error),
        };
        self.last_error = (!is_well).then(|| error.clone());
        for mut pending in std::mem::take(&mut self.waiting) {
            match self.node_of(&pending) {
                Some(_) => self.send(pending),
                None => pending.answer(Err(error.clone())),
            }
        }
        self.schedule.refreshed(Instant::now(), is_well, has_changed);
    }

    /// Routes requests again that have not run.
    fn reroute(&mut self, redirected: Redirected) {
        let Redirected { requests, why } = redirected;
        for mut pending in requests.into_iter().filter(Pending::is_open) {
            // The node that redirected it has answered: its breaker does not observe the next attempt.
            pending.observer = None;
            if why != Reason::NoNode {
                if pending.tried {
                    pending.fail(StoreErrorKind::Moving, "the slot is being moved");
                    continue;
                }
                self.shared.counters.retries.add(1);
                pending.tried = true;
            }
            match &why {
                Reason::NoNode => self.send(pending),
                Reason::Moved(endpoint) => {
                    self.move_slot(pending.slot, endpoint);
                    self.send(pending);
                }
                Reason::Ask(endpoint) => {
                    (pending.asking, pending.alone) = (true, true);
                    self.send_to(pending, endpoint);
                }
                Reason::TryAgain if self.later.len() >= WAITING_MAX => {
                    pending.fail(StoreErrorKind::Moving, "the slot is being moved");
                }
                Reason::TryAgain => {
                    pending.alone = true;
                    self.later.push((Instant::now() + TRY_AGAIN_AFTER, pending));
                }
            }
        }
    }

    fn move_slot(&mut self, slot: u16, endpoint: &Endpoint) {
        let Some(map) = self.map.get() else { return };
        if !map.is_at(slot, endpoint)
            && let Ok(map) = map.with_moved(slot, endpoint, &self.shared)
        {
            self.map.set(map);
            self.schedule.changed(Instant::now());
        }
    }

    /// Sends it to its node, or lets it wait for the next map.
    fn send(&mut self, pending: Pending) {
        let refused = match self.node_of(&pending) {
            Some(node) => node.push(pending, &self.shared.counters),
            None => Some(pending),
        };
        match (refused, &self.last_error) {
            (Some(mut pending), Some(why)) => pending.answer(Err(why.clone())),
            (Some(pending), None) if self.waiting.len() < WAITING_MAX => self.waiting.push(pending),
            (Some(mut pending), None) => {
                self.shared.counters.overloaded.add(1);
                pending.fail(StoreErrorKind::Overloaded, "too many requests wait for a map");
            }
            (None, _) => {}
        }
    }

    /// Sends it to a node that is still importing, and may have no slot yet.
    fn send_to(&mut self, mut pending: Pending, endpoint: &Endpoint) {
        let Some(mut map) = self.map.get() else { return };
        if let Some(with_importing) = map.with_importing(endpoint, &self.shared) {
            self.map.set(with_importing);
            map = self.map.get().unwrap_or_default();
        }
        match map.node_at(endpoint) {
            Some(node) => drop(node.push(pending, &self.shared.counters)),
            None => pending.fail(StoreErrorKind::Moving, "the slot goes to one node too many"),
        }
    }

    fn node_of(&self, pending: &Pending) -> Option<Arc<NodeHandle>> {
        self.map.get()?.node_of(pending.slot).cloned()
    }

    fn next_due(&self) -> Option<Instant> {
        let later = self.later.iter().map(|(time, _)| *time);
        self.waiting.iter().map(|pending| pending.due).chain(later).min()
    }

    fn expire(&mut self) {
        let now = Instant::now();
        for mut pending in self.waiting.extract_if(.., |pending| pending.due <= now) {
            self.shared.counters.not_sent.add(1);
            pending.fail(StoreErrorKind::NotSent, "no map of the cluster before the deadline");
        }
        let due: Vec<_> = self.later.extract_if(.., |(time, _)| *time <= now).collect();
        for (_, pending) in due {
            self.send(pending);
        }
    }
}

/// The most redirected calls that wait: several for each call that a hundred nodes can have in flight.
const REDIRECTED_MAX: usize = 4096;

/// Requests to route again, and why.
#[derive(Debug)]
pub(crate) struct Redirected {
    pub(crate) requests: Vec<Pending>,
    pub(crate) why: Reason,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// No node is known for them, or theirs has left.
    NoNode,
    /// Their slot is at that node now.
    Moved(Endpoint),
    /// Their keys may be at that node already, while the slot is being moved there.
    Ask(Endpoint),
    /// Some of their keys are here and some there.
    TryAgain,
}

/// Sends redirected requests to the task that keeps the slot map.
#[derive(Clone, Debug)]
pub(crate) struct Redirects {
    redirected: mpsc::Sender<Redirected>,
    is_closed: Arc<AtomicBool>,
}

impl Redirects {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Redirected>) {
        let (redirected, waiter) = mpsc::channel(REDIRECTED_MAX);
        (Self { redirected, is_closed: Arc::default() }, waiter)
    }

    pub(crate) fn send(&self, requests: Vec<Pending>, why: Reason) {
        let (refused, error) = match self.redirected.try_send(Redirected { requests, why }) {
            Ok(()) => return,
            Err(TrySendError::Closed(refused)) => (refused, error::runtime_ended()),
            Err(TrySendError::Full(refused)) => {
                let why = "too many redirected requests wait";
                (refused, StoreError::new(StoreErrorKind::Overloaded, why))
            }
        };
        Pending::fail_all(refused.requests, &error);
    }

    /// The client was dropped: nodes send the requests in their queues themselves.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl Reason {
    /// Reads the error of a node that refused a call. `asked` is its endpoint.
    pub(crate) fn from_error(error: &ServerError, asked: Option<&Endpoint>) -> Option<Self> {
        let endpoint = || redirection(error.details()?, asked);
        match error.code() {
            "MOVED" => endpoint().map(Self::Moved),
            "ASK" => endpoint().map(Self::Ask),
            "TRYAGAIN" => Some(Self::TryAgain),
            _ => None,
        }
    }
}

/// Reads `slot host:port`; without a host, that of the node that answered.
fn redirection(detail: &str, asked: Option<&Endpoint>) -> Option<Endpoint> {
    let (host, port) = detail.split(' ').nth(1)?.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    match (host, asked) {
        ("" | "?", Some(Endpoint::Tcp { host, .. })) => {
            Some(Endpoint::Tcp { host: host.clone(), port })
        }
        ("" | "?", _) => None,
        _ => Some(Endpoint::Tcp { host: host.to_owned(), port }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read_as_redis_writes_them() {
        let tcp = |host: &str, port| Some(Endpoint::Tcp { host: host.to_owned(), port });
        let asked = tcp("10.0.0.9", 7000);
        for (detail, expected) in [
            ("3999 127.0.0.1:6381", tcp("127.0.0.1", 6381)),
            ("3999 node-3.example.org:6381", tcp("node-3.example.org", 6381)),
            ("3999 ::1:6381", tcp("::1", 6381)),
            ("3999 :6381", tcp("10.0.0.9", 6381)),
            ("3999 ?:6381", tcp("10.0.0.9", 6381)),
            ("3999 host:0", None),
            ("3999 host:port", None),
            ("3999", None),
            ("", None),
        ] {
            assert_eq!(redirection(detail, asked.as_ref()), expected, "{detail}");
        }
    }
}
