//! Instants as logs write them, in microseconds.

use jiff::Timestamp;

use super::LineError;

/// The instant of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::replay) struct LogTime {
    pub(in crate::replay) us: u64,
    /// Whether it has more than whole seconds.
    pub(in crate::replay) has_fraction: bool,
}

/// `10/Oct/2026:13:55:36 -0700`.
pub(super) fn common(text: &str) -> Result<LogTime, LineError> {
    let read = || {
        let written = Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", text).ok();
        let at = written.or_else(|| other_offset(text))?;
        instant(at, text.get(18..20)?, false)
    };
    read().ok_or_else(|| LineError::bad("time", text))
}

/// `+02:00` or `Z` instead of `+0200`.
fn other_offset(text: &str) -> Option<Timestamp> {
    let (clock, offset) = text.rsplit_once(' ')?;
    let offset = if matches!(offset, "Z" | "z") { "+00:00" } else { offset };
    Timestamp::strptime("%d/%b/%Y:%H:%M:%S %:z", format!("{clock} {offset}")).ok()
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

/// Some servers write a space before the offset, or no offset, or more digits than jiff reads.
fn rfc_3339(text: &str) -> Option<LogTime> {
    let (day, time) = text.split_at_checked(11)?;
    let mut time = time.replacen(' ', "", 1);
    if time.contains(',') {
        return None;
    }
    if let Some(dot) = time.find('.') {
        let digits = time[dot + 1..].bytes().take_while(u8::is_ascii_digit).count();
        time.replace_range(dot + 1 + digits.min(9)..dot + 1 + digits, "");
    }
    let zone = if time.contains(['Z', 'z', '+', '-']) { "" } else { "Z" };
    let at = format!("{day}{time}{zone}").parse().ok()?;
    instant(at, text.get(17..19)?, time.contains('.'))
}

/// A leap second is the next second; jiff takes it for the one before.
fn instant(at: Timestamp, second: &str, has_fraction: bool) -> Option<LogTime> {
    let us = u64::try_from(at.as_microsecond()).ok()?;
    bounded(us + if second == "60" { 1_000_000 } else { 0 }, has_fraction)
}

/// From about 1973 until 5138 only one unit makes sense.
fn epoch(text: &str) -> Option<LogTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let number: u64 = whole.parse().ok()?;
    match number {
        0..100_000_000_000 => {
            let micros: u64 = format!("{fraction:0<6.6}").parse().ok()?;
            bounded(number * 1_000_000 + micros, !fraction.is_empty())
        }
        100_000_000_000..100_000_000_000_000 => bounded(number * 1000, true),
        100_000_000_000_000..100_000_000_000_000_000 => bounded(number, true),
        _ => bounded(number / 1000, true),
    }
}

/// Up to the year 2200: later ones are mistakes, and decisions are exact only until 2255.
fn bounded(us: u64, has_fraction: bool) -> Option<LogTime> {
    (us < 7_258_118_400_000_000).then_some(LogTime { us, has_fraction })
}

/// `2026-10-10T13:55:36Z`.
pub(in crate::replay) fn rfc_3339_utc(us: u64) -> String {
    let seconds = i64::try_from(us / 1_000_000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}
