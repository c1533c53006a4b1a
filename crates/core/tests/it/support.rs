//! Generators and checkers that the properties share.
//!
//! A checker judges what was admitted, never how: it is also run on limiters that are wrong on purpose
//! (see `controls`), so that a checker that cannot fail would be noticed.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tidegate_core::{
    Concurrency, Every, FixedWindow, Gcra, Limit, Quota, SlidingLog, SlidingWindow, State,
    Timestamp, Zone,
};

/// An instant in November 2023, on no round boundary.
pub(crate) const START_US: u64 = 1_700_000_000_123_457;
pub(crate) const SECOND_US: u64 = 1_000_000;
pub(crate) const DAY_US: u64 = 86_400 * SECOND_US;

/// The same cases for everyone; `PROPTEST_RNG_SEED` asks for others.
pub(crate) fn config() -> ProptestConfig {
    let mut config =
        ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20);
    }
    config
}

pub(crate) fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

pub(crate) fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// One ask: when, and for how much.
pub(crate) type Ask = (u64, u64);

/// What one ask was granted: when, and how much (0 if refused).
pub(crate) type Grant = (u64, u64);

/// A limit and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) limit: Limit,
    pub(crate) asks: Vec<Ask>,
}

impl Scene {
    pub(crate) fn grants(&self) -> Vec<Grant> {
        grants(&self.limit, &self.asks)
    }
}

pub(crate) fn grants(limit: &Limit, asks: &[Ask]) -> Vec<Grant> {
    let mut state = State::Empty;
    let grant = |&(now_us, cost): &Ask| {
        let admitted = limit.take(&mut state, at(now_us), cost).allowed();
        (now_us, if admitted { cost } else { 0 })
    };
    asks.iter().map(grant).collect()
}

/// Any algorithm, asked over time that only moves forward.
pub(crate) fn scene() -> impl Strategy<Value = Scene> {
    scene_of(any_in_force(), forward)
}

/// Any algorithm, asked by a clock that also steps back, a little or a lot.
pub(crate) fn jumpy_scene() -> impl Strategy<Value = Scene> {
    scene_of(any_in_force(), jumpy)
}

pub(crate) fn scene_of(
    limits: impl Strategy<Value = Limit>,
    gap: fn(&Limit, u16) -> i64,
) -> impl Strategy<Value = Scene> {
    (limits, start_us(), vec(any::<(u16, u16)>(), 1..18)).prop_map(move |(limit, start, raw)| {
        let mut now = start;
        let step = |(time, cost): (u16, u16)| {
            now = now.saturating_add_signed(gap(&limit, time));
            (now, cost_for(limit.ceiling(), cost))
        };
        let asks = raw.into_iter().map(step).collect();
        Scene { limit, asks }
    })
}

pub(crate) fn start_us() -> impl Strategy<Value = u64> {
    any::<(u8, u64)>().prop_map(|(kind, raw)| match kind % 4 {
        0 => raw % 5_000,
        _ => START_US + raw % (2 * DAY_US),
    })
}

/// Gaps where it matters: none, a microsecond, about one unit's share, up to two periods.
pub(crate) fn forward(limit: &Limit, raw: u16) -> i64 {
    let period_us = i64::try_from(limit.period().as_micros()).unwrap();
    let part = i64::from(raw / 4);
    match raw % 4 {
        0 => 0,
        1 => part % 3,
        2 => period_us * part / 8192 / i64::try_from(limit.units()).unwrap(),
        _ => period_us * part / 8192,
    }
}

pub(crate) fn jumpy(limit: &Limit, raw: u16) -> i64 {
    // Mixed, so that the length of a step does not hang on its direction.
    let gap = forward(limit, raw.wrapping_mul(40_503).swap_bytes());
    match raw % 8 {
        0 => -gap,
        1 => -gap * 50,
        2 => gap * 50,
        _ => gap,
    }
}

/// Mostly small costs, sometimes none, the whole ceiling, or more than can ever be granted.
pub(crate) fn cost_for(ceiling: u64, raw: u16) -> u64 {
    let part = u64::from(raw / 16);
    match raw % 16 {
        0 => 0,
        1 => ceiling,
        2 => ceiling + 1 + part,
        3..=7 => 1 + part * ceiling / 4096,
        _ => 1,
    }
}

pub(crate) fn any_limit() -> impl Strategy<Value = Limit> {
    (0..11_u8, 1..=12_u64, period_us(), 1..=12_u64, 1..=6_u64).prop_map(
        |(kind, limit, period_us, burst, buckets)| {
            let period = micros(period_us);
            match kind {
                0 | 1 => Gcra::new(limit, period, burst).unwrap().into(),
                2 => Limit::TokenBucket(Gcra::token_bucket(burst, limit, period).unwrap()),
                3 => milli_tick(limit, burst),
                4 => FixedWindow::new(limit, period).unwrap().into(),
                5 => sliding_window(limit, period_us, buckets).into(),
                6 => SlidingLog::new(limit, period).unwrap().into(),
                7 => {
                    let every = match buckets {
                        1 | 2 => Every::Day,
                        3 | 4 => Every::Week,
                        _ => Every::Month,
                    };
                    let zone = Zone::fixed((period_us % 1681).cast_signed() - 840).unwrap();
                    Quota::calendar(limit, every, zone).unwrap().into()
                }
                8 => Quota::fixed(limit, period).unwrap().into(),
                9 => {
                    let period = sliding_window(limit, period_us, buckets).period();
                    Quota::rolling(limit, period, buckets).unwrap().into()
                }
                _ => Concurrency::new(limit, period).unwrap().into(),
            }
        },
    )
}

/// Any limit, and now and then what is in force of one while its load is high.
fn any_in_force() -> impl Strategy<Value = Limit> {
    (any_limit(), 0..=36_u64).prop_map(
        |(limit, units)| {
            if units <= 12 { limit.effective(units) } else { limit }
        },
    )
}

/// Rates whose interval is a whole number of ticks, and many whose interval is not.
pub(crate) fn rate() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        (1..=50_u64, period_us()),
        Just((3, SECOND_US)),
        Just((7, 60 * SECOND_US)),
        Just((999_983, 3600 * SECOND_US)),
        Just((1_000_003, 999_983)),
    ]
}

pub(crate) fn period_us() -> impl Strategy<Value = u64> {
    any::<(u8, u32)>().prop_map(|(kind, raw)| match kind % 5 {
        0 => 1 + u64::from(raw % 60),
        1 => 1 + u64::from(raw % 100_000),
        2 => SECOND_US,
        3 => 60 * SECOND_US,
        _ => 1_000_003,
    })
}

/// A limit so long and so odd that its arithmetic is only exact in milliseconds: about 86 ms per unit,
/// with a million of them in one burst.
pub(crate) fn milli_tick(limit: u64, burst: u64) -> Limit {
    // A day divides by 2, 3 and 5 alone, and none of these limits does.
    Gcra::new(999_983 - 30 * limit, micros(DAY_US), 1_000_000 * burst.min(9)).unwrap().into()
}

/// The nearest period that the buckets divide.
pub(crate) fn sliding_window(limit: u64, period_us: u64, buckets: u64) -> SlidingWindow {
    SlidingWindow::new(limit, micros(period_us.next_multiple_of(buckets)), buckets).unwrap()
}

/// How far time has moved forward by each ask, in whole quanta: on a clock that steps back, the only
/// time that may refill anything.
pub(crate) fn progress(grants: &[Grant], quantum: u64) -> Vec<Grant> {
    let (mut before, mut moved) = (grants[0].0 / quantum, 0);
    let step = |&(now_us, cost): &Grant| {
        let now = now_us / quantum;
        moved += now.saturating_sub(before);
        before = now;
        (moved, cost)
    };
    grants.iter().map(step).collect()
}

/// Whether every interval holds at most `burst + limit/period × Δ`. Exact: all in units of 1/limit.
pub(crate) fn keeps_pace(grants: &[Grant], limit: u64, period: u64, burst: u64) -> bool {
    let [limit, period, burst] = [limit, period, burst].map(u128::from);
    every_run(grants, |span, sum| sum * period <= burst * period + limit * span)
}

/// Whether no half-open span of this length holds more than `limit`.
pub(crate) fn keeps_span(grants: &[Grant], limit: u64, span: u64) -> bool {
    every_run(grants, |long, sum| long >= u128::from(span) || sum <= u128::from(limit))
}

/// Whether no window holds more than `limit`; `window` names the window of an instant.
pub(crate) fn keeps_window(grants: &[Grant], limit: u64, window: impl Fn(u64) -> u64) -> bool {
    let named: Vec<Grant> = grants.iter().map(|&(now, cost)| (window(now), cost)).collect();
    keeps_span(&named, limit, 1)
}

/// Asks `holds` for the length and the sum of every run of grants.
fn every_run(grants: &[Grant], holds: impl Fn(u128, u128) -> bool) -> bool {
    (0..grants.len()).all(|first| {
        let mut sum = 0_u128;
        grants[first..].iter().all(|&(now, cost)| {
            sum += u128::from(cost);
            holds(u128::from(now - grants[first].0), sum)
        })
    })
}

/// Whether what was admitted keeps the limit's own bound: by the checkers above, which know nothing of the
/// limit's arithmetic, where there is one; and by asking the limit itself, at the same instants.
pub(crate) fn keeps_limit(limit: &Limit, grants: &[Grant]) -> bool {
    let mut state = State::Empty;
    let grants: Vec<Grant> = grants.iter().copied().filter(|(_, cost)| *cost > 0).collect();
    let admits = |&(now, cost): &Grant| limit.take(&mut state, at(now), cost).allowed();
    let period_us = u64::try_from(limit.period().as_micros()).unwrap();
    let kept = grants.iter().all(admits);
    let tick_us = state.arrival().map_or(1, |arrival| arrival.tick_us);
    kept && match limit {
        Limit::Gcra(gcra) | Limit::TokenBucket(gcra) => {
            let ticks: Vec<Grant> =
                grants.iter().map(|&(now, cost)| (now / tick_us, cost)).collect();
            keeps_pace(&ticks, gcra.limit(), period_us / tick_us, gcra.burst())
        }
        Limit::SlidingLog(_) => keeps_span(&grants, limit.units(), period_us),
        Limit::FixedWindow(_) => keeps_window(&grants, limit.units(), |now| now / period_us),
        _ => true,
    }
}

/// Chance from a seed, for what is not drawn by proptest (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 up to, but without, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}
