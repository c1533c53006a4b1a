//! Instants as logs write them, in microseconds.

use super::LineError;

/// The instant of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::replay) struct LogTime {
    pub(in crate::replay) us: u64,
    /// Whether it has more than whole seconds.
    pub(in crate::replay) has_fraction: bool,
}

const DAY_S: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `10/Oct/2026:13:55:36 -0700`.
pub(super) fn common(text: &str) -> Result<LogTime, LineError> {
    let read = || {
        let mut left = Cursor(text);
        let day = left.number(2)?;
        left.skip("/")?;
        let name = left.take(3)?;
        let month = MONTHS.iter().position(|month| *month == name)? + 1;
        left.skip("/")?;
        let year = left.number(4)?;
        left.skip(":")?;
        let second = left.clock()?;
        left.skip(" ")?;
        let offset = left.offset()?;
        instant(days(year, i64::try_from(month).ok()?, day)?, second - offset, 0, false)
    };
    read().ok_or_else(|| LineError::bad("time", text))
}

/// The same, or `2026-10-10T13:55:36.123Z`, or seconds since 1970 (or milliseconds, and so on, if there are too many).
pub(super) fn any(text: &str) -> Result<LogTime, LineError> {
    let found = match text.as_bytes() {
        [_, _, b'/', ..] => return common(text),
        [_, _, _, _, b'-', ..] => rfc_3339(text),
        _ => epoch(text),
    };
    found.ok_or_else(|| LineError::bad("time", text))
}

fn rfc_3339(text: &str) -> Option<LogTime> {
    let mut left = Cursor(text);
    let year = left.number(4)?;
    left.skip("-")?;
    let month = left.number(2)?;
    left.skip("-")?;
    let day = left.number(2)?;
    left.skip("T").or_else(|| left.skip("t")).or_else(|| left.skip(" "))?;
    let second = left.clock()?;
    let has_fraction = left.skip(".").is_some();
    let fraction = if has_fraction { left.fraction()? } else { 0 };
    let _ = left.skip(" ");
    let offset = if left.0.is_empty() { 0 } else { left.offset()? };
    instant(days(year, month, day)?, second - offset, fraction, has_fraction)
}

/// From about 1973 until 5138 only one unit makes sense.
fn epoch(text: &str) -> Option<LogTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let number: u64 = whole.parse().ok()?;
    let (per_us, has_fraction): (u64, _) = match number {
        0..100_000_000_000 => {
            let micros: u64 = format!("{fraction:0<6.6}").parse().ok()?;
            return bounded(number * 1_000_000 + micros, !fraction.is_empty());
        }
        100_000_000_000..100_000_000_000_000 => return bounded(number * 1000, true),
        100_000_000_000_000..100_000_000_000_000_000 => (1, true),
        _ => (1000, true),
    };
    bounded(number / per_us, has_fraction)
}

/// Days, seconds and microseconds since 1970.
fn instant(days: i64, second: i64, micros: u64, has_fraction: bool) -> Option<LogTime> {
    let seconds = u64::try_from(days * DAY_S + second).ok()?;
    bounded(seconds * 1_000_000 + micros, has_fraction)
}

/// Up to the year 2200: later ones are mistakes, and decisions are exact only until 2255.
fn bounded(us: u64, has_fraction: bool) -> Option<LogTime> {
    (us < 7_258_118_400_000_000).then_some(LogTime { us, has_fraction })
}

/// Days from 1970 to a civil date. Years are taken to begin in March, so that a leap day is the last of its year.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    let (year, month) = (year - i64::from(month < 3), (month + 9) % 12);
    let leaps = year / 4 - year / 100 + year / 400;
    Some(365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// `2026-10-10T13:55:36Z`.
pub(in crate::replay) fn rfc_3339_utc(us: u64) -> String {
    let (day, second) = (us / 1_000_000 / 86_400, us / 1_000_000 % 86_400);
    // The inverse of `days`: eras of 400 years that begin in March of the year 0.
    let (era, day) = ((day + 719_468) / 146_097, (day + 719_468) % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year + month / 10, (month + 2) % 12 + 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a str> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, word: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    fn number(&mut self, digits: usize) -> Option<i64> {
        let text = self.take(digits)?;
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    }

    /// `13:55:36` as seconds of the day; leap seconds are accepted.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.skip(":")?;
        let minute = self.number(2)?;
        self.skip(":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }

    /// The digits behind a point as microseconds, truncated.
    fn fraction(&mut self) -> Option<u64> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let text = self.take(digits).filter(|text| !text.is_empty())?;
        format!("{text:0<6.6}").parse().ok()
    }

    /// `Z`, `-0700` or `+02:00`, as seconds.
    fn offset(&mut self) -> Option<i64> {
        if matches!(self.0, "Z" | "z") {
            return Some(0);
        }
        let sign = match self.take(1)? {
            "+" => 1,
            "-" => -1,
            _ => return None,
        };
        let hours = self.number(2)?;
        let _ = self.skip(":");
        let minutes = self.number(2)?;
        (self.0.is_empty() && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }
}
