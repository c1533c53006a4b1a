//! The world of the simulation: one clock, one store, a network between, and events in order.

use tidegate_core::{Limit, State, Timestamp};

use super::arrivals::Arrivals;
use super::meter::Meter;
use super::setting::{Setting, Tally};
use super::time::{OwnClock, Schedule};
use crate::START_US;
use crate::chance::Chance;

/// One key on one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) key: usize,
}

/// How nodes and store behave: the three ways that are compared.
pub(super) trait Node: Sized {
    /// What a node keeps per key.
    type Key: Clone;
    /// What travels, and what a node is woken up for.
    type Note;

    fn fresh(&self) -> Self::Key;
    /// A check arrives at a node.
    fn check(&self, world: &mut World<'_, Self>, at: Place);
    /// A message arrives at the store.
    fn at_store(&self, world: &mut World<'_, Self>, at: Place, note: Self::Note);
    /// A message or an alarm arrives at a node.
    fn at_node(&self, world: &mut World<'_, Self>, at: Place, note: Self::Note);
}

enum Event<N> {
    Check(Place),
    Kill,
    AtStore {
        at: Place,
        note: N,
    },
    /// Meant for a node that has not died since.
    AtNode {
        at: Place,
        life: u32,
        note: N,
    },
}

/// Where the first window begins.
pub(super) fn start_us(limit: &Limit) -> u64 {
    let period_us = u64::try_from(limit.period().as_micros()).unwrap_or(u64::MAX).max(1);
    START_US.next_multiple_of(period_us.min(86_400_000_000))
}

pub(super) struct World<'a, N: Node> {
    pub(super) limit: &'a Limit,
    pub(super) now_us: u64,
    pub(super) states: Vec<State>,
    pub(super) meters: Vec<Meter>,
    pub(super) tally: Tally,
    pub(super) setting: &'a Setting,
    start_us: u64,
    nodes: Vec<Vec<N::Key>>,
    lives: Vec<u32>,
    clocks: Vec<OwnClock>,
    events: Schedule<Event<N::Note>>,
    arrivals: Arrivals,
    network: Chance,
    way: Option<N>,
}

impl<'a, N: Node> World<'a, N> {
    /// `plain` is what is promised, `kept` what the store decides by.
    pub(super) fn new(
        setting: &'a Setting,
        (plain, kept): (&'a Limit, &'a Limit),
        way: N,
        arrivals: Arrivals,
    ) -> Self {
        let start_us = start_us(plain);
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (nodes, keys) = (count(setting.nodes), count(setting.keys));
        let meter = || Meter::new(plain, start_us, setting.duration_us);
        let mut clocks = Chance::new(setting.seed, 4);
        let mut world = Self {
            limit: kept,
            now_us: start_us,
            states: vec![State::Empty; keys],
            meters: (0..keys).map(|_| meter()).collect(),
            tally: Tally::default(),
            setting,
            start_us,
            nodes: vec![vec![way.fresh(); keys]; nodes],
            lives: vec![0; nodes],
            clocks: (0..nodes).map(|_| OwnClock::draw(&mut clocks)).collect(),
            events: Schedule::default(),
            arrivals,
            network: Chance::new(setting.seed, 2),
            way: Some(way),
        };
        let mut kills = Chance::new(setting.seed, 3);
        for _ in 0..setting.kills {
            world.events.add(start_us + kills.below(setting.duration_us), Event::Kill);
        }
        world.schedule_check();
        world
    }

    /// Runs until nothing is under way any more.
    pub(super) fn run(mut self) -> (Vec<Meter>, Tally) {
        let Some(way) = self.way.take() else { return (self.meters, self.tally) };
        while let Some((at_us, event)) = self.events.next() {
            self.now_us = at_us;
            match event {
                Event::Check(at) => self.arrive(&way, at),
                Event::Kill => self.kill(&way),
                Event::AtStore { at, note } => way.at_store(&mut self, at, note),
                Event::AtNode { at, life, note } if self.lives[at.node] == life => {
                    way.at_node(&mut self, at, note);
                }
                Event::AtNode { .. } => {}
            }
        }
        (self.meters, self.tally)
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us)
    }

    /// What the node's own clock says.
    pub(super) fn node_now_us(&self, node: usize) -> u64 {
        self.clocks[node].shows_us(self.now_us - self.start_us)
    }

    pub(super) fn key(&mut self, at: Place) -> &mut N::Key {
        &mut self.nodes[at.node][at.key]
    }

    /// Sends a message to the store, if it is not lost.
    pub(super) fn call(&mut self, at: Place, note: N::Note) {
        self.tally.calls += 1;
        if let Some(arrives_us) = self.travel() {
            self.events.add(arrives_us, Event::AtStore { at, note });
        }
    }

    /// Sends the store's answer back, if it is not lost.
    pub(super) fn answer(&mut self, at: Place, note: N::Note) {
        if let Some(arrives_us) = self.travel() {
            self.alarm(at, arrives_us, note);
        }
    }

    /// Lets a node know at an instant.
    pub(super) fn alarm(&mut self, at: Place, at_us: u64, note: N::Note) {
        self.events.add(at_us, Event::AtNode { at, life: self.lives[at.node], note });
    }

    fn travel(&mut self) -> Option<u64> {
        let takes_us =
            self.setting.latency_us / 2 + self.network.below(self.setting.latency_us + 1);
        let lost = self.network.below(1_000_000) < self.setting.loss_ppm;
        (!lost).then_some(self.now_us + takes_us)
    }

    fn arrive(&mut self, way: &N, at: Place) {
        self.tally.offered += 1;
        self.meters[at.key].offer(self.now_us);
        way.check(self, at);
        self.schedule_check();
    }

    fn schedule_check(&mut self) {
        if let Some((at_us, at)) = self.arrivals.next() {
            self.events.add(at_us, Event::Check(at));
        }
    }

    fn kill(&mut self, way: &N) {
        let node = usize::try_from(self.network.below(self.setting.nodes)).unwrap_or(0);
        self.lives[node] += 1;
        self.clocks[node] = OwnClock::draw(&mut self.network);
        self.nodes[node].fill(way.fresh());
    }
}
