//! Civil edges: where days, weeks and months begin, at a fixed offset or by a zone's rules.
//!
//! Plain integer arithmetic on the proleptic Gregorian calendar; instants here are signed microseconds
//! since the Unix epoch, so that the years before 1970 work too.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LimitError;

const SECOND_US: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;
const DAY_US: i64 = DAY_SECONDS * SECOND_US;

/// How often a calendar quota starts afresh.
///
/// ```
/// use tidegate_core::{Every, Zone};
///
/// let day_us = 86_400_000_000;
/// let leap_day = 19_782 * day_us; // 29 February 2024
/// assert_eq!(Every::Month.edge_after(&Zone::UTC, leap_day), leap_day + day_us);
/// assert_eq!(Every::Month.edge_before(&Zone::UTC, leap_day), leap_day - 28 * day_us);
/// assert_eq!(Every::Day.nominal() * 7, Every::Week.nominal());
/// assert_eq!(Every::Week.as_str(), "week");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Every {
    /// At midnight.
    Day,
    /// At midnight before Monday (ISO 8601).
    Week,
    /// At midnight before the first of the month.
    Month,
}

/// Where midnight is.
///
/// ```
/// use tidegate_core::{Transition, Zone};
///
/// let east = Zone::fixed(120)?; // +02:00
/// let with_summer_time = Zone::changing(
///     3600,
///     &[Transition { at_us: 1_774_746_000_000_000, offset_seconds: 7200 }],
/// )?;
/// assert_ne!(east, with_summer_time);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zone {
    rules: Rules,
    name: Option<Arc<str>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Rules {
    Fixed { seconds: i64 },
    Changing { first: i64, transitions: Arc<[Transition]> },
}

/// From `at_us` on, local time is UTC plus `offset_seconds`.
///
/// ```
/// use tidegate_core::{Every, Transition, Zone};
///
/// // Summer time in Berlin began on 29 March 2026, at one o'clock UTC.
/// let change = Transition { at_us: 1_774_746_000_000_000, offset_seconds: 7200 };
/// let berlin = Zone::changing(3600, &[change])?;
/// let start = Every::Day.edge_before(&berlin, change.at_us);
/// let end = Every::Day.edge_after(&berlin, change.at_us);
/// assert_eq!(end - start, 23 * 3_600_000_000); // the day has 23 hours
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transition {
    /// The instant of the change, in µs since the Unix epoch.
    pub at_us: i64,
    /// The offset that holds from then on.
    pub offset_seconds: i32,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self { rules: Rules::Fixed { seconds: 0 }, name: None };

    /// A fixed offset from UTC, −840 to 840 minutes.
    ///
    /// ```
    /// # use tidegate_core::{LimitError, Zone};
    /// assert_eq!(Zone::fixed(0)?, Zone::UTC);
    /// assert_eq!(Zone::fixed(841), Err(LimitError::OffsetOutOfRange(841)));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn fixed(offset_minutes: i64) -> Result<Self, LimitError> {
        if !(-840..=840).contains(&offset_minutes) {
            return Err(LimitError::OffsetOutOfRange(offset_minutes));
        }
        Ok(Self { rules: Rules::Fixed { seconds: offset_minutes * 60 }, name: None })
    }

    /// A zone whose offset changes: `first_seconds` until the first transition. The core carries no time
    /// zone data: callers that have it pass it as this plain table.
    ///
    /// ```
    /// # use tidegate_core::{LimitError, Transition, Zone};
    /// let summer = Transition { at_us: 1_774_746_000_000_000, offset_seconds: 7200 };
    /// let winter = Transition { at_us: 1_792_890_000_000_000, offset_seconds: 3600 };
    /// assert!(Zone::changing(3600, &[summer, winter]).is_ok());
    /// assert_eq!(Zone::changing(3600, &[winter, summer]), Err(LimitError::ZoneInvalid));
    /// ```
    pub fn changing(first_seconds: i32, transitions: &[Transition]) -> Result<Self, LimitError> {
        let within_a_day = |seconds: i32| i64::from(seconds).abs() < DAY_SECONDS;
        let ascending = transitions.is_sorted_by(|a, b| a.at_us < b.at_us);
        let sane = transitions.iter().all(|change| within_a_day(change.offset_seconds));
        if !ascending || !sane || !within_a_day(first_seconds) {
            return Err(LimitError::ZoneInvalid);
        }
        let first = i64::from(first_seconds);
        let rules = Rules::Changing { first, transitions: transitions.into() };
        Ok(Self { rules, name: None })
    }

    /// The same zone with the name that people know it by.
    ///
    /// ```
    /// # use tidegate_core::Zone;
    /// assert_eq!(Zone::fixed(330)?.named("Asia/Kolkata").name(), "Asia/Kolkata");
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Its name, `UTC`, or its offset; empty where the offset changes and nobody named it.
    ///
    /// ```
    /// # use tidegate_core::Zone;
    /// assert_eq!(Zone::UTC.name(), "UTC");
    /// assert_eq!(Zone::fixed(-210)?.name(), "-03:30");
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn name(&self) -> String {
        match (&self.name, self.offset_minutes()) {
            (Some(name), _) => name.to_string(),
            (None, Some(0)) => "UTC".to_owned(),
            (None, Some(minutes)) => {
                let (sign, size) = (if minutes < 0 { '-' } else { '+' }, minutes.abs());
                format!("{sign}{:02}:{:02}", size / 60, size % 60)
            }
            (None, None) => String::new(),
        }
    }

    /// The fixed offset in minutes; `None` where the offset changes.
    pub(crate) fn offset_minutes(&self) -> Option<i64> {
        match &self.rules {
            Rules::Fixed { seconds } => Some(seconds / 60),
            Rules::Changing { .. } => None,
        }
    }

    /// The offset in force at an instant, in seconds.
    fn offset_seconds(&self, at_us: i64) -> i64 {
        match &self.rules {
            Rules::Fixed { seconds } => *seconds,
            Rules::Changing { first, transitions } => {
                let past = transitions.partition_point(|change| change.at_us <= at_us);
                past.checked_sub(1)
                    .map_or(*first, |last| i64::from(transitions[last].offset_seconds))
            }
        }
    }

    /// The civil day that holds an instant, counted from 1970-01-01.
    fn day_of(&self, at_us: i64) -> i64 {
        (at_us + self.offset_seconds(at_us) * SECOND_US).div_euclid(DAY_US)
    }

    /// The first instant of a civil day. Where clocks go forward over midnight, the day starts at the
    /// change; where they go back over it, at the first of the two midnights.
    fn start_of(&self, day: i64) -> i64 {
        let local_us = day * DAY_US;
        let Rules::Changing { first, transitions } = &self.rules else {
            return local_us - self.offset_seconds(0) * SECOND_US;
        };
        // Offsets stay within a day, so only transitions within two days of local midnight matter.
        let near = transitions.partition_point(|change| change.at_us < local_us - 2 * DAY_US);
        let mut offset =
            near.checked_sub(1).map_or(*first, |last| i64::from(transitions[last].offset_seconds));
        for change in &transitions[near..] {
            let start_us = local_us - offset * SECOND_US;
            if start_us < change.at_us {
                return start_us;
            }
            offset = i64::from(change.offset_seconds);
            // Local time jumped from before midnight to midnight or past it.
            if change.at_us + offset * SECOND_US >= local_us {
                return change.at_us;
            }
        }
        local_us - offset * SECOND_US
    }
}

impl Every {
    /// The first instant of the period that holds `at_us`.
    ///
    /// ```
    /// # use tidegate_core::{Every, Zone};
    /// // 1970 began on a Thursday, three days into its week.
    /// let monday = -3 * 86_400_000_000;
    /// assert_eq!(Every::Week.edge_before(&Zone::UTC, 0), monday);
    /// assert_eq!(Every::Week.edge_before(&Zone::UTC, monday), monday);
    /// ```
    pub fn edge_before(self, zone: &Zone, at_us: i64) -> i64 {
        let mut day = self.first_day(zone.day_of(at_us));
        let mut edge = zone.start_of(day);
        loop {
            // Where clocks go back over midnight, the hour that comes again belongs to the period
            // begun: once for an hour, twice for a change of almost two days.
            day = self.next_first_day(day);
            let next = zone.start_of(day);
            if next > at_us {
                return edge;
            }
            edge = next;
        }
    }

    /// The first instant of the period after the one that holds `at_us`.
    ///
    /// ```
    /// # use tidegate_core::{Every, Zone};
    /// let east = Zone::fixed(120)?; // +02:00
    /// let midnight = Every::Day.edge_after(&east, 0);
    /// assert_eq!(midnight, 22 * 3_600_000_000); // 22:00 UTC
    /// assert_eq!(Every::Day.edge_after(&east, midnight), midnight + 86_400_000_000);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn edge_after(self, zone: &Zone, at_us: i64) -> i64 {
        let mut day = self.next_first_day(self.first_day(zone.day_of(at_us)));
        loop {
            let edge = zone.start_of(day);
            if edge > at_us {
                return edge;
            }
            day = self.next_first_day(day); // at most twice: see edge_before
        }
    }

    /// The period's name: `day`, `week` or `month`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The nominal length of the period: a month counts as 30 days.
    pub const fn nominal(self) -> Duration {
        let days = match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 30,
        };
        Duration::from_secs(days * 86_400)
    }

    /// The longest that the period can be. Where clocks are changed, a zone may have repeated a whole day.
    pub(crate) const fn longest(self, zone: &Zone) -> Duration {
        let days = match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
        };
        let repeated = match zone.rules {
            Rules::Fixed { .. } => 0,
            Rules::Changing { .. } => 1,
        };
        Duration::from_secs((days + repeated) * 86_400)
    }

    fn first_day(self, day: i64) -> i64 {
        match self {
            Self::Day => day,
            // 1970-01-01 was a Thursday, three days after a Monday.
            Self::Week => day - (day + 3).rem_euclid(7),
            Self::Month => {
                let (year, month, _) = civil_from_days(day);
                days_from_civil(year, month, 1)
            }
        }
    }

    fn next_first_day(self, first_day: i64) -> i64 {
        match self {
            Self::Day => first_day + 1,
            Self::Week => first_day + 7,
            Self::Month => {
                let (year, month, _) = civil_from_days(first_day);
                if month == 12 {
                    days_from_civil(year + 1, 1, 1)
                } else {
                    days_from_civil(year, month + 1, 1)
                }
            }
        }
    }
}

/// Days before each month in a year that starts in March, so that the leap day comes last.
const DAYS_BEFORE_MONTH: [i64; 12] = [0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337];
const DAYS_IN_400_YEARS: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// The day number of a civil date, counted from 1970-01-01.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let march_year = if month >= 3 { year } else { year - 1 };
    let march_month = (month + 9) % 12;
    let leap_days =
        march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    let before_month = DAYS_BEFORE_MONTH[usize::try_from(march_month).unwrap_or(0)];
    march_year * 365 + leap_days + before_month + day - 1 - DAYS_TO_1970
}

/// The civil date of a day number counted from 1970-01-01: year, month, day.
pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let since = days + DAYS_TO_1970;
    let cycle = since.div_euclid(DAYS_IN_400_YEARS);
    let in_cycle = since.rem_euclid(DAYS_IN_400_YEARS);
    // Guess the year from its mean length and step back where a leap day made the guess early.
    let mut year = in_cycle * 400 / DAYS_IN_400_YEARS;
    while year * 365 + year / 4 - year / 100 + year / 400 > in_cycle {
        year -= 1;
    }
    while (year + 1) * 365 + (year + 1) / 4 - (year + 1) / 100 + (year + 1) / 400 <= in_cycle {
        year += 1;
    }
    let in_year = in_cycle - (year * 365 + year / 4 - year / 100 + year / 400);
    let march_month = DAYS_BEFORE_MONTH.iter().rposition(|before| *before <= in_year).unwrap_or(0);
    let month = (march_month + 2) % 12 + 1;
    let civil_year = cycle * 400 + year + i64::from(month <= 2);
    let day = in_year - DAYS_BEFORE_MONTH[march_month] + 1;
    (civil_year, i64::try_from(month).unwrap_or(1), day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_six_centuries_round_trips() {
        let (mut year, mut month, mut day) = (1700, 1, 1);
        for number in days_from_civil(1700, 1, 1)..=days_from_civil(2300, 12, 31) {
            assert_eq!(civil_from_days(number), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), number);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = [31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
                [usize::try_from(month - 1).unwrap()];
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
