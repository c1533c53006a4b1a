//! The leaky bucket: it queues instead of refusing.

use std::num::NonZeroU32;
use std::time::Duration;

use super::pace::{Pace, product_fits};
use super::write_numbers;
use crate::decision::Reservation;
use crate::error::LimitError;
use crate::spec::{Amount, Description, Field, FieldError, Grammar, LimitSpec, Period, Written};
use crate::state::{Arrival, Change, State};
use crate::time::{EXACT_MAX, Timestamp, micros_up};

/// A shaper: requests leave at `limit` per `period`, and each gets the delay until its turn.
/// One that would have to wait longer than `max_wait` is refused.
///
/// It delays where the other algorithms refuse, so it answers a [`Reservation`], and cannot stand in an
/// `all` or `any`.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{LeakyBucket, State, Timestamp};
///
/// let shaper = LeakyBucket::new(2, Duration::from_secs(1), Duration::from_secs(5))?;
/// assert_eq!((shaper.limit(), shaper.period()), (2, Duration::from_secs(1)));
/// assert_eq!(shaper.max_wait(), Duration::from_secs(5));
///
/// let mut state = State::Empty;
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// assert_eq!(shaper.reserve(&mut state, now, 1).delay(), Duration::ZERO);
/// assert_eq!(shaper.reserve(&mut state, now, 1).delay(), Duration::from_millis(500));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LeakyBucket {
    limit: u64,
    period_us: u64,
    pace: Pace,
    /// The longest wait and the furthest `next` that can be written, in units of 1/scale tick.
    max_wait: u64,
    furthest: u64,
}

pub(crate) const GRAMMAR: Grammar<LeakyBucket> = Grammar {
    description: Description {
        name: "leaky-bucket",
        summary: "Delays instead of refusing, up to a longest wait.",
        fields: &[Field::Limit, Field::MaxWait, Field::Capacity],
    },
    build: |spec, _| {
        let (limit, period) = spec.rate(Field::Limit)?;
        let max_wait = LimitSpec::duration(Field::MaxWait, spec.max_wait.as_ref())?;
        let built = match (max_wait, spec.capacity) {
            (Some(max_wait), None) => LeakyBucket::new(limit, period, max_wait),
            (None, Some(capacity)) => LeakyBucket::with_capacity(limit, period, capacity),
            (None, None) => {
                return Err(FieldError::missing(Field::MaxWait, "the longest delay, like 5s"));
            }
            (Some(_), Some(_)) => return Err(FieldError::both(Field::Capacity, Field::MaxWait)),
        };
        built.map_err(|error| spec.invalid(error))
    },
    spec: |shaper| LimitSpec {
        limit: Some(Amount::Rate(shaper.limit, Period::from_rate(shaper.period()))),
        max_wait: Some(Written::Value(shaper.max_wait())),
        ..LimitSpec::default()
    },
};

impl LeakyBucket {
    /// `limit` per `period`; no request waits longer than `max_wait`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LeakyBucket, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// // At once or not at all.
    /// let shaper = LeakyBucket::new(2, Duration::from_secs(1), Duration::ZERO)?;
    /// let mut state = State::Empty;
    /// assert!(shaper.reserve(&mut state, now, 1).accepted());
    /// assert!(!shaper.reserve(&mut state, now, 1).accepted());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn new(limit: u64, period: Duration, max_wait: Duration) -> Result<Self, LimitError> {
        let max_wait_us = micros_up(max_wait);
        Self::build(limit, micros_up(period), max_wait_us, |pace| {
            // In whole ticks, rounded up: the wait allowed is never shorter than the one asked for.
            let ticks = max_wait_us.div_ceil(pace.tick_us);
            product_fits(ticks, pace.scale).then(|| ticks * pace.scale)
        })
    }

    /// `limit` per `period`, at most `capacity` units waiting.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::LeakyBucket;
    /// let shaper = LeakyBucket::with_capacity(2, Duration::from_secs(1), 10)?;
    /// assert_eq!(shaper.max_wait(), Duration::from_secs(5));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn with_capacity(limit: u64, period: Duration, capacity: u64) -> Result<Self, LimitError> {
        let period_us = micros_up(period);
        let max_wait_us = u128::from(capacity) * u128::from(period_us) / u128::from(limit.max(1));
        let max_wait_us = u64::try_from(max_wait_us).unwrap_or(u64::MAX);
        Self::build(limit, period_us, max_wait_us, |pace| {
            product_fits(capacity, pace.interval).then(|| capacity * pace.interval)
        })
    }

    fn build(
        limit: u64,
        period_us: u64,
        max_wait_us: u64,
        units: impl Fn(&Pace) -> Option<u64>,
    ) -> Result<Self, LimitError> {
        // The period in units is limit × interval; `next` may lie a wait and a period ahead.
        let furthest = |pace: &Pace| {
            let period = product_fits(limit, pace.interval).then(|| limit * pace.interval)?;
            units(pace)?.checked_add(period).filter(|sum| *sum <= EXACT_MAX)
        };
        let too_long = LimitError::MaxWaitTooLong(max_wait_us);
        let pace = Pace::finest(limit, period_us, |pace| furthest(pace).is_some())?;
        let Some(pace) = pace else { return Err(too_long) };
        match (units(&pace), furthest(&pace)) {
            (Some(max_wait), Some(furthest)) => {
                Ok(Self { limit, period_us, pace, max_wait, furthest })
            }
            _ => Err(too_long),
        }
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period of the rate.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// The longest that an accepted request waits.
    pub fn max_wait(&self) -> Duration {
        Duration::from_micros(self.pace.micros(self.max_wait, Timestamp::EPOCH))
    }

    /// The longest that a state of this shaper can matter after it was written: the longest wait, and the time of the
    /// largest cost that may come after it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "2/s max-wait 5s".parse()?;
    /// assert!(shaper.state_life_max() >= Duration::from_secs(5));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn state_life_max(&self) -> Duration {
        self.max_wait().saturating_add(self.period())
    }

    /// Takes a place in the queue, if there is one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LeakyBucket, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let shaper = LeakyBucket::new(2, Duration::from_secs(1), Duration::from_secs(5))?;
    /// let mut state = State::Empty;
    /// assert_eq!(shaper.reserve(&mut state, now, 2).delay(), Duration::ZERO);
    /// assert_eq!(shaper.reserve(&mut state, now, 1).delay(), Duration::from_secs(1));
    /// // Never: no queue takes more at once than leaves in a period.
    /// assert_eq!(shaper.reserve(&mut state, now, 3).retry_after(), None);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn reserve(&self, state: &mut State, now: Timestamp, cost: u64) -> Reservation {
        let (reservation, next) = self.decide(state.arrival(), now, cost);
        state.apply(Change::arrival(next));
        reservation
    }

    /// The decision itself, on the instant a store holds for the key. `Some` is to be written.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LeakyBucket, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let shaper = LeakyBucket::new(2, Duration::from_secs(1), Duration::from_secs(5))?;
    /// let (_, next) = shaper.decide(None, now, 1);
    /// let (reservation, _) = shaper.decide(next, now, 1);
    /// assert_eq!(reservation.delay(), Duration::from_millis(500));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn decide(
        &self,
        next: Option<Arrival>,
        now: Timestamp,
        cost: u64,
    ) -> (Reservation, Option<Arrival>) {
        let ahead = self.pace.ahead(next, now, self.furthest);
        let repair = ahead.repaired.then(|| self.pace.arrival(now, ahead.units));
        if cost > self.limit {
            return (Reservation::refused(None), repair);
        }
        if cost > 0 && ahead.units > self.max_wait {
            let wait_us = self.pace.micros(ahead.units - self.max_wait, now);
            return (Reservation::refused(Some(wait_us)), repair);
        }
        let reservation = Reservation::at(self.pace.micros(ahead.units, now));
        if cost == 0 {
            return (reservation, repair);
        }
        let next = self.pace.arrival(now, ahead.units + cost * self.pace.interval);
        (reservation, Some(next))
    }

    /// Gives back the place of a request that will not come, when nobody has queued behind it: `after`
    /// must be the instant its own reservation wrote. Otherwise nothing changes, since those behind
    /// already know when their turn is.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LeakyBucket, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let shaper = LeakyBucket::new(2, Duration::from_secs(1), Duration::from_secs(5))?;
    /// let mut state = State::Empty;
    /// let _ = shaper.reserve(&mut state, now, 1);
    /// let place = state.arrival();
    /// assert!(place.is_some_and(|place| shaper.cancel(&mut state, place, now, 1)));
    /// assert_eq!(shaper.reserve(&mut state, now, 1).delay(), Duration::ZERO);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn cancel(&self, state: &mut State, after: Arrival, now: Timestamp, cost: u64) -> bool {
        if state.arrival() != Some(after) || cost > self.limit {
            return false;
        }
        let ahead = self.pace.ahead(Some(after), now, self.furthest).units;
        let before = ahead.saturating_sub(cost * self.pace.interval);
        state.apply(Change::arrival(Some(self.pace.arrival(now, before))));
        true
    }

    /// What each of `nodes` may let through.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "6/s max-wait 5s".parse()?;
    /// let share = shaper.share("3".parse()?);
    /// assert_eq!((share.limit(), share.period()), (6, Duration::from_secs(3)));
    /// assert_eq!(share.max_wait(), shaper.max_wait()); // nobody waits longer for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn share(&self, nodes: NonZeroU32) -> Self {
        let period = self.period().saturating_mul(nodes.get());
        Self::new(self.limit(), period, self.max_wait()).unwrap_or(*self)
    }

    /// Appends the shaper as a script reads it.
    ///
    /// ```
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "2/s max-wait 5s".parse()?;
    /// let mut text = String::new();
    /// shaper.write_script(&mut text);
    /// assert!(text.starts_with("leaky,500000,1,1,2,5000000,")); // every 500,000 µs, for 5 s at most
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn write_script(&self, out: &mut String) {
        let Pace { interval, scale, tick_us, .. } = self.pace;
        let numbers = [interval, scale, tick_us, self.limit, self.max_wait, self.furthest];
        write_numbers(out, "leaky", &numbers);
    }

    /// The arrival that a script wrote under this shaper.
    ///
    /// ```
    /// # use tidegate_core::{LeakyBucket, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let shaper: LeakyBucket = "3/s max-wait 5s".parse()?;
    /// let mut state = State::Empty;
    /// let _ = shaper.reserve(&mut state, now, 1);
    /// // A third of a second ahead: 333,333 µs and one third.
    /// assert_eq!(state.arrival(), Some(shaper.arrival(now.as_micros() + 333_333, 1)));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn arrival(&self, ticks: u64, frac: u64) -> Arrival {
        Arrival { ticks, frac, scale: self.pace.scale, tick_us: self.pace.tick_us }
    }
}
