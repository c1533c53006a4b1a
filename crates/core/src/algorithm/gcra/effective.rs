//! A rate below the declared one, for a while.

use super::Gcra;
use crate::algorithm::divisor::Divisor;
use crate::algorithm::pace::{Pace, product_fits};
use crate::time::EXACT_MAX;

/// So many units make any part of a limit exact to five digits.
const FINE_UNITS: u64 = 100_000;

impl Gcra {
    /// `units` per period instead of all of them, exactly, and as much less at once, but no less than `least` where there is
    /// so much; at least one each.
    ///
    /// A stored arrival keeps its meaning as time, and the tolerance as time stays nearly what it was. "Nearly" would be
    /// enough to create units: each fall would forget the little debt that is beyond the new tolerance, and each rise
    /// give it out again. So what is repaired is what lies beyond the tolerance of the *whole* rate.
    pub(super) fn at_most(&self, units: u64, least: u64) -> Self {
        if units >= self.limit {
            return *self;
        }
        // Where a rate has no exact form, one with fewer digits has: a period is a round number of µs.
        let mut step = 1;
        while step <= units {
            if let Some(gcra) = self.at_rate(units - units % step, least) {
                return gcra;
            }
            step *= 10;
        }
        // One unit per period is as exact as the period is.
        self.at_rate(1, least).unwrap_or(*self)
    }

    /// At most `burst` at once; what is beyond stays a debt.
    pub(crate) fn with_burst(&self, burst: u64) -> Self {
        let burst = burst.clamp(1, self.burst);
        Self { burst, tolerance: burst * self.pace.interval, ..*self }
    }

    /// The same rate and burst, in a period so long that it has a hundred thousand units. Where that has no exact form, in
    /// the longest that has.
    pub(crate) fn finer(&self) -> Self {
        let longer = |factor: u32| {
            let limit = self.limit.checked_mul(factor.into())?;
            Self::new(limit, self.period().checked_mul(factor)?, self.burst).ok()
        };
        let is_needed = |factor: &u32| self.limit.saturating_mul((factor / 10).into()) < FINE_UNITS;
        let mut factors = [100_000, 10_000, 1_000, 100, 10].into_iter().filter(is_needed);
        factors.find_map(longer).unwrap_or(*self)
    }

    /// Whether no debt of another rate is beyond what this one repairs.
    pub(super) fn covers(&self, before: &Self) -> bool {
        let time = |units: u64, of: &Pace, other: &Pace| {
            u128::from(units) * u128::from(of.tick_us) * u128::from(other.scale)
        };
        time(before.tolerance, &before.pace, &self.pace)
            <= time(self.most, &self.pace, &before.pace)
    }

    fn at_rate(&self, limit: u64, least: u64) -> Option<Self> {
        let part = u128::from(self.burst) * u128::from(limit) / u128::from(self.limit);
        let burst = u64::try_from(part).ok()?.max(least.min(self.burst)).max(1);
        let fits = |pace: &Pace| product_fits(burst, pace.interval) && self.debt(pace).is_some();
        let pace = Pace::finest(limit, self.period_us, fits).ok()??;
        let tolerance = burst * pace.interval;
        let most = self.debt(&pace)?.max(tolerance);
        let units = Divisor::new(pace.interval);
        Some(Self { limit, period_us: self.period_us, burst, pace, tolerance, most, units })
    }

    /// How far ahead this rate lets a key get, in another's units, rounded up.
    fn debt(&self, other: &Pace) -> Option<u64> {
        // Below 2^117: neither factor but the tick passes 2^53.
        let time = u128::from(self.most) * u128::from(self.pace.tick_us) * u128::from(other.scale);
        let unit = u128::from(self.pace.scale) * u128::from(other.tick_us);
        u64::try_from(time.div_ceil(unit)).ok().filter(|units| *units <= EXACT_MAX)
    }
}
