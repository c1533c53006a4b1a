//! Fixed window: a counter per epoch-aligned window.

use std::time::Duration;

use super::lease::window_ttl_us;
use super::pace::check_rate;
use super::window::{self, Edges};
use super::{LimitAlgorithm, Return, Term, write_numbers};
use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{Amount, Description, Field, Grammar, LimitSpec, Period};
use crate::state::{Change, State, Window};
use crate::time::{Timestamp, micros_up};

/// `limit` units in each window of `period`, windows aligned to the Unix epoch.
///
/// Cheapest and easiest to explain. Known: up to 2 × `limit` can pass across one boundary, the last of
/// one window and the first of the next.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{FixedWindow, Limit, State, Timestamp};
///
/// let two = FixedWindow::new(2, Duration::from_secs(60))?;
/// assert_eq!((two.limit(), two.period()), (2, Duration::from_secs(60)));
///
/// let limit: Limit = two.into();
/// let mut state = State::Empty;
/// let last = Timestamp::from_micros(1_700_000_039_999_999); // the last µs of a minute
/// assert!(limit.take(&mut state, last, 2).allowed());
/// assert!(!limit.take(&mut state, last, 1).allowed());
/// let next = last + Duration::from_micros(1);
/// assert!(limit.take(&mut state, next, 2).allowed());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FixedWindow {
    limit: u64,
    period_us: u64,
}

pub(crate) const GRAMMAR: Grammar<FixedWindow> = Grammar {
    description: Description {
        name: "fixed-window",
        summary: "A counter for each period of the clock.",
        fields: &[Field::Limit],
    },
    build: |spec, _| {
        let (limit, period) = spec.rate(Field::Limit)?;
        FixedWindow::new(limit, period).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        limit: Some(Amount::Rate(limit.limit, Period::from_rate(limit.period()))),
        ..LimitSpec::default()
    },
};

impl FixedWindow {
    /// `limit` units in each window of `period`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{FixedWindow, LimitError};
    /// // A period is counted in whole microseconds, rounded up.
    /// let shortest = FixedWindow::new(1, Duration::from_nanos(1))?;
    /// assert_eq!(shortest.period(), Duration::from_micros(1));
    /// assert_eq!(FixedWindow::new(1, Duration::ZERO), Err(LimitError::ZeroPeriod));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn new(limit: u64, period: Duration) -> Result<Self, LimitError> {
        let period_us = micros_up(period);
        check_rate(limit, period_us)?;
        Ok(Self { limit, period_us })
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of a window.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    /// The decision itself, on the window a store holds for the key. `Some` is to be written.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{FixedWindow, Timestamp, Window};
    /// let limit = FixedWindow::new(5, Duration::from_secs(60))?;
    /// let now = Timestamp::from_micros(1_700_000_000_000_000); // 20 s into its minute
    /// let (_, window) = limit.decide(None, now, 2);
    /// assert_eq!(window, Some(Window { end: now.as_micros() + 40_000_000, count: 2 }));
    /// let (decision, change) = limit.decide(window, now, 4);
    /// assert!(!decision.allowed() && change.is_none()); // a refusal writes nothing
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[inline]
    pub fn decide(
        &self,
        stored: Option<Window>,
        now: Timestamp,
        cost: u64,
    ) -> (Decision, Option<Window>) {
        window::decide(self.limit, self.edges(now), stored, now, cost)
    }

    #[inline]
    pub(super) fn edges(&self, now: Timestamp) -> Edges {
        let now_us = now.as_micros();
        let end = now_us - now_us % self.period_us + self.period_us;
        Edges { end, next_end: end + self.period_us }
    }
}

impl LimitAlgorithm for FixedWindow {
    fn units(&self) -> u64 {
        self.limit
    }

    fn state_letter(&self) -> char {
        'w'
    }

    fn write_script(&self, _: Timestamp, out: &mut String) {
        write_numbers(out, "window", &[self.limit, self.period_us]);
    }

    fn with_units(&self, units: u64) -> Self {
        Self { limit: units, ..*self }
    }

    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        Ok(window_ttl_us(self.period()))
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        let (decision, next) = self.decide(state.window(), now, cost);
        (decision, Change::window(next))
    }

    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change {
        window::refund(self.edges(now), state, now, amount)
    }

    fn term(&self, state: &State, now: Timestamp) -> Term {
        window::term(self.edges(now), state, now)
    }

    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change {
        window::give_back(self.edges(now), self.edges(back.granted_at), state, back.units)
    }
}
