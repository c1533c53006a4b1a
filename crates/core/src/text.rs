//! Text of others in our own messages: escaped, bounded, and with a guess at what was meant; and rates as people write
//! them.

use std::time::Duration;

/// The most that a message repeats of what came from outside, in characters.
const MAX_CHARS: usize = 300;

/// Makes text from outside safe to print: one line, no control characters, bounded.
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

/// Whether a character can neither start a line nor turn the text around it.
fn is_plain(char: char) -> bool {
    let reorders =
        matches!(char, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !char.is_control() && !reorders
}

/// The name that was probably meant: the nearest one, if it is near enough.
pub fn closest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any name worth guessing at; the distance costs the product of both lengths.
    if typed.len() > 64 {
        return None;
    }
    let (distance, name) = names.map(|name| (distance(typed, name), name)).min()?;
    (distance <= typed.chars().count().div_ceil(3)).then_some(name)
}

/// The message for a policy that does not exist.
pub fn unknown_policy<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = printable(name);
    match closest(&name, known) {
        Some(meant) => format!("no policy is called `{name}`, did you mean `{meant}`?"),
        None => format!("no policy is called `{name}`"),
    }
}

/// How many characters have to be changed, added or taken away.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in to.chars().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

/// `100/min`, `30/90s`: as it would be written, in the largest unit that is exact.
pub fn rate(units: u64, period: Duration) -> String {
    let us = period.as_micros();
    let units_us =
        [("day", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000)];
    let whole = units_us.into_iter().find(|(_, unit_us)| us.is_multiple_of(*unit_us) && us > 0);
    match whole.map(|(name, unit_us)| (name, us / unit_us)) {
        Some((name, 1)) => format!("{units}/{name}"),
        Some((name, count)) => format!("{units}/{count}{name}"),
        None if us.is_multiple_of(1000) => format!("{units}/{}ms", us / 1000),
        None => format!("{units}/{us}us"),
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
    fn guesses_only_what_is_near() {
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
    fn rates_read_as_they_are_written() {
        for (period, text) in [
            (Duration::from_secs(1), "7/s"),
            (Duration::from_secs(90), "7/90s"),
            (Duration::from_hours(1), "7/h"),
            (Duration::from_hours(720), "7/30day"),
            (Duration::from_millis(250), "7/250ms"),
            (Duration::from_micros(1), "7/1us"),
        ] {
            assert_eq!(rate(7, period), text);
        }
    }
}
