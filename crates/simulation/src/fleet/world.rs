//! The simulated fleet: one clock, one store, a network between, and events in order.

use std::collections::BTreeMap;

use tidegate_core::{Limit, State, Timestamp};

use super::FleetSettings;
use super::arrivals::{Arrivals, NodeKey, start_us};
use super::meter::Meter;
use crate::rng::Rng;
use crate::{StopFlag, index};

/// How nodes and the store behave: one of the three that are compared.
pub(super) trait Strategy: Sized {
    /// What a node keeps per key.
    type Key: Clone;
    /// What a message or a timer carries.
    type Payload;

    fn fresh(&self) -> Self::Key;
    /// A check arrives at a node.
    fn check(&self, world: &mut World<'_, Self>, at: NodeKey);
    /// A message arrives at the store.
    fn at_store(&self, world: &mut World<'_, Self>, at: NodeKey, payload: Self::Payload);
    /// A message arrives at a node, or one of its timers fires.
    fn at_node(&self, world: &mut World<'_, Self>, at: NodeKey, payload: Self::Payload);
}

enum Event<P> {
    Check(NodeKey),
    Kill,
    AtStore(NodeKey, P),
    /// For a node with this many lives behind it; a node that has died since does not get it.
    AtNode(NodeKey, u32, P),
}

/// Counts of the whole fleet.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub(super) offered: u64,
    pub(super) calls: u64,
    pub(super) in_process: u64,
    /// Units charged at the store, and given back to it.
    pub(super) charged: u64,
    pub(super) returned: u64,
}

/// A node's own clock: off by up to an hour, and up to 200 millionths fast or slow.
#[derive(Clone, Copy)]
struct NodeClock {
    offset_us: u64,
    millionths: u64,
}

impl NodeClock {
    fn draw(rng: &mut Rng) -> Self {
        Self { offset_us: rng.below(3_600_000_000), millionths: 999_800 + rng.below(401) }
    }

    /// What it shows `passed_us` after the start.
    fn now_us(&self, passed_us: u64) -> u64 {
        self.offset_us + passed_us * self.millionths / 1_000_000
    }
}

pub(super) struct World<'a, S: Strategy> {
    pub(super) limit: &'a Limit,
    pub(super) now_us: u64,
    pub(super) states: Vec<State>,
    pub(super) meters: Vec<Meter>,
    pub(super) counters: Counters,
    pub(super) settings: &'a FleetSettings,
    start_us: u64,
    nodes: Vec<Vec<S::Key>>,
    lives: Vec<u32>,
    clocks: Vec<NodeClock>,
    /// By instant, and of several at one instant in the order they were added.
    events: BTreeMap<(u64, u64), Event<S::Payload>>,
    events_added: u64,
    arrivals: Arrivals,
    network: Rng,
    /// For the pauses of nodes after a failure.
    backoff: Rng,
}

impl<'a, S: Strategy> World<'a, S> {
    /// Runs until no event is left, or until it is stopped. `plain` is the limit that is promised, `kept` the one that the store decides by.
    pub(super) fn run(
        settings: &'a FleetSettings,
        (plain, kept): (&'a Limit, &'a Limit),
        strategy: &S,
        arrivals: Arrivals,
        stop: &StopFlag,
    ) -> (Vec<Meter>, Counters) {
        let start_us = start_us(plain);
        let (nodes, keys) = (index(settings.nodes), index(settings.keys));
        let meter = || Meter::new(plain, start_us, settings.duration_us);
        let mut clocks = Rng::new(settings.seed, 4);
        let mut world = Self {
            limit: kept,
            now_us: start_us,
            states: vec![State::Empty; keys],
            meters: (0..keys).map(|_| meter()).collect(),
            counters: Counters::default(),
            settings,
            start_us,
            nodes: vec![vec![strategy.fresh(); keys]; nodes],
            lives: vec![0; nodes],
            clocks: (0..nodes).map(|_| NodeClock::draw(&mut clocks)).collect(),
            events: BTreeMap::new(),
            events_added: 0,
            arrivals,
            network: Rng::new(settings.seed, 2),
            backoff: Rng::new(settings.seed, 5),
        };
        let mut kills = Rng::new(settings.seed, 3);
        for _ in 0..settings.kills {
            world.schedule(start_us + kills.below(settings.duration_us), Event::Kill);
        }
        world.schedule_check();
        while let Some(((at_us, _), event)) = world.events.pop_first()
            && !stop.is_stopped()
        {
            world.now_us = at_us;
            match event {
                Event::Check(at) => world.arrive(strategy, at),
                Event::Kill => world.kill(strategy),
                Event::AtStore(at, payload) => strategy.at_store(&mut world, at, payload),
                Event::AtNode(at, life, payload) if world.lives[at.node] == life => {
                    strategy.at_node(&mut world, at, payload);
                }
                Event::AtNode(..) => {}
            }
        }
        (world.meters, world.counters)
    }

    /// Random bits for the pause of a node after a failure.
    pub(super) fn backoff_bits(&mut self) -> u64 {
        self.backoff.below(u64::MAX)
    }

    fn schedule(&mut self, at_us: u64, event: Event<S::Payload>) {
        self.events_added += 1;
        self.events.insert((at_us, self.events_added), event);
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us)
    }

    /// What the node's own clock shows.
    pub(super) fn node_now_us(&self, node: usize) -> u64 {
        self.clocks[node].now_us(self.now_us - self.start_us)
    }

    pub(super) fn key(&mut self, at: NodeKey) -> &mut S::Key {
        &mut self.nodes[at.node][at.key]
    }

    /// Sends a message to the store, if it is not lost.
    pub(super) fn call(&mut self, at: NodeKey, payload: S::Payload) {
        self.counters.calls += 1;
        if let Some(arrives_us) = self.travel() {
            self.schedule(arrives_us, Event::AtStore(at, payload));
        }
    }

    /// Sends the store's answer back, if it is not lost.
    pub(super) fn answer(&mut self, at: NodeKey, payload: S::Payload) {
        if let Some(arrives_us) = self.travel() {
            self.set_timer(at, arrives_us, payload);
        }
    }

    /// Delivers a payload to a node at an instant.
    pub(super) fn set_timer(&mut self, at: NodeKey, at_us: u64, payload: S::Payload) {
        self.schedule(at_us, Event::AtNode(at, self.lives[at.node], payload));
    }

    fn travel(&mut self) -> Option<u64> {
        let takes_us =
            self.settings.latency_us / 2 + self.network.below(self.settings.latency_us + 1);
        let is_lost = self.network.below(1_000_000) < self.settings.loss_ppm;
        (!is_lost).then_some(self.now_us + takes_us)
    }

    fn arrive(&mut self, strategy: &S, at: NodeKey) {
        self.counters.offered += 1;
        self.meters[at.key].offer(self.now_us);
        strategy.check(self, at);
        self.schedule_check();
    }

    fn schedule_check(&mut self) {
        if let Some((at_us, at)) = self.arrivals.next() {
            self.schedule(at_us, Event::Check(at));
        }
    }

    fn kill(&mut self, strategy: &S) {
        let node = index(self.network.below(self.settings.nodes));
        self.lives[node] += 1;
        self.clocks[node] = NodeClock::draw(&mut self.network);
        self.nodes[node].fill(strategy.fresh());
    }
}
