//! Slot-map refresh: seldom while all is well, often after a failure, and less often again when failures last longer
//! than a failover takes and the map does not change: a node may be dead for days.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tidegate::{StoreError, StoreErrorKind};
use tokio::time::{Instant, timeout};

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::node::NodeContext;
use crate::slot_map::{self, Range};
use crate::timing::jittered;

/// How often to refresh while something fails, at first and in the end.
const WHILE_FAILING: Duration = Duration::from_millis(50);
const WHILE_FAILING_LONG: Duration = Duration::from_secs(1);

/// A failover is noticed within [`WHILE_FAILING`] when it takes no longer: `cluster-node-timeout` is 15 s by default, and
/// a replica is chosen a second or two after that.
const FAILOVER_TAKES: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct RefreshSchedule {
    /// The period without failures.
    every: Duration,
    /// When to refresh.
    pub(crate) next: Instant,
    last: Option<Instant>,
    /// When this map first failed, and when it last did.
    failing: Option<(Instant, Instant)>,
}

impl RefreshSchedule {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, next: Instant::now(), last: None, failing: None }
    }

    /// A call failed: the map may have changed.
    pub(crate) fn failure(&mut self, now: Instant) {
        let since = match self.failing {
            Some((since, last)) if now < last + self.every => since,
            _ => now,
        };
        self.failing = Some((since, now));
        self.refresh_soon(now);
    }

    /// The map has changed.
    pub(crate) fn changed(&mut self, now: Instant) {
        self.failing = Some((now, now));
        self.refresh_soon(now);
    }

    /// A refresh has ended.
    pub(crate) fn refreshed(&mut self, now: Instant, is_well: bool, has_changed: bool) {
        if has_changed {
            self.failing = None;
        }
        if !is_well {
            self.failure(now);
        }
        self.last = Some(now);
        self.next = now + jittered(if is_well { self.every } else { self.pace(now) });
    }

    /// How often to refresh while something fails.
    fn pace(&self, now: Instant) -> Duration {
        let lasted = self.failing.map_or(Duration::ZERO, |(since, _)| now - since);
        (lasted.saturating_sub(FAILOVER_TAKES) / 20).clamp(WHILE_FAILING, WHILE_FAILING_LONG)
    }

    fn refresh_soon(&mut self, now: Instant) {
        // Measured from the last refresh: constant failures must not put it off.
        let soon = self.last.unwrap_or(now) + jittered(self.pace(now));
        // … and after a long time without failures, not at once: a fleet would ask at the same moment.
        let soon = if soon <= now { now + jittered(WHILE_FAILING) } else { soon };
        self.next = self.next.min(soon);
    }
}

/// A node that takes longer hangs: the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

pub(crate) type SlotRanges = Vec<Range>;

pub(crate) struct SlotProbe {
    seeds: Vec<Endpoint>,
    /// To the node that answered last.
    connection: Option<(Endpoint, Connection)>,
}

impl SlotProbe {
    pub(crate) const fn new(seeds: Vec<Endpoint>) -> Self {
        Self { seeds, connection: None }
    }

    /// Asks one node after another, the last one that answered first.
    pub(crate) async fn probe(
        mut self,
        shared: Arc<NodeContext>,
        known: Vec<Endpoint>,
    ) -> (Self, Result<SlotRanges, StoreError>) {
        let last = self.connection.as_ref().map(|(endpoint, _)| endpoint.clone());
        let mut asked: Vec<Endpoint> = Vec::new();
        let mut error =
            StoreError::new(StoreErrorKind::Unreachable, "no node of the cluster is known");
        for endpoint in last.into_iter().chain(known).chain(self.seeds.clone()) {
            if asked.contains(&endpoint) {
                continue;
            }
            match timeout(ANSWER_TIMEOUT, self.ask_for_slots(&endpoint, &shared)).await {
                Ok(Ok(ranges)) => return (self, Ok(ranges)),
                Ok(Err(why)) => error = why,
                Err(_) => {
                    let why = format!("{endpoint}: no answer within {ANSWER_TIMEOUT:?}");
                    error = StoreError::new(StoreErrorKind::Unreachable, why);
                }
            }
            self.connection = None;
            asked.push(endpoint);
        }
        (self, Err(error))
    }

    async fn ask_for_slots(
        &mut self,
        endpoint: &Endpoint,
        shared: &NodeContext,
    ) -> Result<SlotRanges, StoreError> {
        let mut connection = match self.connection.take() {
            Some((known, connection)) if known == *endpoint => connection,
            _ => Connection::enter(endpoint, &shared.access).await?,
        };
        let slots = connection.start(cmd("CLUSTER").arg("SLOTS").take());
        let ranges = slot_map::read(connection.value_of(slots).await?, endpoint)?;
        self.connection = Some((endpoint.clone(), connection));
        Ok(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    /// Looks within so long, while there is trouble every 10 ms.
    fn refreshes(
        schedule: &mut RefreshSchedule,
        now: &mut Instant,
        span: Duration,
        is_well: bool,
    ) -> u32 {
        let (end, mut count) = (*now + span, 0);
        while *now < end {
            *now += Duration::from_millis(10);
            schedule.failure(*now);
            if *now >= schedule.next {
                schedule.refreshed(*now, is_well, false);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn long_trouble_is_looked_at_less_and_less_and_new_trouble_at_once() {
        for is_well in [false, true] {
            let mut schedule = RefreshSchedule::new(EVERY);
            let mut now = schedule.next;
            schedule.refreshed(now, true, true);
            assert!(schedule.next >= now + EVERY / 2);
            for second in 0..FAILOVER_TAKES.as_secs() {
                let count = refreshes(&mut schedule, &mut now, Duration::from_secs(1), is_well);
                assert!((18..=50).contains(&count), "{count} in second {second}");
            }
            refreshes(&mut schedule, &mut now, Duration::from_secs(20), is_well);
            let late = refreshes(&mut schedule, &mut now, Duration::from_secs(10), is_well);
            assert!((5..=21).contains(&late), "{late} in 10 s");
            schedule.changed(now);
            assert!(schedule.next <= now + WHILE_FAILING, "news");
            refreshes(&mut schedule, &mut now, EVERY, is_well);
            schedule.refreshed(now, true, false);
            now += EVERY + EVERY;
            schedule.refreshed(now, true, false);
            schedule.failure(now);
            assert!(schedule.next <= now + WHILE_FAILING, "after a quiet");
        }
    }
}
