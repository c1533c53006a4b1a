//! One way to Redis, with connections of its own.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::desk::Desk;
use super::guard::NodeBreaker;
use super::node::{Handle, Node, Shared, ended};
use super::question::Question;
use super::sentinel;
use super::stats::Counters;
use super::ticket::{Answers, Ticket};
use super::url::{Servers, Target};
use tidegate::BreakerOptions;
use tidegate::Replicas;

#[derive(Debug)]
pub(super) struct Lane {
    way: Way,
    shared: Arc<Shared>,
    /// Every question under way has one, where there are several lanes to choose from.
    busy: Option<Arc<()>>,
}

/// Where questions go.
#[derive(Debug)]
enum Way {
    Node(Handle),
    Cluster(Cluster),
}

impl Lane {
    pub(super) fn start(
        target: Target,
        counters: Arc<Counters>,
        replicas: Option<Replicas>,
        breaker: Option<BreakerOptions>,
    ) -> Self {
        let Target { servers, access } = target;
        let shared_with = |desk| Arc::new(Shared::new(access, desk, counters, replicas, breaker));
        let (way, shared) = match servers {
            Servers::Single(place) => {
                let shared = shared_with(None);
                let (_, place) = watch::channel(Ok(Some(place)));
                (Way::Node(Node::start(place, false, shared.clone())), shared)
            }
            Servers::Cluster(seeds) => {
                let (desk, bundles) = Desk::new();
                let shared = shared_with(Some(desk));
                (Way::Cluster(Cluster::start(seeds, bundles, shared.clone())), shared)
            }
            Servers::Sentinel(sentinels) => {
                let shared = shared_with(None);
                let place = sentinel::watch(sentinels, &shared);
                (Way::Node(Node::start(place, true, shared.clone())), shared)
            }
        };
        Self { way, shared, busy: replicas.map(|_| Arc::default()) }
    }

    /// How many questions are under way; not counted where there is no choice.
    pub(super) fn load(&self) -> usize {
        self.busy.as_ref().map_or(0, Arc::strong_count)
    }

    /// What the breaker of each node does.
    pub(super) fn breakers(&self) -> Vec<NodeBreaker> {
        match &self.way {
            Way::Node(node) => node.breaker().into_iter().collect(),
            Way::Cluster(cluster) => cluster.breakers(),
        }
    }

    pub(super) fn push(&self, question: Question, due: Instant) -> Answers {
        match &self.way {
            Way::Node(node) => {
                let (ticket, answer) = Ticket::new(question, 0, due, self.busy.clone());
                // While there is a client, only the end of its runtime closes its queue.
                let refused = node.push(ticket, &self.shared.counters);
                Ticket::fail_all(refused, &ended());
                answer
            }
            Way::Cluster(cluster) => {
                let slot = question.slot();
                let (ticket, answer) = Ticket::new(question, slot, due, self.busy.clone());
                cluster.push(ticket);
                answer
            }
        }
    }
}
