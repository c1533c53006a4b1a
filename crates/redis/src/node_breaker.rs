//! The breaker of one node: while a node of a cluster hangs, only its keys are affected.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::store_kit::{BreakerPass, BreakerSwitch, BreakerTarget, NetworkCounters};
use tidegate::{
    BreakerOptions, BreakerState, Reply, StoreError, StoreErrorKind, StoreReply, StoreResult,
};
use tokio::time::Instant;

use crate::error;
use crate::queue::{Pending, Queue, received};
use crate::script_request::ScriptRequest;

pub(crate) struct NodeBreaker {
    switch: BreakerSwitch,
    queue: Arc<Queue>,
    counters: Arc<NetworkCounters>,
    /// What to probe with, and its slot.
    probe: Mutex<Option<(ScriptRequest, u16)>>,
    /// When the node last answered without an error.
    answered_at: Mutex<Option<Instant>>,
}

/// The breaker of one node of Redis: the only one, or one of a cluster.
///
/// ```no_run
/// use tidegate::BreakerOptions;
/// use tidegate_redis::{NodeBreakerStatus, RedisOptions, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate::StoreError> {
/// let breaker = Some(BreakerOptions::default());
/// let url = "redis+cluster://10.0.0.5:7000,10.0.0.6:7000";
/// let store = RedisStore::new(RedisOptions { breaker, ..RedisOptions::new(url) })?;
/// for NodeBreakerStatus { node, state, opened_total, cause, .. } in store.breakers() {
///     println!("{node} is {}, and was opened {opened_total} times: {cause:?}", state.as_str());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeBreakerStatus {
    /// Where the node is, as `host:port` or a path; empty while that is unknown.
    pub node: String,
    /// What its breaker does now.
    pub state: BreakerState,
    /// How often it has opened. A node that has left the cluster and comes back starts over.
    pub opened_total: u64,
    /// The node's last real failure while the breaker is open.
    pub cause: Option<StoreError>,
}

impl NodeBreaker {
    pub(crate) fn new(
        options: BreakerOptions,
        queue: Arc<Queue>,
        counters: Arc<NetworkCounters>,
    ) -> Self {
        let (switch, probe) = (BreakerSwitch::new(options), Mutex::default());
        Self { switch, queue, counters, probe, answered_at: Mutex::default() }
    }

    pub(crate) fn describe(&self, node: String) -> NodeBreakerStatus {
        let (state, opened_total) = (self.switch.state(), self.switch.opened_total());
        NodeBreakerStatus { node, state, opened_total, cause: self.switch.cause() }
    }

    /// Sees an answer of its node.
    pub(crate) fn observe(
        self: &Arc<Self>,
        pass: BreakerPass,
        pending: &Pending,
        error: Option<&StoreError>,
    ) {
        // A deadline shorter than what counts as slow says nothing about the node.
        let gave_up = matches!(
            error.map(StoreError::kind),
            Some(StoreErrorKind::Timeout | StoreErrorKind::NotSent)
        );
        if gave_up && pass.time_until(pending.due) < self.switch.options().slow {
            return;
        }
        let mut answered_at = self.answered_at.lock().unwrap_or_else(PoisonError::into_inner);
        match error.map(StoreError::kind) {
            None => *answered_at = Some(Instant::now()),
            // The node answered others while this one waited: there was more work than time, and the node works.
            Some(StoreErrorKind::NotSent) if answered_at.is_some_and(|at| at > pass.began()) => {
                return;
            }
            Some(_) => {}
        }
        drop(answered_at);
        if self.answered(pass, error) {
            // In the slot of the request that failed: that is one of the node's own.
            let probe =
                ScriptRequest::probe_beside(&pending.request).map(|probe| (probe, pending.slot));
            *self.probe.lock().unwrap_or_else(PoisonError::into_inner) = probe;
        }
    }
}

impl BreakerTarget for NodeBreaker {
    fn switch(&self) -> &BreakerSwitch {
        &self.switch
    }

    /// Waits in the node's own queue, which is empty while the breaker is open.
    fn probe(&self) -> StoreResult<StoreReply> {
        let probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((request, slot)) = probe else {
            return Reply::ready(Err(StoreError::new(
                StoreErrorKind::NotSent,
                "nothing to probe with",
            )));
        };
        let due = Instant::now() + self.switch.options().slow;
        let (pending, answer) = Pending::new(request, slot, due, None);
        Pending::fail_all(self.queue.push(pending, &self.counters), &error::runtime_ended());
        Reply::later(async { received(answer).await?.into_decided() })
    }

    /// Healthy nodes of a broken cluster answer `CLUSTERDOWN` at once: an open breaker would save no time, and would
    /// delay recovery.
    fn has_failed(&self, kind: StoreErrorKind) -> bool {
        kind != StoreErrorKind::ClusterDown && kind.is_store_failure()
    }
}

impl fmt::Debug for NodeBreaker {
    /// Without its queue, whose requests refer back to the breaker.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBreaker").field("switch", &self.switch).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
