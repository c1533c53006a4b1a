//! What commands print: reports as text or JSON, tables, and numbers as people write and read them.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// <https://no-color.org>: set and not empty turns colours off.
pub fn wants_color() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prints all of it, or fails: a full disk leaves half a file.
pub fn print(output: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(output).and_then(|()| out.flush()))
}

/// A closed pipe is no failure: its reader has read enough.
pub fn unless_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints a report as JSON or as text.
pub(crate) fn print_report(
    report: &impl Serialize,
    as_json: bool,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let output = if as_json {
        let json = serde_json::to_string_pretty(report);
        json.map_err(|error| Failure::new(error.to_string()))? + "\n"
    } else {
        text()
    };
    print(output.as_bytes())
}

/// Rows of text under a head, with columns as wide as their cells.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row, with at most as many cells as the head has.
    pub(crate) fn row(&mut self, cells: &[&dyn ToString]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }
}

impl fmt::Display for Table {
    /// Aligns the first column, which has names, to the left, and the others, which have numbers, to the right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            writeln!(f, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

/// A decimal number times 10^`places`, with at most that many decimals. Integers cannot be rounded differently
/// elsewhere.
pub(crate) fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > places || whole.is_empty() {
        return None;
    }
    format!("{whole}{decimals:0<places$}").parse().ok()
}

/// What to write where a whole number was expected, for people who write it with separators, a suffix or a period.
pub fn whole_number(typed: &str) -> String {
    let number = typed.split('/').next().unwrap_or_default().trim();
    let (number, times) = match number.strip_suffix(['k', 'K']) {
        Some(thousands) => (thousands, 1000),
        None => (number, 1),
    };
    let digits: String = number.chars().filter(|char| !",_' ".contains(*char)).collect();
    let meant = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(times));
    match meant.filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(meant) if typed.contains('/') => {
            format!("expected a whole number without a period: write {meant}")
        }
        Some(meant) => format!("expected a whole number: write {meant}"),
        None => "expected a whole number like 100".to_owned(),
    }
}

/// The name of an option's value, as it is typed.
pub(crate) fn value_name(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_aligned_to_the_left_and_numbers_to_the_right() {
        let mut table = Table::new(&["way", "admitted"]);
        table.row(&[&"naïve", &108]);
        table.row(&[&"atomic store", &60]);
        table.row(&[&"none"]);
        let expected = "way           admitted\n\
                        naïve              108\n\
                        atomic store        60\n\
                        none\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn whole_numbers_are_corrected() {
        for (typed, expected) in [
            ("50,000", "expected a whole number: write 50000"),
            ("50_000", "expected a whole number: write 50000"),
            ("50k", "expected a whole number: write 50000"),
            ("100/min", "expected a whole number without a period: write 100"),
            ("many", "expected a whole number like 100"),
            ("-5", "expected a whole number like 100"),
            ("", "expected a whole number like 100"),
            ("1.5", "expected a whole number like 100"),
        ] {
            assert_eq!(whole_number(typed), expected, "{typed}");
        }
    }

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        assert_eq!(
            ["85", "99.9", "0"].map(|text| decimal(text, 1)),
            [Some(850), Some(999), Some(0)]
        );
        for bad in ["", "-1", "1e2", "99.99", ".5", "8 5", "nan", "99999999999999999999"] {
            assert_eq!(decimal(bad, 1), None, "{bad}");
        }
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
