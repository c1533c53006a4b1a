//! The breaker of one node: while a node of a cluster hangs, only the keys it keeps go without it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::node::ended;
use super::question::Question;
use super::queue::Queue;
use super::settled;
use super::stats::Counters;
use super::ticket::{Ticket, told};
use tidegate::Reply;
use tidegate::store_kit::{BreakerPass, BreakerSwitch, BreakerTarget};
use tidegate::{BreakerOptions, BreakerState};
use tidegate::{StoreError, StoreErrorKind, StoreReply};

pub(super) struct Guard {
    switch: BreakerSwitch,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    /// What to probe with, and its slot.
    probe: Mutex<Option<(Question, u16)>>,
}

/// The breaker of one node of Redis: the only one, or one of a cluster.
///
/// ```no_run
/// use tidegate::BreakerOptions;
/// use tidegate_redis::{NodeBreaker, RedisOptions, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::StoreError> {
/// let breaker = Some(BreakerOptions::default());
/// let url = "redis+cluster://10.0.0.5:7000,10.0.0.6:7000";
/// let store = RedisStore::new(RedisOptions { breaker, ..RedisOptions::new(url) })?;
/// for NodeBreaker { node, state, opened_total, .. } in store.breakers() {
///     println!("{node} is {}, and was opened {opened_total} times", state.as_str());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeBreaker {
    /// Where the node is, as `host:port` or a path; empty while nobody knows.
    pub node: String,
    /// What its breaker does now.
    pub state: BreakerState,
    /// How often it has opened. A node that has left the cluster and comes back starts over.
    pub opened_total: u64,
}

impl Guard {
    pub(super) fn new(options: BreakerOptions, queue: Arc<Queue>, counters: Arc<Counters>) -> Self {
        Self { switch: BreakerSwitch::new(options), queue, counters, probe: Mutex::default() }
    }

    /// Counts what became of a question.
    pub(super) fn count(
        self: &Arc<Self>,
        passed: BreakerPass,
        ticket: &Ticket,
        error: Option<&StoreError>,
    ) {
        // Who would not have waited for what is still fast says nothing about the node by giving up.
        let gave_up = matches!(
            error.map(StoreError::kind),
            Some(StoreErrorKind::Timeout | StoreErrorKind::NotSent)
        );
        if gave_up && passed.time_until(ticket.due) < self.switch.options().slow {
            return;
        }
        if self.answered(passed, error) {
            // In the slot of the question that failed: that is one of the node's own.
            let probe = Question::of_probe(&ticket.question).map(|probe| (probe, ticket.slot));
            *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = probe;
        }
    }

    pub(super) fn describe(&self, node: String) -> NodeBreaker {
        let (state, opened_total) = (self.switch.state(), self.switch.opened_total());
        NodeBreaker { node, state, opened_total }
    }
}

impl BreakerTarget for Guard {
    fn switch(&self) -> &BreakerSwitch {
        &self.switch
    }

    /// Waits in the node's own queue, where nobody else does while the breaker is open.
    fn probe(&self) -> Reply<'static, StoreReply, StoreError> {
        let probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((question, slot)) = probe else {
            return Reply::ready(Err(StoreError::new(
                StoreErrorKind::NotSent,
                "nothing to probe with",
            )));
        };
        let due = Instant::now() + self.switch.options().slow;
        let (ticket, answer) = Ticket::new(question, slot, due, None);
        Ticket::fail_all(self.queue.push(ticket, &self.counters), &ended());
        Reply::later(async { settled(told(answer).await?) })
    }

    /// `CLUSTERDOWN` is said at once by nodes that are well, of a cluster that is not. To leave them alone would save
    /// nobody time, and would only be one more thing to wait for when the cluster is back.
    fn has_failed(&self, trouble: StoreErrorKind) -> bool {
        trouble != StoreErrorKind::ClusterDown && trouble.is_store_failure()
    }
}

impl fmt::Debug for Guard {
    /// Without its queue, whose questions know their guard.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("switch", &self.switch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
