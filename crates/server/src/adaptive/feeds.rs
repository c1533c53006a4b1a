//! Pushes signals to the limits that follow them: answers of HTTP probes, and what this process measures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::uri::Authority;
use tidegate::adaptive::{Reading, Target};
use tidegate::{Clock, Limiter, SystemClock};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::plan::{AnswerKind, Signal, Source};
use super::probe::{self, Endpoint, ProbeError};
use crate::logs::line_limiter;
use crate::stats::TargetStats;

/// A reading expires after 1.5 s.
const PUSH_INTERVAL: Duration = Duration::from_millis(400);

/// How often another cause of a failing probe is logged: two may alternate for hours.
const CAUSE_RATE: &str = "1/min burst 3";

/// A signal and the target that its readings are pushed to.
#[derive(Clone, Debug)]
pub(super) struct SignalTarget {
    pub(super) signal: Signal,
    pub(super) target: Target,
    /// Where its readings are polled, if they are.
    pub(super) endpoint: Option<Arc<Endpoint>>,
    /// Whether the last probe had no answer that can be used.
    pub(super) is_failing: Arc<AtomicBool>,
}

impl SignalTarget {
    /// Reads the files of a probe. One that is `known` is shared.
    pub(super) fn new(signal: &Signal, target: Target, known: &[Self]) -> Result<Self, String> {
        let known = || known.iter().filter_map(|it| it.endpoint.as_ref());
        let endpoint = match &signal.source {
            Source::Asked(ask) => Some(match known().find(|it| it.ask == **ask) {
                Some(same) => same.clone(),
                None => Arc::new(Endpoint::open(ask, known().map(|it| &**it))?),
            }),
            _ => None,
        };
        Ok(Self { signal: signal.clone(), target, endpoint, is_failing: Arc::default() })
    }

    /// Its name in the log.
    fn name(&self) -> String {
        format!("{}/{}", self.signal.target, self.signal.chain.name())
    }
}

/// Pushes all signals until the returned set is dropped. Signals with the same probe share it.
pub(super) fn start(
    signal_targets: &[SignalTarget],
    target_stats: &Arc<TargetStats>,
) -> JoinSet<()> {
    let mut feeds = JoinSet::new();
    let mut asked: Vec<(&Arc<Endpoint>, Vec<SignalTarget>)> = Vec::new();
    let mut measured = Vec::new();
    for own in signal_targets {
        match (&own.signal.source, &own.endpoint) {
            (_, Some(endpoint)) => {
                match asked.iter_mut().find(|(known, _)| Arc::ptr_eq(known, endpoint)) {
                    Some((_, followers)) => followers.push(own.clone()),
                    None => asked.push((endpoint, vec![own.clone()])),
                }
            }
            (Source::Fixed(_) | Source::MeanLatency, None) => measured.push(own.clone()),
            // The library reads these, or clients report them.
            (_, None) => {}
        }
    }
    for (endpoint, followers) in asked {
        feeds.spawn(HttpProbe::new(endpoint.clone(), followers).run());
    }
    if !measured.is_empty() {
        feeds.spawn(measure(measured, target_stats.clone()));
    }
    feeds
}

/// Pushes the signals that this process measures.
async fn measure(measured: Vec<SignalTarget>, target_stats: Arc<TargetStats>) {
    let mut due = delayed_interval(PUSH_INTERVAL);
    loop {
        due.tick().await;
        let now = SystemClock.now();
        for SignalTarget { signal, target, .. } in &measured {
            let value = match signal.source {
                Source::Fixed(pressure) => signal.at(pressure),
                // Without traffic in the last minute the target is healthy.
                _ => target_stats.mean_ms(&signal.target, now).unwrap_or(0.0),
            };
            target.push(Reading::Value(value));
        }
    }
}

/// One HTTP probe, repeated.
struct HttpProbe {
    endpoint: Arc<Endpoint>,
    followers: Vec<SignalTarget>,
    pushes: Interval,
    reading: Reading,
    wait: Wait,
    failures: u32,
    causes: LoggedCauses,
}

/// How long a probe has waited for an answer.
#[derive(Debug, Default)]
struct Wait {
    /// When the probe began that is under way.
    asked_us: Option<u64>,
    /// The longest wait of those that failed since the last answer: the next one begins as the last one ends.
    failed_us: u64,
}

impl Wait {
    fn begin(&mut self, now_us: u64) {
        self.asked_us = Some(now_us);
    }

    fn end(&mut self, now_us: u64, is_failure: bool) {
        self.failed_us = if is_failure { self.us(now_us) } else { 0 };
        self.asked_us = None;
    }

    fn us(&self, now_us: u64) -> u64 {
        let waited_us = self.asked_us.map_or(0, |it| now_us.saturating_sub(it));
        waited_us.max(self.failed_us)
    }
}

/// Why a probe fails, as the log has it.
struct LoggedCauses {
    /// The last one; `None` while the probe answers.
    last: Option<String>,
    changes: Option<Limiter<SystemClock>>,
}

impl HttpProbe {
    fn new(endpoint: Arc<Endpoint>, followers: Vec<SignalTarget>) -> Self {
        let pushes = delayed_interval(PUSH_INTERVAL);
        let (reading, causes) = (Reading::Missing, LoggedCauses::new());
        Self { endpoint, followers, pushes, reading, wait: Wait::default(), failures: 0, causes }
    }

    async fn run(mut self) {
        let mut due = delayed_interval(self.endpoint.ask.every);
        loop {
            self.pushing_until(due.tick()).await;
            let endpoint = self.endpoint.clone();
            self.wait.begin(SystemClock.steady_us());
            let answer = self.pushing_until(probe::number(&endpoint)).await;
            let is_failure = matches!(answer, Err(ProbeError::Failed(_)));
            self.wait.end(SystemClock.steady_us(), is_failure);
            self.update(&answer);
            self.push();
        }
    }

    /// Repeats the last reading until the event, or how long probes have waited.
    async fn pushing_until<T>(&mut self, event: impl Future<Output = T>) -> T {
        let mut event = pin!(event);
        loop {
            tokio::select! {
                it = &mut event => return it,
                _ = self.pushes.tick() => self.push(),
            }
        }
    }

    fn push(&self) {
        let waited = Duration::from_micros(self.wait.us(SystemClock.steady_us()));
        let reading = at_least(self.reading, &self.endpoint.ask.answer, waited);
        for own in &self.followers {
            own.target.push(reading);
        }
    }

    /// The signals that follow it, for the log.
    fn names(&self) -> String {
        let names: Vec<_> = self.followers.iter().map(SignalTarget::name).collect();
        names.join(", ")
    }

    fn update(&mut self, answer: &Result<f64, ProbeError>) {
        // Path and query may hold a secret.
        let ask = &self.endpoint.ask;
        let host = ask.uri.authority().map_or("", Authority::as_str);
        match answer {
            Ok(_) if self.causes.last.take().is_some() => {
                tracing::info!(signal = self.names(), host, "load probe answers again");
            }
            Err(ProbeError::Failed(why) | ProbeError::Unclear(why)) if self.causes.is_news(why) => {
                tracing::warn!(signal = self.names(), host, %why, "load probe failed");
            }
            _ => {}
        }
        for own in &self.followers {
            own.is_failing.store(answer.is_err(), Relaxed);
        }
        let is_failure = matches!(answer, Err(ProbeError::Failed(_)));
        self.failures = if is_failure { self.failures.saturating_add(1) } else { 0 };
        self.reading = match answer {
            Ok(value) => Reading::Value(*value),
            Err(_) if self.failures >= ask.failures => Reading::Failed,
            Err(_) => Reading::Missing,
        };
    }
}

impl LoggedCauses {
    fn new() -> Self {
        Self { last: None, changes: line_limiter(CAUSE_RATE) }
    }

    /// Whether to log a failure: the first, and one with another cause.
    fn is_news(&mut self, why: &str) -> bool {
        let may_change = || self.changes.as_ref().is_none_or(|it| it.check("").allowed());
        let is_news = self.last.as_ref().is_none_or(|last| last != why && may_change());
        if is_news {
            self.last = Some(why.to_owned());
        }
        is_news
    }
}

/// The reading while probes have waited for so long: one that is timed is at least as slow as that.
fn at_least(reading: Reading, kind: &AnswerKind, waited: Duration) -> Reading {
    let AnswerKind::Timed(scale) = kind else { return reading };
    let pressure = scale.pressure(waited);
    match reading {
        Reading::Value(before) => Reading::Value(pressure.max(before)),
        Reading::Missing if pressure > 0.0 => Reading::Value(pressure),
        Reading::Missing | Reading::Failed => reading,
    }
}

fn delayed_interval(every: Duration) -> Interval {
    let mut interval = interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
mod tests {
    use tidegate_config::plan::LatencyScale;

    use super::*;

    #[test]
    fn another_cause_is_logged_and_alternating_ones_do_not_flood_the_log() {
        let mut causes = LoggedCauses::new();
        for (why, expected) in [
            ("connection refused", true),
            ("connection refused", false),
            ("UnknownIssuer", true),
            ("UnknownIssuer", false),
        ] {
            assert_eq!(causes.is_news(why), expected, "{why}");
        }
        let alternating = (0..1000).filter(|n| causes.is_news(["a", "b"][n % 2])).count();
        assert_eq!(alternating, 2, "the rest of the burst");
    }

    /// Probes and ticks may run in step, so that each tick sees a probe that has just begun.
    #[test]
    fn a_probe_that_has_failed_counts_until_the_next_one_waits_longer_or_answers() {
        let mut wait = Wait::default();
        assert_eq!(wait.us(5), 0);
        wait.begin(1_000_000);
        assert_eq!(wait.us(1_400_000), 400_000);
        wait.end(2_000_000, true);
        assert_eq!(wait.us(2_000_000), 1_000_000);
        wait.begin(2_000_000);
        assert_eq!([2_000_100, 3_200_000].map(|now_us| wait.us(now_us)), [1_000_000, 1_200_000]);
        wait.end(2_000_200, true); // a quick failure
        assert_eq!(wait.us(2_500_000), 1_000_000);
        wait.begin(3_000_000);
        wait.end(3_010_000, false);
        assert_eq!(wait.us(9_000_000), 0);
    }

    #[test]
    fn a_timed_probe_under_way_is_at_least_as_slow_as_it_has_taken() {
        let ms = Duration::from_millis;
        let timed = AnswerKind::Timed(LatencyScale { healthy: ms(50), overloaded: ms(450) });
        let (value, missing, failed) = (Reading::Value, Reading::Missing, Reading::Failed);
        for (kind, reading, waited_ms, expected) in [
            (&timed, value(0.0), 0, value(0.0)),
            (&timed, value(0.0), 250, value(0.5)),
            (&timed, value(0.75), 250, value(0.75)),
            (&timed, value(0.0), 60_000, value(1.0)),
            (&timed, missing, 50, missing),
            (&timed, missing, 250, value(0.5)),
            (&timed, failed, 60_000, failed),
            (&AnswerKind::Prometheus, value(0.25), 60_000, value(0.25)),
        ] {
            assert_eq!(at_least(reading, kind, ms(waited_ms)), expected, "{reading:?} {waited_ms}");
        }
    }
}
