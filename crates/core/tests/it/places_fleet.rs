//! A fleet of proxies that share the places at one upstream, in virtual time: the code of production on both sides, with
//! a network between them.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a simulation computes with small numbers"
)]

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use tidegate_core::adaptive::{Entry, Place, Places};
use tidegate_core::{Concurrency, Limit, State};

use crate::support::{Chance, START_US, at};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
/// The mean time of a request at the upstream, and the longest.
const SERVICE: f64 = 40_000.0;
const SERVICE_MAX: u64 = SECOND;
const LEASE: u64 = Places::<()>::LEASE.as_micros() as u64;
/// From a node to the store, or back.
const HOP: u64 = MS / 2;

/// A lease as its node knows it.
#[derive(Clone, Debug)]
struct Lease {
    id: u64,
    until_us: Rc<Cell<u64>>,
    is_dropped: Rc<Cell<bool>>,
}

enum Event {
    Arrive,
    /// An acquire reaches the store.
    Ask {
        sent: u64,
    },
    /// Its answer reaches the node.
    Answer {
        id: Option<u64>,
        sent: u64,
    },
    /// A third of a lease has passed.
    Due {
        lease: Lease,
    },
    /// A renewal reaches the store.
    Renew {
        lease: Lease,
        sent: u64,
    },
    Renewed {
        lease: Lease,
        sent: u64,
        is_held: bool,
    },
    Release {
        id: u64,
    },
    /// The upstream has answered.
    Served(Place<Lease>),
    Ended(Place<Lease>),
    Sweep,
}

/// What is tried.
#[derive(Clone)]
struct Setting {
    seed: u64,
    max: u64,
    /// Requests of each node per second.
    rates: Vec<f64>,
    seconds: u64,
    /// Each node has `max / nodes`, as with `scope: node`.
    is_divided: bool,
    /// A node that was frozen looks at its lease.
    looks: bool,
    /// Whether nodes are frozen for up to ten seconds now and then.
    freezes: bool,
    /// The node that dies after two seconds.
    dies: Option<usize>,
    /// All requests go to the next node, at this time.
    moves_at: Option<u64>,
}

impl Setting {
    fn new(seed: u64, max: u64, rates: Vec<f64>) -> Self {
        let (seconds, looks) = (10, true);
        let (is_divided, freezes, dies, moves_at) = (false, false, None, None);
        Self { seed, max, rates, seconds, is_divided, looks, freezes, dies, moves_at }
    }
}

/// What came of it.
#[derive(Default, Debug)]
struct Outcome {
    /// The most requests at the upstream at once.
    most: u64,
    /// Of the places, over the time after the first second.
    utilisation: f64,
    /// The same in the second after the first one behind `moves_at`.
    after_move: f64,
    store_calls: u64,
    served: u64,
}

struct World {
    setting: Setting,
    chance: Chance,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    kinds: Vec<Option<(usize, Event)>>,
    limit: Limit,
    store: State,
    nodes: Vec<Places<Lease>>,
    frozen_until: Vec<u64>,
    at_upstream: u64,
    outcome: Outcome,
}

fn run(setting: Setting) -> Outcome {
    let limit = Concurrency::new(setting.max, Places::<()>::LEASE).unwrap().into();
    let count = setting.rates.len();
    let chance = Chance::new(setting.seed);
    let mut world = World {
        setting,
        chance,
        now: 0,
        events: BinaryHeap::new(),
        kinds: vec![],
        limit,
        store: State::Empty,
        nodes: (0..count).map(|_| Places::default()).collect(),
        frozen_until: vec![0; count],
        at_upstream: 0,
        outcome: Outcome::default(),
    };
    for node in 0..count {
        world.after(0, node, Event::Arrive);
        world.after(MS, node, Event::Sweep);
    }
    world.go();
    world.outcome
}

impl World {
    fn after(&mut self, wait: u64, node: usize, event: Event) {
        self.kinds.push(Some((node, event)));
        let number = self.kinds.len() - 1;
        self.events.push(Reverse((self.now + wait, number as u64, number)));
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        let unit = (self.chance.below(1 << 32) as f64 + 1.0) / (1_u64 << 32) as f64;
        (-unit.ln() * mean) as u64
    }

    fn go(&mut self) {
        let end = self.setting.seconds * SECOND;
        let (mut used, mut moved) = (0.0, 0.0);
        while let Some(Reverse((when, _, number))) = self.events.pop() {
            if when > end {
                break;
            }
            let places = self.at_upstream as f64 * (when - self.now) as f64;
            used += if self.now >= SECOND { places } else { 0.0 };
            let after_move = self.setting.moves_at.map(|at| at + SECOND);
            if after_move.is_some_and(|at| (at..at + SECOND).contains(&self.now)) {
                moved += places;
            }
            self.now = when;
            let Some((node, event)) = self.kinds[number].take() else { continue };
            self.happen(node, event);
        }
        let all = self.setting.max as f64;
        self.outcome.utilisation = used / (all * (end - SECOND) as f64);
        self.outcome.after_move = moved / (all * SECOND as f64);
    }

    fn is_dead(&self, node: usize) -> bool {
        self.setting.dies == Some(node) && self.now >= 2 * SECOND
    }

    fn happen(&mut self, node: usize, event: Event) {
        match event {
            // At the store and at the upstream, whatever the node does.
            Event::Ask { sent } => {
                self.outcome.store_calls += 1;
                let (decision, change) = self.limit.decide(&self.store, at(START_US + self.now), 1);
                self.store.apply(change);
                let id = change.permit().filter(|_| decision.allowed()).map(|permit| permit.id);
                self.after(HOP, node, Event::Answer { id, sent });
                return;
            }
            Event::Renew { lease, sent } => {
                self.outcome.store_calls += 1;
                let now = at(START_US + self.now);
                let is_held = self.limit.renew(&mut self.store, now, lease.id, 1);
                self.after(HOP, node, Event::Renewed { lease, sent, is_held });
                return;
            }
            Event::Release { id } => {
                self.outcome.store_calls += 1;
                self.store.release(id);
                return;
            }
            Event::Served(place) => {
                self.at_upstream -= 1;
                self.after(0, node, Event::Ended(place));
                return;
            }
            _ if self.is_dead(node) => return,
            event if self.now < self.frozen_until[node] => {
                let wait = self.frozen_until[node] - self.now;
                self.after(wait, node, event);
                return;
            }
            event => self.happen_at(node, event),
        }
        if self.setting.freezes && self.chance.below(20_000) == 0 {
            self.frozen_until[node] = self.now + self.chance.below(10 * SECOND);
        }
    }

    fn happen_at(&mut self, node: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Arrive => {
                let count = self.setting.rates.len();
                let is_moved = self.setting.moves_at.is_some_and(|at| now >= at);
                let from = if is_moved { (node + count - 1) % count } else { node };
                let rate = self.setting.rates[from];
                // A node without requests looks again whether it has some.
                let wait = if rate > 0.0 { self.exponential(1e6 / rate) } else { 10 * MS };
                self.after(wait, node, Event::Arrive);
                if rate == 0.0 {
                    return;
                }
                let share = self.setting.max / count as u64;
                if self.setting.is_divided {
                    let (until_us, is_dropped) = (Rc::new(Cell::new(u64::MAX)), Rc::default());
                    let lease = Lease { id: 0, until_us, is_dropped };
                    if let Some(place) = self.nodes[node].granted_by_share(lease, now, share) {
                        self.pass_on(node, place);
                    }
                    return;
                }
                match self.nodes[node].enter(now, |lease| now < lease.until_us.get()) {
                    Entry::Place(place) => self.pass_on(node, place),
                    Entry::Ask => self.after(HOP, node, Event::Ask { sent: now }),
                    Entry::Full => {}
                }
            }
            Event::Answer { id: None, .. } => self.nodes[node].refused(now),
            Event::Answer { id: Some(id), sent } => {
                let until_us = Rc::new(Cell::new(sent + LEASE));
                let lease = Lease { id, until_us, is_dropped: Rc::default() };
                self.after(LEASE / 3, node, Event::Due { lease: lease.clone() });
                let place = self.nodes[node].granted(lease, now);
                self.pass_on(node, place);
            }
            Event::Renewed { lease, sent, is_held } => {
                lease.until_us.set(if is_held { sent + LEASE } else { 0 });
                if is_held {
                    self.after(LEASE / 3, node, Event::Due { lease });
                }
            }
            Event::Due { lease } => {
                if !lease.is_dropped.get() {
                    self.after(HOP, node, Event::Renew { lease, sent: now });
                }
            }
            Event::Ended(place) => {
                let back = self.nodes[node].leave(place, now);
                self.release(node, back.into_iter().collect());
            }
            Event::Sweep => {
                let unneeded = self.nodes[node].take_unneeded(now);
                self.release(node, unneeded);
                self.after(MS, node, Event::Sweep);
            }
            Event::Ask { .. } | Event::Renew { .. } | Event::Release { .. } | Event::Served(_) => {}
        }
    }

    fn release(&mut self, node: usize, leases: Vec<Lease>) {
        for lease in leases {
            lease.is_dropped.set(true);
            if !self.setting.is_divided {
                self.after(HOP, node, Event::Release { id: lease.id });
            }
        }
    }

    /// Passes a request on, if its place is still held.
    fn pass_on(&mut self, node: usize, place: Place<Lease>) {
        let is_held = self.now < place.lease().until_us.get();
        if !is_held && self.setting.looks {
            let back = self.nodes[node].leave(place, self.now);
            self.release(node, back.into_iter().collect());
            return;
        }
        self.at_upstream += 1;
        self.outcome.served += 1;
        self.outcome.most = self.outcome.most.max(self.at_upstream);
        let service = self.exponential(SERVICE).min(SERVICE_MAX);
        self.after(service, node, Event::Served(place));
    }
}

/// What all places can serve in a second.
fn capacity(max: u64) -> f64 {
    max as f64 * 1e6 / SERVICE
}

/// Demand that falls off from node to node, and is `load` times what the upstream can serve.
fn skewed(nodes: usize, max: u64, load: f64, steepness: f64) -> Vec<f64> {
    let weights: Vec<f64> = (0..nodes).map(|node| (node as f64 + 1.0).powf(-steepness)).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| load * capacity(max) * weight / all).collect()
}

/// Requests that find no place are gone, so that even one node with all places has some of them free now and then: fewer,
/// the larger the demand is.
#[test]
fn skewed_demand_uses_nine_tenths_of_the_places_and_never_more_than_all() {
    for (load, is_relative) in [(2.0, true), (4.0, false)] {
        for (seed, nodes) in (1..).zip([1, 2, 3, 4, 6, 8, 12, 16]) {
            for (max, steepness) in [(16, 1.0), (50, 2.0), (200, 1.0)] {
                let outcome = run(Setting::new(seed, max, skewed(nodes, max, load, steepness)));
                let alone = run(Setting::new(seed, max, skewed(1, max, load, steepness)));
                let possible = if is_relative { alone.utilisation } else { 1.0 };
                let tried = format!("{nodes} nodes, {max} places, {load} times the demand");
                println!("{tried}: {:.3} of {:.3}", outcome.utilisation, alone.utilisation);
                assert!(outcome.most <= max, "{tried}: {outcome:?}");
                assert!(outcome.utilisation >= 0.9 * possible, "{tried}: {outcome:?}");
            }
        }
    }
}

#[test]
fn divided_places_are_half_unused_where_demand_is_skewed() {
    // The control: a test of utilisation that divided places would pass shows nothing.
    let divided = Setting { is_divided: true, ..Setting::new(1, 50, skewed(16, 50, 2.0, 2.0)) };
    assert!(run(divided).utilisation < 0.6);
}

#[test]
fn a_node_gets_what_others_do_not_use_within_a_second() {
    for nodes in [2, 5, 16] {
        let mut rates = vec![0.0; nodes];
        rates[0] = 2.0 * capacity(60);
        let moves = Setting { moves_at: Some(5 * SECOND), ..Setting::new(7, 60, rates) };
        let outcome = run(moves);
        assert!(outcome.after_move >= 0.9 && outcome.most <= 60, "{nodes} nodes: {outcome:?}");
    }
}

#[test]
fn the_places_of_a_dead_node_are_free_when_its_leases_end() {
    // The busiest node dies with most places, and the other one has all of them afterwards.
    let rates = vec![3.0 * capacity(40), 2.0 * capacity(40)];
    let dies = Setting { dies: Some(0), seconds: 20, ..Setting::new(3, 40, rates) };
    let outcome = run(dies);
    assert!(outcome.most <= 40, "{outcome:?}");
    // It lost a part of five seconds out of nineteen.
    assert!(outcome.utilisation >= 0.7, "{outcome:?}");
}

#[test]
fn nodes_that_freeze_never_pass_on_more_than_all_places() {
    for seed in 1..=20 {
        let freezes = Setting {
            freezes: true,
            seconds: 60,
            ..Setting::new(seed, 10, skewed(4, 10, 2.0, 1.0))
        };
        let outcome = run(freezes);
        assert!(outcome.most <= 10 && outcome.served > 1_000, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn nodes_that_do_not_look_at_their_leases_pass_on_too_many() {
    let blind = |seed| Setting {
        freezes: true,
        looks: false,
        seconds: 60,
        ..Setting::new(seed, 10, skewed(4, 10, 2.0, 1.0))
    };
    assert!((1..=20).any(|seed| run(blind(seed)).most > 10));
}

/// A busy node passes its places from one request to the next: it asks far less often than once for each.
#[test]
fn a_busy_node_asks_seldom() {
    let outcome = run(Setting::new(9, 100, skewed(2, 100, 2.0, 1.0)));
    assert!(outcome.store_calls < outcome.served, "{outcome:?}");
}
