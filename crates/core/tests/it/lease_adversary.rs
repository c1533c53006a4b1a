//! Whatever nodes do that keep to the life of their leases, the fleet admits no more than the plain limit. The
//! nodes here are as unhelpful as can be: they take what they can get, sit on it, and spend it at the worst time.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{
    Change, Every, FixedWindow, Gcra, GrantRequest, Limit, Quota, Return, SlidingLog, State, Terms,
    Timestamp, Zone, grant,
};

use crate::support::{
    Chance, Grant, START_US, at, config, keeps_limit, micros, milli_tick, period_us, rate,
    sliding_window,
};

/// What the store or the nodes do wrong, on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// The store keeps the plain limit.
    NoReduction,
    /// The life of a lease counts from the reply, not from before the request left.
    LifeFromReply,
    /// What comes back is credited like any refund.
    PlainReturn,
    /// A lease does not end with its window.
    OutlivesWindow,
}

/// Limits that can be leased, from one unit at a time to a few dozen.
pub(crate) fn leasable() -> impl Strategy<Value = Limit> {
    let parts = (0..10_u8, rate(), period_us(), 2..=40_u64, 1..=6_u64);
    let limit = parts.prop_map(|(kind, (units, pace_us), period_us, burst, buckets)| {
        let (period, units) = (micros(period_us), units.min(50));
        match kind {
            0 | 1 => Gcra::new(units, micros(pace_us), burst).unwrap().into(),
            2 => Limit::TokenBucket(Gcra::token_bucket(burst, units, period).unwrap()),
            3 => FixedWindow::new(units, period).unwrap().into(),
            4 => sliding_window(units, period_us, buckets).into(),
            5 => SlidingLog::new(units, period).unwrap().into(),
            6 => Quota::fixed(units, period).unwrap().into(),
            7 => milli_tick(units.min(12), 1),
            8 => {
                let period = sliding_window(units, period_us, buckets).period();
                Quota::rolling(units, period, buckets).unwrap().into()
            }
            _ => Quota::calendar(units, Every::Day, Zone::fixed(330).unwrap()).unwrap().into(),
        }
    });
    limit.prop_filter("too short or too small", |limit| Terms::from_limits([limit]).is_ok())
}

/// A lease in the hands of a node. Instants are true ones.
struct Held {
    units: u64,
    sent_us: u64,
    arrives_us: u64,
    ends_us: u64,
    granted_at: Option<Timestamp>,
}

struct Adversary<'a> {
    wrong: Wrong,
    plain: &'a [Limit],
    kept: Vec<Limit>,
    ttl_us: u64,
    now_us: u64,
    states: Vec<State>,
    held: Vec<Held>,
    spent: Vec<Grant>,
}

/// What the nodes spend, following a script of gaps, deeds and amounts.
fn spend(plain: &[Limit], script: &[(u16, u16, u16)], wrong: Wrong) -> Vec<Grant> {
    let ttl = Terms::from_limits(plain).unwrap().ttl();
    let keep = |limit: &Limit| match wrong {
        Wrong::NoReduction => limit.clone(),
        _ => limit.leased(ttl).unwrap(),
    };
    let kept = plain.iter().map(keep).collect();
    let ttl_us = u64::try_from(ttl.as_micros()).unwrap();
    let (states, held, spent) = (vec![State::Empty; plain.len()], vec![], vec![]);
    let mut all = Adversary { wrong, plain, kept, ttl_us, now_us: START_US, states, held, spent };
    for &(gap, deed, amount) in script {
        all.pass(gap);
        match deed % 8 {
            0..=2 => all.take(u64::from(deed / 8), u64::from(amount)),
            3 => all.give_back(usize::from(deed / 8), u64::from(amount)),
            // One lease, or everything that can be spent at this instant.
            4 => all.use_up(|place, count| place == usize::from(deed / 8) % count),
            _ => all.use_up(|_, _| true),
        }
    }
    all.spent
}

impl Adversary<'_> {
    /// No time, about a unit's, up to two lives of a lease, a period give or take a life, or up to two periods.
    fn pass(&mut self, raw: u16) {
        let limit = &self.plain[usize::from(raw / 8) % self.plain.len()];
        let period_us = u64::try_from(limit.period().as_micros()).unwrap();
        let up_to = |us: u64| us * u64::from(raw / 8) / 8192;
        self.now_us += match raw % 8 {
            0 | 1 => 0,
            2 => up_to(2 * period_us / limit.units()),
            3 | 4 => up_to(2 * self.ttl_us),
            5 | 6 => period_us.saturating_sub(self.ttl_us) + up_to(2 * self.ttl_us),
            _ => up_to(2 * period_us),
        };
    }

    fn take(&mut self, raw_latency: u64, raw_amount: u64) {
        // Ways of up to about a life each, half of them short; the request left before, the reply comes later.
        let way_us = |raw: u64| if raw.is_multiple_of(2) { self.ttl_us * raw / 70 } else { raw };
        let (out_us, back_us) = (way_us(raw_latency % 64), way_us(raw_latency / 64 % 64));
        let ceiling = self.kept[0].ceiling();
        let most = if raw_amount.is_multiple_of(4) { ceiling } else { 1 + raw_amount % ceiling };
        let mut changes = vec![Change::KEEP; self.kept.len()];
        let limits = self.kept.iter().zip(&self.states);
        let wanted = GrantRequest { least: 1, most };
        let granted = grant(limits, &mut changes, at(self.now_us), wanted).unwrap();
        self.states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
        let (sent_us, arrives_us) = (self.now_us - out_us, self.now_us + back_us);
        let outlives = self.wrong == Wrong::OutlivesWindow;
        let life_us = self.ttl_us.min(if outlives { u64::MAX } else { granted.ends_after_us });
        let late = self.wrong == Wrong::LifeFromReply;
        let ends_us = life_us + if late { arrives_us } else { sent_us };
        let (units, granted_at) = (granted.units, granted.granted_at);
        self.held.push(Held { units, sent_us, arrives_us, ends_us, granted_at });
    }

    /// Also of leases that have ended.
    fn give_back(&mut self, place: usize, raw_amount: u64) {
        let count = self.held.len().max(1);
        let Some(lease) = self.held.get_mut(place % count) else { return };
        if lease.arrives_us > self.now_us {
            return;
        }
        let units = (1 + raw_amount % 64).min(lease.units);
        lease.units -= units;
        let Some(granted_at) = lease.granted_at else { return };
        let back = Return { units, granted_at, age: micros(self.now_us - lease.sent_us) };
        for (limit, state) in self.kept.iter().zip(&mut self.states) {
            let _ = match self.wrong {
                Wrong::PlainReturn => limit.refund(state, at(self.now_us), units),
                _ => limit.give_back(state, at(self.now_us), back),
            };
        }
    }

    fn use_up(&mut self, which: impl Fn(usize, usize) -> bool) {
        let count = self.held.len();
        for (place, lease) in self.held.iter_mut().enumerate() {
            let usable = (lease.arrives_us..lease.ends_us).contains(&self.now_us);
            if usable && which(place, count) {
                self.spent.push((self.now_us, std::mem::take(&mut lease.units)));
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_fleet_admits_more_than_the_plain_limit(
        limits in vec(leasable(), 1..3), script in vec(any::<(u16, u16, u16)>(), 1..60)
    ) {
        let spent = spend(&limits, &script, Wrong::Nothing);
        for limit in &limits {
            prop_assert!(keeps_limit(limit, &spent), "{limit:?}: {spent:?}");
        }
    }
}

/// The controls: each mistake is noticed sooner or later, under the limits it matters for.
#[test]
fn every_mistake_is_noticed() {
    let paced = ["10/s burst 10", "3/s burst 20", "token-bucket 100/s capacity 20"];
    let windows = [
        "fixed-window 20/s",
        "quota 20/10s",
        "sliding-window 20/s",
        "sliding-window 9/s buckets 1",
    ];
    let log = ["sliding-log 20/s", "sliding-log 3/min"];
    for (wrong, limits) in [
        (Wrong::NoReduction, [&paced[..], &log].concat()),
        (Wrong::LifeFromReply, [&paced[..], &log, &windows].concat()),
        (Wrong::PlainReturn, [&paced[..], &log, &windows].concat()),
        (Wrong::OutlivesWindow, windows.to_vec()),
    ] {
        for text in limits {
            let limits = [text.parse::<Limit>().unwrap()];
            let mut chance = Chance::new(20);
            let overshoots = |wrong: Wrong, chance: &mut Chance| {
                let raw = |chance: &mut Chance| u16::try_from(chance.below(1 << 16)).unwrap();
                let script: Vec<_> =
                    (0..60).map(|_| (raw(chance), raw(chance), raw(chance))).collect();
                !keeps_limit(&limits[0], &spend(&limits, &script, wrong))
            };
            assert!((0..200_000).any(|_| overshoots(wrong, &mut chance)), "{wrong:?} under {text}");
            assert!((0..500).all(|_| !overshoots(Wrong::Nothing, &mut chance)), "{text}");
        }
    }
}
