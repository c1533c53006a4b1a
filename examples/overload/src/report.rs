//! The results, as tables and a verdict.

use std::fmt;

use serde::Serialize;

use crate::load::{CLIENT_TIMEOUT, Figures};
use crate::peers::Peers;
use crate::peers::envoy::Gradient;

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
    /// Through other proxies.
    pub(crate) peers: Peers,
    /// Overloaded, with only the limit, not adaptive; and with only the cap, under a limit that does not bind.
    pub(crate) limit_alone: Figures,
    pub(crate) cap_alone: Figures,
    /// Overloaded by bots, with one limit for all, below the capacity, and with shares of it; and with shares of a limit
    /// above the capacity, where the cap decides before the shares.
    pub(crate) one_limit: Crowds,
    pub(crate) shares: Crowds,
    pub(crate) shares_of_more: Crowds,
    pub(crate) verdict: Verdict,
}

/// One run with people and bots. What the app has counted is of both.
#[derive(Serialize)]
pub(crate) struct Crowds {
    pub(crate) people: Figures,
    pub(crate) bots: Figures,
}

impl Crowds {
    /// The share of people who got an answer in time.
    fn people_served(&self) -> f64 {
        self.people.goodput_per_s / self.people.people_per_s
    }
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
    /// The share of people answered beside bots, with one limit: at most a half, otherwise the bots harmed nobody.
    people_with_one_limit: f64,
    /// The same with shares of it: at least 0.9.
    people_with_shares: f64,
}

impl Verdict {
    pub(crate) fn new(
        best: &Figures,
        unloaded: &Figures,
        direct: &Figures,
        behind: &Figures,
        [one_limit, shares]: [&Crowds; 2],
    ) -> Self {
        Self {
            errors_of_app: behind.errors_of_app,
            goodput_of_best: behind.goodput_per_s / best.goodput_per_s,
            p99_of_unloaded: behind.p99_ms / unloaded.p99_ms,
            goodput_without: direct.goodput_per_s / best.goodput_per_s,
            people_with_one_limit: one_limit.people_served(),
            people_with_shares: shares.people_served(),
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.lines().iter().all(|(is_met, _)| *is_met)
    }

    fn lines(&self) -> [(bool, String); 6] {
        let Self { errors_of_app, goodput_of_best, p99_of_unloaded, goodput_without, .. } = self;
        let Self { people_with_one_limit, people_with_shares, .. } = self;
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
            (
                *people_with_one_limit <= 0.5,
                format!("beside bots, one limit serves {people_with_one_limit:.2} of the people"),
            ),
            (
                *people_with_shares >= 0.9,
                format!("shares of it serve {people_with_shares:.2} of them (≥ 0.9)"),
            ),
        ]
    }
}

impl Report {
    fn peer_rows(&self) -> [(&'static str, &Figures); 4] {
        [
            ("Envoy", &self.peers.envoy.overloaded),
            ("Envoy, max 16", &self.peers.envoy_capped.overloaded),
            ("nginx, 0.1 s", &self.peers.nginx_small_burst.overloaded),
            ("nginx, 1 s", &self.peers.nginx_large_burst.overloaded),
        ]
    }

    fn peers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nPeers, under 3 × the load\n")?;
        table(f, &self.peer_rows())?;
        writeln!(
            f,
            "\nnginx admits {}/s, with a burst of 0.1 s and of 1 s.",
            self.peers.nginx_rate_per_s
        )?;
        for gradient in [&self.peers.envoy, &self.peers.envoy_capped]
            .into_iter()
            .filter_map(|it| it.gradient.as_ref())
        {
            let Gradient { rq_blocked, concurrency_limit, min_rtt_msecs } = gradient;
            writeln!(
                f,
                "Envoy took {min_rtt_msecs} ms for the time without load, refused {rq_blocked}, and passed on \
                 {concurrency_limit} at once in the end.",
            )?;
        }
        Ok(())
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
        self.peers(f)?;
        writeln!(f, "\nThe parts of tidegate alone, under 3 × the load\n")?;
        table(f, &[("static limit", &self.limit_alone), ("in-flight cap", &self.cap_alone)])?;
        writeln!(f, "\nPeople at 0.6 × the capacity, and bots at 2.4 ×\n")?;
        let rows = [
            ("360/s for all", &self.one_limit),
            ("360/s shared", &self.shares),
            ("440/s shared", &self.shares_of_more),
        ];
        crowds(f, &rows)?;
        writeln!(f, "\nGood answers, second by second, under 3 × the load\n")?;
        let best = self.best.goodput_per_s;
        for (name, it) in [("without", &self.direct), ("tidegate", &self.behind)]
            .into_iter()
            .chain(self.peer_rows())
        {
            writeln!(f, "    {name:<13}  {}", sparkline(&it.good_by_second, best))?;
        }
        writeln!(f)?;
        for (is_met, line) in self.verdict.lines() {
            writeln!(f, "{} {line}", if is_met { "✓" } else { "✗" })?;
        }
        Ok(())
    }
}

pub(crate) fn table(f: &mut fmt::Formatter<'_>, rows: &[(&str, &Figures)]) -> fmt::Result {
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

fn crowds(f: &mut fmt::Formatter<'_>, rows: &[(&str, &Crowds)]) -> fmt::Result {
    writeln!(
        f,
        "|               | people/s | their goodput/s | their p99 ms | bots/s | their goodput/s | 5xx of the app |\n\
         |---------------|---------:|----------------:|-------------:|-------:|----------------:|---------------:|"
    )?;
    for (name, Crowds { people, bots }) in rows {
        writeln!(
            f,
            "| {name:<13} | {:>8.0} | {:>15.0} | {:>12} | {:>6.0} | {:>15.0} | {:>14} |",
            people.people_per_s,
            people.goodput_per_s,
            latency(people.p99_ms),
            bots.people_per_s,
            bots.goodput_per_s,
            people.errors_of_app,
        )?;
    }
    Ok(())
}

/// A latency in milliseconds; a timeout is shown as `>1000`.
pub(crate) fn latency(ms: f64) -> String {
    let timeout_ms = CLIENT_TIMEOUT.as_secs_f64() * 1e3;
    if ms >= timeout_ms { format!(">{timeout_ms:.0}") } else { format!("{ms:.0}") }
}

/// A full bar is the best goodput or more.
pub(crate) fn sparkline(values: &[u64], best: f64) -> String {
    const BARS: [char; 9] = ['·', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: &u64| BARS[((*value as f64 / best * 8.0).round() as usize).min(8)];
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MET: Verdict = Verdict {
        errors_of_app: 0,
        goodput_of_best: 0.9,
        p99_of_unloaded: 5.0,
        goodput_without: 0.5,
        people_with_one_limit: 0.5,
        people_with_shares: 0.9,
    };

    #[test]
    fn each_requirement_alone_can_fail() {
        assert!(MET.is_met());
        for broken in [
            Verdict { errors_of_app: 1, ..MET },
            Verdict { goodput_of_best: 0.89, ..MET },
            Verdict { goodput_of_best: f64::NAN, ..MET },
            Verdict { p99_of_unloaded: 5.1, ..MET },
            Verdict { goodput_without: 0.6, ..MET },
            Verdict { people_with_one_limit: 0.6, ..MET },
            Verdict { people_with_shares: 0.89, ..MET },
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
