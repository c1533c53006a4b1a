//! GCRA, the default, and the token bucket: one kernel under two names.

mod effective;

use std::num::NonZeroU32;
use std::time::Duration;

use super::divisor::Divisor;
use super::pace::{Pace, check_rate, product_fits};
use super::{LimitAlgorithm, Return, share_of, write_numbers};
use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{Amount, Description, Field, Grammar, LimitSpec, Period};
use crate::state::{Arrival, Change, State};
use crate::time::{Timestamp, micros_up};

/// `limit` per `period`, spread evenly, with up to `burst` at once.
///
/// State is one instant: the *theoretical arrival time* up to which the key has spent ahead. In any
/// interval Δ at most `burst + limit/period × Δ` units are admitted, exactly, at any rate.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Gcra, Limit, State, Timestamp};
///
/// let gcra = Gcra::new(3, Duration::from_secs(1), 2)?;
/// assert_eq!((gcra.limit(), gcra.period(), gcra.burst()), (3, Duration::from_secs(1), 2));
///
/// let limit: Limit = gcra.into();
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// assert!(limit.take(&mut state, now, 2).allowed());
/// // A third of a second per unit, rounded up to a whole microsecond.
/// assert_eq!(limit.take(&mut state, now, 1).retry_after_us(), Some(333_334));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gcra {
    limit: u64,
    period_us: u64,
    burst: u64,
    pace: Pace,
    /// `burst × interval`, less the life of a lease where there are leases: how far ahead a key may get, in
    /// units of 1/scale tick.
    tolerance: u64,
    /// What is repaired to this lay further ahead than it could have been written: the tolerance, or under a reduced
    /// rate that of the whole one, whose debt must not be forgotten.
    most: u64,
    /// Turns room into whole units.
    units: Divisor,
}

/// What [`Gcra::decide_scaled`] leaves behind.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Gcra, ScaledArrival};
///
/// let limit = Gcra::new(3, Duration::from_secs(1), 2)?; // in thirds of a microsecond
/// let (_, next) = limit.decide_scaled(0, 30, 2);
/// assert_eq!(next, ScaledArrival { units: 2_000_030, spent: true });
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ScaledArrival {
    /// The arrival; the one there was if there is nothing to write.
    pub units: u64,
    /// Whether nothing is left.
    pub spent: bool,
}

pub(crate) const GCRA: Grammar<Gcra> = Grammar {
    description: Description {
        name: "gcra",
        summary: "An even pace with a burst; the default.",
        fields: &[Field::Limit, Field::Burst],
    },
    build: |spec, _| {
        let (limit, period) = spec.rate(Field::Limit)?;
        let burst = spec.burst.unwrap_or(limit);
        Gcra::new(limit, period, burst).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        limit: Some(limit.rate()),
        burst: Some(limit.burst),
        ..LimitSpec::default()
    },
};

pub(crate) const TOKEN_BUCKET: Grammar<Gcra> = Grammar {
    description: Description {
        name: "token-bucket",
        summary: "The same, written as a bucket with a capacity and a refill.",
        fields: &[Field::Capacity, Field::Refill],
    },
    build: |spec, _| {
        let (refill, period) = spec.rate(Field::Refill)?;
        let capacity = spec.capacity.unwrap_or(refill);
        Gcra::token_bucket(capacity, refill, period).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        refill: Some(limit.rate()),
        capacity: Some(limit.burst),
        ..LimitSpec::default()
    },
};

impl Gcra {
    /// `limit` units per `period`, at most `burst` at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Gcra, LimitError};
    /// let day = Duration::from_secs(86_400);
    /// assert!(Gcra::new(1, day, 1000).is_ok()); // saved up over almost three years
    /// let too_far = Gcra::new(1, day, 1_000_000_000);
    /// assert!(matches!(too_far, Err(LimitError::BurstInexact { .. })));
    /// assert_eq!(Gcra::new(1, day, 0), Err(LimitError::ZeroBurst));
    /// ```
    pub fn new(limit: u64, period: Duration, burst: u64) -> Result<Self, LimitError> {
        let period_us = micros_up(period);
        // First, because the burst defaults to the limit: a limit of 0 is to be named as such.
        check_rate(limit, period_us)?;
        if burst == 0 {
            return Err(LimitError::ZeroBurst);
        }
        let fits = |pace: &Pace| product_fits(burst, pace.interval);
        let pace = Pace::finest(limit, period_us, fits)?.ok_or(LimitError::BurstInexact {
            burst,
            limit,
            period_us,
        })?;
        let (tolerance, units) = (burst * pace.interval, Divisor::new(pace.interval));
        Ok(Self { limit, period_us, burst, pace, tolerance, most: tolerance, units })
    }

    /// A token bucket of `capacity` tokens that gains `refill` tokens per `period`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Gcra;
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(Gcra::token_bucket(20, 100, minute)?, Gcra::new(100, minute, 20)?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn token_bucket(capacity: u64, refill: u64, period: Duration) -> Result<Self, LimitError> {
        Self::new(refill, period, capacity)
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period of the rate.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// The most that is admitted at once.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// The time in which a whole burst is refilled, rounded up.
    pub(crate) fn burst_time(&self) -> Duration {
        let micros = u128::from(self.burst) * u128::from(self.period_us);
        let micros = micros.div_ceil(u128::from(self.limit.max(1)));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// The decision itself, on the arrival a store holds for the key. `Some` is to be written.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Gcra, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit = Gcra::new(2, Duration::from_secs(1), 2)?;
    /// let (_, arrival) = limit.decide(None, now, 1);
    /// assert_eq!(arrival.map(|arrival| arrival.end_us()), Some(now.as_micros() + 500_000));
    /// let (decision, change) = limit.decide(arrival, now, 2);
    /// assert!(!decision.allowed() && change.is_none()); // a refusal writes nothing
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn decide(
        &self,
        arrival: Option<Arrival>,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, Option<Arrival>) {
        let pace = &self.pace;
        let ahead = pace.ahead(arrival, now, self.most);
        let (decision, units) = self.spend(ahead.units, cost, |units| pace.micros(units, now));
        let writes = units != ahead.units || ahead.repaired;
        (decision, writes.then(|| pace.arrival(now, units)))
    }

    /// Into how many parts a microsecond is divided, so that the interval between two units is a whole number of them.
    /// `None` for the few limits that count in milliseconds.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Gcra;
    /// let scale = |limit| Gcra::new(limit, Duration::from_secs(1), 1).map(|gcra| gcra.scale());
    /// assert_eq!(scale(1000)?, Some(1)); // an interval of 1000 µs
    /// assert_eq!(scale(60)?, Some(3)); // of 50,000/3 µs
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub const fn scale(&self) -> Option<u64> {
        if self.pace.tick_us == 1 { Some(self.pace.scale) } else { None }
    }

    /// [`Gcra::decide`] with both times as one number: in parts of a microsecond, as [`Gcra::scale`] divides it, since any
    /// instant, below 2^63. No number is divided, so that all rates take the same time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Gcra;
    /// let limit = Gcra::new(3, Duration::from_secs(1), 2)?;
    /// let (decision, next) = limit.decide_scaled(0, 3_000_000, 1);
    /// assert!(decision.allowed() && !next.spent);
    /// assert_eq!(decision.reset_after_us(), 333_334);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn decide_scaled(&self, arrival: u64, now: u64, cost: u64) -> (Decision, ScaledArrival) {
        let ahead = arrival.saturating_sub(now).min(self.most);
        let (decision, ahead) = self.spend(ahead, cost, |units| self.pace.ticks_up(units));
        // What lies in the past and is not spent from stays where it is.
        let units = if ahead == 0 { arrival } else { now + ahead };
        let spent = self.tolerance.saturating_sub(ahead) < self.pace.interval;
        (decision, ScaledArrival { units, spent })
    }

    /// The kernel: how far ahead the key is afterwards, in units of 1/scale tick.
    #[inline]
    fn spend(&self, ahead: u64, cost: u64, micros: impl Fn(u64) -> u64) -> (Decision, u64) {
        let room = self.tolerance.saturating_sub(ahead);
        let interval = self.pace.interval;
        // A cost above the burst is refused before any product is formed, so none can overflow.
        if cost <= self.burst && cost * interval <= room {
            let (units, left) = (ahead + cost * interval, room - cost * interval);
            return (Decision::admitted(self.burst, self.units.divide(left), micros(units)), units);
        }
        let retry = if cost > self.burst {
            None
        } else {
            // What lies ahead may pass the tolerance, where the rate was higher before.
            Some(micros(cost * interval + ahead - self.tolerance))
        };
        (Decision::refused(self.burst, self.units.divide(room), retry, micros(ahead)), ahead)
    }

    fn rate(&self) -> Amount {
        Amount::Rate(self.limit, Period::from_rate(self.period()))
    }
}

impl LimitAlgorithm for Gcra {
    fn units(&self) -> u64 {
        self.limit
    }

    fn ceiling(&self) -> u64 {
        self.burst
    }

    fn state_letter(&self) -> char {
        'a'
    }

    /// The last number only where it is not the one before.
    fn write_script(&self, _: Timestamp, out: &mut String) {
        let Pace { interval, scale, tick_us, .. } = self.pace;
        let numbers = [interval, scale, tick_us, self.burst, self.tolerance, self.most];
        let count = if self.most == self.tolerance { 5 } else { 6 };
        write_numbers(out, "gcra", &numbers[..count]);
    }

    fn with_units(&self, units: u64) -> Self {
        self.at_most(units, 1)
    }

    fn effective(&self, units: u64, least: u64) -> Self {
        self.at_most(units, least)
    }

    fn remembers(&self, before: &Self) -> bool {
        self.covers(before)
    }

    /// As many units over a longer time: a share keeps its fraction.
    fn share(&self, nodes: NonZeroU32, least: u64) -> Self {
        let burst = share_of(self.burst, nodes, least);
        let longer = Self::new(self.limit, self.period().saturating_mul(nodes.get()), burst);
        // Where so long a period has no exact form, fewer units in the same time have one.
        let fewer = || Self::new(share_of(self.limit, nodes, 1), self.period(), burst);
        longer.or_else(|_| fewer()).unwrap_or(*self)
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        let (decision, next) = self.decide(state.arrival(), now, cost);
        (decision, Change::arrival(next))
    }

    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change {
        let ahead = self.pace.ahead(state.arrival(), now, self.most).units;
        let credit = amount.min(self.burst) * self.pace.interval;
        Change::arrival(Some(self.pace.arrival(now, ahead.saturating_sub(credit))))
    }

    /// A quarter of the time of a burst, so that three quarters of it are left.
    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        Ok(self.tolerance / 4 / self.pace.scale * self.pace.tick_us)
    }

    /// The whole µs in the time of one unit.
    fn unit_us(&self) -> u64 {
        self.pace.interval / self.pace.scale * self.pace.tick_us
    }

    /// The tolerance less `ttl`, which need not leave a multiple of the interval.
    fn leased(&self, ttl_us: u64) -> Result<Self, LeaseError> {
        let too_small = LeaseError::BurstTooSmall { burst: self.burst };
        let less = self.pace.units_up(ttl_us, self.tolerance).ok_or(too_small)?;
        let tolerance = self.tolerance - less;
        let burst = self.units.divide(tolerance);
        // Debt of a higher rate stays debt; without any, nothing gets further ahead than the tolerance.
        let most = if self.most == self.tolerance { tolerance } else { self.most };
        if burst == 0 {
            return Err(too_small);
        }
        Ok(Self { burst, tolerance, most, ..*self })
    }

    /// Credits what the units would still weigh had nobody else come: their time less their age. Time passes
    /// for all that is ahead at once, so a charge of long ago may have run off already; to credit it in full
    /// would let the same units be spent twice.
    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change {
        let Some(aged) = self.pace.units_up(back.aged_us(now), self.tolerance) else {
            return Change::KEEP;
        };
        let credit = (back.units.min(self.burst) * self.pace.interval).saturating_sub(aged);
        if credit == 0 {
            return Change::KEEP;
        }
        let ahead = self.pace.ahead(state.arrival(), now, self.most).units;
        Change::arrival(Some(self.pace.arrival(now, ahead.saturating_sub(credit))))
    }
}
