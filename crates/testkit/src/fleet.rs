//! Nodes that agree on one adaptive limit through a store.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::adaptive::{Adaptive, Chain, Reading, Rule, Source};
use tidegate::{ManualClock, Store};

const SECOND: Duration = Duration::from_secs(1);

/// Nodes that share a store, and one limit of 1000.
pub struct Fleet {
    /// Node by node.
    pub nodes: Vec<Adaptive>,
    clock: ManualClock,
    /// What was in force in each tick that somebody agreed on.
    agreed: BTreeMap<u64, u64>,
}

impl Fleet {
    /// So many nodes over one store.
    pub fn new<S: Store + Clone + 'static>(nodes: usize, store: &S) -> Self {
        let clock = ManualClock::default();
        let node = |_| governed(Adaptive::shared_over(store.clone(), clock.clone()));
        Self { nodes: (0..nodes).map(node).collect(), clock, agreed: BTreeMap::new() }
    }

    /// One second: each node, in this order, is told its pressure and ticks.
    pub async fn second(&mut self, pressures: &[(usize, f64)]) {
        self.clock.advance(SECOND);
        for (node, pressure) in pressures {
            self.nodes[*node].target("db").push(Reading::Value(*pressure));
            self.nodes[*node].tick().await;
        }
        self.check();
    }

    /// The same at once.
    pub async fn second_at_once(&mut self, pressure: f64) {
        self.clock.advance(SECOND);
        let ticks = self.nodes.iter().map(|node| {
            node.target("db").push(Reading::Value(pressure));
            let node = node.clone();
            tokio::spawn(async move { node.tick().await })
        });
        let ticks: Vec<_> = ticks.collect();
        for tick in ticks {
            tick.await.unwrap();
        }
        self.check();
    }

    /// Nodes that agreed in the same tick have the same in force.
    pub fn check(&mut self) {
        for node in &self.nodes {
            let status = &node.status()[0];
            if let Some(tick) = status.agreed {
                let known = *self.agreed.entry(tick).or_insert(status.units);
                assert_eq!(status.units, known, "two limits in tick {tick}");
            }
        }
    }

    /// What is in force, node by node.
    pub fn units(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.status()[0].units).collect()
    }

    /// How many nodes have not agreed with others in the last tick.
    pub fn alone(&self) -> usize {
        self.nodes.iter().filter(|node| node.status()[0].agreed.is_none()).count()
    }
}

/// A node with the limit of 1000 governed by the pressure of `db`.
pub fn governed(node: Adaptive) -> Adaptive {
    let rule =
        Rule::from_chains([(Chain::pressure("db"), Source::Pushed(node.target("db")))]).unwrap();
    node.govern("search", 1000, rule).unwrap();
    node
}
