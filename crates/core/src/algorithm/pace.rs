//! A rate as an exact fraction: the arithmetic that GCRA, the token bucket and the shaper share.

use super::divisor::Divisor;
use crate::error::LimitError;
use crate::state::Arrival;
use crate::time::{EXACT_MAX, Timestamp};

/// `limit` per `period`, as an emission interval of `interval / scale` ticks per unit. The fraction is
/// reduced, so 3/s is 1,000,000/3 µs per unit: no drift and no lost token at any rate.
///
/// Amounts of time below are in *units* of 1/scale tick; they are integers, and exact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pace {
    pub(crate) interval: u64,
    pub(crate) scale: u64,
    pub(crate) tick_us: u64,
    by_scale: Divisor,
}

/// How far a stored arrival lies ahead of now.
#[derive(Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) units: u64,
    /// The stored arrival lay further ahead than it could have been written now.
    pub(crate) repaired: bool,
}

impl Pace {
    /// The finest pace for which `fits` holds: ticks of 1 µs, or of 1 ms where the period allows.
    pub(crate) fn finest(
        limit: u64,
        period_us: u64,
        fits: impl Fn(&Self) -> bool,
    ) -> Result<Option<Self>, LimitError> {
        check_rate(limit, period_us)?;
        let micro = Self::new(limit, period_us, 1);
        if fits(&micro) {
            return Ok(Some(micro));
        }
        let milli = Self::new(limit, period_us / 1000, 1000);
        Ok((period_us.is_multiple_of(1000) && fits(&milli)).then_some(milli))
    }

    fn new(limit: u64, period_ticks: u64, tick_us: u64) -> Self {
        let divisor = gcd(period_ticks, limit);
        let scale = limit / divisor;
        let by_scale = Divisor::new(scale);
        Self { interval: period_ticks / divisor, scale, tick_us, by_scale }
    }

    #[inline]
    pub(crate) fn ticks(&self, now: Timestamp) -> u64 {
        if self.tick_us == 1 { now.as_micros() } else { now.as_micros() / self.tick_us }
    }

    /// How far `arrival` lies ahead of now, at most `most` units.
    #[inline]
    pub(crate) fn ahead(&self, arrival: Option<Arrival>, now: Timestamp, most: u64) -> Ahead {
        let none = Ahead { units: 0, repaired: false };
        let Some(arrival) = arrival else { return none };
        let (ticks, frac) = self.rescale(arrival);
        let now_ticks = self.ticks(now);
        if ticks < now_ticks {
            return none;
        }
        let whole = ticks - now_ticks;
        if self.scale == 1 {
            return Ahead { units: whole.min(most), repaired: whole > most };
        }
        // Clamped in whole ticks before it is multiplied: the product stays below 2^53 + scale.
        if whole > most / self.scale {
            return Ahead { units: most, repaired: true };
        }
        // A fraction below one comes from a decision; anything may come from outside.
        let units = (whole * self.scale).saturating_add(frac);
        Ahead { units: units.min(most), repaired: units > most }
    }

    /// Microseconds as units, rounded up to whole ticks; `None` where that is more than `most`. Compared in ticks
    /// before it is multiplied, so that the product stays at or below `most`.
    pub(crate) fn units_up(&self, us: u64, most: u64) -> Option<u64> {
        let ticks = us.div_ceil(self.tick_us);
        (ticks <= most / self.scale).then(|| ticks * self.scale)
    }

    /// The arrival that lies `units` ahead of now.
    #[inline]
    pub(crate) fn arrival(&self, now: Timestamp, units: u64) -> Arrival {
        let now_ticks = self.ticks(now);
        let whole = self.by_scale.divide(units);
        let frac = units - whole * self.scale;
        Arrival { ticks: now_ticks + whole, frac, scale: self.scale, tick_us: self.tick_us }
    }

    /// Units as whole ticks, rounded up.
    #[inline]
    pub(crate) fn ticks_up(&self, units: u64) -> u64 {
        self.by_scale.divide(units + (self.scale - 1))
    }

    /// Units as microseconds from now, rounded up.
    #[inline]
    pub(crate) fn micros(&self, units: u64, now: Timestamp) -> u64 {
        let ticks = self.ticks_up(units);
        if self.tick_us == 1 {
            return ticks;
        }
        (ticks * self.tick_us).saturating_sub(now.as_micros() % self.tick_us)
    }

    /// Ticks and fraction of an arrival, in this pace's units. One that was written under another pace stays the same
    /// point in time, rounded up to a whole tick: a changed limit never gives anything back.
    #[inline]
    fn rescale(&self, arrival: Arrival) -> (u64, u64) {
        let same = arrival.tick_us == self.tick_us;
        if same && (arrival.scale == self.scale || arrival.frac == 0) {
            return (arrival.ticks, arrival.frac);
        }
        let tick_us = arrival.tick_us.max(1);
        let us =
            (arrival.ticks.saturating_add(u64::from(arrival.frac > 0))).saturating_mul(tick_us);
        (us.div_ceil(self.tick_us), 0)
    }
}

pub(crate) fn check_rate(limit: u64, period_us: u64) -> Result<(), LimitError> {
    match (limit, period_us) {
        (0, _) => Err(LimitError::ZeroLimit),
        (n, _) if n > EXACT_MAX => Err(LimitError::LimitTooLarge(n)),
        (_, 0) => Err(LimitError::ZeroPeriod),
        (_, us) if us > EXACT_MAX => Err(LimitError::PeriodTooLong(us)),
        _ => Ok(()),
    }
}

/// Whether `a × b` stays exact in a Lua number.
pub(crate) fn product_fits(a: u64, b: u64) -> bool {
    a.checked_mul(b).is_some_and(|product| product <= EXACT_MAX)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
