//! What one node does with its leases: when it asks, for how much, and what it gives back.

use tidegate_core::{
    Change, Grant, GrantRequest, LeaseHolder, Limit, Message, Return, State, Step, Terms, grant,
};

use crate::support::{Chance, START_US, at};

const TRIP_US: u64 = 1_000;

/// One node and one store, with nothing lost between them.
struct Pair {
    kept: Limit,
    state: State,
    holder: LeaseHolder,
    /// The node's clock; the store's is another.
    now_us: u64,
    asks: u64,
    returns: Vec<Return>,
    admitted: u64,
    refused: u64,
    waited: u64,
}

impl Pair {
    fn new(text: &str) -> Self {
        let plain: Limit = text.parse().unwrap();
        let terms = Terms::from_limits([&plain]).unwrap();
        Self {
            kept: plain.leased(terms.ttl()).unwrap(),
            state: State::Empty,
            holder: LeaseHolder::new(terms),
            now_us: 77,
            asks: 0,
            returns: vec![],
            admitted: 0,
            refused: 0,
            waited: 0,
        }
    }

    fn decide(&mut self, wanted: GrantRequest) -> Grant {
        let mut changes = [Change::KEEP];
        let limits = std::iter::once((&self.kept, &self.state));
        let granted = grant(limits, &mut changes, at(START_US + self.now_us), wanted).unwrap();
        self.state.apply(changes[0]);
        granted
    }

    /// What the node asks for; what it returns is taken back on the way.
    fn asks(&mut self) -> Option<GrantRequest> {
        while let Some(message) = self.holder.poll(self.now_us) {
            match message {
                Message::Ask(wanted) => {
                    self.asks += 1;
                    return Some(wanted);
                }
                Message::Return(back) => {
                    self.returns.push(back);
                    self.kept.give_back(&mut self.state, at(START_US + self.now_us), back);
                }
            }
        }
        None
    }

    /// A check, and whatever it needs to be decided.
    fn check(&mut self, cost: u64) -> Step {
        let mut step = self.holder.check(self.now_us, cost);
        self.waited += u64::from(step == Step::Wait);
        while let Some(wanted) = self.asks() {
            let granted = self.decide(wanted);
            self.now_us += TRIP_US;
            self.holder.on_reply(self.now_us, &granted);
            if step == Step::Wait {
                step = self.holder.resume(self.now_us, cost);
            }
        }
        match step {
            Step::Admit { .. } => self.admitted += cost,
            Step::Refuse { .. } => self.refused += 1,
            Step::Wait | Step::Unavailable => panic!("decided by the reply"),
        }
        step
    }

    /// One check every `gap_us`.
    fn steady(&mut self, count: u64, gap_us: u64) {
        for _ in 0..count {
            let next_us = self.now_us + gap_us;
            let _ = self.check(1);
            self.now_us = self.now_us.max(next_us);
        }
    }

    /// Checks until a lease has just been fetched.
    fn fetch(&mut self) {
        let asks = self.asks;
        while self.asks == asks {
            self.steady(1, 250);
        }
    }

    fn remaining(&self) -> u64 {
        self.kept.peek(&self.state, at(START_US + self.now_us), 0).remaining()
    }
}

#[test]
fn a_cold_key_asks_for_exactly_its_cost_and_holds_nothing() {
    let mut pair = Pair::new("1000/s burst 1000");
    for cost in [1, 7, 1, 3] {
        assert!(matches!(pair.check(cost), Step::Admit { late: false, .. }));
        assert_eq!(pair.holder.wakes_us(), None, "nothing is held");
        assert!(pair.holder.is_idle());
        pair.now_us += 500_000;
    }
    assert_eq!((pair.asks, pair.admitted, pair.returns.len()), (4, 12, 0));
}

#[test]
fn a_hot_key_is_served_in_process() {
    let mut pair = Pair::new("10000/s burst 10000");
    pair.steady(1_000, 200);
    (pair.asks, pair.waited, pair.admitted) = (0, 0, 0);
    pair.steady(10_000, 200);
    assert_eq!(pair.admitted, 10_000);
    assert!(pair.asks <= 100, "{} asks", pair.asks);
    assert_eq!(pair.waited, 0, "the next lease is there before the last one is used up");
}

#[test]
fn an_exhausted_key_is_not_asked_about_per_check() {
    for text in ["10/s burst 10", "fixed-window 10/s", "sliding-log 10/s", "sliding-window 10/s"] {
        let mut pair = Pair::new(text);
        // For ten seconds ten times as much as is allowed.
        pair.steady(1_000, 10_000);
        assert!((90..=110).contains(&pair.admitted), "{text}: {} admitted", pair.admitted);
        assert!(pair.asks <= 250, "{text}: {} asks for 1000 checks", pair.asks);
    }
}

/// The store's own word is right to the microsecond. A node that leaves an empty store alone for a while says
/// when it will ask again, and then it may be the store that refuses.
#[test]
fn a_refusal_says_when_to_come_back() {
    for text in [
        "10/s burst 10",
        "fixed-window 10/s",
        "sliding-log 10/s",
        "sliding-window 10/s",
        "token-bucket 3/s capacity 7",
    ] {
        let mut pair = Pair::new(text);
        let mut refused = 0;
        for _ in 0..100 {
            let mut waits = 0;
            while let Step::Refuse { retry_after_us } = pair.check(2) {
                (refused, waits) = (refused + 1, waits + 1);
                assert!(waits <= 2, "{text}");
                pair.now_us += retry_after_us.unwrap();
            }
        }
        assert!(refused >= 15, "{text}: {refused} refused");
    }
}

/// However far off that is. Only where the node leaves an empty store alone for longer does it say so.
#[test]
fn a_refusal_says_how_long_the_store_would_refuse() {
    for text in [
        "fixed-window 50/day",
        "quota 50/day",
        "quota 50/month",
        "quota 50/day rolling",
        "sliding-window 50/day",
        "sliding-log 50/day",
        "50/day burst 50",
        "token-bucket 50/h capacity 20",
        "fixed-window 50/s",
        "100/s burst 40",
        "sliding-log 100/s",
    ] {
        for (cost, gap_us) in [(1, 1_000), (3, 20_000), (4, 250)] {
            let mut pair = Pair::new(text);
            let mut refused = 0;
            let (mut asks, mut returns) = (0, 0);
            for _ in 0..2_000 {
                pair.now_us += gap_us;
                let step = pair.check(cost);
                if pair.asks > asks {
                    (asks, returns) = (pair.asks, pair.returns.len());
                }
                let Step::Refuse { retry_after_us } = step else { continue };
                refused += 1;
                let truth = pair.kept.peek(&pair.state, at(START_US + pair.now_us), cost);
                let (says_us, truth_us) =
                    (retry_after_us.unwrap(), truth.retry_after_us().unwrap());
                let plain: Limit = text.parse().unwrap();
                let pause_us = u64::try_from(plain.lease_ttl().unwrap().as_micros()).unwrap() / 2;
                let least_us = truth_us.max(1);
                let at = format!("{text} at {} µs, cost {cost}", pair.now_us);
                assert!(says_us >= least_us, "{at}: {says_us} instead of {truth_us}");
                // What it has returned since, the node learns of when it asks again.
                let known = pair.returns.len() == returns;
                let most_us = if known { least_us.max(pause_us) } else { u64::MAX };
                assert!(says_us <= most_us, "{at}: {says_us} instead of {truth_us}");
            }
            assert!(refused > 0, "{text}: nothing is refused");
        }
    }
}

/// The store has told the wait of one unit.
#[test]
fn a_larger_cost_waits_for_each_of_its_units() {
    let mut pair = Pair::new("60/h burst 60");
    while matches!(pair.check(1), Step::Admit { .. }) {}
    let truth = pair.kept.peek(&pair.state, at(START_US + pair.now_us), 7).retry_after_us();
    let asks = pair.asks;
    assert_eq!(pair.check(7), Step::Refuse { retry_after_us: truth });
    assert_eq!(pair.asks, asks, "known without asking");
}

#[test]
fn a_refused_cost_refuses_no_smaller_one() {
    let mut pair = Pair::new("fixed-window 10/min");
    assert!(matches!(pair.check(8), Step::Admit { .. }));
    assert!(matches!(pair.check(5), Step::Refuse { .. }));
    let asks = pair.asks;
    assert!(matches!(pair.check(6), Step::Refuse { .. }), "known without asking");
    assert_eq!(pair.asks, asks);
    assert!(matches!(pair.check(2), Step::Admit { .. }));
}

#[test]
fn a_cost_above_the_ceiling_is_refused_for_good_and_never_asked_for() {
    let mut pair = Pair::new("1000/s burst 1000");
    assert_eq!(pair.check(751), Step::Refuse { retry_after_us: None });
    assert_eq!(pair.asks, 0);
    assert!(matches!(pair.check(750), Step::Admit { .. }));
}

#[test]
fn what_is_left_comes_back_when_demand_stops() {
    for text in ["fixed-window 10000/s", "sliding-log 10000/s", "sliding-window 10000/s"] {
        let mut pair = Pair::new(text);
        pair.steady(5_000, 250);
        pair.fetch();
        let before = (pair.returns.len(), pair.remaining());
        pair.now_us = pair.holder.wakes_us().expect("something is held");
        assert_eq!(pair.asks(), None);
        assert_eq!(pair.holder.wakes_us(), None, "{text}");
        assert!(pair.returns.len() > before.0 && pair.remaining() > before.1, "{text}");
    }
}

#[test]
fn everything_comes_back_on_release_and_nothing_more_is_taken_ahead() {
    let mut pair = Pair::new("10000/s burst 10000");
    pair.steady(5_000, 250);
    pair.fetch();
    pair.holder.release();
    assert_eq!(pair.asks(), None);
    assert!(pair.returns.iter().any(|back| back.units > 100), "{:?}", pair.returns);
    assert_eq!(pair.holder.wakes_us(), None);
    let (asks, admitted) = (pair.asks, pair.admitted);
    pair.steady(10, 250);
    assert_eq!((pair.asks - asks, pair.admitted - admitted), (10, 10));
}

/// Units are worth their time less their age: 500 units of 100 µs each, half used after 60 ms, are not worth a
/// message.
#[test]
fn what_is_worth_nothing_any_more_is_not_sent_back() {
    let mut pair = Pair::new("10000/s burst 10000");
    pair.steady(5_000, 250);
    pair.fetch();
    pair.steady(240, 250);
    pair.returns.clear();
    pair.holder.release();
    assert_eq!(pair.asks(), None);
    assert_eq!((pair.returns.len(), pair.holder.wakes_us()), (0, None));
}

/// A reply that took longer than the lease lives decides those that waited when its request left, as a check
/// without a lease would be; nobody else, because the life is over.
#[test]
fn a_late_reply_decides_those_that_it_was_asked_for() {
    let mut pair = Pair::new("1000/s burst 1000");
    assert_eq!(pair.holder.check(1_000, 2), Step::Wait);
    let wanted = match pair.holder.poll(1_000) {
        Some(Message::Ask(wanted)) => wanted,
        other => panic!("{other:?}"),
    };
    assert_eq!(pair.holder.check(2_000, 1), Step::Wait);
    let granted = pair.decide(wanted);
    pair.holder.on_reply(301_000, &granted);
    assert!(matches!(pair.holder.resume(301_000, 2), Step::Admit { late: true, .. }));
    assert_eq!(pair.holder.resume(301_000, 1), Step::Wait);
    assert!(matches!(
        pair.holder.poll(301_000),
        Some(Message::Ask(GrantRequest { least: 1, most: 1 }))
    ));
}

#[test]
fn after_a_failure_nobody_asks_for_a_while() {
    let mut pair = Pair::new("1000/s burst 1000");
    assert_eq!(pair.holder.check(1_000, 1), Step::Wait);
    assert!(pair.holder.poll(1_000).is_some());
    assert!(!pair.holder.is_idle(), "a reply may come");
    assert_eq!(pair.holder.check(1_500, 1), Step::Wait);
    assert_eq!(pair.holder.poll(1_500), None, "one request at a time");
    pair.holder.on_failure(21_000, 0);
    for now_us in [21_000, 25_999] {
        assert_eq!(pair.holder.resume(now_us, 1), Step::Unavailable);
        assert_eq!(pair.holder.check(now_us, 1), Step::Unavailable);
        assert_eq!(pair.holder.poll(now_us), None);
    }
    assert_eq!(pair.holder.check(26_000, 1), Step::Wait);
    assert!(pair.holder.poll(26_000).is_some());
    // The lost reply comes after all, and is taken for the second: the caller must not let that happen. A reply
    // to no request is ignored.
    let mut idle = Pair::new("1000/s burst 1000");
    let granted = idle.decide(GrantRequest { least: 1, most: 9 });
    idle.holder.on_reply(30_000, &granted);
    assert_eq!(idle.holder.check(30_000, 1), Step::Wait);
}

/// What a hot key asks for in a second in which every request fails after `trip_us`; the jitter is random.
fn requests_of_a_failing_second(trip_us: u64, seed: u64) -> (u64, u64) {
    let mut pair = Pair::new("1000/s burst 1000");
    pair.steady(2_000, 500);
    let (mut chance, start_us) = (Chance::new(seed), pair.now_us);
    let (mut requests, mut checks, mut fails_us) = (0, 0, None);
    while pair.now_us < start_us + 1_000_000 {
        let now_us = pair.now_us;
        let _ = pair.holder.check(now_us, 1);
        checks += 1;
        loop {
            while let Some(message) = pair.holder.poll(now_us) {
                if let Message::Ask(_) = message {
                    requests += 1;
                    fails_us = Some(now_us + trip_us);
                }
            }
            if fails_us.take_if(|fails_us| *fails_us <= now_us).is_none() {
                break;
            }
            pair.holder.on_failure(now_us, chance.below(u64::MAX));
        }
        pair.now_us += 500;
    }
    (requests, checks)
}

/// Two steps of 5 and 10 ms, and then one request in 12.5 ms at most: never one per check, nor one after another.
#[test]
fn while_the_store_fails_a_key_asks_once_per_backoff_step() {
    for trip_us in [0, 300, 1_000, 20_000] {
        for seed in 0..50 {
            let (requests, checks) = requests_of_a_failing_second(trip_us, seed);
            let most = 2 + 1_000_000 / (12_500 + trip_us) + 1;
            assert!(
                requests <= most,
                "{requests} of {checks} checks, each failing after {trip_us}"
            );
            assert!(
                requests >= 1_000_000 / (25_000 + trip_us + 1_000) / 2,
                "{requests}: it gives up"
            );
        }
    }
}

#[test]
fn the_pauses_grow_to_a_bound_are_jittered_and_end_with_a_reply() {
    let mut pair = Pair::new("1000/s burst 1000");
    let pause_ms = |pair: &mut Pair, random| {
        assert_eq!(pair.holder.check(pair.now_us, 1), Step::Wait);
        assert!(pair.asks().is_some());
        pair.holder.on_failure(pair.now_us, random);
        let start_us = pair.now_us;
        while pair.holder.check(pair.now_us, 1) == Step::Unavailable {
            pair.now_us += 100;
        }
        pair.holder.cancel();
        (pair.now_us - start_us).div_ceil(1_000)
    };
    assert_eq!([0; 6].map(|random| pause_ms(&mut pair, random)), [5, 10, 20, 25, 25, 25]);
    assert_eq!(pause_ms(&mut pair, 12_500), 13); // half of 25
    assert!(matches!(pair.check(1), Step::Admit { .. }));
    pair.now_us += 1_000_000;
    assert_eq!(pause_ms(&mut pair, 0), 5, "a reply has ended the failures");
}

/// No unit is used later than a life after its request left, to the microsecond.
#[test]
fn a_lease_ends_a_life_after_its_request_left() {
    // 250 ms, less a thousandth for slow clocks.
    let life_us = 250_000 - 245;
    for (late_us, usable) in [(0, true), (life_us - 1, true), (life_us, false)] {
        let mut pair = Pair::new("10000/s burst 10000");
        pair.steady(5_000, 250);
        let wanted = loop {
            pair.now_us += 1;
            let _ = pair.holder.check(pair.now_us, 1);
            if let Some(wanted) = pair.asks() {
                break wanted;
            }
        };
        let granted = pair.decide(wanted);
        let then_us = pair.now_us + late_us;
        pair.holder.on_reply(then_us, &granted);
        let admits = |_: &u64| matches!(pair.holder.check(then_us, 1), Step::Admit { .. });
        let admitted = (0..1_000).take_while(admits).count() as u64;
        assert!(granted.units > 100, "{granted:?}");
        assert!(if usable { admitted >= granted.units } else { admitted == 0 }, "{late_us}");
    }
}
