//! The way to Redis: a question is handed to the node that keeps its keys, and answered within one deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::RedisOptions;
use super::node::{Handle, Node, Shared};
use super::question::Question;
use super::stats::RedisStats;
use super::ticket::{Answer, Ticket};
use super::url::{Servers, Target};
use crate::store::{StoreError, Trouble};

#[derive(Clone, Debug)]
pub(super) struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    node: Handle,
    deadline: Duration,
    shared: Arc<Shared>,
}

impl Client {
    /// Connects in the background, now and whenever it has to. Needs a running tokio runtime.
    pub(super) fn start(options: &RedisOptions) -> Result<Self, StoreError> {
        let Target { servers, access } = Target::parse(&options.url)?;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StoreError::new(Trouble::BadAsk, "a store in Redis needs a tokio runtime"));
        }
        let shared = Arc::new(Shared::new(access));
        let node = match servers {
            Servers::Single(place) => {
                Node::start(watch::channel(Some(place)).1, false, shared.clone())
            }
            Servers::Cluster(_) | Servers::Sentinel { .. } => {
                return Err(StoreError::new(Trouble::BadAsk, "not yet"));
            }
        };
        Ok(Self { inner: Arc::new(Inner { node, deadline: options.deadline, shared }) })
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
        let (ticket, answer) = Ticket::new(question, 0, due);
        // Only a dropped client closes its queue.
        drop(self.inner.node.queue.push(ticket, &self.inner.shared.counters));
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
