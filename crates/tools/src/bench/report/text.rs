//! The report as text.

use std::fmt::Write;

use super::ratio::{Ratio, Ratios};
use super::{Bar, BenchReport, ServerReport};
use crate::output::{Table, grouped};
use tidegate_simulation::float;

/// The longest bar.
const BAR_CHARS: u64 = 40;

impl BenchReport {
    pub(in super::super) fn text(&self) -> String {
        let mut counts =
            Table::new(&["", "requests", "per second", "allowed", "denied", "errors", "CPU each"]);
        for row in &self.servers {
            let cpu = row.server_cpu_us_per_request.map(|us| span(us * 1000.0));
            let (requests, rate) = (grouped(row.requests), rounded(row.per_second));
            let [allowed, denied, errors] = [row.allowed, row.denied, row.errors].map(grouped);
            let cpu = cpu.unwrap_or_default();
            counts.row(&[&row.name, &requests, &rate, &allowed, &denied, &errors, &cpu]);
        }
        let mut latencies =
            Table::new(&["latency", "min", "p50", "p90", "p99", "p99.9", "max", "mean"]);
        for row in &self.servers {
            let Some(it) = row.latency_us else { continue };
            let [min, p50, p90, p99, p99_9, max, mean] =
                [it.min, it.p50, it.p90, it.p99, it.p99_9, it.max, it.mean]
                    .map(|us| span(us * 1000.0));
            latencies.row(&[&row.name, &min, &p50, &p90, &p99, &p99_9, &max, &mean]);
        }
        let bars: String = self.servers.iter().map(bars).collect();
        let ratios = match (&self.ratios, &self.servers[..]) {
            (Some(ratios), [ours, theirs]) => compare(ratios, &ours.name, &theirs.name),
            _ => String::new(),
        };
        let (head, notes) = (self.headline(), self.notes());
        format!("{head}\n\n{counts}\n{latencies}{bars}{ratios}{notes}")
    }

    fn headline(&self) -> String {
        let pace = match self.rate_per_second {
            Some(rate) => format!("open loop at {}/s", grouped(rate.into())),
            None => "closed loop".to_owned(),
        };
        let who = if self.door == "embedded" { "at once" } else { "connections" };
        let pipeline = match self.pipeline {
            1 => String::new(),
            several => format!(" of {several} at once"),
        };
        let keys = match self.keys {
            1 => "1 key".to_owned(),
            several => format!("{} keys ({})", grouped(several.into()), self.distribution),
        };
        let (door, connections) = (&self.door, self.connections);
        let policy = match &self.policy {
            Some(policy) => format!("policy {}", tidegate_core::text::printable(policy)),
            None => "policies of its routes".to_owned(),
        };
        format!("{door}, {pace}, {connections} {who}{pipeline}, {policy}, {keys}")
    }

    /// Errors, and other reasons to doubt the figures.
    fn notes(&self) -> String {
        let mut out = String::new();
        for row in &self.servers {
            if let Some(note) = row.note {
                let _ = writeln!(out, "\n{}: {note}", row.name);
            }
            for error in &row.errors_by_kind {
                let (name, kind, count) = (&row.name, error.kind, grouped(error.count));
                let _ = writeln!(out, "\n{name}: {count} × {kind}, the first: {}", error.first);
            }
            if row.unsent > 0 {
                let (name, unsent) = (&row.name, grouped(row.unsent));
                let _ = writeln!(
                    out,
                    "\n{name}: {unsent} requests were due and not sent, for all connections were waiting: the rate \
                     was not reached, and their waiting is not in the figures"
                );
            }
        }
        if self.stopped {
            out.push_str("\nstopped early: this is what was measured until then\n");
        }
        out
    }
}

fn bars(row: &ServerReport) -> String {
    let most = row.histogram.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let all: u64 = row.histogram.iter().map(|bar| bar.count).sum();
    let mut out = format!("\n{}\n", row.name);
    for Bar { from_us, to_us, count } in &row.histogram {
        let bar = "█".repeat(usize::try_from((count * BAR_CHARS).div_ceil(most)).unwrap_or(0));
        let percent = float(*count) * 100.0 / float(all.max(1));
        let (from, to) = (span(from_us * 1000.0), span(to_us * 1000.0));
        let _ = writeln!(out, "{from:>8} – {to:<8} {percent:>6.2} % {bar}");
    }
    out
}

fn compare(ratios: &Ratios, ours: &str, theirs: &str) -> String {
    let mut table = Table::new(&["", "median", "least", "most"]);
    for (name, ratio) in
        [("per second", &ratios.per_second), ("p50", &ratios.p50), ("p99", &ratios.p99)]
    {
        let Ratio { median, min, max } = ratio;
        let [median, min, max] = [median, min, max].map(|ratio| format!("{ratio:.2}"));
        table.row(&[&name, &median, &min, &max]);
    }
    let rounds = match ratios.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds that took turns"),
    };
    format!("\n{ours} : {theirs}, over {rounds}\n{table}")
}

/// A rate to whole requests.
fn rounded(number: f64) -> String {
    let text = format!("{number:.0}");
    text.parse().map_or(text, grouped)
}

/// A time with three digits: `412 ns`, `45.6 µs`, `1.50 ms`.
fn span(ns: f64) -> String {
    let (number, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "µs"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let places = match number {
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.places$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        assert_eq!(rounded(1234.6), "1,235");
        for (ns, text) in [
            (17.0, "17 ns"),
            (999.0, "999 ns"),
            (1_000.0, "1.00 µs"),
            (9_996.0, "10.0 µs"),
            (45_600.0, "45.6 µs"),
            (999_600.0, "1.00 ms"),
            (123_000_000.0, "123 ms"),
            (61_000_000_000.0, "61.0 s"),
        ] {
            assert_eq!(span(ns), text);
        }
    }
}
