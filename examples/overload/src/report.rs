//! The results, as tables and a verdict.

use std::fmt;

use serde::Serialize;

use crate::load::{CLIENT_TIMEOUT, Figures};

#[derive(Serialize)]
pub(crate) struct Report {
    /// The capacity of the app: closed loop, with as many clients as keep its pool busy.
    pub(crate) best: Figures,
    pub(crate) unloaded: Figures,
    /// Overloaded, without tidegate.
    pub(crate) direct: Figures,
    /// Through tidegate.
    pub(crate) unloaded_behind: Figures,
    pub(crate) behind: Figures,
    /// Overloaded, with only the limit, not adaptive; and with only the cap, under a limit that does not bind.
    pub(crate) limit_alone: Figures,
    pub(crate) cap_alone: Figures,
    pub(crate) verdict: Verdict,
}

/// The requirements, and whether they are met.
#[derive(Serialize)]
pub(crate) struct Verdict {
    /// Errors of the app with tidegate: 0.
    errors_of_app: u64,
    /// Goodput with tidegate as a share of the best: at least 0.9.
    goodput_of_best: f64,
    /// The 99th percentile with tidegate as a multiple of the unloaded one: at most 5.
    p99_of_unloaded: f64,
    /// Goodput without tidegate as a share of the best: at most a half, otherwise the app was not overloaded.
    goodput_without: f64,
}

impl Verdict {
    pub(crate) fn new(
        best: &Figures,
        unloaded: &Figures,
        direct: &Figures,
        behind: &Figures,
    ) -> Self {
        Self {
            errors_of_app: behind.errors_of_app,
            goodput_of_best: behind.goodput_per_s / best.goodput_per_s,
            p99_of_unloaded: behind.p99_ms / unloaded.p99_ms,
            goodput_without: direct.goodput_per_s / best.goodput_per_s,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.lines().iter().all(|(is_met, _)| *is_met)
    }

    fn lines(&self) -> [(bool, String); 4] {
        let Self { errors_of_app, goodput_of_best, p99_of_unloaded, goodput_without } = self;
        [
            (
                *goodput_without <= 0.5,
                format!("without tidegate goodput falls to {goodput_without:.2} of the best"),
            ),
            (
                *goodput_of_best >= 0.9,
                format!("with it it is {goodput_of_best:.2} of the best (≥ 0.9)"),
            ),
            (
                *p99_of_unloaded <= 5.0,
                format!("p99 of the admitted is {p99_of_unloaded:.1} × that without load (≤ 5)"),
            ),
            (*errors_of_app == 0, format!("the app has made {errors_of_app} errors (0)")),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWithout tidegate\n")?;
        let rows = [
            ("unloaded", &self.unloaded),
            ("at its best", &self.best),
            ("3 × the load", &self.direct),
        ];
        table(f, &rows)?;
        writeln!(f, "\nThrough tidegate\n")?;
        table(f, &[("unloaded", &self.unloaded_behind), ("3 × the load", &self.behind)])?;
        writeln!(f, "\nIts parts alone, under 3 × the load\n")?;
        table(f, &[("static limit", &self.limit_alone), ("in-flight cap", &self.cap_alone)])?;
        writeln!(f, "\nGood answers, second by second, under 3 × the load\n")?;
        let best = self.best.goodput_per_s;
        writeln!(f, "    without  {}", sparkline(&self.direct.good_by_second, best))?;
        writeln!(f, "    through  {}\n", sparkline(&self.behind.good_by_second, best))?;
        for (is_met, line) in self.verdict.lines() {
            writeln!(f, "{} {line}", if is_met { "✓" } else { "✗" })?;
        }
        Ok(())
    }
}

fn table(f: &mut fmt::Formatter<'_>, rows: &[(&str, &Figures)]) -> fmt::Result {
    writeln!(
        f,
        "|               | people/s | requests/s | goodput/s | p50 ms | p99 ms | 5xx of the app | timed out | refused |\n\
         |---------------|---------:|-----------:|----------:|-------:|-------:|---------------:|----------:|--------:|"
    )?;
    for (name, it) in rows {
        writeln!(
            f,
            "| {name:<13} | {:>8.0} | {:>10.0} | {:>9.0} | {:>6} | {:>6} | {:>14} | {:>9} | {:>7} |",
            it.people_per_s,
            it.requests_per_s,
            it.goodput_per_s,
            latency(it.p50_ms),
            latency(it.p99_ms),
            it.errors_of_app,
            it.timed_out + it.lost,
            it.refused,
        )?;
    }
    Ok(())
}

/// A latency in milliseconds; a timeout is shown as `>1000`.
fn latency(ms: f64) -> String {
    let timeout_ms = CLIENT_TIMEOUT.as_secs_f64() * 1e3;
    if ms >= timeout_ms { format!(">{timeout_ms:.0}") } else { format!("{ms:.0}") }
}

/// A full bar is the best goodput or more.
fn sparkline(values: &[u64], best: f64) -> String {
    const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &u64| BARS[((*value as f64 / best * 8.0).round() as usize).min(8)];
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        errors_of_app: u64,
        goodput_of_best: f64,
        p99_of_unloaded: f64,
        goodput_without: f64,
    ) -> Verdict {
        Verdict { errors_of_app, goodput_of_best, p99_of_unloaded, goodput_without }
    }

    #[test]
    fn each_requirement_alone_can_fail() {
        assert!(verdict(0, 0.9, 5.0, 0.5).is_met());
        for broken in [
            verdict(1, 0.9, 5.0, 0.5),
            verdict(0, 0.89, 5.0, 0.5),
            verdict(0, 0.9, 5.1, 0.5),
            verdict(0, 0.9, 5.0, 0.6),
            verdict(0, f64::NAN, 5.0, 0.5),
        ] {
            assert!(!broken.is_met());
        }
    }

    #[test]
    fn a_full_bar_is_the_best_goodput() {
        assert_eq!(sparkline(&[0, 200, 400, 500], 400.0), "·▄██");
    }

    #[test]
    fn timeouts_are_shown_as_more_than_the_timeout() {
        assert_eq!((latency(999.4), latency(1000.2)), ("999".to_owned(), ">1000".to_owned()));
    }
}
