//! What was admitted, when, and by how much it exceeds the limit.

use std::collections::VecDeque;

use tidegate_core::{Gcra, Limit, State, Timestamp};

use crate::micros;

/// Units admitted at an instant.
type Admitted = (u64, u64);

/// Everything that was admitted for one key.
#[derive(Clone)]
pub(super) struct Meter {
    limit: Limit,
    admitted: Vec<Admitted>,
    /// Utilisation is measured from the first to the second.
    from_us: u64,
    until_us: u64,
    offered: u64,
    capacity: u64,
}

impl Meter {
    pub(super) fn new(limit: &Limit, start_us: u64, duration_us: u64) -> Self {
        let period_us = micros(limit.period());
        // The start is no steady state: it lasts a period, and the time of a burst in whole periods.
        let warm_us = period_us.saturating_mul(1 + limit.ceiling() / limit.units());
        let steady = duration_us >= warm_us.saturating_mul(4);
        let warm_us = if steady { warm_us } else { 0 };
        let span_us = duration_us - warm_us;
        let units = |us: u64| {
            let units = u128::from(limit.units()) * u128::from(us) / limit.period().as_micros();
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        let capacity = match limit {
            _ if steady => units(span_us),
            Limit::Gcra(_) | Limit::TokenBucket(_) => units(span_us) + limit.ceiling(),
            _ => units(span_us.next_multiple_of(period_us)),
        };
        let (from_us, until_us) = (start_us + warm_us, start_us + duration_us);
        Self { limit: limit.clone(), admitted: vec![], from_us, until_us, offered: 0, capacity }
    }

    pub(super) fn offer(&mut self, at_us: u64) {
        self.offered += u64::from((self.from_us..self.until_us).contains(&at_us));
    }

    pub(super) fn admit(&mut self, at_us: u64, units: u64) {
        match self.admitted.last_mut() {
            Some((last_us, sum)) if *last_us == at_us => *sum += units,
            _ => self.admitted.push((at_us, units)),
        }
    }

    pub(super) fn admitted(&self) -> u64 {
        self.admitted.iter().map(|(_, units)| units).sum()
    }

    /// What was admitted in the steady part, and what could have been.
    pub(super) fn utilisation(&self) -> (u64, u64) {
        let steady =
            self.admitted.iter().filter(|(at_us, _)| (self.from_us..self.until_us).contains(at_us));
        (steady.map(|(_, units)| units).sum(), self.capacity.min(self.offered))
    }

    /// The most by which any interval exceeds what the limit allows there.
    pub(super) fn overshoot(&self) -> u64 {
        let mut admitted = self.admitted.clone();
        admitted.sort_unstable();
        let period_us = micros(self.limit.period());
        match &self.limit {
            Limit::Gcra(gcra) | Limit::TokenBucket(gcra) => {
                paced(gcra, tick_us(&self.limit), &admitted)
            }
            Limit::FixedWindow(window) => windows(window.limit(), period_us, &admitted),
            Limit::SlidingLog(log) => any_period(log.limit(), period_us, &admitted),
            Limit::SlidingWindow(window) => {
                slots(window.limit(), period_us, window.buckets(), &admitted)
            }
            _ => refused(&self.limit, &admitted),
        }
    }
}

/// The tick of the state: 1 µs, or 1 ms where the arithmetic needs it.
fn tick_us(limit: &Limit) -> u64 {
    let mut state = State::Empty;
    let _ = limit.take(&mut state, Timestamp::from_micros(1_000_000), 1);
    state.arrival().map_or(1, |arrival| arrival.tick_us)
}

/// Above `burst + rate × Δ`, for every Δ at once: a level that drains at the rate, in parts of a unit.
fn paced(gcra: &Gcra, tick_us: u64, admitted: &[Admitted]) -> u64 {
    let period = gcra.period().as_micros() / u128::from(tick_us);
    let (burst, rate) = (u128::from(gcra.burst()) * period, u128::from(gcra.limit()));
    let (mut level, mut last, mut worst) = (0_u128, 0, 0);
    for &(at_us, units) in admitted {
        let now = at_us / tick_us;
        level = level.saturating_sub(u128::from(now - last) * rate) + u128::from(units) * period;
        last = now;
        worst = worst.max(level.saturating_sub(burst));
    }
    u64::try_from(worst.div_ceil(period)).unwrap_or(u64::MAX)
}

/// Above the limit in one window.
fn windows(limit: u64, period_us: u64, admitted: &[Admitted]) -> u64 {
    let each = admitted.chunk_by(|a, b| a.0 / period_us == b.0 / period_us);
    let sums = each.map(|window| window.iter().map(|(_, units)| units).sum::<u64>());
    sums.max().unwrap_or(0).saturating_sub(limit)
}

/// Above the limit in any period, half open.
fn any_period(limit: u64, period_us: u64, admitted: &[Admitted]) -> u64 {
    let (mut sum, mut worst, mut first) = (0, 0, 0);
    for &(at_us, units) in admitted {
        while admitted[first].0 + period_us <= at_us {
            sum -= admitted[first].1;
            first += 1;
        }
        sum += units;
        worst = worst.max(sum);
    }
    worst.saturating_sub(limit)
}

/// Above the limit by the estimate of a sliding window, at the instant of any admission.
fn slots(limit: u64, period_us: u64, buckets: u64, admitted: &[Admitted]) -> u64 {
    let width_us = period_us / buckets;
    let mut recent: VecDeque<Admitted> = VecDeque::new();
    let mut worst = 0;
    for &(at_us, units) in admitted {
        let current = at_us / width_us;
        match recent.back_mut() {
            Some((slot, sum)) if *slot == current => *sum += units,
            _ => recent.push_back((current, units)),
        }
        while recent.front().is_some_and(|(slot, _)| slot + buckets < current) {
            recent.pop_front();
        }
        let left_us = width_us - at_us % width_us;
        let weigh = |&(slot, sum): &Admitted| {
            u128::from(sum) * u128::from(if slot + buckets == current { left_us } else { width_us })
        };
        worst = worst.max(recent.iter().map(weigh).sum::<u128>());
    }
    let worst = worst.div_ceil(u128::from(width_us));
    u64::try_from(worst).unwrap_or(u64::MAX).saturating_sub(limit)
}

/// What the limit itself refuses at the same instants.
fn refused(limit: &Limit, admitted: &[Admitted]) -> u64 {
    let mut state = State::Empty;
    let mut refused = 0;
    for &(at_us, units) in admitted {
        let now = Timestamp::from_micros(at_us);
        let taken = limit.peek(&state, now, 0).remaining().min(units);
        let _ = limit.take(&mut state, now, taken);
        refused += units - taken;
    }
    refused
}
