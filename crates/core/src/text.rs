//! Text from outside inside our own messages: escaped, bounded, with a guess at what was meant; and rates as people write
//! them.

use std::time::Duration;

use crate::calendar::civil_from_days;
use crate::time::Timestamp;

/// The most that a message repeats of what came from outside, in characters.
const MAX_CHARS: usize = 300;

/// Makes text from outside safe to print: one line, no control characters, bounded.
///
/// ```
/// use tidegate_core::text::printable;
///
/// assert_eq!(printable("a\r\nb"), "a\\r\\nb");
/// ```
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_CHARS));
    for (count, char) in text.chars().enumerate() {
        if count == MAX_CHARS {
            out.push('…');
            break;
        }
        if is_plain(char) { out.push(char) } else { out.extend(char.escape_default()) }
    }
    out
}

/// Whether a character neither starts a line nor changes the direction of the text around it.
fn is_plain(char: char) -> bool {
    let reorders =
        matches!(char, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !char.is_control() && !reorders
}

/// A time as RFC 3339 writes it, in UTC.
///
/// ```
/// use tidegate_core::{Timestamp, text::rfc3339};
///
/// assert_eq!(rfc3339(Timestamp::from_micros(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
/// assert_eq!(rfc3339(Timestamp::from_micros(951_782_400_000_000)), "2000-02-29T00:00:00.000Z");
/// ```
pub fn rfc3339(at: Timestamp) -> String {
    let (seconds, ms) = (at.as_micros() / 1_000_000, at.as_micros() / 1_000 % 1_000);
    let (year, month, day) = civil_from_days((seconds / 86_400).cast_signed());
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The name that was probably meant: the nearest one, if it is near enough.
///
/// ```
/// use tidegate_core::text::closest;
///
/// assert_eq!(closest("lgoin", ["api", "login"].into_iter()), Some("login"));
/// assert_eq!(closest("zebra", ["api", "login"].into_iter()), None);
/// assert_eq!(closest("rate", ["name", "limit"].into_iter()), None); // as long, and another word
/// ```
pub fn closest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any name worth a guess; the distance costs the product of both lengths.
    if typed.len() > 64 {
        return None;
    }
    let (distance, name) = names.map(|name| (distance(typed, name), name)).min()?;
    // One slip in a short word, one more for every three letters: `rate` is not a misspelt `name`.
    let letters = typed.chars().count();
    (distance <= (letters / 3).max(1) && distance < letters).then_some(name)
}

/// The message for a policy that does not exist.
///
/// ```
/// use tidegate_core::text::unknown_policy;
///
/// let said = unknown_policy("lgoin", ["api", "login"].into_iter());
/// assert_eq!(said, "no policy is called `lgoin`, did you mean `login`?");
/// ```
pub fn unknown_policy<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = printable(name);
    match closest(&name, known) {
        Some(meant) => format!("no policy is called `{name}`, did you mean `{meant}`?"),
        None => format!("no policy is called `{name}`"),
    }
}

/// The message for a limit that a policy of several limits does not have.
///
/// ```
/// use tidegate_core::text::unknown_limit;
///
/// let said = |name| unknown_limit(name, &["second", "day"]);
/// assert_eq!(said("dya"), "no limit is called `dya`, did you mean `day`?");
/// assert_eq!(said("month"), "no limit is called `month`: expected one of second, day");
/// ```
pub fn unknown_limit(name: &str, known: &[&str]) -> String {
    let name = printable(name);
    match closest(&name, known.iter().copied()) {
        Some(meant) => format!("no limit is called `{name}`, did you mean `{meant}`?"),
        None => format!("no limit is called `{name}`: expected one of {}", known.join(", ")),
    }
}

/// How many characters have to be changed, added, removed, or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let (mut above, mut row): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=to.len()).collect());
    let mut before = None;
    for (line, a) in from.chars().enumerate() {
        let mut next = vec![line + 1];
        for (column, b) in to.iter().enumerate() {
            let changed = row[column] + usize::from(a != *b);
            let mut least = changed.min(row[column + 1] + 1).min(next[column] + 1);
            if column > 0 && before == Some(*b) && to[column - 1] == a {
                least = least.min(above[column - 1] + 1);
            }
            next.push(least);
        }
        (above, row, before) = (row, next, Some(a));
    }
    row.last().copied().unwrap_or(0)
}

/// The bytes that a text with `%41` for `A` stands for. `None` if a `%` is not followed by two hex digits.
///
/// ```
/// use tidegate_core::text::percent_decoded;
///
/// assert_eq!(percent_decoded("p%40ss").as_deref(), Some(&b"p@ss"[..]));
/// assert_eq!(percent_decoded("50%"), None);
/// assert_eq!(percent_decoded("%+1"), None);
/// ```
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2).filter(|(code, _)| !code.starts_with('+'))?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    Some(bytes)
}

/// A rate as people write it, in the largest unit that is exact: `100/min`, `30/90s`.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::text::rate;
///
/// assert_eq!(rate(100, Duration::from_secs(60)), "100/min");
/// ```
pub fn rate(units: u64, period: Duration) -> String {
    let text = duration(period);
    // `1min` is written `min`; a number that only begins with 1 stays.
    let unit = text.strip_prefix('1').filter(|unit| unit.starts_with(char::is_alphabetic));
    match unit {
        Some(unit) if unit != "us" && unit != "ms" => format!("{units}/{unit}"),
        _ => format!("{units}/{text}"),
    }
}

/// A log keeps one instant per unit: it is advised up to this limit, 160 kB per key.
const LOG_UNITS_MAX: u64 = 10_000;

/// What surprises people about a limit whose burst is the whole limit: they expect at most `units` in any period.
/// `validate`, the pages and the playground all say it in these words.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::text::first_period;
///
/// let said = first_period(100, Duration::from_secs(60));
/// assert!(said.starts_with("`100/min` admits up to twice in the first period: 200 in a minute,"), "{said}");
/// ```
pub fn first_period(units: u64, period: Duration) -> String {
    let (rate, twice) = (rate(units, period), units.saturating_mul(2));
    let unit = rate.split_once('/').map_or("", |(_, unit)| unit);
    let (one, any) = match unit {
        "s" => ("a second", "any second"),
        "min" => ("a minute", "any minute"),
        "h" => ("an hour", "any hour"),
        "day" => ("a day", "any day"),
        _ => (unit, &*format!("any {unit}")),
    };
    let estimate = "an estimate: usually within a few percent, in the worst case almost twice";
    let instead = if units > LOG_UNITS_MAX {
        format!("For about {units} in {any}, write `sliding-window {rate}`, {estimate}.")
    } else {
        format!(
            "For at most {units} in {any}, write `sliding-log {rate}`; `sliding-window {rate}` takes less memory, and is \
             {estimate}."
        )
    };
    format!(
        "`{rate}` admits up to twice in the first period: {twice} in {one}, {units} at once and {units} more as they \
         refill. {instead}"
    )
}

/// A duration as people write it, in the largest unit that is exact: `90s`, `250ms`. Below a microsecond it is rounded
/// up.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::text::duration;
///
/// assert_eq!(duration(Duration::from_secs(5400)), "90min");
/// ```
pub fn duration(duration: Duration) -> String {
    let us = crate::time::micros_up(duration);
    let units = [
        ("day", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
    ];
    match units.into_iter().find(|(_, unit_us)| us.is_multiple_of(*unit_us) && us > 0) {
        Some((unit, unit_us)) => format!("{}{unit}", us / unit_us),
        None => format!("{us}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_stays_on_its_line() {
        assert_eq!(printable("a\r\nb\u{1b}[31m"), "a\\r\\nb\\u{1b}[31m");
        assert_eq!(printable("naïve „ö“"), "naïve „ö“");
        assert_eq!(printable("\u{202e}gnp"), "\\u{202e}gnp");
        assert_eq!(printable(&"x".repeat(1000)).chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn only_near_names_are_guessed() {
        let names = || ["api", "login", "upload"].into_iter();
        for (typed, meant) in [
            ("api2", Some("api")),
            ("lgoin", Some("login")),
            ("uplaod", Some("upload")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, names()), meant, "{typed}");
        }
    }

    #[test]
    fn rates_are_printed_as_they_are_written() {
        for (period, text) in [
            (Duration::from_secs(1), "7/s"),
            (Duration::from_secs(90), "7/90s"),
            (Duration::from_secs(10), "7/10s"),
            (Duration::from_hours(1), "7/h"),
            (Duration::from_hours(24), "7/day"),
            (Duration::from_hours(720), "7/30day"),
            (Duration::from_millis(250), "7/250ms"),
            (Duration::from_micros(1), "7/1us"),
        ] {
            assert_eq!(rate(7, period), text);
        }
    }
}
