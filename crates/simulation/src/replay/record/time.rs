//! Instants as logs write them, in microseconds.

use super::Unread;

/// When a request was written down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::replay) struct Instant {
    pub(in crate::replay) us: u64,
    /// Whether it is known to more than the second.
    pub(in crate::replay) is_fine: bool,
}

const DAY_S: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `10/Oct/2026:13:55:36 -0700`.
pub(super) fn common(text: &str) -> Result<Instant, Unread> {
    let read = || {
        let mut left = Left(text);
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
    read().ok_or_else(|| Unread::bad("time", text))
}

/// The same, or `2026-10-10T13:55:36.123Z`, or seconds since 1970 (or milliseconds, and so on, if there are too many).
pub(super) fn any(text: &str) -> Result<Instant, Unread> {
    let found = match text.as_bytes() {
        [_, _, b'/', ..] => return common(text),
        [_, _, _, _, b'-', ..] => rfc_3339(text),
        _ => epoch(text),
    };
    found.ok_or_else(|| Unread::bad("time", text))
}

fn rfc_3339(text: &str) -> Option<Instant> {
    let mut left = Left(text);
    let year = left.number(4)?;
    left.skip("-")?;
    let month = left.number(2)?;
    left.skip("-")?;
    let day = left.number(2)?;
    left.skip("T").or_else(|| left.skip("t")).or_else(|| left.skip(" "))?;
    let second = left.clock()?;
    let is_fine = left.skip(".").is_some();
    let fraction = if is_fine { left.fraction()? } else { 0 };
    let _ = left.skip(" ");
    let offset = if left.0.is_empty() { 0 } else { left.offset()? };
    instant(days(year, month, day)?, second - offset, fraction, is_fine)
}

/// From about 1973 until 5138 one reading is the only one that makes sense.
fn epoch(text: &str) -> Option<Instant> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let number: u64 = whole.parse().ok()?;
    let (per_us, is_fine): (u64, _) = match number {
        0..100_000_000_000 => {
            let micros: u64 = format!("{fraction:0<6.6}").parse().ok()?;
            return bounded(number * 1_000_000 + micros, !fraction.is_empty());
        }
        100_000_000_000..100_000_000_000_000 => return bounded(number * 1000, true),
        100_000_000_000_000..100_000_000_000_000_000 => (1, true),
        _ => (1000, true),
    };
    bounded(number / per_us, is_fine)
}

/// Days, seconds and microseconds since 1970.
fn instant(days: i64, second: i64, micros: u64, is_fine: bool) -> Option<Instant> {
    let seconds = u64::try_from(days * DAY_S + second).ok()?;
    bounded(seconds * 1_000_000 + micros, is_fine)
}

/// Up to the year 2200: later ones are mistakes, and decisions are exact only until 2255.
fn bounded(us: u64, is_fine: bool) -> Option<Instant> {
    (us < 7_258_118_400_000_000).then_some(Instant { us, is_fine })
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

/// An instant as people and programs read it: `2026-10-10T13:55:36Z`.
pub(in crate::replay) fn told(us: u64) -> String {
    let seconds = us / 1_000_000;
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    // At most 230 rounds: no instant is later than 2200.
    let length = |year: u64| {
        365 + u64::from(
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)),
        )
    };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
}

/// What is left of a text.
struct Left<'a>(&'a str);

impl<'a> Left<'a> {
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

    /// `13:55:36`, as seconds of the day; a leap second is there too.
    fn clock(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.skip(":")?;
        let minute = self.number(2)?;
        self.skip(":")?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
    }

    /// The digits behind a point, as microseconds. What is finer is cut off.
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
