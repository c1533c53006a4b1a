//! Fleets of lessees over a bad network: latencies up to past the life of a lease, messages that are lost, nodes
//! that die, clocks that agree on nothing.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_core::{
    Change, Grant as Granted, GrantRequest, LeaseHolder, Limit, Message, Return, State, Step,
    Terms, grant,
};

use crate::lease_adversary::leasable;
use crate::support::{Chance, Grant, START_US, at, config, keeps_limit};

/// How the world treats a fleet.
#[derive(Clone, Copy, Debug)]
struct World {
    nodes: u64,
    /// The longest that a message takes.
    latency_us: u64,
    /// How long a node waits for a reply.
    patience_us: u64,
    /// Messages lost and nodes killed, per thousand messages and checks.
    lost: u64,
    killed: u64,
    checks: u64,
    /// The mean gap between two checks.
    gap_us: u64,
    most_cost: u64,
    seed: u64,
}

#[derive(Clone, Copy)]
enum Event {
    Check,
    AtStore { node: usize, life: u64, message: Message, number: u64 },
    AtNode { node: usize, life: u64, number: u64, granted: Granted, decided_us: u64 },
    GiveUp { node: usize, life: u64, number: u64 },
    Wake { node: usize, life: u64 },
}

struct Node {
    holder: LeaseHolder,
    /// Costs of those that wait.
    queue: Vec<u64>,
    /// How many of them there were when the request left.
    asked_for: usize,
    /// Which of its lives this is, and which of its requests is under way.
    life: u64,
    number: u64,
    /// What its clock shows at the start, and how many millionths of a true µs it counts.
    offset_us: u64,
    millionths: u64,
    alarm_us: u64,
}

struct Fleet {
    world: World,
    chance: Chance,
    now_us: u64,
    terms: Terms,
    kept: Limit,
    state: State,
    nodes: Vec<Node>,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    spent: Vec<Grant>,
    calls: u64,
}

/// Runs a fleet to its end: what was admitted when, and how often the store was called.
fn run(limit: &Limit, world: World) -> (Vec<Grant>, u64) {
    let terms = Terms::from_limits([limit]).unwrap();
    run_with(terms, limit.leased(terms.ttl()).unwrap(), world)
}

fn run_with(terms: Terms, kept: Limit, world: World) -> (Vec<Grant>, u64) {
    let mut fleet = Fleet {
        world,
        chance: Chance::new(world.seed),
        now_us: START_US,
        terms,
        kept,
        state: State::Empty,
        nodes: vec![],
        events: BTreeMap::new(),
        scheduled: 0,
        spent: vec![],
        calls: 0,
    };
    fleet.nodes = (0..world.nodes).map(|_| fleet.fresh(0)).collect();
    let mut check_us = START_US;
    for _ in 0..world.checks {
        check_us += fleet.chance.below(2 * world.gap_us + 1);
        fleet.at(check_us, Event::Check);
    }
    while let Some(((now_us, _), event)) = fleet.events.pop_first() {
        fleet.now_us = now_us;
        fleet.happen(event);
    }
    fleet.spent.sort_unstable();
    (fleet.spent, fleet.calls)
}

impl Fleet {
    fn fresh(&mut self, life: u64) -> Node {
        let (holder, queue) = (LeaseHolder::new(self.terms), vec![]);
        let offset_us = self.chance.below(1 << 40);
        let millionths = 999_600 + self.chance.below(801);
        Node { holder, queue, asked_for: 0, life, number: 0, offset_us, millionths, alarm_us: 0 }
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at_us, self.scheduled), event);
    }

    fn send(&mut self, event: Event) {
        let arrives_us = self.now_us + self.chance.below(self.world.latency_us + 1);
        if self.chance.below(1000) >= self.world.lost {
            self.at(arrives_us, event);
        }
    }

    fn own_us(&self, node: usize) -> u64 {
        let Node { offset_us, millionths, .. } = self.nodes[node];
        let own_us = u128::from(self.now_us - START_US) * u128::from(millionths) / 1_000_000;
        offset_us + u64::try_from(own_us).unwrap()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Check => self.check(),
            Event::AtStore { node, life, message: Message::Ask(wanted), number } => {
                let granted = self.decide(wanted);
                let decided_us = self.now_us;
                self.send(Event::AtNode { node, life, number, granted, decided_us });
            }
            Event::AtStore { message: Message::Return(back), .. } => self.give_back(back),
            Event::AtNode { node, life, number, granted, decided_us } => {
                let own_us = self.own_us(node);
                let to = &mut self.nodes[node];
                if (to.life, to.number) == (life, number) {
                    to.number += 1;
                    to.holder.on_reply(own_us, &granted);
                    self.resume(node, decided_us);
                }
            }
            Event::GiveUp { node, life, number } => {
                let own_us = self.own_us(node);
                let to = &mut self.nodes[node];
                if (to.life, to.number) == (life, number) {
                    to.number += 1;
                    let random = self.chance.below(u64::MAX);
                    self.nodes[node].holder.on_failure(own_us, random);
                    self.resume(node, 0);
                }
            }
            Event::Wake { node, life } if self.nodes[node].life == life => self.settle(node),
            Event::Wake { .. } => {}
        }
    }

    fn check(&mut self) {
        let node = usize::try_from(self.chance.below(self.world.nodes)).unwrap();
        let cost = 1 + self.chance.below(self.world.most_cost);
        if self.chance.below(1000) < self.world.killed {
            self.nodes[node] = self.fresh(self.nodes[node].life + 1);
        }
        let own_us = self.own_us(node);
        match self.nodes[node].holder.check(own_us, cost) {
            Step::Admit { .. } => self.spent.push((self.now_us, cost)),
            Step::Refuse { retry_after_us } => assert_ne!(retry_after_us, Some(0)),
            Step::Wait => self.nodes[node].queue.push(cost),
            Step::Unavailable => {}
        }
        self.settle(node);
    }

    fn resume(&mut self, node: usize, decided_us: u64) {
        let (own_us, asked_for) = (self.own_us(node), self.nodes[node].asked_for);
        for (place, cost) in std::mem::take(&mut self.nodes[node].queue).into_iter().enumerate() {
            match self.nodes[node].holder.resume(own_us, cost) {
                Step::Admit { late, .. } => {
                    self.spent.push((if late { decided_us } else { self.now_us }, cost));
                }
                Step::Refuse { retry_after_us } => assert_ne!(retry_after_us, Some(0)),
                Step::Wait => {
                    assert!(decided_us > 0, "nobody waits for a store that has just failed");
                    assert!(place > 0 || asked_for == 0, "the oldest is decided");
                    self.nodes[node].queue.push(cost);
                }
                Step::Unavailable => assert_eq!(decided_us, 0),
            }
        }
        self.settle(node);
    }

    fn settle(&mut self, node: usize) {
        let (own_us, life) = (self.own_us(node), self.nodes[node].life);
        for round in 0.. {
            assert!(round < 4, "never more to say than two returns and a request");
            let Some(message) = self.nodes[node].holder.poll(own_us) else { break };
            self.calls += 1;
            if let Message::Ask(wanted) = message {
                assert!(1 <= wanted.least && wanted.least <= wanted.most);
                self.nodes[node].number += 1;
                let number = self.nodes[node].number;
                self.nodes[node].asked_for = self.nodes[node].queue.len();
                self.at(self.now_us + self.world.patience_us, Event::GiveUp { node, life, number });
            }
            let number = self.nodes[node].number;
            self.send(Event::AtStore { node, life, message, number });
        }
        let Some(wakes_us) = self.nodes[node].holder.wakes_us() else { return };
        let wait_us = wakes_us.saturating_sub(own_us);
        let alarm_us = self.now_us + wait_us + wait_us / 1024 + 1;
        let set_us = &mut self.nodes[node].alarm_us;
        if *set_us <= self.now_us || alarm_us < *set_us {
            *set_us = alarm_us;
            self.at(alarm_us, Event::Wake { node, life });
        }
    }

    fn decide(&mut self, wanted: GrantRequest) -> Granted {
        let mut changes = [Change::KEEP];
        let limits = std::iter::once((&self.kept, &self.state));
        let granted = grant(limits, &mut changes, at(self.now_us), wanted).unwrap();
        self.state.apply(changes[0]);
        granted
    }

    fn give_back(&mut self, back: Return) {
        self.kept.give_back(&mut self.state, at(self.now_us), back);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fleets_of_lessees_never_admit_more_than_the_plain_limit(
        limit in leasable(), nodes in 1..=64_u64, latency in 0..=150_u64, gap in 0..=400_u64,
        lost in 0..200_u64, killed in 0..50_u64, most_cost in 1..=3_u64, seed in any::<u64>()
    ) {
        let ttl_us = u64::try_from(Terms::from_limits([&limit]).unwrap().ttl().as_micros()).unwrap();
        let unit_us = u64::try_from(limit.period().as_micros()).unwrap() / limit.units();
        let world = World {
            nodes,
            // Up to one and a half lives of a lease each way.
            latency_us: ttl_us * latency / 100,
            patience_us: ttl_us * latency / 60 + 1,
            lost: lost.saturating_sub(100),
            killed: killed.saturating_sub(25),
            checks: 120,
            // From all at once to a quarter of the limit.
            gap_us: unit_us * gap / 100,
            most_cost,
            seed,
        };
        let (spent, _) = run(&limit, world);
        prop_assert!(keeps_limit(&limit, &spent), "{spent:?}");
    }
}

/// The control: were the store to keep the plain limit, the same fleets would be seen to admit more.
#[test]
fn fleets_on_the_plain_limit_are_noticed() {
    for text in ["100/s burst 40", "sliding-log 100/s"] {
        let limit: Limit = text.parse().unwrap();
        let terms = Terms::from_limits([&limit]).unwrap();
        let ttl_us = u64::try_from(terms.ttl().as_micros()).unwrap();
        let world = |seed| World {
            nodes: 1 + seed % 4,
            latency_us: ttl_us * (seed % 7) / 10,
            patience_us: 2 * ttl_us,
            lost: 0,
            killed: 0,
            checks: 400,
            gap_us: 1_000 + 1_000 * (seed % 5),
            most_cost: 1,
            seed,
        };
        let overshoots =
            |seed: &u64| !keeps_limit(&limit, &run_with(terms, limit.clone(), world(*seed)).0);
        let found = (0..300).filter(overshoots).count();
        assert!(found > 0, "{text}");
        assert!((0..300).all(|seed| keeps_limit(&limit, &run(&limit, world(seed)).0)), "{text}");
    }
}

/// Overload for a minute of a limit of 1000/s: what is admitted, as a part of the limit, and calls per admission.
fn overload(limit: &str, nodes: u64) -> (f64, f64) {
    let limit: Limit = limit.parse().unwrap();
    let world = World {
        nodes,
        latency_us: 2_000,
        patience_us: 20_000,
        lost: 0,
        killed: 0,
        checks: 120_000,
        gap_us: 500,
        most_cost: 1,
        seed: 1,
    };
    let (spent, calls) = run(&limit, world);
    let steady_us = START_US + 5_000_000..START_US + 55_000_000;
    let admitted = spent.iter().filter(|(now_us, _)| steady_us.contains(now_us)).count();
    let part = |a: usize, b: u64| {
        f64::from(u32::try_from(a).unwrap()) / f64::from(u32::try_from(b).unwrap())
    };
    (part(admitted, 50_000), part(usize::try_from(calls).unwrap(), spent.len() as u64))
}

#[test]
fn overload_uses_the_limit_up() {
    for limit in [
        "1000/s burst 1000",
        "token-bucket 1000/s capacity 500",
        "sliding-log 1000/s",
        "sliding-window 1000/s",
        "sliding-window 1000/s buckets 1",
        "fixed-window 1000/s",
        "quota 1000/s rolling",
    ] {
        for nodes in [1, 4, 16, 64] {
            let (utilisation, _) = overload(limit, nodes);
            assert!(utilisation >= 0.95, "{limit} on {nodes} nodes: {utilisation}");
        }
    }
}

#[test]
fn a_hot_key_asks_once_per_hundred_admissions() {
    let (_, calls) = overload("1000/s burst 1000", 1);
    assert!(calls <= 0.0125, "{calls} calls per admission");
}
