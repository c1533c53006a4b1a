//! The way to Redis: a question is handed to the node that keeps its keys, and answered within one deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::desk::Desk;
use super::node::{Handle, Node, Shared};
use super::question::Question;
use super::sentinel;
use super::stats::RedisStats;
use super::ticket::{Answer, Ticket};
use super::url::{Servers, Target};
use crate::store::{StoreError, Trouble};

#[derive(Clone, Debug)]
pub(super) struct Client {
    inner: Arc<Inner>,
}

/// Where questions go.
#[derive(Debug)]
enum Way {
    Node(Handle),
    Cluster(Cluster),
}

#[derive(Debug)]
struct Inner {
    way: Way,
    deadline: Duration,
    shared: Arc<Shared>,
}

impl Client {
    /// Connects in the background, now and whenever it has to. Needs a running tokio runtime.
    pub(super) fn start(url: &str, deadline: Duration) -> Result<Self, StoreError> {
        let Target { servers, access } = Target::parse(url)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::new(Trouble::BadAsk, "a store in Redis needs a tokio runtime"));
        }
        let (way, shared) = match servers {
            Servers::Single(place) => {
                let shared = Arc::new(Shared::new(access, None));
                let (_, place) = watch::channel(Ok(Some(place)));
                (Way::Node(Node::start(place, false, shared.clone())), shared)
            }
            Servers::Cluster(seeds) => {
                let (desk, bundles) = Desk::new();
                let shared = Arc::new(Shared::new(access, Some(desk)));
                (Way::Cluster(Cluster::start(seeds, bundles, shared.clone())), shared)
            }
            Servers::Sentinel(sentinels) => {
                let shared = Arc::new(Shared::new(access, None));
                let place = sentinel::watch(sentinels, &shared);
                (Way::Node(Node::start(place, true, shared.clone())), shared)
            }
        };
        Ok(Self { inner: Arc::new(Inner { way, deadline, shared }) })
    }

    /// When a decision that begins now has to be made.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.inner.deadline
    }

    /// Under way with the call; the future only waits.
    pub(super) fn submit(
        &self,
        question: Question,
        due: Instant,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let answer = match &self.inner.way {
            Way::Node(node) => {
                let (ticket, answer) = Ticket::new(question, 0, due);
                // Only a dropped client closes its queue.
                drop(node.queue.push(ticket, &self.inner.shared.counters));
                answer
            }
            Way::Cluster(cluster) => {
                let slot = question.slot();
                let (ticket, answer) = Ticket::new(question, slot, due);
                cluster.push(ticket);
                answer
            }
        };
        async {
            answer.await.unwrap_or_else(|_| {
                Err(StoreError::new(Trouble::Disconnected, "the client has ended"))
            })
        }
    }

    pub(super) fn stats(&self) -> RedisStats {
        self.inner.shared.counters.read()
    }
}
