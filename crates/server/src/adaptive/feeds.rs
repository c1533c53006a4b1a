//! Pushes signals to the limits that follow them: answers of HTTP probes, and what this process measures.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use tidegate::adaptive::{Reading, Target};
use tidegate::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::plan::{Ask, Signal, Source};
use super::probe::{self, ProbeError};
use crate::stats::TargetStats;

/// A reading expires after 1.5 s.
const PUSH_INTERVAL: Duration = Duration::from_millis(400);

/// A signal and the target that its readings are pushed to.
pub(super) type SignalTarget = (Signal, Target);

/// Pushes all signals until the returned set is dropped. Signals with the same probe share it.
pub(super) fn start(
    signal_targets: &[SignalTarget],
    target_stats: &Arc<TargetStats>,
) -> JoinSet<()> {
    let mut feeds = JoinSet::new();
    let mut asked: Vec<(&Ask, Vec<Target>)> = Vec::new();
    let mut measured = Vec::new();
    for (signal, target) in signal_targets {
        match &signal.source {
            Source::Asked(ask) => match asked.iter_mut().find(|(known, _)| *known == ask) {
                Some((_, targets)) => targets.push(target.clone()),
                None => asked.push((ask, vec![target.clone()])),
            },
            Source::Fixed(_) | Source::MeanLatency => {
                measured.push((signal.clone(), target.clone()));
            }
            Source::QueueWait | Source::Errors | Source::Pool | Source::Cpu => {}
        }
    }
    for (ask, targets) in asked {
        feeds.spawn(HttpProbe::new(ask.clone(), targets).run());
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
        for (signal, target) in &measured {
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
    ask: Ask,
    targets: Vec<Target>,
    pushes: Interval,
    reading: Reading,
    failures: u32,
    is_well: bool,
}

impl HttpProbe {
    fn new(ask: Ask, targets: Vec<Target>) -> Self {
        let pushes = delayed_interval(PUSH_INTERVAL);
        Self { ask, targets, pushes, reading: Reading::Missing, failures: 0, is_well: true }
    }

    async fn run(mut self) {
        let mut due = delayed_interval(self.ask.every);
        loop {
            self.pushing_until(due.tick()).await;
            let ask = self.ask.clone();
            let answer = self.pushing_until(probe::number(&ask)).await;
            self.update(&answer);
            self.push();
        }
    }

    /// Repeats the last reading until the event.
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
        for target in &self.targets {
            target.push(self.reading);
        }
    }

    fn update(&mut self, answer: &Result<f64, ProbeError>) {
        // Path and query may hold a secret.
        let host = self.ask.uri.authority().map_or("", Authority::as_str);
        match answer {
            Ok(_) if !self.is_well => tracing::info!(host, "load probe answers again"),
            Err(ProbeError::Failed(why) | ProbeError::Unclear(why)) if self.is_well => {
                tracing::warn!(host, %why, "load probe failed");
            }
            _ => {}
        }
        self.is_well = answer.is_ok();
        let is_failure = matches!(answer, Err(ProbeError::Failed(_)));
        self.failures = if is_failure { self.failures.saturating_add(1) } else { 0 };
        self.reading = match answer {
            Ok(value) => Reading::Value(*value),
            Err(_) if self.failures >= self.ask.failures => Reading::Failed,
            Err(_) => Reading::Missing,
        };
    }
}

fn delayed_interval(every: Duration) -> Interval {
    let mut interval = interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
