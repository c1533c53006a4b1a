//! Latencies and errors of targets, as callers and the proxy report them: the last minute, in this process, for a bounded
//! number of targets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate::Timestamp;
use tidegate::adaptive::{Observation, Priority, Target as Listener};

use tidegate_config::plan::ALL;
use tidegate_core::Histogram;

const TARGETS_MAX: usize = 256;
/// A minute is twelve slots of five seconds.
const SLOT_US: u64 = 5_000_000;
const SLOTS: usize = 12;
/// Four steps per doubling, up to four minutes.
type Latencies = Histogram<2, 28, u32>;

#[derive(Debug, Default)]
pub(crate) struct TargetStats {
    targets: Mutex<BTreeMap<String, Target>>,
    /// The adaptive limits that follow a target, by its name.
    listeners: ArcSwap<BTreeMap<String, Listener>>,
}

/// The target is new, and [`TARGETS_MAX`] are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyTargets;

#[derive(Debug, Default)]
struct Target {
    slots: [Slot; SLOTS],
    /// Set by an operator.
    pressure: Option<f64>,
}

#[derive(Debug, Default)]
struct Slot {
    /// The count of slots since 1970.
    number: u64,
    errors: u64,
    latencies_us: Latencies,
}

/// One target over the last minute.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct TargetSummary {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) mean_us: u64,
    /// Rounded up to the histogram's step: at most a quarter too high.
    pub(crate) p99_us: u64,
    pub(crate) pressure: Option<f64>,
}

impl TargetStats {
    /// Records a response of a target.
    pub(crate) fn note(
        &self,
        target: &str,
        latency_us: u64,
        ok: bool,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.passed(target, latency_us, ok, now)?;
        let latency = Duration::from_micros(latency_us);
        self.listening(target, |_, listener| listener.observe(latency, ok));
        Ok(())
    }

    /// Begins a request to a URL of a target; the observations measure it for the limits that follow the target. `None`
    /// if the pool of the target is full.
    pub(crate) fn enter(
        &self,
        target: &str,
        url: &str,
        priority: Option<Priority>,
    ) -> Option<Vec<Observation>> {
        let (mut entered, mut is_full) = (Vec::new(), false);
        self.listening(target, |_, listener| match listener.enter(priority) {
            Some(observation) if !is_full => entered.push(observation.of_url(url)),
            refused => {
                is_full = true;
                refused.into_iter().for_each(Observation::refused);
            }
        });
        if is_full {
            // A refused request must not count as in flight anywhere.
            entered.drain(..).for_each(Observation::refused);
            return None;
        }
        Some(entered)
    }

    /// Whether the pool of a target has room. Reserves nothing.
    pub(crate) fn has_room(&self, target: &str, priority: Option<Priority>) -> bool {
        let mut has_room = true;
        self.listening(target, |_, listener| has_room &= listener.has_room(priority));
        has_room
    }

    /// Records the response to a request that [`enter`](Self::enter) measured.
    pub(crate) fn passed(
        &self,
        target: &str,
        latency_us: u64,
        ok: bool,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.with(target, false, now, |target| target.note(latency_us, ok, now))?;
        self.listening(target, |name, _| {
            if name != target {
                // Its listener has the value even if there are too many targets.
                let _ = self.with(name, false, now, |all| all.note(latency_us, ok, now));
            }
        });
        Ok(())
    }

    /// Records the latency of a URL: a normalised path without its query.
    pub(crate) fn note_url(&self, target: &str, url: &str, latency_us: u64) {
        let latency = Duration::from_micros(latency_us);
        self.listening(target, |_, listener| listener.observe_url(url, latency));
    }

    /// Records how long a request waited in the queue of a target.
    pub(crate) fn note_wait(&self, target: &str, wait_us: u64) {
        self.listening(target, |_, listener| listener.observe_wait(Duration::from_micros(wait_us)));
    }

    /// Replaces the limits that follow targets.
    pub(crate) fn set_listeners(&self, listeners: BTreeMap<String, Listener>) {
        self.listeners.store(listeners.into());
    }

    /// Calls `then` for the limits that follow this target and for those that follow all targets.
    fn listening(&self, target: &str, mut then: impl FnMut(&str, &Listener)) {
        let listeners = self.listeners.load();
        if listeners.is_empty() {
            return;
        }
        for name in [Some(target), Some(ALL).filter(|all| *all != target)].into_iter().flatten() {
            if let Some(listener) = listeners.get(name) {
                then(name, listener);
            }
        }
    }

    /// The mean latency of the last minute; `None` without requests.
    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
    pub(crate) fn mean_ms(&self, target: &str, now: Timestamp) -> Option<f64> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = targets.get(target)?.summary(now);
        (summary.count > 0).then(|| summary.mean_us as f64 / 1000.0)
    }

    /// The pressures that operators have set, by target.
    pub(crate) fn operator_pressures(&self) -> BTreeMap<String, f64> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.iter().filter_map(|(name, it)| Some((name.clone(), it.pressure?))).collect()
    }

    /// Sets or clears the pressure that an operator gives to a target.
    pub(crate) fn set(
        &self,
        target: &str,
        pressure: Option<f64>,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.with(target, true, now, |target| target.pressure = pressure)
    }

    /// All targets with traffic in the last minute or a pressure set by an operator.
    pub(crate) fn summaries(&self, now: Timestamp) -> BTreeMap<String, TargetSummary> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|_, target| target.is_alive(now));
        targets.iter().map(|(name, target)| (name.clone(), target.summary(now))).collect()
    }

    /// `may_replace`: whether the target may take the place of a made-up one, although no limit follows it.
    fn with(
        &self,
        name: &str,
        may_replace: bool,
        now: Timestamp,
        then: impl FnOnce(&mut Target),
    ) -> Result<(), TooManyTargets> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get_mut(name) {
            then(target);
            return Ok(());
        }
        if targets.len() == TARGETS_MAX {
            targets.retain(|_, target| target.is_alive(now));
        }
        if targets.len() == TARGETS_MAX {
            // Anyone who reaches the API can report made-up targets: they make room for those that limits follow.
            let listeners = self.listeners.load();
            let is_made_up = |name: &str, target: &Target| {
                target.pressure.is_none() && !listeners.contains_key(name)
            };
            let mut made_up = targets.iter().filter(|(name, target)| is_made_up(name, target));
            match made_up.next().map(|(name, _)| name.clone()) {
                Some(other) if may_replace || listeners.contains_key(name) => {
                    targets.remove(&other)
                }
                _ => return Err(TooManyTargets),
            };
        }
        then(targets.entry(name.to_owned()).or_default());
        Ok(())
    }
}

impl Target {
    fn note(&mut self, latency_us: u64, ok: bool, now: Timestamp) {
        let number = now.as_micros() / SLOT_US;
        let slot = &mut self.slots[index(number)];
        if slot.number != number {
            (slot.number, slot.errors) = (number, 0);
            slot.latencies_us.clear();
        }
        slot.errors += u64::from(!ok);
        slot.latencies_us.record(latency_us, 1);
    }

    fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Slot> {
        let newest = now.as_micros() / SLOT_US;
        let within = move |slot: &&Slot| newest.abs_diff(slot.number) < SLOTS as u64;
        self.slots.iter().filter(|slot| slot.latencies_us.count() > 0).filter(within)
    }

    fn is_alive(&self, now: Timestamp) -> bool {
        self.pressure.is_some() || self.recent(now).next().is_some()
    }

    fn summary(&self, now: Timestamp) -> TargetSummary {
        let (mut latencies_us, mut errors) = (Latencies::default(), 0);
        for slot in self.recent(now) {
            latencies_us.merge(&slot.latencies_us);
            errors += slot.errors;
        }
        TargetSummary {
            count: latencies_us.count(),
            errors,
            mean_us: latencies_us.mean().unwrap_or(0),
            p99_us: latencies_us.quantile(990).unwrap_or(0),
            pressure: self.pressure,
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000)
    }

    #[test]
    fn a_summary_covers_the_last_minute() {
        let stats = TargetStats::default();
        for latency_ms in 1..=100 {
            stats.note("db", latency_ms * 1000, latency_ms != 7, at(latency_ms / 2)).unwrap();
        }
        let summary = stats.summaries(at(50))["db"];
        assert_eq!((summary.count, summary.errors, summary.mean_us), (100, 1, 50_500));
        assert!((99_000..=124_000).contains(&summary.p99_us), "{}", summary.p99_us);
        assert!(stats.summaries(at(80))["db"].count < 100);
        assert!(stats.summaries(at(200)).is_empty());
    }

    #[test]
    fn a_pressure_set_by_an_operator_stays() {
        let stats = TargetStats::default();
        stats.set("db", Some(0.7), at(0)).unwrap();
        assert_eq!(stats.summaries(at(3600))["db"].pressure, Some(0.7));
        stats.set("db", None, at(3600)).unwrap();
        assert!(stats.summaries(at(3600)).is_empty());
    }

    #[test]
    fn targets_are_bounded_and_idle_ones_are_replaced() {
        let stats = TargetStats::default();
        for target in 0..TARGETS_MAX {
            stats.note(&target.to_string(), 1, true, at(0)).unwrap();
        }
        assert_eq!(stats.note("one more", 1, true, at(1)), Err(TooManyTargets));
        assert_eq!(stats.note("one more", 1, true, at(90)), Ok(()));
        assert_eq!(stats.summaries(at(90)).len(), 1);
    }

    #[test]
    fn made_up_targets_do_not_displace_those_that_matter() {
        let (stats, runtime) = (TargetStats::default(), tidegate::adaptive::Adaptive::default());
        stats.set_listeners([("db".to_owned(), runtime.target("db"))].into());
        for target in 0..TARGETS_MAX {
            stats.note(&target.to_string(), 1, true, at(0)).unwrap();
        }
        assert_eq!(stats.note("db", 9000, true, at(1)), Ok(()), "a limit follows it");
        assert_eq!(stats.set("cache", Some(0.5), at(1)), Ok(()), "an operator set it");
        assert_eq!(stats.note("one more", 1, true, at(1)), Err(TooManyTargets));
        let summaries = stats.summaries(at(1));
        assert_eq!(summaries.len(), TARGETS_MAX);
        assert_eq!((summaries["db"].count, summaries["cache"].pressure), (1, Some(0.5)));
    }

    #[test]
    fn a_refused_request_is_counted_nowhere() {
        let (stats, runtime) = (TargetStats::default(), tidegate::adaptive::Adaptive::default());
        let names = ["app", ALL];
        stats.set_listeners(names.map(|name| (name.to_owned(), runtime.target(name))).into());
        for full in names {
            let target = runtime.target(full);
            target.set_pool(1).unwrap();
            assert!(stats.has_room("app", None));
            let held: Vec<_> = (0..3).filter_map(|_| stats.enter("app", "/", None)).collect();
            assert_eq!(held.len(), 2, "{full}");
            assert!(
                !stats.has_room("app", None) && stats.has_room("other", None) == (full == "app")
            );
            for other in names {
                let known = runtime.target(other);
                assert_eq!(
                    (known.in_flight(), known.busiest_urls(1)[0].1.count % 2),
                    (2, 0),
                    "{other}"
                );
            }
            drop(held);
            target.set_cap(None);
        }
    }
}
