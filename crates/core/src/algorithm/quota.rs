//! Quota: a budget with a civil edge.

use std::time::Duration;

use super::lease::window_ttl_us;
use super::window::{self, Edges};
use super::{FixedWindow, LimitAlgorithm, Return, SlidingWindow, Term, write_numbers};
use crate::calendar::{Every, Zone};
use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{
    Amount, Description, Field, FieldError, Grammar, LimitSpec, Period, Written, Zones,
};
use crate::state::{Change, State};
use crate::time::{EXACT_MAX, Timestamp};

/// `limit` units per day, week, month, fixed period or rolling period.
///
/// Days, weeks (ISO: from Monday) and months begin at midnight of the zone: a fixed UTC offset or the
/// rules of an IANA time zone, so that a day with a clock change has its 23 or 25 hours.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Every, Limit, Quota, State, Timestamp, Zone};
///
/// let daily = Quota::calendar(5, Every::Day, Zone::fixed(330)?)?;
/// assert_eq!((daily.limit(), daily.every()), (5, Some(Every::Day)));
/// assert_eq!(daily.period(), Duration::from_secs(86_400));
///
/// let limit: Limit = daily.into();
/// let now = Timestamp::from_micros(1_699_981_200_000_000); // 17:00 UTC
/// // Midnight in Kolkata is 18:30 UTC.
/// let decision = limit.take(&mut State::Empty, now, 1);
/// assert_eq!(decision.reset_after(), Duration::from_secs(90 * 60));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    cadence: Cadence,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Cadence {
    Calendar { limit: u64, every: Every, zone: Zone },
    Fixed(FixedWindow),
    Rolling(SlidingWindow),
}

pub(crate) const GRAMMAR: Grammar<Quota> = Grammar {
    description: Description {
        name: "quota",
        summary: "A budget for a day, a week, a month or any period.",
        fields: &[
            Field::Limit,
            Field::Every,
            Field::TimeZone,
            Field::UtcOffset,
            Field::Rolling,
            Field::Buckets,
        ],
    },
    build: Quota::from_spec,
    spec: Quota::spec,
};

impl Quota {
    /// `limit` per calendar day, week or month of `zone`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Every, Limit, Quota, State, Timestamp, Zone};
    /// let monthly: Limit = Quota::calendar(100_000, Every::Month, Zone::UTC)?.into();
    /// let now = Timestamp::from_micros(1_701_388_740_000_000); // 30 November 2023, 23:59
    /// let decision = monthly.take(&mut State::Empty, now, 100_000);
    /// assert_eq!(decision.reset_after(), Duration::from_secs(60));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn calendar(limit: u64, every: Every, zone: Zone) -> Result<Self, LimitError> {
        match limit {
            0 => Err(LimitError::ZeroLimit),
            n if n > EXACT_MAX => Err(LimitError::LimitTooLarge(n)),
            _ => Ok(Self { cadence: Cadence::Calendar { limit, every, zone } }),
        }
    }

    /// `limit` per epoch-aligned `period`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Quota;
    /// let shift = Quota::fixed(1000, Duration::from_secs(8 * 3600))?;
    /// assert_eq!(shift.every(), None); // not by the calendar
    /// assert_eq!(shift.period(), Duration::from_secs(8 * 3600));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn fixed(limit: u64, period: Duration) -> Result<Self, LimitError> {
        Ok(Self { cadence: Cadence::Fixed(FixedWindow::new(limit, period)?) })
    }

    /// `limit` per rolling `period`: a [`SlidingWindow`] of `buckets` slots.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Limit, Quota, State, Timestamp};
    /// let hour = Duration::from_secs(3600);
    /// let limit: Limit = Quota::rolling(5, 24 * hour, 24)?.into();
    /// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
    /// assert!(limit.take(&mut state, now, 5).allowed());
    /// assert!(!limit.peek(&state, now + 12 * hour, 1).allowed()); // midnight is no new beginning
    /// assert!(limit.peek(&state, now + 25 * hour, 5).allowed());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn rolling(limit: u64, period: Duration, buckets: u64) -> Result<Self, LimitError> {
        Ok(Self { cadence: Cadence::Rolling(SlidingWindow::new(limit, period, buckets)?) })
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        match &self.cadence {
            Cadence::Calendar { limit, .. } => *limit,
            Cadence::Fixed(window) => window.limit(),
            Cadence::Rolling(window) => window.limit(),
        }
    }

    /// How often it starts afresh, if that is by the calendar.
    pub const fn every(&self) -> Option<Every> {
        match &self.cadence {
            Cadence::Calendar { every, .. } => Some(*every),
            Cadence::Fixed(_) | Cadence::Rolling(_) => None,
        }
    }

    /// Whose midnight counts, if it starts afresh by the calendar.
    ///
    /// ```
    /// # use tidegate_core::{Every, Quota, Zone};
    /// let monthly = Quota::calendar(100_000, Every::Month, Zone::UTC)?;
    /// assert_eq!(monthly.zone(), Some(&Zone::UTC));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub const fn zone(&self) -> Option<&Zone> {
        match &self.cadence {
            Cadence::Calendar { zone, .. } => Some(zone),
            Cadence::Fixed(_) | Cadence::Rolling(_) => None,
        }
    }

    /// The nominal length of a period: a month counts as 30 days.
    pub const fn period(&self) -> Duration {
        match &self.cadence {
            Cadence::Calendar { every, .. } => every.nominal(),
            Cadence::Fixed(window) => window.period(),
            Cadence::Rolling(window) => window.period(),
        }
    }

    /// Until the end of the longest window that there can be.
    pub(crate) const fn state_life_max(&self) -> Duration {
        match &self.cadence {
            Cadence::Calendar { every, zone, .. } => every.longest(zone),
            Cadence::Fixed(window) => window.period(),
            Cadence::Rolling(window) => window.state_life_max(),
        }
    }

    /// Where its windows end around an instant; a rolling quota has slots that slide instead.
    fn edges(&self, now: Timestamp) -> Result<Edges, &SlidingWindow> {
        match &self.cadence {
            Cadence::Calendar { every, zone, .. } => Ok(calendar_edges(*every, zone, now)),
            Cadence::Fixed(window) => Ok(window.edges(now)),
            Cadence::Rolling(window) => Err(window),
        }
    }

    fn from_spec(spec: &LimitSpec, zones: Zones<'_>) -> Result<Self, FieldError> {
        let (limit, period) = spec.budget()?;
        let rolling = spec.rolling.unwrap_or(false);
        if spec.buckets.is_some() && !rolling {
            return Err(FieldError::goes_with(Field::Buckets, "`rolling` only"));
        }
        let built = match period {
            Period::Calendar(every) if !rolling => {
                Self::calendar(limit, every, spec.zone(zones)?.unwrap_or(Zone::UTC))
            }
            _ if spec.time_zone.is_some() || spec.utc_offset.is_some() => {
                let zone =
                    if spec.time_zone.is_some() { Field::TimeZone } else { Field::UtcOffset };
                let calendar = "a calendar day, week or month that is not rolling";
                return Err(FieldError::goes_with(zone, calendar));
            }
            Period::Calendar(every) => Self::rolling(limit, every.nominal(), buckets(spec)),
            Period::Length(length) if rolling => Self::rolling(limit, length, buckets(spec)),
            Period::Length(length) => Self::fixed(limit, length),
        };
        built.map_err(|error| spec.invalid(error))
    }

    fn spec(&self) -> LimitSpec {
        let limit = Some(Amount::Count(self.limit()));
        let every = self.every().map_or(Period::Length(self.period()), Period::Calendar);
        let spec = LimitSpec { limit, every: Some(Written::Value(every)), ..LimitSpec::default() };
        match &self.cadence {
            Cadence::Calendar { zone, .. } => match zone.offset_minutes() {
                Some(0) => spec,
                Some(minutes) => LimitSpec { utc_offset: Some(Written::Value(minutes)), ..spec },
                None => LimitSpec { time_zone: Some(Written::Value(zone.clone())), ..spec },
            },
            Cadence::Fixed(_) => spec,
            Cadence::Rolling(window) => {
                LimitSpec { rolling: Some(true), buckets: Some(window.buckets()), ..spec }
            }
        }
    }
}

impl LimitAlgorithm for Quota {
    const FOLLOWS_LOAD: bool = false;

    fn units(&self) -> u64 {
        self.limit()
    }

    fn state_letter(&self) -> char {
        match &self.cadence {
            Cadence::Calendar { .. } | Cadence::Fixed(_) => 'w',
            Cadence::Rolling(window) => window.state_letter(),
        }
    }

    fn script_work(&self) -> u64 {
        match &self.cadence {
            Cadence::Rolling(window) => window.script_work(),
            _ => 1,
        }
    }

    fn write_script(&self, around: Timestamp, out: &mut String) {
        match &self.cadence {
            Cadence::Fixed(window) => window.write_script(around, out),
            Cadence::Rolling(window) => window.write_script(around, out),
            Cadence::Calendar { limit, every, zone } => {
                // Past the end of time all edges are one, and a script asks for those around its own now.
                let exact = |edge: i64| edge.max(0).cast_unsigned().min(EXACT_MAX);
                let mut edge = around.as_micros().cast_signed();
                let mut numbers = vec![*limit, exact(every.edge_before(zone, edge))];
                for _ in 0..3 {
                    edge = every.edge_after(zone, edge);
                    numbers.push(exact(edge));
                }
                write_numbers(out, "edges", &numbers);
            }
        }
    }

    fn has_edges(&self) -> bool {
        self.every().is_some()
    }

    fn with_units(&self, units: u64) -> Self {
        let cadence = match &self.cadence {
            Cadence::Calendar { every, zone, .. } => {
                Cadence::Calendar { limit: units, every: *every, zone: zone.clone() }
            }
            Cadence::Fixed(window) => Cadence::Fixed(window.with_units(units)),
            Cadence::Rolling(window) => Cadence::Rolling(window.with_units(units)),
        };
        Self { cadence }
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        match self.edges(now) {
            Ok(edges) => {
                let window = state.window();
                let (decision, next) = window::decide(self.limit(), edges, window, now, cost);
                (decision, Change::window(next))
            }
            Err(window) => window.plan(state, now, cost),
        }
    }

    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change {
        match self.edges(now) {
            Ok(edges) => window::refund(edges, state, now, amount),
            Err(window) => window.refund(state, now, amount),
        }
    }

    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        match &self.cadence {
            Cadence::Rolling(window) => window.lease_ttl_us(),
            _ => Ok(window_ttl_us(self.period())),
        }
    }

    fn term(&self, state: &State, now: Timestamp) -> Term {
        match self.edges(now) {
            Ok(edges) => window::term(edges, state, now),
            Err(window) => window.term(state, now),
        }
    }

    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change {
        match (self.edges(now), self.edges(back.granted_at)) {
            (Ok(edges), Ok(granted)) => window::give_back(edges, granted, state, back.units),
            (Err(window), _) | (_, Err(window)) => window.give_back(state, now, back),
        }
    }
}

fn buckets(spec: &LimitSpec) -> u64 {
    spec.buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS)
}

fn calendar_edges(every: Every, zone: &Zone, now: Timestamp) -> Edges {
    // Instants lie between 1970 and 2255, so that i64 holds them and their edges.
    let end = every.edge_after(zone, now.as_micros().cast_signed());
    let next_end = every.edge_after(zone, end);
    Edges { end: end.max(0).cast_unsigned(), next_end: next_end.max(0).cast_unsigned() }
}
