//! Sliding log: exact, at the price of one instant per admission.

use std::time::Duration;

use super::pace::check_rate;
use super::{LimitAlgorithm, Return, Term, write_numbers};
use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{Amount, Description, Field, Grammar, LimitSpec, Period};
use crate::state::{Change, Log, LogChange, Run, State};
use crate::time::{EXACT_MAX, Timestamp, micros_up};

/// At most `limit` units in *any* period, exactly.
///
/// Every admitted unit is remembered until it expires, so memory grows with the limit: up to one entry
/// per admission and key. Made for small limits that matter, like five logins an hour.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, SlidingLog, State, Timestamp};
///
/// let hourly = SlidingLog::new(1, Duration::from_secs(3600))?;
/// assert_eq!((hourly.limit(), hourly.period()), (1, Duration::from_secs(3600)));
///
/// let limit: Limit = hourly.into();
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// assert!(limit.take(&mut state, now, 1).allowed());
/// let later = now + Duration::from_secs(3599);
/// assert_eq!(limit.take(&mut state, later, 1).retry_after(), Some(Duration::from_secs(1)));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlidingLog {
    limit: u64,
    period_us: u64,
}

/// The log as of one decision.
struct View<'a> {
    log: Option<&'a Log>,
    as_of_us: u64,
    /// Stamps later than this are pulled back to it.
    clamp_us: Option<u64>,
    /// How many of the oldest entries have expired, and how many units still count.
    expired_entries: usize,
    live: u64,
}

pub(crate) const GRAMMAR: Grammar<SlidingLog> = Grammar {
    description: Description {
        name: "sliding-log",
        summary: "Keeps every instant: never more than the limit in any period.",
        fields: &[Field::Limit],
    },
    build: |spec, _| {
        let (limit, period) = spec.rate(Field::Limit)?;
        SlidingLog::new(limit, period).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        limit: Some(Amount::Rate(limit.limit, Period::from_rate(limit.period()))),
        ..LimitSpec::default()
    },
};

impl SlidingLog {
    /// The largest limit that can be built.
    pub const MAX_LIMIT: u64 = 1_000_000;

    /// At most `limit` units in any `period`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LimitError, SlidingLog};
    /// let day = Duration::from_secs(86_400);
    /// assert!(SlidingLog::new(SlidingLog::MAX_LIMIT, day).is_ok());
    /// let too_long = SlidingLog::new(SlidingLog::MAX_LIMIT + 1, day);
    /// assert_eq!(too_long, Err(LimitError::LogTooLong(1_000_001)));
    /// ```
    pub fn new(limit: u64, period: Duration) -> Result<Self, LimitError> {
        let period_us = micros_up(period);
        check_rate(limit, period_us)?;
        if limit > Self::MAX_LIMIT {
            return Err(LimitError::LogTooLong(limit));
        }
        Ok(Self { limit, period_us })
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period that slides.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }

    fn change(&self, view: &View<'_>, add: u64) -> LogChange {
        LogChange {
            period_us: self.period_us,
            clamp_us: view.clamp_us,
            expired_entries: view.expired_entries,
            most: self.limit,
            stamp_us: view.as_of_us,
            add,
            take: 0,
            take_from: None,
        }
    }

    fn view<'a>(&self, state: &'a State, now: Timestamp) -> View<'a> {
        let now_us = now.as_micros();
        let mut view =
            View { log: None, as_of_us: now_us, clamp_us: None, expired_entries: 0, live: 0 };
        let State::Log(log) = state else { return view };
        let Some(newest_us) = log.newest() else { return view };
        if newest_us > now_us.saturating_add(self.period_us) {
            view.clamp_us = Some(now_us);
        } else {
            view.as_of_us = now_us.max(newest_us);
        }
        view.log = Some(log);
        view.live = log.total();
        // At the very instant stamp + period a unit no longer counts. The clamp moves no stamp into
        // the past, so what is expired is a prefix.
        let has_expired = |run: &Run| run.at_us + self.period_us <= view.as_of_us;
        while let Some(run) = log.entry(view.expired_entries).filter(has_expired) {
            view.expired_entries += 1;
            view.live -= run.count;
        }
        view
    }

    /// When the units that stand in the way have expired: the (live + cost − limit)-th oldest.
    fn retry(&self, view: &View<'_>, now: Timestamp, cost: u64) -> Option<u64> {
        if cost > self.limit {
            return None;
        }
        let mut in_the_way = view.live + cost - self.limit;
        for (at_us, count) in view.live_runs() {
            if count >= in_the_way {
                return Some(at_us + self.period_us - now.as_micros());
            }
            in_the_way -= count;
        }
        // Not reached: the live units are at least as many as those in the way.
        None
    }
}

impl LimitAlgorithm for SlidingLog {
    fn units(&self) -> u64 {
        self.limit
    }

    fn state_letter(&self) -> char {
        'l'
    }

    /// A search halves the log.
    fn script_work(&self) -> u64 {
        1 + u64::from(self.limit.ilog2())
    }

    fn write_script(&self, _: Timestamp, out: &mut String) {
        write_numbers(out, "log", &[self.limit, self.period_us]);
    }

    fn with_units(&self, units: u64) -> Self {
        Self { limit: units, ..*self }
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        let view = self.view(state, now);
        let left = self.limit.saturating_sub(view.live);
        let admits = cost == 0 || cost <= left;
        let added = if admits { cost } else { 0 };
        let newest = if added > 0 { Some(view.as_of_us) } else { view.newest() };
        let reset_after_us = newest.map_or(0, |at| at + self.period_us - now.as_micros());
        let decision = if admits {
            Decision::admitted(self.limit, left - added, reset_after_us)
        } else {
            Decision::refused(self.limit, left, self.retry(&view, now, cost), reset_after_us)
        };
        if added == 0 && view.clamp_us.is_none() {
            return (decision, Change::KEEP);
        }
        (decision, Change::log(self.change(&view, added)))
    }

    /// Gives back the newest units first.
    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change {
        let view = self.view(state, now);
        Change::log(LogChange { take: amount, ..self.change(&view, 0) })
    }

    /// A fiftieth, where other windows give a twentieth: the longer period costs this share of the limit for
    /// good, and a twentieth would leave 0.952 of it before anything else is lost.
    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        Ok(self.period_us / 50)
    }

    /// The period longer by `ttl`: what is admitted within one period was paid for within this one.
    fn leased(&self, ttl_us: u64) -> Result<Self, LeaseError> {
        let longer = self.period_us.checked_add(ttl_us).filter(|us| *us <= EXACT_MAX);
        Ok(Self { period_us: longer.ok_or(LeaseError::TooLong)?, ..*self })
    }

    /// After a step back a unit is stamped with the newest stamp, not with now, and cannot be told from
    /// those that were stamped so before: it is not given back.
    fn term(&self, state: &State, now: Timestamp) -> Term {
        let returnable = self.view(state, now).as_of_us == now.as_micros();
        Term { ends_after_us: u64::MAX, returnable }
    }

    /// Takes the units' own stamps away.
    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change {
        let view = self.view(state, now);
        if view.clamp_us.is_some() {
            return Change::KEEP;
        }
        let take_from = Some(back.granted_at.as_micros());
        Change::log(LogChange { take: back.units, take_from, ..self.change(&view, 0) })
    }
}

impl View<'_> {
    fn live_runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let clamp_us = self.clamp_us.unwrap_or(u64::MAX);
        let runs = self.log.into_iter().flat_map(Log::entries).skip(self.expired_entries);
        runs.map(move |run| (run.at_us.min(clamp_us), run.count))
    }

    fn newest(&self) -> Option<u64> {
        let newest_us = self.log?.newest()?;
        (self.live > 0).then(|| newest_us.min(self.clamp_us.unwrap_or(u64::MAX)))
    }
}
