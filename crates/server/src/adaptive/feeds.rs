//! Says once in a while what a signal is, to those who follow it: what was asked over HTTP, what was measured here.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate::adaptive::{Reading, Target};
use tidegate::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::asking::{self, NoNumber};
use super::plan::{Ask, Signal, Source};
use crate::stats::Observed;

/// What was said is believed for a second and a half: so often, nobody misses it.
const SAY_EVERY: Duration = Duration::from_millis(400);

/// A signal, and where what it says is put.
pub(super) type Fed = (Signal, Target);

/// Feeds all of them, until what is returned is dropped. Whoever is asked for several is asked once.
pub(super) fn start(fed: &[Fed], observed: &Arc<Observed>) -> JoinSet<()> {
    let mut feeds = JoinSet::new();
    let mut asked: Vec<(&Ask, Vec<Target>)> = Vec::new();
    let mut measured = Vec::new();
    for (signal, target) in fed {
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
        feeds.spawn(Asking::new(ask.clone(), targets).run());
    }
    if !measured.is_empty() {
        feeds.spawn(measure(measured, observed.clone()));
    }
    feeds
}

/// What is known here.
async fn measure(measured: Vec<Fed>, observed: Arc<Observed>) {
    let mut says = at_rest(SAY_EVERY);
    loop {
        says.tick().await;
        let now = SystemClock.now();
        for (signal, target) in &measured {
            let value = match signal.source {
                Source::Fixed(pressure) => signal.at(pressure),
                // Without traffic in a minute it is well.
                _ => observed.mean_ms(&signal.target, now).unwrap_or(0.0),
            };
            target.push(Reading::Value(value));
        }
    }
}

/// Somebody who is asked again and again.
struct Asking {
    ask: Ask,
    targets: Vec<Target>,
    says: Interval,
    reading: Reading,
    failures: u32,
    is_well: bool,
}

impl Asking {
    fn new(ask: Ask, targets: Vec<Target>) -> Self {
        let says = at_rest(SAY_EVERY);
        Self { ask, targets, says, reading: Reading::Missing, failures: 0, is_well: true }
    }

    async fn run(mut self) {
        let mut due = at_rest(self.ask.every);
        loop {
            self.saying(due.tick()).await;
            let ask = self.ask.clone();
            let answer = self.saying(asking::number(&ask)).await;
            self.learn(&answer);
            self.say();
        }
    }

    /// Repeats what is known until something else happens.
    async fn saying<T>(&mut self, happens: impl Future<Output = T>) -> T {
        let mut happens = pin!(happens);
        loop {
            tokio::select! {
                it = &mut happens => return it,
                _ = self.says.tick() => self.say(),
            }
        }
    }

    fn say(&self) {
        for target in &self.targets {
            target.push(self.reading);
        }
    }

    fn learn(&mut self, answer: &Result<f64, NoNumber>) {
        let url = &self.ask.uri;
        match answer {
            Ok(_) if !self.is_well => tracing::info!(%url, "says how the load is again"),
            Err(NoNumber::Failed(why) | NoNumber::Unclear(why)) if self.is_well => {
                tracing::warn!(%url, %why, "does not say how the load is");
            }
            _ => {}
        }
        self.is_well = answer.is_ok();
        let is_failure = matches!(answer, Err(NoNumber::Failed(_)));
        self.failures = if is_failure { self.failures.saturating_add(1) } else { 0 };
        self.reading = match answer {
            Ok(value) => Reading::Value(*value),
            Err(_) if self.failures >= self.ask.failures => Reading::Failed,
            Err(_) => Reading::Missing,
        };
    }
}

fn at_rest(every: Duration) -> Interval {
    let mut interval = interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
