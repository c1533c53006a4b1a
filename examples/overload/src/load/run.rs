//! The results of a load, and their figures.

use std::time::Duration;

use serde::Serialize;

use crate::app::Stats;

/// One request and its outcome.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Attempt {
    /// Time since the start of the run.
    pub(crate) due: Duration,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Answered in time.
    Good,
    /// 429.
    Refused { retry_after: Duration },
    /// 5xx.
    Failed,
    /// Not answered in time.
    TimedOut,
    /// No valid answer, as after a broken connection.
    Lost,
}

impl Outcome {
    /// How long to wait before a retry.
    pub(crate) const fn wait(self) -> Duration {
        match self {
            Self::Refused { retry_after } => retry_after,
            _ => Duration::ZERO,
        }
    }

    const fn is_admitted(self) -> bool {
        !matches!(self, Self::Refused { .. })
    }
}

pub(crate) struct Run {
    span: Duration,
    people: u64,
    attempts: Vec<Attempt>,
}

#[derive(Clone, PartialEq, Serialize, Debug)]
pub(crate) struct Figures {
    /// Clients that arrived.
    pub(crate) people_per_s: f64,
    /// Requests, including retries.
    pub(crate) requests_per_s: f64,
    /// Answers in time.
    pub(crate) goodput_per_s: f64,
    /// Over all requests that were not refused. A timeout counts with the time until then.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) refused: u64,
    pub(crate) timed_out: u64,
    pub(crate) lost: u64,
    /// 5xx that a client received.
    pub(crate) errors_seen: u64,
    /// 5xx as the app counts them.
    pub(crate) errors_of_app: u64,
    /// Requests that the app has worked on.
    pub(crate) reached_app: u64,
    /// Answers in time, for each second.
    pub(crate) good_by_second: Vec<u64>,
    /// As `p99_ms`, for the requests of each second.
    pub(crate) p99_ms_by_second: Vec<f64>,
}

impl Run {
    pub(crate) const fn new(span: Duration) -> Self {
        Self { span, people: 0, attempts: Vec::new() }
    }

    /// Adds the requests of one client.
    pub(crate) fn add(&mut self, attempts: Vec<Attempt>) {
        self.people += 1;
        self.attempts.extend(attempts);
    }

    pub(crate) fn figures(&self, app: Stats) -> Figures {
        let count = |is: fn(Outcome) -> bool| {
            self.attempts.iter().filter(|it| is(it.outcome)).count() as u64
        };
        let good_by_second = self.good_by_second();
        let admitted = self.admitted(|_| true);
        let span_s = self.span.as_secs_f64();
        Figures {
            people_per_s: self.people as f64 / span_s,
            requests_per_s: self.attempts.len() as f64 / span_s,
            goodput_per_s: good_by_second.iter().sum::<u64>() as f64 / span_s,
            p50_ms: quantile_ms(&admitted, 0.5),
            p99_ms: quantile_ms(&admitted, 0.99),
            refused: count(|it| matches!(it, Outcome::Refused { .. })),
            timed_out: count(|it| it == Outcome::TimedOut),
            lost: count(|it| it == Outcome::Lost),
            errors_seen: count(|it| it == Outcome::Failed),
            errors_of_app: app.failed,
            reached_app: app.answered + app.failed,
            good_by_second,
            p99_ms_by_second: (0..self.seconds())
                .map(|second| {
                    quantile_ms(&self.admitted(|it| it.due.as_secs() as usize == second), 0.99)
                })
                .collect(),
        }
    }

    /// The latencies of requests that were not refused, in ascending order.
    fn admitted(&self, is: impl Fn(&Attempt) -> bool) -> Vec<Duration> {
        let admitted = self.attempts.iter().filter(|it| it.outcome.is_admitted() && is(it));
        let mut latencies: Vec<Duration> = admitted.map(|it| it.took).collect();
        latencies.sort_unstable();
        latencies
    }

    fn seconds(&self) -> usize {
        self.span.as_secs_f64().ceil() as usize
    }

    /// Answers after the end of the load do not count: they show nothing about the overload.
    fn good_by_second(&self) -> Vec<u64> {
        let mut seconds = vec![0; self.seconds()];
        let good = self.attempts.iter().filter(|it| it.outcome == Outcome::Good);
        for answered in good.map(|it| it.due + it.took).filter(|at| *at < self.span) {
            if let Some(second) = seconds.get_mut(answered.as_secs() as usize) {
                *second += 1;
            }
        }
        seconds
    }
}

/// The smallest value that at least this share of the values does not exceed.
fn quantile_ms(ascending: &[Duration], part: f64) -> f64 {
    let rank = (ascending.len() as f64 * part).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).map_or(0.0, |it| it.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(due_ms: u64, took_ms: u64, outcome: Outcome) -> Attempt {
        Attempt { due: ms(due_ms), took: ms(took_ms), outcome }
    }

    const IDLE: Stats = Stats { under_way: 0, answered: 0, failed: 0 };
    const REFUSED: Outcome = Outcome::Refused { retry_after: Duration::from_secs(1) };

    #[test]
    fn only_good_answers_within_the_span_are_goodput() {
        let mut run = Run::new(ms(2000));
        run.add(vec![at(0, 20, Outcome::Good)]);
        run.add(vec![at(980, 30, Outcome::Good)]);
        run.add(vec![at(10, 1000, Outcome::TimedOut), at(1010, 40, Outcome::Good)]);
        run.add(vec![at(1990, 20, Outcome::Good)]);
        run.add(vec![at(1500, 5, Outcome::Failed), at(1505, 5, Outcome::Lost)]);
        let figures = run.figures(Stats { failed: 7, answered: 5, ..IDLE });
        assert_eq!(figures.good_by_second, [1, 2]);
        assert_eq!((figures.goodput_per_s, figures.people_per_s), (1.5, 2.5));
        assert_eq!(figures.requests_per_s, 3.5);
        assert_eq!((figures.timed_out, figures.lost, figures.refused), (1, 1, 0));
        assert_eq!((figures.errors_seen, figures.errors_of_app, figures.reached_app), (1, 7, 12));
    }

    #[test]
    fn latencies_include_timeouts_and_exclude_refusals() {
        let mut run = Run::new(ms(1000));
        (1..=98).for_each(|took| run.add(vec![at(0, took, Outcome::Good)]));
        (0..1000).for_each(|_| run.add(vec![at(0, 0, REFUSED)]));
        run.add(vec![at(0, 1000, Outcome::TimedOut)]);
        run.add(vec![at(0, 1000, Outcome::TimedOut)]);
        let figures = run.figures(IDLE);
        assert_eq!((figures.p50_ms, figures.p99_ms), (50.0, 1000.0));
        assert_eq!(figures.p99_ms_by_second, [1000.0]);
        assert_eq!(figures.refused, 1000);
    }

    #[test]
    fn an_empty_run_has_figures() {
        let figures = Run::new(ms(1000)).figures(IDLE);
        assert_eq!((figures.goodput_per_s, figures.p99_ms), (0.0, 0.0));
    }

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<Duration> = (1..=100).map(ms).collect();
        for (part, expected) in [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            assert_eq!(quantile_ms(&values, part), expected, "{part}");
        }
    }
}
